"""Random scenes of the whole world, and operations that are possible in them, without held-out pairs.

`random_scenes` has those that the shipped planner and critic have learned; tasks of the benchmark are made of
them and stay the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from interleave_mini.bench.random_scenes import (
    Maker,
    any_cell,
    filled,
    free_cell,
    gripper_scene,
    possible_operation,
)
from interleave_mini.bench.splits import is_held_out_pair
from interleave_mini.world.operations import (
    Add,
    ChangeBackground,
    ChangeState,
    Move,
    Operation,
    Put,
    PutNew,
    Recolour,
    Remove,
    Replace,
    Resize,
    Swap,
    apply_all,
    daybreak,
    nightfall,
)
from interleave_mini.world.scene import CELLS, Load, Relation, Scene, Size, Thing, carried
from interleave_mini.world.wider import (
    ALL_BACKGROUNDS,
    ALL_COLOURS,
    ALL_KINDS,
    ALL_NOUNS,
    CONTAINERS,
    HOLDERS,
    NOT_STOOD_ON,
    SHELTERS,
)

_NOUNS, _COLOURS = tuple(ALL_NOUNS), tuple(ALL_COLOURS)
_CARRIERS: dict[Relation, Sequence[str]] = {
    Relation.ON: [noun for noun in _NOUNS if noun not in NOT_STOOD_ON],
    Relation.IN: [*CONTAINERS],
    Relation.UNDER: [*SHELTERS],
    Relation.HELD: sorted(HOLDERS),
}
_CARRIER_SHARE, _LOADED_SHARE = 0.3, 0.6
"""The share of things that are likely carriers, and of these, of those that carry something."""
_USUAL_COLOUR, _SMALL, _ALIKE, _GRIPPER = 0.25, 0.3, 0.1, 0.04


def wider_scene(rng: Random, things: int | None = None) -> Scene:
    """Some things on a background, a few of them alike; some carry others; now and then a gripper."""
    background = rng.choice(ALL_BACKGROUNDS)
    if things is None and rng.random() < _GRIPPER:
        return gripper_scene(background, _COLOURS, rng)
    return filled(background, things, rng, _something, _ALIKE)


def wider_thing(rng: Random, nouns: Sequence[str] = _NOUNS) -> Thing:
    """Any of these nouns in any colour that training may see."""
    while True:
        kind, state = ALL_NOUNS[rng.choice(nouns)]
        usual = rng.random() < _USUAL_COLOUR
        colour = ALL_KINDS[kind].colour if usual else rng.choice(_COLOURS)
        thing = Thing(kind, colour, Size.SMALL if rng.random() < _SMALL else Size.LARGE, state)
        if not is_held_out_pair(thing):
            return thing


def _something(rng: Random) -> Thing:
    if rng.random() >= _CARRIER_SHARE:
        return wider_thing(rng)
    relation = rng.choice(list(Relation))
    carrier = replace(wider_thing(rng, _CARRIERS[relation]), size=Size.LARGE)
    if rng.random() >= _LOADED_SHARE:
        return carrier
    return replace(carrier, load=Load(relation, carried(wider_thing(rng))))


def wider_operations(scene: Scene, rng: Random, *, most: int = 2) -> tuple[Operation, ...] | None:
    """One possible operation in this scene, sometimes more; None when no try is possible."""
    made: list[Operation] = []
    count = 1
    while count < most and rng.random() < 0.15:
        count += 1
    for _ in range(count):
        operation = possible_operation(apply_all(made, scene), rng, _MAKERS)
        if operation is None:
            break
        made.append(operation)
    return tuple(made) if made and apply_all(made, scene) != scene else None


def _spot(scene: Scene, rng: Random) -> int:
    return rng.choice(list(scene.everything))


def _load(scene: Scene, rng: Random) -> int:
    return rng.choice([spot for spot in scene.everything if spot >= CELLS])


def _relation(scene: Scene, cell: int, rng: Random) -> Relation:
    """A relation that the thing in this cell allows; any but "on" preferably, which nearly all allow."""
    noun = scene.things[cell].noun
    others = [each for each in Relation if each is not Relation.ON and each.is_possible_with(noun)]
    return rng.choice(others) if others and rng.random() < 0.75 else Relation.ON


def _put(scene: Scene, rng: Random) -> Operation:
    cell = any_cell(scene, rng)
    return Put(_spot(scene, rng), _relation(scene, cell, rng), cell)


def _put_new(scene: Scene, rng: Random) -> Operation:
    cell = any_cell(scene, rng)
    return PutNew(wider_thing(rng), _relation(scene, cell, rng), cell)


def _another_state(scene: Scene, rng: Random) -> Operation:
    spot = rng.choice([at for at, thing in scene.everything.items() if len(ALL_KINDS[thing.kind].states) > 1])
    return ChangeState(spot, rng.randrange(len(ALL_KINDS[scene.everything[spot].kind].states)))


def _other(scene: Scene, rng: Random) -> Operation:
    spot = _spot(scene, rng)
    return Replace(spot, replace(wider_thing(rng), size=scene.everything[spot].size))


_MAKERS: tuple[Maker, ...] = (
    *[lambda scene, rng: Add(wider_thing(rng), free_cell(scene, rng))] * 2,
    lambda scene, rng: Remove(_spot(scene, rng)),
    lambda scene, rng: Recolour(_spot(scene, rng), rng.choice(_COLOURS)),
    lambda scene, rng: Resize(any_cell(scene, rng), rng.choice(list(Size))),
    *[lambda scene, rng: Move(any_cell(scene, rng), free_cell(scene, rng))] * 2,
    lambda scene, rng: Move(_load(scene, rng), free_cell(scene, rng)),
    *[lambda scene, rng: Swap(any_cell(scene, rng), any_cell(scene, rng))] * 2,
    *[_another_state] * 3,
    *[_put] * 2,
    *[_put_new] * 2,
    _other,
    lambda scene, rng: ChangeBackground(rng.choice(ALL_BACKGROUNDS)),
    lambda scene, rng: rng.choice((nightfall, daybreak))(scene),
)
