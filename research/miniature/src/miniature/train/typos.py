"""Typos, extra words and missing words, for training data."""

from __future__ import annotations

import re
from functools import cache
from random import Random

from miniature.grammar.language_file import vocabulary
from miniature.grammar.lexicon import everyday_words, harmless_words

_WORD = re.compile(r"[a-z]{3,}")
_SHORT = 3
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_TAILS = (
    *("at sunset", "in the morning", "on a sunny day", "at noon", "in the evening", "in spring", "today"),
    *(
        "in summer",
        "for my class",
        "for my daughter",
        "on a quiet day",
        "in a cartoon style",
        "in bright light",
    ),
    *("very cute", "for a children's book", "photorealistic", "in high quality", "as simple as possible"),
)
"""Phrases about light, style and purpose, which the world does not vary."""
_ANY_WORD = re.compile(r"\S+")


def with_other_words(text: str, rng: Random) -> str:
    """Add up to three words that change nothing to a text, or remove one or two such words.

    Users also write words that no voice has; most of them change nothing.
    """
    for _ in range(rng.randint(1, 3)):
        text = _with_word(text, rng) if rng.random() < 0.6 else _without_word(text, rng)
    return text


def _with_word(text: str, rng: Random) -> str:
    """Add a word at the beginning or end, where any word may occur, or a harmless one in between."""
    if rng.random() < 0.2:
        return f"{text.rstrip('.!? ')}{rng.choice((' ', ', '))}{rng.choice(_TAILS)}"
    if rng.random() < 0.5:
        words = " ".join(rng.choice(_other_words()) for _ in range(rng.randint(1, 3)))
        return (
            f"{words}{rng.choice((': ', ', ', ' - ', ' '))}{text}"
            if rng.random() < 0.6
            else f"{text} {words}"
        )
    places = list(_ANY_WORD.finditer(text))
    at = rng.choice(places).start() if places else 0
    return f"{text[:at]}{rng.choice(_harmless())} {text[at:]}"


def _without_word(text: str, rng: Random) -> str:
    harmless = [word for word in _ANY_WORD.finditer(text) if word[0].lower() in harmless_words()]
    if not harmless:
        return text
    left_out = rng.choice(harmless)
    return text[: left_out.start()] + text[left_out.end() :].removeprefix(" ")


@cache
def _harmless() -> tuple[str, ...]:
    return tuple(sorted(harmless_words()))


@cache
def _other_words() -> tuple[str, ...]:
    """Return everyday words that no request has."""
    return tuple(sorted(everyday_words() - vocabulary()))


def with_typo(text: str, rng: Random) -> str:
    """Mistype one word of a text: a letter missing, extra, wrong or swapped."""
    words = list(_WORD.finditer(text))
    if not words:
        return text
    word = rng.choice(words)
    at = rng.randrange(word.start() + 1, word.end())  # typos rarely affect the first letter
    kind = rng.randrange(4) if len(word[0]) > _SHORT else rng.choice((1, 3))  # others would give another word
    if kind == 0:
        return text[:at] + text[at + 1 :]
    if kind == 1:
        return text[:at] + text[at] + text[at:]
    if kind == 2:
        return text[:at] + rng.choice(_LETTERS) + text[at + 1 :]
    return text[: at - 1] + text[at] + text[at - 1] + text[at + 1 :]
