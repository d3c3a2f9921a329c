"""Mistakes that generators make, made on purpose: for critics to find and tests to catch.

A generator rarely paints something that was not mentioned. More often it carries out an edit wrongly: it
recolours the small star instead of the large one, or changes the first of three things and not the others. A
critic has to have seen such images.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from random import Random

from interleave import InputError
from interleave_mini.world.operations import (
    ChangeBackground,
    Impossible,
    Move,
    Operation,
    Put,
    PutNew,
    changes,
)
from interleave_mini.world.scene import CELLS, GRID, Load, Relation, Scene, Size, Thing, carried
from interleave_mini.world.wider import ALL_BACKGROUNDS, ALL_COLOURS, ALL_KINDS, DAY_OF, NIGHT_OF

WRONG_EDIT_SHARE = 0.6
"""The share of mistakes that are wrong edits, where there was an image before."""
WRONG_STATE_SHARE = 0.3
"""The share of other mistakes that are wrong states, where something has states: critics miss these most."""
WRONG_LOAD_SHARE = 0.4
"""The share of other mistakes that are about what is carried, where something carries another."""
FIRST_MISSING_SHARE = 0.15
"""The share of mistakes in first images where one of several things is missing: critics miss these next."""
_TRIES = 8
_KINDS, _COLOURS = tuple(ALL_KINDS), tuple(ALL_COLOURS)


def with_mistake(scene: Scene, rng: Random, before: Scene | None = None) -> Scene:
    """The scene with one mistake in it: never the same scene."""
    if before is not None and rng.random() < WRONG_EDIT_SHARE:
        badly_done = wrong_edit(before, scene, rng)
        if badly_done is not None:
            return badly_done
    things = scene.things
    if len(scene.everything) > len(things) and rng.random() < WRONG_LOAD_SHARE:
        wrong = _wrong_load(scene, rng)
        if wrong != scene:
            return wrong
    if rng.random() < WRONG_STATE_SHARE and (wrong := _wrong_state(scene, rng)) != scene:
        return wrong
    if before is None and len(things) > 1 and rng.random() < FIRST_MISSING_SHARE:
        return _missing(scene, rng)
    ways = [_something_extra, _wrong_background, _wrong_time_of_day, *(_OF_A_THING if things else ())]
    while True:
        with suppress(InputError):  # what carries something keeps its size
            wrong = rng.choice(ways)(scene, rng)
            if wrong != scene:
                return wrong


def _wrong_colour(scene: Scene, rng: Random) -> Scene:
    return _changed(scene, rng, lambda thing: replace(thing, colour=rng.choice(_COLOURS)))


def _wrong_size(scene: Scene, rng: Random) -> Scene:
    cell, thing = rng.choice(list(scene.things.items()))
    return scene.with_cell(cell, replace(thing, size=rng.choice(list(Size))))


def _wrong_kind(scene: Scene, rng: Random) -> Scene:
    return _changed(scene, rng, lambda thing: _turned(thing, rng.choice(_KINDS), 0))


def _missing(scene: Scene, rng: Random) -> Scene:
    return _changed(scene, rng, lambda thing: None)


def _misplaced(scene: Scene, rng: Random) -> Scene:
    cell, to = rng.choice(list(scene.things)), rng.randrange(CELLS)
    return scene.with_cell(cell, None).with_cell(to, scene.cells[cell]) if scene.is_free(to) else scene


def _wrong_state(scene: Scene, rng: Random) -> Scene:
    """A tadpole instead of a frog; the same scene where nothing in it has states."""
    changing = [spot for spot, thing in scene.everything.items() if len(ALL_KINDS[thing.kind].states) > 1]
    thing = scene.at(spot := rng.choice(changing)) if changing else None
    if thing is None:
        return scene
    state = rng.randrange(len(ALL_KINDS[thing.kind].states))
    return scene.with_spot(spot, _turned(thing, thing.kind, state))


def _turned(thing: Thing, kind: str, state: int) -> Thing:
    """The thing as another kind or in another state; it loses what that cannot carry."""
    alone = replace(thing.alone, kind=kind, state=state)
    load = thing.load
    return replace(alone, load=load) if load and load.relation.is_possible_with(alone.noun) else alone


def _wrong_load(scene: Scene, rng: Random) -> Scene:
    """Something carried stands alone, is carried by another or in another way, or is another thing."""
    spot = rng.choice([spot for spot in scene.everything if spot >= CELLS])
    carrier = scene.cells[spot - CELLS]
    if carrier is None or carrier.load is None:
        return scene
    load = carrier.load
    way = rng.randrange(5)
    if way == 0:
        return _apply_possible([Move(spot, rng.randrange(CELLS))], scene)
    if way == 1:
        to = rng.choice(list(scene.things))
        return _apply_possible([Put(spot, relation, to) for relation in (load.relation, Relation.ON)], scene)
    if way == 2:
        others = [each for each in Relation if each.is_possible_with(carrier.noun)]
        other = replace(load, relation=rng.choice(others))
        return scene.with_cell(spot - CELLS, replace(carrier, load=other))
    if way == 3:
        return scene.with_spot(spot, _anything(rng))
    return scene.with_spot(spot, None)


def _extra_load(scene: Scene, rng: Random) -> Scene:
    """A thing that should stand alone is carried, or something else is."""
    cell, carrier = rng.choice(list(scene.things.items()))
    relations = [each for each in Relation if each.is_possible_with(carrier.noun)]
    if not relations or carrier.load is not None:
        return scene
    relation, others = rng.choice(relations), [each for each in scene.things if each != cell]
    if others and rng.random() < 0.6:
        return _apply_possible([Put(rng.choice(others), relation, cell)], scene)
    return scene.with_cell(cell, replace(carrier, load=Load(relation, carried(_anything(rng)))))


def _anything(rng: Random) -> Thing:
    kind = rng.choice(_KINDS)
    state = rng.choice((0, rng.randrange(len(ALL_KINDS[kind].states))))
    return Thing(kind, rng.choice(_COLOURS), rng.choice(list(Size)), state)


def _one_more(scene: Scene, rng: Random) -> Scene:
    """A thing is there twice."""
    cell = rng.randrange(CELLS)
    return scene.with_cell(cell, rng.choice(list(scene.things.values()))) if scene.is_free(cell) else scene


def _wrong_background(scene: Scene, rng: Random) -> Scene:
    return replace(scene, background=rng.choice(ALL_BACKGROUNDS))


def _wrong_time_of_day(scene: Scene, rng: Random) -> Scene:
    other = (NIGHT_OF | DAY_OF).get(scene.background, scene.background)
    return replace(scene, background=other)


def _something_extra(scene: Scene, rng: Random) -> Scene:
    cell = rng.randrange(CELLS)
    return scene.with_cell(cell, _anything(rng)) if scene.is_free(cell) else scene


def _changed(scene: Scene, rng: Random, change: Callable[[Thing], Thing | None]) -> Scene:
    spot, thing = rng.choice(list(scene.everything.items()))
    return scene.with_spot(spot, change(thing))


_OF_A_THING: tuple[Callable[[Scene, Random], Scene], ...] = (
    _wrong_colour,
    _wrong_size,
    _wrong_state,
    _missing,
    _one_more,
    _wrong_kind,
    _misplaced,
    _extra_load,
)


# Mistakes of the whole image; critics are trained on the other ones only


def with_mistake_of_the_image(scene: Scene, rng: Random) -> Scene:
    """The scene with everything in it wrong in one way; the same scene where no way changes it."""
    ways = [_all_in_one_colour, _all_of_the_other_size]
    if scene.gripper is None:  # it hangs where a mirrored thing might stand
        ways += [_mirrored, _turned_upside_down]
    rng.shuffle(ways)
    if any(thing.load for thing in scene.things.values()):  # what carries something keeps its size
        ways.remove(_all_of_the_other_size)
    wrongs = (way(scene, rng) for way in ways)
    return next((wrong for wrong in wrongs if wrong != scene), scene)


def _mirrored(scene: Scene, rng: Random) -> Scene:
    return replace(
        scene, cells=tuple(scene.cells[cell - cell % GRID * 2 + GRID - 1] for cell in range(CELLS))
    )


def _turned_upside_down(scene: Scene, rng: Random) -> Scene:
    return replace(scene, cells=scene.cells[::-1])


def _all_in_one_colour(scene: Scene, rng: Random) -> Scene:
    colour = rng.choice(_COLOURS)
    return _all_changed(scene, lambda thing: replace(thing, colour=colour))


def _all_of_the_other_size(scene: Scene, rng: Random) -> Scene:
    other = {Size.SMALL: Size.LARGE, Size.LARGE: Size.SMALL}
    return _all_changed(scene, lambda thing: replace(thing, size=other[thing.size]))


def _all_changed(scene: Scene, change: Callable[[Thing], Thing]) -> Scene:
    return replace(scene, cells=tuple(thing and change(thing) for thing in scene.cells))


# Edits carried out wrongly


def wrong_edit(before: Scene, after: Scene, rng: Random) -> Scene | None:
    """The result of carrying out the edit from `before` to `after` wrongly; None when no try differs."""
    try:
        edit = changes(before, after)
    except Impossible:  # a gripper cannot have done that
        return None
    for _ in range(_TRIES if edit else 0):
        wrong = rng.choice(_WRONG_EDITS)(before, after, edit, rng)
        if wrong is not None and wrong != after:
            return wrong
    return None


def _not_done(before: Scene, after: Scene, edit: Sequence[Operation], rng: Random) -> Scene:
    """One operation is left out, or all of them."""
    left_out = rng.randrange(len(edit))
    keeps = rng.random() < 0.5
    done = [each for number, each in enumerate(edit) if keeps and number != left_out]
    return _apply_possible(done, before)


def _wrong_target(before: Scene, after: Scene, edit: Sequence[Operation], rng: Random) -> Scene | None:
    """One operation is applied to another thing: the small star is painted instead of the large one."""
    number = rng.randrange(len(edit))
    redirected = _redirected(edit[number], before, after, rng)
    if redirected is None:
        return None
    return _apply_possible((*edit[:number], redirected, *edit[number + 1 :]), before)


def _extra_target(before: Scene, after: Scene, edit: Sequence[Operation], rng: Random) -> Scene | None:
    """The edit is done, and one operation is applied to another thing as well."""
    redirected = _redirected(rng.choice(edit), before, after, rng)
    return None if redirected is None else _apply_possible((*edit, redirected), before)


def _drawn_over_another(before: Scene, after: Scene, edit: Sequence[Operation], rng: Random) -> Scene | None:
    """The changed thing is drawn where another one was, and the one to change is as before."""
    changed = [cell for cell, thing in after.things.items() if before.cells[cell] not in (None, thing)]
    if not changed:
        return None
    cell = rng.choice(changed)
    other = _look_alike(cell, before, after, rng)
    if other is None:
        return None
    return after.with_cell(cell, before.cells[cell]).with_cell(other, after.cells[cell])


def _permuted(before: Scene, after: Scene, edit: Sequence[Operation], rng: Random) -> Scene | None:
    """Two or three things stand in each other's cells."""
    count = rng.choice((2, 3))
    if len(after.things) < count:
        return None
    cells = rng.sample(list(after.things), count)
    wrong = after
    for cell, source in zip(cells, (*cells[1:], cells[0]), strict=True):
        wrong = wrong.with_cell(cell, after.cells[source])
    return wrong


_WRONG_EDITS = (
    _not_done,
    *(_wrong_target, _wrong_target),  # often impossible, and what generators do most
    _extra_target,
    _drawn_over_another,
    _permuted,
)


def _redirected(operation: Operation, before: Scene, after: Scene, rng: Random) -> Operation | None:
    """The same operation on another thing, preferably a look-alike."""
    if isinstance(operation, Put | PutNew):
        carrier = _look_alike(operation.to, before, after, rng)
        return None if carrier is None else replace(operation, to=carrier)
    if isinstance(operation, ChangeBackground) or before.at(operation.cell) is None:
        return None
    other = _look_alike(operation.cell, before, after, rng)
    return None if other is None else replace(operation, cell=other)


def _look_alike(cell: int, before: Scene, after: Scene, rng: Random) -> int | None:
    """The cell of another thing that should stay as it is; the more alike, the likelier."""
    meant = before.at(cell)
    others = [each for each, thing in before.things.items() if each != cell and thing == after.cells[each]]
    if meant is None or not others:
        return None
    return rng.choices(others, [1 + _likeness(meant, thing) for thing in map(before.things.get, others)])[0]


def _likeness(one: Thing, other: Thing | None) -> int:
    return 0 if other is None else 6 * (one.kind == other.kind) + 3 * (one.colour == other.colour)


def _apply_possible(operations: Sequence[Operation], scene: Scene) -> Scene:
    """Apply the operations in order, leaving out those that cannot be applied."""
    for operation in operations:
        with suppress(Impossible):
            scene = operation.apply(scene)
    return scene
