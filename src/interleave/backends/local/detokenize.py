"""From token ids to the text of each token, and from a user's text to text without special tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

UNFINISHED = "\ufffd"
"""What a tokenizer decodes the first bytes of a character to while its last bytes are still to come."""


def detokenize(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """The text that each token adds; a character of several tokens comes with the last of them."""
    texts: list[str] = []
    start = done = 0  # where decoding begins without a cut character, and how many tokens have their text
    for end in range(1, len(ids) + 1):
        before = _decode(tokenizer, ids[start:done])
        now = _decode(tokenizer, ids[start:end])
        if now.endswith(UNFINISHED) and end < len(ids) and end - done < 4:
            texts.append("")
            continue
        texts.append(now[len(before) :])
        start, done = done, end
    return texts


def _decode(tokenizer: Any, ids: Sequence[int]) -> str:
    return str(tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))


def escape_special_tokens(text: str, special_tokens: Sequence[str]) -> str:
    """Text in which nothing is taken for a special token of the model, whatever a user typed."""
    for token in special_tokens:
        if token in text:
            text = text.replace(token, f"{token[0]}\u200b{token[1:]}")
    return text
