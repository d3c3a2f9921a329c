"""Gaps for things whose places are named ("a sun top right, a house in the middle"), and for lists."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from interleave_mini.language.words import CELL_OF, POSITIONS, listed
from interleave_mini.world.scene import CELLS, MIDDLE, Thing
from miniature.grammar.gaps import AThing, either
from miniature.grammar.synonyms import PLACE_NOUNS

Placed = tuple[tuple[int, Thing], ...]
WITH_MIDDLE = 0.4
"""Share of images with something in the middle, of those with nothing else there."""
_SAID_SHORTLY: tuple[tuple[str, ...], ...] = (
    ("top left", "upper left", "in the top left", "top left corner", "up on the left"),
    ("top", "on top", "at the top middle", "top middle", "top center", "up in the middle"),
    ("top right", "upper right", "in the top right", "top right corner", "up on the right"),
    ("left", "to the left", "on the left hand side", "middle left", "left side"),
    ("middle", "center", "centre", "in the center", "centered", "right in the middle"),
    ("right", "to the right", "on the right hand side", "middle right", "right side"),
    ("bottom left", "lower left", "in the bottom left", "bottom left corner", "down on the left"),
    ("bottom", "bottom middle", "at the bottom middle", "bottom center", "down in the middle"),
    ("bottom right", "lower right", "in the bottom right", "bottom right corner", "down on the right"),
)
"""Names of cells as people type them."""
_CELL_OF = {**CELL_OF, **{words: cell for cell, ways in enumerate(_SAID_SHORTLY) for words in ways}}
_POSITION = either(_CELL_OF)
_AT_END = re.compile(rf"[ (]+(?P<position>{_POSITION})\)?$", re.IGNORECASE)
_AT_START = re.compile(rf"^(?P<position>{_POSITION})(?:,|:| is| there is| there's)? ", re.IGNORECASE)
_LIST = re.compile(r", and |; | and |, ", re.IGNORECASE)
_STYLES = (
    "{thing} {at}",
    "{thing} {at}",
    "{bare} {at}",
    "{at} {thing}",
    "{bare} ({at})",
    "{at}: {bare}",
    "{at} is {thing}",
)


@dataclass(frozen=True)
class SomePlaced:
    """ "a sun at the top right and a house in the middle": one to four things, each with its place."""

    kinds: tuple[str, ...]
    most: int = 4

    @property
    def regex(self) -> str:
        one = rf"{AThing(self.kinds).regex} {either(CELL_OF)}"
        return rf"{one}(?:(?:, {one}){{0,{self.most - 2}}} and {one})?"

    def sample(self, rng: Random) -> Placed:
        kinds = rng.sample(self.kinds, rng.randint(1, self.most))
        return self.spread([AThing((kind,)).sample(rng) for kind in kinds], rng)

    def spread(self, things: Sequence[Thing], rng: Random) -> Placed:
        cells = rng.sample(range(CELLS), len(things))
        if MIDDLE not in cells and rng.random() < WITH_MIDDLE:
            cells[0] = MIDDLE
        return tuple(zip(cells, things, strict=True))

    def write(self, value: Placed, rng: Random) -> str:
        return listed(
            [f"{AThing(self.kinds).write(thing, rng)} {POSITIONS[cell][0]}" for cell, thing in value]
        )

    def read(self, words: str) -> Placed:
        return read_placed(words, lambda said: AThing(self.kinds).read(said))


def around_the_middle(value: Placed) -> tuple[Thing, Placed] | None:
    """Return the thing in the middle, if any, and the others: "a house with a tree on the left"."""
    others = tuple(each for each in value if each[0] != MIDDLE)
    middle = [thing for cell, thing in value if cell == MIDDLE]
    return (middle[0], others) if middle and others else None


def placed_in_words(value: Placed, say: Callable[[Thing, str], str], rng: Random) -> list[str]:
    """Word each thing with its place, all in one style. `say` words a thing in a form."""
    style = rng.choice(_STYLES)
    said = []
    for cell, thing in value:
        formal = "{bare}" not in style and rng.random() < 0.5
        at = rng.choice(POSITIONS[cell] if formal else _SAID_SHORTLY[cell])
        said.append(style.format(thing=say(thing, ""), bare=say(thing, "bare"), at=at))
    return said


def placed_pattern(thing: str, bare: str, most: int) -> str:
    """Return a regular expression for what `placed_in_words` may say, from those for a thing."""
    named = rf"(?:{thing}|{bare})"
    one = rf"(?:{named} \(?{_POSITION}\)?|{_POSITION}(?:,|:| is| there is| there's)? {named})"
    middle = rf"(?:{named}(?: with |, with |, )(?={one}))?"
    return rf"{middle}{one}(?:(?:, and |; | and |, ){one}){{0,{most - 1}}}"


def read_placed(words: str, read: Callable[[str], Thing]) -> Placed:
    """Parse things with their places. `read` parses the words of a thing."""
    found = []
    for number, item in enumerate(_LIST.split(re.sub(",? with ", ", ", words, count=1))):
        place = _AT_END.search(item) or _AT_START.search(item)
        if place is None and number == 0:
            found.append((MIDDLE, read(item.strip())))
            continue
        if place is None:
            raise ValueError(f"no place in {item!r}")
        rest = item[: place.start()] + item[place.end() :]
        found.append((_CELL_OF[place["position"].lower()], read(rest.strip())))
    return tuple(found)


@dataclass(frozen=True)
class SomePlaces:
    """ "the beach, the forest and the city": two to four backgrounds, one after the other."""

    among: tuple[str, ...]
    least: int = 2
    most: int = 4

    @property
    def regex(self) -> str:
        one = either(noun for place in self.among for noun in PLACE_NOUNS[place])
        between = ",? (?:and )?then (?:to )?|,? and (?:to )?|, (?:to )?| to "
        return rf"{one}(?:(?:{between}){one}){{{self.least - 1},{self.most - 1}}}"

    def sample(self, rng: Random) -> tuple[str, ...]:
        return tuple(rng.sample(self.among, rng.randint(self.least, self.most)))

    def write(self, value: Sequence[str], rng: Random) -> str:
        nouns = [rng.choice(PLACE_NOUNS[place]) for place in value]
        joined = ", ".join(nouns[:-1])
        ways = (
            f"{joined} and {nouns[-1]}",
            f"{joined}, then {nouns[-1]}",
            f"{joined} and then {nouns[-1]}",
            ", then ".join(nouns),
            " to ".join(nouns),
        )
        return rng.choice(ways)

    def read(self, words: str) -> tuple[str, ...]:
        place_of = {noun: place for place in self.among for noun in PLACE_NOUNS[place]}
        return tuple(
            place_of[found[0].lower()] for found in re.finditer(either(place_of), words, re.IGNORECASE)
        )


@dataclass(frozen=True)
class SomeColours:
    """ "red, then blue, then green": two to four colours, one after the other."""

    among: tuple[str, ...]
    least: int = 2
    most: int = 4

    @property
    def regex(self) -> str:
        one = either(self.among)
        return rf"{one}(?:(?:,? (?:and )?then | and | to |, ){one}){{{self.least - 1},{self.most - 1}}}"

    def sample(self, rng: Random) -> tuple[str, ...]:
        return tuple(rng.sample(self.among, rng.randint(self.least, self.most)))

    def write(self, value: Sequence[str], rng: Random) -> str:
        joined = ", ".join(value[:-1])
        ways = (
            f"{joined} and then {value[-1]}",
            ", then ".join(value),
            " then ".join(value),
            f"{joined} and {value[-1]}",
            " to ".join(value),
        )
        return rng.choice(ways)

    def read(self, words: str) -> tuple[str, ...]:
        return tuple(found[0].lower() for found in re.finditer(either(self.among), words, re.IGNORECASE))
