"""Replacement of words in both a request and its plan, for training data.

Some pairs of kind and colour never occur in training. A planner that has learnt which colours go with which
things avoids them: it gives a brown frog the colour of the thing next to it. If a colour or a noun is a
meaningless word, only the request tells where it belongs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from random import Random

from interleave_mini.world.kinds import COLOURS, KINDS
from interleave_mini.world.scene import Scene
from miniature.grammar.language_file import vocabulary
from miniature.grammar.lexicon import everyday_words

_VOWELS = "aeiou"
_NO_COLOUR = "".join(f"(?<!{colour} )" for colour in COLOURS)


def with_new_words(text: str, answer: str, scenes: Sequence[Scene], rng: Random) -> tuple[str, str]:
    """Replace one or two of the request's colours and nouns by everyday words in both texts."""
    words = [word for word in (*_colours(scenes), *_nouns(text, answer)) if has_word(text, word)]
    for word in rng.sample(words, k=min(len(words), rng.choice((1, 2, 2, 3)))):
        new = rng.choice(_new_words())
        if not has_word(text, new):
            text, answer = exchanged_words(text, {word: new}), exchanged_words(answer, {word: new})
    return text, answer


def _colours(scenes: Sequence[Scene]) -> list[str]:
    """Return colours that only one thing has in every image; other things have their usual colour."""
    return [colour for colour in COLOURS if all(_count(colour, scene) <= 1 for scene in scenes)]


def _count(colour: str, scene: Scene) -> int:
    return sum(thing.colour == colour for thing in scene.things.values())


def _nouns(text: str, answer: str) -> list[str]:
    """Return singular nouns of kinds that never change, with a stated colour, as a new noun has none."""
    nouns = [kind.states[0] for kind in KINDS.values() if len(kind.states) == 1]
    return [
        noun
        for noun in nouns
        if has_word(answer, noun)
        and not has_word(f"{text} {answer}", f"{noun}s")
        and not re.search(rf"{_NO_COLOUR}\b{noun}\b", text)
    ]


def has_word(text: str, *words: str) -> bool:
    """Return whether a text has one of these words, ignoring case."""
    return _any_of(words).search(text) is not None


@lru_cache(maxsize=8192)  # there are more of them than the cache of the module `re` holds
def _any_of(words: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, words))})\b", re.IGNORECASE)


def exchanged_words(text: str, others: Mapping[str, str]) -> str:
    """Replace words in a text, and the articles before them."""
    longest_first = sorted(others, key=len, reverse=True)
    words = re.compile(rf"\b(an? )?({'|'.join(map(re.escape, longest_first))})\b", re.IGNORECASE)

    def other(found: re.Match[str]) -> str:
        new = others[found[2].lower()]
        if found[1]:
            article = "an " if new[0] in _VOWELS else "a "
            return (article.capitalize() if found[1][0].isupper() else article) + new
        return new.capitalize() if found[2][0].isupper() else new

    return words.sub(other, text)


@cache
def _new_words() -> tuple[str, ...]:
    words = everyday_words() - vocabulary()
    return tuple(sorted(word for word in words if word.isalpha() and word.isascii() and 3 <= len(word) <= 8))
