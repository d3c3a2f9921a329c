"""What has happened between two scenes, as operations."""

from __future__ import annotations

from contextlib import suppress

from interleave_mini.world.operations import (
    Add,
    ChangeBackground,
    ChangeState,
    Impossible,
    Move,
    Operation,
    Pick,
    Place,
    Recolour,
    Remove,
    Replace,
    Resize,
    Swap,
    apply_all,
)
from interleave_mini.world.scene import CELLS, GRID, Scene


def changes(before: Scene, after: Scene) -> tuple[Operation, ...]:
    """The operations, as few as come to mind, that turn one scene into the other."""
    found: list[Operation] = []
    if before.background != after.background:
        found.append(ChangeBackground(after.background))
    now = apply_all(found, before)
    if now.gripper != after.gripper:
        found += _handling(now, after)
        now = apply_all(found, before)
    while different := [cell for cell in range(CELLS) if now.cells[cell] != after.cells[cell]]:
        operation = _change_at(different[0], now, after)
        found.append(operation)
        now = operation.apply(now)
    return tuple(found)


def _handling(before: Scene, after: Scene) -> tuple[Operation, ...]:
    """What the gripper has done: one thing, or a block put down and another picked up, or the reverse."""
    below = range(GRID, CELLS)
    single: list[tuple[Operation, ...]] = [(deed(cell),) for deed in (Pick, Place) for cell in below]
    double = [first + second for first in single for second in single]
    possible = []
    for deeds in (*single, *double):
        with suppress(Impossible):
            result = apply_all(deeds, before)
            if result.gripper == after.gripper:
                wrong = sum(a != b for a, b in zip(result.cells, after.cells, strict=True))
                possible.append((wrong, len(deeds), deeds))
    if not possible:
        raise Impossible("the gripper cannot have done that")
    return min(possible, key=lambda each: each[:2])[2]


def _change_at(cell: int, now: Scene, after: Scene) -> Operation:
    old, new = now.cells[cell], after.cells[cell]
    others = [other for other in range(CELLS) if other != cell and now.cells[other] != after.cells[other]]
    if old is not None:
        for other in others:
            if after.cells[other] == old and now.cells[other] is None and now.is_free(other):
                return Move(cell, other)
            if after.cells[other] == old and now.cells[other] == new:
                return Swap(cell, other)
    if new is None:
        return Remove(cell)
    if old is None:
        source = next((other for other in others if now.cells[other] == new), None)
        return Add(new, cell) if source is None else Move(source, cell)
    if old.kind == new.kind:
        if (old.size, old.state) == (new.size, new.state):
            return Recolour(cell, new.colour)
        if (old.colour, old.state) == (new.colour, new.state):
            return Resize(cell, new.size)
        if (old.colour, old.size) == (new.colour, new.size):
            return ChangeState(cell, new.state)
    return Replace(cell, new)
