"""Operations that turn one scene into another, and the operations that lie between two given scenes.

`apply` checks that an operation is possible in a scene, and raises `Impossible` when it is not.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from interleave import InputError
from interleave_mini.world.kinds import KINDS
from interleave_mini.world.scene import CELLS, GRID, Gripper, Scene, Size, Thing


class Impossible(InputError):
    """An operation that cannot be applied in this scene."""


class AlreadySo(Impossible):
    """An operation that would change nothing."""


@dataclass(frozen=True, slots=True)
class Add:
    thing: Thing
    cell: int

    def apply(self, scene: Scene) -> Scene:
        _must_be_free(scene, self.cell)
        return scene.with_cell(self.cell, self.thing)


@dataclass(frozen=True, slots=True)
class Remove:
    cell: int

    def apply(self, scene: Scene) -> Scene:
        thing_at(scene, self.cell)
        return scene.with_cell(self.cell, None)


@dataclass(frozen=True, slots=True)
class Recolour:
    cell: int
    colour: str

    def apply(self, scene: Scene) -> Scene:
        thing = thing_at(scene, self.cell)
        if thing.colour == self.colour:
            raise AlreadySo(f"the {thing.noun} is {self.colour} already")
        return scene.with_cell(self.cell, replace(thing, colour=self.colour))


@dataclass(frozen=True, slots=True)
class Replace:
    cell: int
    thing: Thing

    def apply(self, scene: Scene) -> Scene:
        if thing_at(scene, self.cell) == self.thing:
            raise Impossible("it would be replaced by itself")
        return scene.with_cell(self.cell, self.thing)


@dataclass(frozen=True, slots=True)
class Resize:
    cell: int
    size: Size

    def apply(self, scene: Scene) -> Scene:
        thing = thing_at(scene, self.cell)
        if thing.size == self.size:
            raise AlreadySo(f"the {thing.noun} is {self.size.value} already")
        return scene.with_cell(self.cell, replace(thing, size=self.size))


@dataclass(frozen=True, slots=True)
class Move:
    cell: int
    to: int

    def apply(self, scene: Scene) -> Scene:
        thing = thing_at(scene, self.cell)
        _must_be_free(scene, self.to)
        return scene.with_cell(self.cell, None).with_cell(self.to, thing)


@dataclass(frozen=True, slots=True)
class Swap:
    cell: int
    other: int

    def apply(self, scene: Scene) -> Scene:
        first, second = thing_at(scene, self.cell), thing_at(scene, self.other)
        if first == second:
            raise Impossible("two equal things would change places")
        return scene.with_cell(self.cell, second).with_cell(self.other, first)


@dataclass(frozen=True, slots=True)
class ChangeState:
    cell: int
    state: int

    def apply(self, scene: Scene) -> Scene:
        thing = thing_at(scene, self.cell)
        if not 0 <= self.state < len(KINDS[thing.kind].states) or self.state == thing.state:
            raise Impossible(f"the {thing.noun} cannot change like that")
        return scene.with_cell(self.cell, replace(thing, state=self.state))


@dataclass(frozen=True, slots=True)
class ChangeBackground:
    background: str

    def apply(self, scene: Scene) -> Scene:
        if scene.background == self.background:
            raise AlreadySo(f"the background is the {self.background} already")
        return replace(scene, background=self.background)


@dataclass(frozen=True, slots=True)
class Pick:
    """The gripper takes the small block in this cell and lifts it to the top of its column."""

    cell: int

    def apply(self, scene: Scene) -> Scene:
        block, column = thing_at(scene, self.cell), self.cell % GRID
        hand = scene.gripper
        if hand is None or hand.holds is not None:
            raise Impossible("there is no empty gripper")
        if block.kind != "block" or block.size is not Size.SMALL or self.cell < GRID:
            raise Impossible("the gripper picks up small blocks below the top row")
        if scene.cells[column] is not None:
            raise Impossible("something stands where the gripper has to go")
        return replace(scene.with_cell(self.cell, None), gripper=Gripper(column, block.colour))


@dataclass(frozen=True, slots=True)
class Place:
    """The gripper lowers the block it holds into this cell and stays above it, empty."""

    cell: int

    def apply(self, scene: Scene) -> Scene:
        hand, column = scene.gripper, self.cell % GRID
        if hand is None or hand.holds is None:
            raise Impossible("there is no gripper that holds a block")
        _must_be_free(scene, self.cell)
        if self.cell < GRID or scene.cells[column] is not None:
            raise Impossible("the gripper cannot get there")
        block = Thing("block", hand.holds, Size.SMALL)
        return replace(scene.with_cell(self.cell, block), gripper=Gripper(column))


Operation = (
    Add | Remove | Recolour | Replace | Resize | Move | Swap | ChangeState | ChangeBackground | Pick | Place
)


def apply_all(operations: Iterable[Operation], scene: Scene) -> Scene:
    """Apply the operations in order."""
    for operation in operations:
        scene = operation.apply(scene)
    return scene


def thing_at(scene: Scene, cell: int) -> Thing:
    """The thing in this cell; there must be one."""
    thing = scene.cells[cell]
    if thing is None:
        raise Impossible("there is nothing to change")
    return thing


def _must_be_free(scene: Scene, cell: int) -> None:
    if not scene.is_free(cell):
        raise Impossible("the place is taken")


# The operations between two scenes


def changes(before: Scene, after: Scene) -> tuple[Operation, ...]:
    """Operations that turn one scene into the other, found greedily: few, not always the fewest."""
    found: list[Operation] = []
    if before.background != after.background:
        found.append(ChangeBackground(after.background))
    now = apply_all(found, before)
    if now.gripper != after.gripper:
        found += _gripper_changes(now, after)
        now = apply_all(found, before)
    while different := [cell for cell in range(CELLS) if now.cells[cell] != after.cells[cell]]:
        operation = _change_at(different[0], now, after)
        found.append(operation)
        now = operation.apply(now)
    return tuple(found)


def _gripper_changes(before: Scene, after: Scene) -> tuple[Operation, ...]:
    """What the gripper has done: one pick or place, or two of them."""
    below = range(GRID, CELLS)
    single: list[tuple[Operation, ...]] = [
        (operation(cell),) for operation in (Pick, Place) for cell in below
    ]
    double = [first + second for first in single for second in single]
    possible = []
    for operations in (*single, *double):
        with suppress(Impossible):
            result = apply_all(operations, before)
            if result.gripper == after.gripper:
                wrong = sum(a != b for a, b in zip(result.cells, after.cells, strict=True))
                possible.append((wrong, len(operations), operations))
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
