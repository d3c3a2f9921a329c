"""Gaps for several groups of things, for more and more of one thing, and for two things with one between."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from interleave_mini.language.words import NUMBERS, listed
from interleave_mini.world.scene import Thing
from miniature.grammar.gaps import AThing, ManyThings, either

MOST = 6
"""Things in one group."""
Groups = tuple[tuple[int, Thing], ...]
Pair = tuple[Thing, Thing]
_COUNTS = (1, 1, 2, 2, 2, 3, 3, 3, 4, 5, 6)
_BETWEEN = re.compile(r", | and ", re.IGNORECASE)
_IN_TURN = "(?:,?(?: and)? then | and |, )"


def sample_counts(rng: Random) -> tuple[int, ...]:
    """Return the number of things in each of two or three groups; at least one has several."""
    while True:
        counts = tuple(rng.choice(_COUNTS) for _ in range(rng.choice((2, 2, 3))))
        if max(counts) > 1:
            return counts


@dataclass(frozen=True)
class SomeGroups:
    """ "three red apples, two bananas and a dog": two or three groups of different kinds."""

    kinds: tuple[str, ...]

    @property
    def regex(self) -> str:
        many = rf"{either(NUMBERS[2 : MOST + 1])} {ManyThings(self.kinds).regex}"
        one = rf"(?:{many}|{AThing(self.kinds).regex})"
        return rf"{one}(?:, {one})? and {one}"

    def sample(self, rng: Random) -> Groups:
        counts = sample_counts(rng)
        kinds = rng.sample(self.kinds, len(counts))
        return tuple((count, AThing((kind,)).sample(rng)) for count, kind in zip(counts, kinds, strict=True))

    def write(self, value: Groups, rng: Random) -> str:
        return listed([self._written(count, thing, rng) for count, thing in value])

    def _written(self, count: int, thing: Thing, rng: Random) -> str:
        if count == 1:
            return AThing(self.kinds).write(thing, rng)
        return f"{NUMBERS[count]} {ManyThings(self.kinds).write(thing, rng)}"

    def read(self, words: str) -> Groups:
        return tuple(self._read(each) for each in _BETWEEN.split(words))

    def _read(self, words: str) -> tuple[int, Thing]:
        count, things = words.split(" ", 1)
        if count.lower() in NUMBERS[2:]:
            return NUMBERS.index(count.lower()), ManyThings(self.kinds).read(things)
        return 1, AThing(self.kinds).read(words)


@dataclass(frozen=True)
class MoreAndMore:
    """ "one apple, two apples, three apples": from one to three, four or five of one kind."""

    kinds: tuple[str, ...]

    @property
    def regex(self) -> str:
        one, many = AThing(self.kinds, article=False).regex, ManyThings(self.kinds).regex
        further = either((*NUMBERS[2:MOST], *map(str, range(2, MOST))))
        return rf"(?:one|1) {one}(?:{_IN_TURN}{further}(?: {many})?){{2,{MOST - 2}}}"

    def sample(self, rng: Random) -> tuple[int, Thing]:
        return rng.randint(3, MOST - 1), AThing(self.kinds).sample(rng)

    def write(self, value: tuple[int, Thing], rng: Random) -> str:
        count, thing = value
        numbers = NUMBERS if rng.random() < 0.7 else tuple(map(str, range(MOST)))
        things = f" {ManyThings(self.kinds).write(thing, rng)}" if rng.random() < 0.7 else ""
        first = f"{numbers[1]} {AThing(self.kinds, article=False).write(thing, rng)}"
        further = (f"{numbers[number]}{things}" for number in range(2, count + 1))
        return rng.choice((", ", ", ", ", then ", " then ", ", and then ")).join((first, *further))

    def read(self, words: str) -> tuple[int, Thing]:
        first, *further = re.split(_IN_TURN, words, flags=re.IGNORECASE)
        return 1 + len(further), AThing(self.kinds, article=False).read(first.split(" ", 1)[1])


@dataclass(frozen=True)
class APair:
    """ "two trees", or "a tree and a house"."""

    kinds: tuple[str, ...]

    @property
    def regex(self) -> str:
        one = AThing(self.kinds).regex
        return rf"(?:two {ManyThings(self.kinds).regex}|{one} and {one})"

    def sample(self, rng: Random) -> Pair:
        first = AThing(self.kinds).sample(rng)
        return first, first if rng.random() < 0.5 else AThing(self.kinds).sample(rng)

    def write(self, value: Pair, rng: Random) -> str:
        if value[0] == value[1]:
            return f"two {ManyThings(self.kinds).write(value[0], rng)}"
        return " and ".join(AThing(self.kinds).write(each, rng) for each in value)

    def read(self, words: str) -> Pair:
        if words.lower().startswith("two "):
            both = ManyThings(self.kinds).read(words[len("two ") :])
            return both, both
        first, second = (AThing(self.kinds).read(each) for each in _BETWEEN.split(words))
        return first, second


def in_rows(groups: Sequence[tuple[int, Thing]], width: int, rows: int) -> dict[int, Thing] | None:
    """Return the groups by cell, each from the left end of a separate row; `None` if there is no room.

    They begin in the middle row if two rows are enough.
    """
    needed = sum(-(-count // width) for count, _ in groups)
    if needed > rows:
        return None
    start = width if needed < rows else 0
    things: dict[int, Thing] = {}
    for count, thing in groups:
        things |= {start + place: thing for place in range(count)}
        start += -(-count // width) * width
    return things
