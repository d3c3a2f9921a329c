"""Small moves that many plots share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from interleave_mini.world.operations import Impossible
from interleave_mini.world.scene import GRID, Size, Thing


def stage(thing: Thing, state: int) -> Thing:
    """The same thing, earlier or later in its life."""
    return replace(thing, state=state)


def small(thing: Thing) -> Thing:
    return replace(thing, size=Size.SMALL)


def row(thing: Thing, count: int, first: int) -> dict[int, Thing]:
    """Equal things in a row, from the left."""
    return {first + column: thing for column in range(count)}


def hung_and_put(things: Sequence[Thing], high: Sequence[str]) -> dict[int, Thing]:
    """High things fill the top row from the left, all others the bottom row, in their order."""
    hung = [thing for thing in things if thing.kind in high]
    put = [thing for thing in things if thing.kind not in high]
    if max(len(hung), len(put)) > GRID:
        raise Impossible("there is no room for so many things in one row")
    cells = {thing: cell for cell, thing in enumerate(hung)}
    cells |= {thing: 2 * GRID + cell for cell, thing in enumerate(put)}
    return {cells[thing]: thing for thing in things}


def different(*things: Thing) -> None:
    if len({thing.kind for thing in things}) < len(things):
        raise Impossible("the same kind of thing twice")
