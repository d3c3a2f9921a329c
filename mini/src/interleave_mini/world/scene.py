"""A scene: a background and things on a grid of three by three, as a value.

A large thing can carry a small one that touches it. Spots number all places of a scene: the cells, and after
them what the thing in each cell carries.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from interleave import InputError
from interleave_mini.world.wider import (
    ALL_BACKGROUNDS,
    ALL_COLOURS,
    ALL_KINDS,
    CONTAINERS,
    HOLDERS,
    NOT_STOOD_ON,
    SHELTERS,
)

GRID = 3
CELLS = GRID * GRID
MIDDLE = 4


class Size(StrEnum):
    SMALL = "small"
    LARGE = "large"


class Relation(StrEnum):
    """How a thing touches the one that carries it."""

    ON = "on"
    IN = "in"
    UNDER = "under"
    HELD = "held by"

    def is_possible_with(self, noun: str) -> bool:
        """Whether something can be on, in or under a large thing with this noun, or be held by it."""
        match self:
            case Relation.ON:
                return noun not in NOT_STOOD_ON
            case Relation.IN:
                return noun in CONTAINERS
            case Relation.UNDER:
                return noun in SHELTERS
            case Relation.HELD:
                return noun in HOLDERS


@dataclass(frozen=True, slots=True)
class Load:
    """What a thing carries."""

    relation: Relation
    thing: Thing


@dataclass(frozen=True, slots=True)
class Thing:
    """One thing: its kind, colour, size and state, and what it carries."""

    kind: str
    colour: str
    size: Size = Size.LARGE
    state: int = 0
    load: Load | None = None

    def __post_init__(self) -> None:
        if self.kind not in ALL_KINDS:
            raise InputError(f"the miniature has no kind {self.kind!r}")
        if self.colour not in ALL_COLOURS:
            raise InputError(f"the miniature has no colour {self.colour!r}")
        if not 0 <= self.state < len(ALL_KINDS[self.kind].states):
            raise InputError(f"a {self.kind} has no state {self.state}")
        if self.load is not None:
            self._check_load(self.load)

    def _check_load(self, load: Load) -> None:
        if self.size is not Size.LARGE:
            raise InputError(f"a small {self.noun} cannot carry anything")
        if not load.relation.is_possible_with(self.noun):
            raise InputError(f"nothing can be {load.relation.value} a {self.noun}")
        if load.thing.size is not Size.SMALL or load.thing.load is not None:
            raise InputError("what is carried is small and carries nothing")

    @property
    def noun(self) -> str:
        """Its noun in this state: a frog in state 0 is 'frog spawn'."""
        return ALL_KINDS[self.kind].states[self.state]

    @property
    def alone(self) -> Thing:
        """The thing without what it carries."""
        return self if self.load is None else replace(self, load=None)


@dataclass(frozen=True, slots=True)
class Gripper:
    """A robot gripper in the top row, above one of the columns, empty or holding a small block."""

    column: int
    holds: str | None = None
    """The colour of the block it holds."""

    def __post_init__(self) -> None:
        if not 0 <= self.column < GRID:
            raise InputError(f"a gripper is above column 0, 1 or 2, not {self.column}")
        if self.holds is not None and self.holds not in ALL_COLOURS:
            raise InputError(f"the miniature has no colour {self.holds!r}")


@dataclass(frozen=True, slots=True)
class Scene:
    """A whole image as a value. Equal scenes are drawn with equal pixels, different ones differ."""

    background: str
    cells: tuple[Thing | None, ...] = (None,) * CELLS
    gripper: Gripper | None = None

    def __post_init__(self) -> None:
        if self.background not in ALL_BACKGROUNDS:
            raise InputError(f"the miniature has no background {self.background!r}")
        if len(self.cells) != CELLS:
            raise InputError(f"a scene has {CELLS} cells, not {len(self.cells)}")
        if self.gripper is not None and self.cells[self.gripper.column] is not None:
            raise InputError("the gripper hangs in the top row, where a thing stands already")

    @classmethod
    def of(cls, background: str, things: dict[int, Thing], gripper: Gripper | None = None) -> Scene:
        """A scene from the cells that are not empty."""
        return cls(background, tuple(things.get(cell) for cell in range(CELLS)), gripper)

    @property
    def things(self) -> dict[int, Thing]:
        """The cells that are not empty."""
        return {cell: thing for cell, thing in enumerate(self.cells) if thing is not None}

    @property
    def everything(self) -> dict[int, Thing]:
        """The things by their spots: those in the cells, then those they carry."""
        loads = {CELLS + cell: thing.load.thing for cell, thing in self.things.items() if thing.load}
        return self.things | loads

    def at(self, spot: int) -> Thing | None:
        """The thing at a spot."""
        if spot < CELLS:
            return self.cells[spot]
        carrier = self.cells[spot - CELLS]
        return carrier.load.thing if carrier and carrier.load else None

    def is_free(self, cell: int) -> bool:
        hand = self.gripper is not None and self.gripper.column == cell
        return self.cells[cell] is None and not hand

    def with_cell(self, cell: int, thing: Thing | None) -> Scene:
        """The same scene with one cell changed."""
        return Scene(self.background, (*self.cells[:cell], thing, *self.cells[cell + 1 :]), self.gripper)

    def with_spot(self, spot: int, thing: Thing | None) -> Scene:
        """The same scene with one cell changed, or what the thing in it carries."""
        if spot < CELLS:
            return self.with_cell(spot, thing)
        carrier = self.cells[spot - CELLS]
        if carrier is None or carrier.load is None:
            raise InputError("nothing is carried there")
        load = replace(carrier.load, thing=carried(thing)) if thing else None
        return self.with_cell(spot - CELLS, replace(carrier, load=load))


def carried(thing: Thing) -> Thing:
    """The thing as it is while another carries it."""
    return replace(thing, size=Size.SMALL)
