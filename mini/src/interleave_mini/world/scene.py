"""A scene: a background and things on a grid of three by three, as a value."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from interleave import InputError
from interleave_mini.world.kinds import BACKGROUNDS, COLOURS, KINDS

GRID = 3
CELLS = GRID * GRID
MIDDLE = 4


class Size(StrEnum):
    SMALL = "small"
    LARGE = "large"


@dataclass(frozen=True, slots=True)
class Thing:
    """One thing: its kind, colour, size and state."""

    kind: str
    colour: str
    size: Size = Size.LARGE
    state: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"the miniature has no kind {self.kind!r}")
        if self.colour not in COLOURS:
            raise InputError(f"the miniature has no colour {self.colour!r}")
        if not 0 <= self.state < len(KINDS[self.kind].states):
            raise InputError(f"a {self.kind} has no state {self.state}")

    @property
    def noun(self) -> str:
        """Its noun in this state: a frog in state 0 is 'frog spawn'."""
        return KINDS[self.kind].states[self.state]


@dataclass(frozen=True, slots=True)
class Gripper:
    """A robot gripper in the top row, above one of the columns, empty or holding a small block."""

    column: int
    holds: str | None = None
    """The colour of the block it holds."""

    def __post_init__(self) -> None:
        if not 0 <= self.column < GRID:
            raise InputError(f"a gripper is above column 0, 1 or 2, not {self.column}")
        if self.holds is not None and self.holds not in COLOURS:
            raise InputError(f"the miniature has no colour {self.holds!r}")


@dataclass(frozen=True, slots=True)
class Scene:
    """A whole image as a value. Equal scenes are drawn with equal pixels, different ones differ."""

    background: str
    cells: tuple[Thing | None, ...] = (None,) * CELLS
    gripper: Gripper | None = None

    def __post_init__(self) -> None:
        if self.background not in BACKGROUNDS:
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

    def is_free(self, cell: int) -> bool:
        hand = self.gripper is not None and self.gripper.column == cell
        return self.cells[cell] is None and not hand

    def with_cell(self, cell: int, thing: Thing | None) -> Scene:
        """The same scene with one cell changed."""
        return replace(self, cells=(*self.cells[:cell], thing, *self.cells[cell + 1 :]))
