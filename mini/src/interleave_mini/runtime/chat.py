"""Messages as tokens: the chat template and the tokenizer in a model's folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from interleave import ConfigurationError, Message, Text
from interleave.local.completions import escape_special_tokens
from interleave_mini.runtime.bpe import BytePairEncoding

IMAGE_TOKEN = "<|image_pad|>"


class Tokenizer:
    """Text ↔ tokens, with the chat template of the model."""

    def __init__(self, folder: Path) -> None:
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        self._encoding = BytePairEncoding(folder / "tokenizer.json")
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        self._template = environment.from_string((folder / "chat_template.jinja").read_text("utf-8"))
        self.special_tokens = self._encoding.special
        config = json.loads((folder / "tokenizer_config.json").read_bytes())
        self.eos_id = self.id_of(config["eos_token"])
        self.pad_id = self.id_of(config["pad_token"])

    def id_of(self, token: str) -> int:
        """Return the number of a token, which must exist."""
        found = self._encoding.id_of(token)
        if found is None:
            raise ConfigurationError(
                f"the tokenizer has no token {token!r}: reinstall interleavethinker-mini"
            )
        return found

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text."""
        return self._encoding.encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens, without special ones."""
        return self._encoding.decode(ids)

    def render(self, messages: Sequence[dict[str, Any]]) -> str:
        """Return messages as the template writes them, with the beginning of a reply."""
        return str(self._template.render(messages=messages, add_generation_prompt=True))

    def encode_messages(
        self, messages: Sequence[Message], image_tokens: Sequence[int], begun: str = ""
    ) -> list[int]:
        """Return the tokens of a conversation, in which each image takes as many as `image_tokens` says.

        `begun` is the beginning of the reply.
        """
        text = self.render(
            [
                {"role": message.role, "content": [self._part(part) for part in message.merged]}
                for message in messages
            ]
        )
        first, *rest = text.split(IMAGE_TOKEN)
        pieces = [IMAGE_TOKEN * count + piece for count, piece in zip(image_tokens, rest, strict=True)]
        return self.encode("".join([first, *pieces, begun]))

    def _part(self, part: Any) -> dict[str, Any]:
        if isinstance(part, Text):
            return {"type": "text", "text": escape_special_tokens(part.text, self.special_tokens)}
        return {"type": "image"}
