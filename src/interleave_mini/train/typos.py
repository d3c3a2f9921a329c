"""Typing mistakes, for training data."""

from __future__ import annotations

import re
from random import Random

_WORD = re.compile(r"[a-z]{4,}")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def with_typo(text: str, rng: Random) -> str:
    """The text with one word of four letters or more mistyped: a letter too few, too many, wrong or swapped."""
    words = list(_WORD.finditer(text))
    if not words:
        return text
    word = rng.choice(words)
    at = rng.randrange(word.start() + 1, word.end())  # nobody mistypes the first letter
    kind = rng.randrange(4)
    if kind == 0:
        return text[:at] + text[at + 1 :]
    if kind == 1:
        return text[:at] + text[at] + text[at:]
    if kind == 2:
        return text[:at] + rng.choice(_LETTERS) + text[at + 1 :]
    return text[: at - 1] + text[at] + text[at - 1] + text[at + 1 :]
