"""Operations that turn one scene into another, and the operations that lie between two given scenes.

`apply` checks that an operation is possible in a scene, and raises `Impossible` when it is not. Cells of
operations are spots (see `scene`): what a thing carries can be changed like any other, and leaves by `Move`.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from interleave import InputError
from interleave_mini.world.kinds import KINDS
from interleave_mini.world.scene import (
    CELLS,
    GRID,
    Gripper,
    Load,
    Relation,
    Scene,
    Size,
    Thing,
    carried,
)
from interleave_mini.world.wider import ALL_KINDS, DAY_OF, NIGHT_OF


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
        return scene.with_spot(self.cell, None)


@dataclass(frozen=True, slots=True)
class Recolour:
    cell: int
    colour: str

    def apply(self, scene: Scene) -> Scene:
        thing = thing_at(scene, self.cell)
        if thing.colour == self.colour:
            raise AlreadySo(f"the {thing.noun} is {self.colour} already")
        return scene.with_spot(self.cell, replace(thing, colour=self.colour))


@dataclass(frozen=True, slots=True)
class Replace:
    cell: int
    thing: Thing

    def apply(self, scene: Scene) -> Scene:
        old = thing_at(scene, self.cell)
        new = carried(self.thing) if self.cell >= CELLS else self.thing
        if old.alone == new:
            raise AlreadySo("it would be replaced by itself")
        return scene.with_spot(self.cell, _with_load(new, old.load))


@dataclass(frozen=True, slots=True)
class Resize:
    cell: int
    size: Size

    def apply(self, scene: Scene) -> Scene:
        thing = thing_at(scene, self.cell)
        if thing.size == self.size:
            raise AlreadySo(f"the {thing.noun} is {self.size.value} already")
        if self.cell >= CELLS or thing.load is not None:
            raise Impossible("what carries or is carried keeps its size")
        return scene.with_cell(self.cell, replace(thing, size=self.size))


@dataclass(frozen=True, slots=True)
class Move:
    cell: int
    to: int

    def apply(self, scene: Scene) -> Scene:
        thing = thing_at(scene, self.cell)
        _must_be_free(scene, self.to)
        if self.cell >= CELLS:
            thing = replace(thing, size=Size.LARGE)
        return scene.with_spot(self.cell, None).with_cell(self.to, thing)


@dataclass(frozen=True, slots=True)
class Swap:
    cell: int
    other: int

    def apply(self, scene: Scene) -> Scene:
        if max(self.cell, self.other) >= CELLS:
            raise Impossible("what is carried cannot change places")
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
        if self.state == thing.state:
            raise AlreadySo(f"the {thing.noun} is so already")
        if not 0 <= self.state < len(ALL_KINDS[thing.kind].states):
            raise Impossible(f"the {thing.noun} cannot change like that")
        changed = replace(thing.alone, state=self.state)
        return scene.with_spot(self.cell, _with_load(changed, thing.load))


@dataclass(frozen=True, slots=True)
class ChangeBackground:
    background: str

    def apply(self, scene: Scene) -> Scene:
        if scene.background == self.background:
            raise AlreadySo(f"the background is the {self.background} already")
        return replace(scene, background=self.background)


@dataclass(frozen=True, slots=True)
class Put:
    """A thing of the scene goes on, in or under the one in the cell `to`, or is given to it."""

    cell: int
    relation: Relation
    to: int

    def apply(self, scene: Scene) -> Scene:
        thing, carrier = thing_at(scene, self.cell), scene.at(self.to)
        if (
            self.cell == CELLS + self.to
            and carrier
            and carrier.load
            and carrier.load.relation is self.relation
        ):
            raise AlreadySo(f"the {thing.noun} is {self.relation.value} it already")
        if self.cell % CELLS == self.to or thing.load is not None:
            raise Impossible(f"the {thing.noun} cannot be carried")
        return PutNew(thing, self.relation, self.to).apply(scene.with_spot(self.cell, None))


@dataclass(frozen=True, slots=True)
class PutNew:
    """A new thing appears on, in or under the one in the cell `to`, or is given to it."""

    thing: Thing
    relation: Relation
    to: int

    def apply(self, scene: Scene) -> Scene:
        if self.to >= CELLS:
            raise Impossible("what is carried carries nothing")
        carrier = thing_at(scene, self.to)
        if carrier.load is not None:
            raise Impossible(f"the {carrier.noun} carries something already")
        return scene.with_cell(self.to, _with_load(carrier, Load(self.relation, carried(self.thing))))


@dataclass(frozen=True, slots=True)
class Pick:
    """The gripper takes the small block in this cell and lifts it to the top of its column."""

    cell: int

    def apply(self, scene: Scene) -> Scene:
        block, column = thing_at(scene, self.cell), self.cell % GRID
        hand = scene.gripper
        if hand is None or hand.holds is not None:
            raise Impossible("there is no empty gripper")
        if block.kind != "block" or block.size is not Size.SMALL or not GRID <= self.cell < CELLS:
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
    Add
    | Remove
    | Recolour
    | Replace
    | Resize
    | Move
    | Swap
    | ChangeState
    | ChangeBackground
    | Put
    | PutNew
    | Pick
    | Place
)


def apply_all(operations: Iterable[Operation], scene: Scene) -> Scene:
    """Apply the operations in order."""
    for operation in operations:
        scene = operation.apply(scene)
    return scene


def stage_after(thing: Thing, step: int = 1) -> int:
    """The state some stages further in the natural order of its kind; −1, which is impossible, for none."""
    kind = KINDS.get(thing.kind)
    state = thing.state + step
    return state if kind and state < len(kind.states) else -1


def nightfall(scene: Scene) -> ChangeBackground:
    """The same place at night."""
    if scene.background not in NIGHT_OF:
        raise AlreadySo("it is night already")
    return ChangeBackground(NIGHT_OF[scene.background])


def daybreak(scene: Scene) -> ChangeBackground:
    """The same place by day."""
    if scene.background not in DAY_OF:
        raise AlreadySo("it is day already")
    return ChangeBackground(DAY_OF[scene.background])


def thing_at(scene: Scene, cell: int) -> Thing:
    """The thing at this spot; there must be one."""
    thing = scene.at(cell)
    if thing is None:
        raise Impossible("there is nothing to change")
    return thing


def _with_load(thing: Thing, load: Load | None) -> Thing:
    try:
        return replace(thing, load=load)
    except InputError as error:
        raise Impossible(str(error)) from error


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
    if old and new and old.load != new.load:
        return _change_of_load(cell, old, new, now, after)
    if new is None:
        return (old and _put_on_another(cell, old, now, after)) or Remove(cell)
    if old is None:
        source = next((other for other in others if now.cells[other] == new), None)
        if source is None:
            source = _carried_away(new, now, after)
        return Add(new.alone, cell) if source is None else Move(source, cell)
    return _turn_into(cell, old, new)


def _turn_into(cell: int, old: Thing, new: Thing) -> Operation:
    if old.kind == new.kind:
        if (old.size, old.state) == (new.size, new.state):
            return Recolour(cell, new.colour)
        if (old.colour, old.state) == (new.colour, new.state):
            return Resize(cell, new.size)
        if (old.colour, old.size) == (new.colour, new.size):
            return ChangeState(cell, new.state)
    return Replace(cell, new.alone)


def _change_of_load(cell: int, old: Thing, new: Thing, now: Scene, after: Scene) -> Operation:
    """The next operation where a thing carries something else afterwards."""
    spot = CELLS + cell
    if old.alone != new.alone and old.load is None:
        return _turn_into(cell, old, new)
    if new.load is None:
        left = _left_to(spot, now, after)
        return Remove(spot) if left is None else left
    if old.load is None:
        wanted = new.load.thing
        source = next((c for c in range(CELLS) if c != cell and _went(c, wanted, now, after)), None)
        if source is None:
            source = _carried_away(wanted, now, after)
        if source is None:
            return PutNew(wanted, new.load.relation, cell)
        return Put(source, new.load.relation, cell)
    if old.load.relation is not new.load.relation or old.alone != new.alone:
        return Remove(spot)
    return _turn_into(spot, old.load.thing, new.load.thing)


def _left_to(spot: int, now: Scene, after: Scene) -> Operation | None:
    """Where a thing that is carried no longer has gone."""
    thing = thing_at(now, spot)
    for cell in range(CELLS):
        if after.cells[cell] == replace(thing, size=Size.LARGE) and now.is_free(cell):
            return Move(spot, cell)
    return _put_on_another(spot, thing, now, after)


def _put_on_another(spot: int, thing: Thing, now: Scene, after: Scene) -> Put | None:
    """A thing goes where it is carried afterwards, if another carries its like."""
    for cell, wanted in after.things.items():
        if wanted.load and now.cells[cell] == wanted.alone and wanted.load.thing == carried(thing.alone):
            return Put(spot, wanted.load.relation, cell) if thing.load is None else None
    return None


def _went(cell: int, wanted: Thing, now: Scene, after: Scene) -> bool:
    """Whether the thing in this cell is carried afterwards."""
    thing = now.cells[cell]
    return (
        thing is not None and thing.load is None and carried(thing) == wanted and after.cells[cell] != thing
    )


def _carried_away(wanted: Thing, now: Scene, after: Scene) -> int | None:
    """The spot of a thing that is carried and will be this one."""
    for cell, thing in now.things.items():
        gone = after.cells[cell] is None or after.cells[cell] != thing
        if thing.load and gone and replace(thing.load.thing, size=wanted.size) == wanted:
            return CELLS + cell
    return None
