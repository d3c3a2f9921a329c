"""From token ids to the text each token adds, so that the pieces together are the text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

UNFINISHED = "\ufffd"
"""What a decoder shows for the first bytes of a character whose last ones are still to come."""


def spell(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """The text that each token adds; a character of several tokens comes with the last of them."""
    pieces: list[str] = []
    start = shown = (
        0  # where a clean piece of text starts, and how many of its tokens are already spelled out
    )
    for end in range(1, len(ids) + 1):
        before = _decode(tokenizer, ids[start:shown])
        now = _decode(tokenizer, ids[start:end])
        if now.endswith(UNFINISHED) and end < len(ids) and end - shown < 4:
            pieces.append("")
            continue
        pieces.append(now[len(before) :])
        start, shown = shown, end
    return pieces


def _decode(tokenizer: Any, ids: Sequence[int]) -> str:
    return str(tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))


def plain(text: str, special_tokens: Sequence[str]) -> str:
    """Text in which nothing is taken for a special token of the model, whatever a user typed."""
    for token in special_tokens:
        if token in text:
            text = text.replace(token, f"{token[0]}\u200b{token[1:]}")
    return text
