"""References to things and positions of a scene, written and resolved: "the red cat at the top left"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from interleave_mini.language.patterns import NotUnderstood
from interleave_mini.language.words import (
    CELL_OF,
    DESCRIBED,
    POSITIONS,
    RELATIONS,
    Described,
    a,
    described,
    neighbour,
    one_of,
    the,
    to_position,
)
from interleave_mini.world.scene import CELLS, Relation, Scene, Size, Thing

T = TypeVar("T")
_POSITION = one_of(CELL_OF)
THING = rf"(?:(?:an?|some|one) )?{DESCRIBED}"
_RELATION = one_of(Relation)
_ANCHOR = rf"the {DESCRIBED}(?: {_POSITION})?"
PLACED = rf"(?: {_RELATION} {_ANCHOR}| {_POSITION})"
REFERENCE = rf"the {DESCRIBED}{PLACED}?"
_RELATIVE = rf"{one_of(RELATIONS)} {REFERENCE}"
WHERE = rf"(?:{_POSITION}|{_RELATIVE})"
_TO_CELL = {to_position(words): cell for words, cell in CELL_OF.items()}
TO = rf"(?:{_RELATIVE}|{one_of(_TO_CELL)})"

_THING_PARTS = re.compile(rf"(?:(?:an?|some|one) )?(?P<what>{DESCRIBED})", re.IGNORECASE)
_REFERENCE_PARTS = re.compile(
    rf"the (?P<what>{DESCRIBED})"
    rf"(?: (?P<relation>{_RELATION}) (?P<anchor>{_ANCHOR})| (?P<where>{_POSITION}))?",
    re.IGNORECASE,
)
_RELATIVE_PARTS = re.compile(rf"(?P<relation>{one_of(RELATIONS)}) (?P<anchor>{REFERENCE})", re.IGNORECASE)


@dataclass(frozen=True)
class Style:
    """How something is worded: short or exact; with a random number generator, in varied words."""

    exact: bool = False
    rng: Random | None = None
    way: int = 0
    """Which of the wordings to use when there is no random number generator."""

    def choice(self, ways: Sequence[T]) -> T:
        return self.rng.choice(ways) if self.rng else ways[self.way % len(ways)]

    def position(self, cell: int) -> str:
        if self.exact:
            return POSITIONS[cell][1]
        return self.rng.choice(POSITIONS[cell]) if self.rng else POSITIONS[cell][0]

    def where(self, scene: Scene, cell: int) -> str:
        """A position, absolute or beside another thing."""
        if not self.exact and self.rng and self.rng.random() < 0.35 and (ways := _beside(scene, cell)):
            return self.rng.choice(ways)
        return self.position(cell)

    def thing(self, thing: Thing, *, like: Thing | None = None) -> str:
        """A thing in words; its size is left out where it is the usual one."""
        if like is not None:
            says_size = self.exact or thing.size != like.size
        else:
            says_size = self.exact or thing.size is Size.SMALL
        return a(thing, size=says_size)

    def refer(self, scene: Scene, cell: int) -> str:
        """Words that fit this thing of the scene and no other."""
        thing = scene.at(cell)
        if thing is None:
            raise NotUnderstood("there is nothing to speak of")
        if cell >= CELLS:
            return self._refer_to_load(scene, cell, thing)
        if self.exact:
            return f"{the(thing, size=True)} {POSITIONS[cell][1]}"
        ways = [the(thing)]
        if self.rng and self.rng.random() < 0.3:
            ways.insert(0, the(thing, colour=False))
        for words in (*ways, the(thing, size=True)):
            if len(fitting(scene, described(words.removeprefix("the ")))) == 1:
                return words
        return f"{the(thing)} {self.position(cell)}"

    def _refer_to_load(self, scene: Scene, spot: int, thing: Thing) -> str:
        """ "the red cat", or "the red cat on the brown chair" where there are more."""
        alone = len(fitting(scene, described(the(thing, size=False).removeprefix("the ")))) == 1
        carrier = scene.cells[spot - CELLS]
        if (alone and not self.exact) or carrier is None or carrier.load is None:
            return the(thing, size=False)
        return f"{the(thing, size=False)} {carrier.load.relation.value} {self.refer(scene, spot - CELLS)}"


def thing_described(words: str) -> Described:
    """Parse "a small red cat"."""
    found = _THING_PARTS.fullmatch(words)
    if found is None:
        raise NotUnderstood(f"not a thing: {words!r}")
    return described(found["what"])


def find(scene: Scene, words: str) -> int:
    """The spot of "the red cat at the top left" or "the red cat on the brown chair"."""
    found = _REFERENCE_PARTS.fullmatch(words)
    if found is None:
        raise NotUnderstood(f"not a reference: {words!r}")
    cells = fitting(scene, described(found["what"]))
    if found["anchor"]:
        carrier, relation = find(scene, found["anchor"]), Relation(found["relation"].lower())
        cells = [
            cell for cell in cells if cell == CELLS + carrier and _relation_at(scene, carrier) is relation
        ]
    if found["where"]:
        cells = [cell for cell in cells if cell == CELL_OF[found["where"].lower()]]
    if len(cells) != 1:
        raise NotUnderstood(f"{'no' if not cells else 'more than one'} thing fits {words!r}")
    return cells[0]


def find_position(scene: Scene, words: str) -> int:
    """The cell of "at the top left", "to the top left" or "left of the house"."""
    words = words.lower()
    if relative := _RELATIVE_PARTS.fullmatch(words):
        cell = neighbour(find(scene, relative["anchor"]) % CELLS, RELATIONS[relative["relation"]])
        if cell is None:
            raise NotUnderstood(f"there is no room {words!r}")
        return cell
    return CELL_OF[words] if words in CELL_OF else _TO_CELL[words]


def fitting(scene: Scene, what: Described) -> list[int]:
    """The spots of all things that a description fits."""
    return [spot for spot, thing in scene.everything.items() if what.fits(thing)]


def _relation_at(scene: Scene, cell: int) -> Relation | None:
    carrier = scene.cells[cell] if cell < CELLS else None
    return carrier.load.relation if carrier and carrier.load else None


def _beside(scene: Scene, cell: int) -> list[str]:
    ways = []
    for relation, step in RELATIONS.items():
        for anchor in scene.things:
            if anchor != cell and neighbour(anchor, step) == cell:
                ways.append(f"{relation} {Style().refer(scene, anchor)}")
    return ways
