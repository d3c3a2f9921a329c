"""The gaps of a request: the values each can take, how they are written, and how they are parsed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from interleave_mini.language.words import (
    BACKGROUND_OF_PHRASE,
    NUMBERS,
    PLACES,
    a,
    described,
    described_many,
    listed,
    named,
    plural,
)
from interleave_mini.world.kinds import COLOURS, KINDS
from interleave_mini.world.scene import Thing


def either(words: Iterable[str]) -> str:
    """As `one_of`, with every word written out: the words that requests may have are read from gaps."""
    return "(?:" + "|".join(map(re.escape, sorted(sorted(words), key=len, reverse=True))) + ")"


class Gap(Protocol):
    """One kind of gap. `read` undoes `write`."""

    @property
    def regex(self) -> str: ...
    def sample(self, rng: Random) -> Any: ...
    def write(self, value: Any, rng: Random) -> str: ...
    def read(self, words: str) -> Any: ...


@dataclass(frozen=True)
class AThing:
    """ "a red cat", or "a cat" if the colour is the usual one; in its usual state."""

    kinds: tuple[str, ...]
    article: bool = True
    """Whether it is written with an article; without it: "red cat"."""

    @property
    def regex(self) -> str:
        nouns = either(_usual_noun(kind) for kind in self.kinds)
        return rf"{'(?:an?|some) ' if self.article else ''}(?:{either(COLOURS)} )?{nouns}"

    def sample(self, rng: Random) -> Thing:
        return usual(rng.choice(self.kinds), rng.choice(list(COLOURS)))

    def write(self, value: Thing, rng: Random) -> str:
        says_colour = value.colour != KINDS[value.kind].colour or rng.random() < 0.5
        return a(value, colour=says_colour) if self.article else named(value, colour=says_colour)

    def read(self, words: str) -> Thing:
        return described(words.split(" ", 1)[1] if self.article else words).thing()


@dataclass(frozen=True)
class SomeThings:
    """ "a ball, a red kite and a teddy": between `least` and `most` different kinds."""

    kinds: tuple[str, ...]
    least: int = 2
    most: int = 3

    @property
    def regex(self) -> str:
        one = AThing(self.kinds).regex
        several = rf"(?:, {one}){{{max(self.least - 2, 0)},{self.most - 2}}} and {one}"
        return f"{one}{several}" if self.least > 1 else f"{one}(?:{several})?"

    def sample(self, rng: Random) -> tuple[Thing, ...]:
        kinds = rng.sample(self.kinds, rng.randint(self.least, self.most))
        return tuple(usual(kind, rng.choice(list(COLOURS))) for kind in kinds)

    def write(self, value: Sequence[Thing], rng: Random) -> str:
        return listed([AThing(self.kinds).write(each, rng) for each in value])

    def read(self, words: str) -> tuple[Thing, ...]:
        return tuple(AThing(self.kinds).read(each) for each in words.replace(" and ", ", ").split(", "))


@dataclass(frozen=True)
class APlace:
    """ "in the meadow"."""

    among: tuple[str, ...] = tuple(PLACES)

    @property
    def regex(self) -> str:
        return either(words for words, place in BACKGROUND_OF_PHRASE.items() if place in self.among)

    def sample(self, rng: Random) -> str:
        return rng.choice(self.among)

    def write(self, value: str, rng: Random) -> str:
        place = PLACES[value]
        return rng.choice((place.within, place.within, *place.others))

    def read(self, words: str) -> str:
        return BACKGROUND_OF_PHRASE[words.lower()]


@dataclass(frozen=True)
class AColour:
    """ "red"."""

    among: tuple[str, ...] = tuple(COLOURS)

    @property
    def regex(self) -> str:
        return either(self.among)

    def sample(self, rng: Random) -> str:
        return rng.choice(self.among)

    def write(self, value: str, rng: Random) -> str:
        return value

    def read(self, words: str) -> str:
        return words.lower()


@dataclass(frozen=True)
class ANumber:
    """ "three", between `least` and `most`."""

    least: int = 2
    most: int = 4

    @property
    def regex(self) -> str:
        return either(NUMBERS[self.least : self.most + 1])

    def sample(self, rng: Random) -> int:
        return rng.randint(self.least, self.most)

    def write(self, value: int, rng: Random) -> str:
        return NUMBERS[value]

    def read(self, words: str) -> int:
        return NUMBERS.index(words.lower())


@dataclass(frozen=True)
class AWord:
    """One of several words, each with its meaning; words of one meaning are interchangeable."""

    meanings: dict[str, Any]

    @property
    def regex(self) -> str:
        return either(self.meanings)

    def sample(self, rng: Random) -> Any:
        return rng.choice(list(self.meanings.values()))

    def write(self, value: Any, rng: Random) -> str:
        words = [word for word, meaning in self.meanings.items() if meaning == value]
        return rng.choice(words) if words else ""  # a meaning without a word is left unsaid

    def read(self, words: str) -> Any:
        return {word.lower(): meaning for word, meaning in self.meanings.items()}[words.lower()]


@dataclass(frozen=True)
class ManyThings:
    """ "red apples", or "apples" if the colour is the usual one: many of one kind."""

    kinds: tuple[str, ...]

    @property
    def regex(self) -> str:
        return rf"(?:{either(COLOURS)} )?{either(plural(usual(kind).noun) for kind in self.kinds)}"

    def sample(self, rng: Random) -> Thing:
        return AThing(self.kinds).sample(rng)

    def write(self, value: Thing, rng: Random) -> str:
        says_colour = value.colour != KINDS[value.kind].colour or rng.random() < 0.5
        return f"{value.colour} {plural(value.noun)}" if says_colour else plural(value.noun)

    def read(self, words: str) -> Thing:
        return described_many(words).thing()


@dataclass(frozen=True)
class Maybe:
    """A gap that may stay empty and then has the usual value: "how a frog grows up" is in the meadow."""

    gap: Gap
    otherwise: Any
    """Value if it is empty."""
    before: str = " "
    after: str = ""

    @property
    def regex(self) -> str:
        return rf"(?:{re.escape(self.before)}{self.gap.regex}{re.escape(self.after)})?"

    def sample(self, rng: Random) -> Any:
        return self.otherwise if rng.random() < 0.5 else self.gap.sample(rng)

    def write(self, value: Any, rng: Random) -> str:
        if value == self.otherwise and rng.random() < 0.8:
            return ""
        return self.before + self.gap.write(value, rng) + self.after

    def read(self, words: str) -> Any:
        if not words:
            return self.otherwise
        return self.gap.read(words[len(self.before) : len(words) - len(self.after)])


def maybe_place(*places: str) -> Maybe:
    """ " in the meadow", or nothing for the first of the places."""
    return Maybe(APlace(places), places[0])


def several(*kinds: str) -> AWord:
    """ "apples", "carrots": a kind by its plural."""
    return AWord({plural(usual(kind).noun): kind for kind in kinds})


def usual(kind: str, colour: str | None = None) -> Thing:
    """Return a large thing of this kind, in its usual state and colour."""
    return Thing(kind, colour or KINDS[kind].colour, state=KINDS[kind].usual)


def kinds_of(*categories: str, without: Iterable[str] = ()) -> tuple[str, ...]:
    """Return all kinds of these categories."""
    return tuple(
        kind.name for kind in KINDS.values() if kind.category in categories and kind.name not in set(without)
    )


def _usual_noun(kind: str) -> str:
    return KINDS[kind].states[KINDS[kind].usual]
