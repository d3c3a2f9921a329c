"""Wishes taken wrongly, on purpose: left undone, done to something else, done to one thing too many.

A generator rarely paints something nobody spoke of. It paints the small star where the large one was meant,
or the first of three things and not the others; a critic has to have seen such pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from random import Random

from interleave_mini.world.changes import changes
from interleave_mini.world.operations import ChangeBackground, Impossible, Operation
from interleave_mini.world.scene import Scene, Thing

_TRIES = 8


def misunderstood(before: Scene, after: Scene, rng: Random) -> Scene | None:
    """What one who takes the wish wrongly may draw instead of `after`; None when chance finds nothing."""
    try:
        wish = changes(before, after)
    except Impossible:  # a gripper cannot have done that
        return None
    for _ in range(_TRIES if wish else 0):
        wrong = rng.choice(_WAYS)(before, after, wish, rng)
        if wrong is not None and wrong != after:
            return wrong
    return None


def _left_undone(before: Scene, after: Scene, wish: Sequence[Operation], rng: Random) -> Scene:
    """Some of it, or all: who is asked for one thing leaves it as it is."""
    left_out = rng.randrange(len(wish))
    keeps = rng.random() < 0.5
    done = [each for number, each in enumerate(wish) if keeps and number != left_out]
    return _as_far_as_it_goes(done, before)


def _done_to_another(before: Scene, after: Scene, wish: Sequence[Operation], rng: Random) -> Scene | None:
    """The small star is painted instead of the large one."""
    number = rng.randrange(len(wish))
    another = _redirected(wish[number], before, after, rng)
    if another is None:
        return None
    return _as_far_as_it_goes((*wish[:number], another, *wish[number + 1 :]), before)


def _done_to_another_too(before: Scene, after: Scene, wish: Sequence[Operation], rng: Random) -> Scene | None:
    another = _redirected(rng.choice(wish), before, after, rng)
    return None if another is None else _as_far_as_it_goes((*wish, another), before)


def _drawn_over_another(before: Scene, after: Scene, wish: Sequence[Operation], rng: Random) -> Scene | None:
    """What should have become of one thing stands where another was, and the first is as before."""
    become = [cell for cell, thing in after.things.items() if before.cells[cell] not in (None, thing)]
    if not become:
        return None
    cell = rng.choice(become)
    other = _look_alike(cell, before, after, rng)
    if other is None:
        return None
    return after.with_cell(cell, before.cells[cell]).with_cell(other, after.cells[cell])


def _mixed_up(before: Scene, after: Scene, wish: Sequence[Operation], rng: Random) -> Scene | None:
    """Two or three things stand in each other's places."""
    count = rng.choice((2, 3))
    if len(after.things) < count:
        return None
    cells = rng.sample(list(after.things), count)
    wrong = after
    for cell, source in zip(cells, (*cells[1:], cells[0]), strict=True):
        wrong = wrong.with_cell(cell, after.cells[source])
    return wrong


_WAYS = (
    _left_undone,
    *(_done_to_another, _done_to_another),  # often impossible, and what generators do most
    _done_to_another_too,
    _drawn_over_another,
    _mixed_up,
)


def _redirected(operation: Operation, before: Scene, after: Scene, rng: Random) -> Operation | None:
    """The same done to another thing, one that looks alike if there is one."""
    if isinstance(operation, ChangeBackground) or before.cells[operation.cell] is None:
        return None
    other = _look_alike(operation.cell, before, after, rng)
    return None if other is None else replace(operation, cell=other)


def _look_alike(cell: int, before: Scene, after: Scene, rng: Random) -> int | None:
    """Another thing that should stay as it is; the more it is like the one meant, the likelier."""
    meant = before.cells[cell]
    others = [each for each, thing in before.things.items() if each != cell and thing == after.cells[each]]
    if meant is None or not others:
        return None
    return rng.choices(others, [1 + _likeness(meant, thing) for thing in map(before.things.get, others)])[0]


def _likeness(one: Thing, other: Thing | None) -> int:
    return 0 if other is None else 6 * (one.kind == other.kind) + 3 * (one.colour == other.colour)


def _as_far_as_it_goes(operations: Sequence[Operation], scene: Scene) -> Scene:
    for operation in operations:
        with suppress(Impossible):
            scene = operation.apply(scene)
    return scene
