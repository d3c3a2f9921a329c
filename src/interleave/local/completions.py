"""Requests and replies of a vision-language model in this process, whatever library computes it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from interleave import BackendError, Failure, Message, Reply
from interleave.plugin import backends

if TYPE_CHECKING:
    from PIL.Image import Image

Decode = Callable[[Sequence[int]], str]
"""Turns tokens into text, without special tokens."""
INCOMPLETE_CHARACTER = "\ufffd"
"""The decoded text of a character's first bytes before its last bytes."""


@dataclass(frozen=True)
class CompletionRequest:
    """One call of a model."""

    messages: tuple[Message, ...]
    max_tokens: int
    temperature: float = 0.0
    probabilities: bool = False
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    adapter: str | None = None
    max_pixels: int | None = None
    static: bool = False
    """Whether to decode with a KV cache of fixed size."""
    compiled: bool = False
    """Whether to decode with a compiled step."""
    reuse: bool = False
    """Whether the prefill of a prompt may be reused for another with the same prefix."""

    @property
    def continues(self) -> bool:
        """Whether the reply continues the last message, which is the assistant's."""
        return bool(self.messages) and self.messages[-1].role == "assistant"

    @property
    def asked(self) -> tuple[Message, ...]:
        """The messages before a reply that is begun."""
        return self.messages[:-1] if self.continues else self.messages

    @property
    def begun(self) -> str:
        """The beginning of the reply. It is the program's own text: special tokens in it are meant."""
        return self.messages[-1].text if self.continues else ""

    @property
    def batch_key(self) -> tuple[object, ...]:
        """A key that is equal for requests that can share a batch."""
        return (
            self.continues,
            self.adapter,
            self.temperature,
            self.top_p,
            self.top_k,
            self.static,
            self.compiled,
            self.reuse,
        )


def token_budget(request: CompletionRequest, prompt_length: int, context: int | None) -> int:
    """Return the token limit of the reply; 0 or less if the prompt fills the context."""
    wanted = request.max_tokens
    return wanted if context is None else min(wanted, context - prompt_length)


def too_long(length: int, context: int | None) -> BackendError:
    """Return the error for a prompt that fills the context."""
    return BackendError(
        f"the prompt has {length:,} tokens, and the model reads at most {context:,}: "
        "shorten it, use fewer images, or smaller ones with ?max_pixels=",
        kind=Failure.INVALID,
    )


def make_reply(
    request: CompletionRequest,
    ids: list[int],
    probs: list[float] | None,
    *,
    prompt_length: int,
    token_budget: int,
    eos_ids: Collection[int],
    decode: Decode,
) -> Reply:
    """Return the reply of some tokens, cut at its end or its budget."""
    end = next((index for index, token in enumerate(ids) if token in eos_ids), None)
    ids = ids[: token_budget if end is None else min(end, token_budget)]
    texts = detokenize(decode, ids)
    tokens = (
        tuple(backends.Token(*pair) for pair in zip(texts, probs, strict=False))
        if request.probabilities and probs is not None
        else ()
    )
    ended = end is not None and end <= token_budget
    return Reply(
        "".join(texts),
        "stop" if ended else "length",
        usage={"prompt_tokens": int(prompt_length), "completion_tokens": len(ids)},
        cost=0.0,
        tokens=tokens,
    )


def detokenize(decode: Decode, ids: Sequence[int]) -> list[str]:
    """Return the text that each token adds; a character of several tokens belongs to the last of them."""
    texts: list[str] = []
    start = done = 0  # the last character boundary, and the number of tokens with a text
    for end in range(1, len(ids) + 1):
        before = decode(ids[start:done])
        now = decode(ids[start:end])
        if now.endswith(INCOMPLETE_CHARACTER) and end < len(ids) and end - done < 4:
            texts.append("")
            continue
        texts.append(now[len(before) :])
        start, done = done, end
    return texts


def escape_special_tokens(text: str, special_tokens: Sequence[str]) -> str:
    """Escape special tokens of the model in a user's text."""
    for token in special_tokens:
        if token in text:
            text = text.replace(token, f"{token[0]}\u200b{token[1:]}")
    return text


def downscaled(image: Image, max_pixels: int | None) -> Image:
    """Return the image scaled down to at most `max_pixels`."""
    if max_pixels is None or image.width * image.height <= max_pixels:
        return image
    from PIL import Image as pillow

    scale = (max_pixels / (image.width * image.height)) ** 0.5
    size = (max(1, int(image.width * scale)), max(1, int(image.height * scale)))
    return image.resize(size, pillow.Resampling.BICUBIC)
