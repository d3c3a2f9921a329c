"""Words exchanged for others in a request and its plan alike, for training data.

Some pairs of kind and colour never occur in training, and a planner that has learnt which colours go with
which things avoids them: it paints the frog that should be brown in the colour of the thing beside it. Where
a colour or a noun is a word without meaning, nothing but the request tells where it belongs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from random import Random

from interleave_mini.language.lexicon import everyday_words
from interleave_mini.language.vocabulary import vocabulary
from interleave_mini.world.kinds import COLOURS, KINDS
from interleave_mini.world.scene import Scene

_VOWELS = "aeiou"
_NO_COLOUR = "".join(f"(?<!{colour} )" for colour in COLOURS)


def with_new_words(text: str, answer: str, scenes: Sequence[Scene], rng: Random) -> tuple[str, str]:
    """Both texts with one or two of the request's colours and nouns exchanged for everyday words."""
    words = [word for word in (*_colours(scenes), *_nouns(text, answer)) if _has(text, word)]
    for word in rng.sample(words, k=min(len(words), rng.choice((1, 2, 2, 3)))):
        new = rng.choice(_new_words())
        if not _has(text, new):
            text, answer = _exchanged(text, word, new), _exchanged(answer, word, new)
    return text, answer


def _colours(scenes: Sequence[Scene]) -> list[str]:
    """Colours that one thing alone has in every picture: the plan gives others their usual colour."""
    return [colour for colour in COLOURS if all(_count(colour, scene) <= 1 for scene in scenes)]


def _count(colour: str, scene: Scene) -> int:
    return sum(thing.colour == colour for thing in scene.things.values())


def _nouns(text: str, answer: str) -> list[str]:
    """Nouns of kinds that never change, in the singular, with the colour said: a new one has none."""
    nouns = [kind.states[0] for kind in KINDS.values() if len(kind.states) == 1]
    return [
        noun
        for noun in nouns
        if _has(answer, noun)
        and not _has(f"{text} {answer}", f"{noun}s")
        and not re.search(rf"{_NO_COLOUR}\b{noun}\b", text)
    ]


def _has(text: str, word: str) -> bool:
    return re.search(rf"\b{word}\b", text) is not None


def _exchanged(text: str, word: str, new: str) -> str:
    article = "an" if new[0] in _VOWELS else "a"
    text = re.sub(rf"\ban? {word}\b", f"{article} {new}", text)
    text = re.sub(rf"\bAn? {word}\b", f"{article.capitalize()} {new}", text)
    text = re.sub(rf"\b{word.capitalize()}\b", new.capitalize(), text)
    return re.sub(rf"\b{word}\b", new, text)


@cache
def _new_words() -> tuple[str, ...]:
    words = everyday_words() - vocabulary()
    return tuple(sorted(word for word in words if word.isalpha() and word.isascii() and 3 <= len(word) <= 8))
