"""Typing mistakes, words too many and words left out, for training data."""

from __future__ import annotations

import re
from random import Random

from interleave_mini.language.lexicon import harmless_words

_WORD = re.compile(r"[a-z]{4,}")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_ANY_WORD = re.compile(r"\S+")


def with_other_words(text: str, rng: Random) -> str:
    """The text with a harmless word more, or without one that it has."""
    words = list(_ANY_WORD.finditer(text))
    if rng.random() < 0.5:
        at = rng.choice(words).start() if words else 0
        return f"{text[:at]}{rng.choice(sorted(harmless_words()))} {text[at:]}"
    harmless = [word for word in words if word[0].lower() in harmless_words()]
    if not harmless:
        return text
    left_out = rng.choice(harmless)
    return text[: left_out.start()] + text[left_out.end() :].removeprefix(" ")


def with_typo(text: str, rng: Random) -> str:
    """The text with one word mistyped: a letter too few, too many, wrong or swapped."""
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
