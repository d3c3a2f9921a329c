"""Random scenes, and random things that can happen in them, the same for the same seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from interleave_mini.world.drawing import THINGS
from interleave_mini.world.kinds import BACKGROUNDS, COLOURS
from interleave_mini.world.operations import (
    Add,
    ChangeBackground,
    ChangeState,
    Impossible,
    Move,
    Operation,
    Pick,
    Place,
    Put,
    PutNew,
    Recolour,
    Remove,
    Replace,
    Resize,
    Swap,
)
from interleave_mini.world.scene import CELLS, GRID, Gripper, Load, Relation, Scene, Size, Thing, carried
from interleave_mini.world.wider import ALL_BACKGROUNDS


def random_scene(rng: Random, *, least: int = 0, most: int = CELLS) -> Scene:
    """A scene without a gripper, things of every kind, colour and size anywhere; some carry others."""
    cells = rng.sample(range(CELLS), rng.randint(least, most))
    return Scene.of(rng.choice(ALL_BACKGROUNDS), {cell: random_thing(rng) for cell in cells})


def random_thing(rng: Random) -> Thing:
    """A thing of any kind; a fifth of those that can carry something do."""
    thing, relation = rng.choice(THINGS), rng.choice(list(Relation))
    if thing.size is Size.LARGE and relation.is_possible_with(thing.noun) and rng.random() < 0.2:
        return replace(thing, load=Load(relation, carried(rng.choice(THINGS))))
    return thing


def scene_with_gripper(rng: Random, *, holds: bool | None = None) -> Scene:
    """A gripper, small blocks below the top row, and now and then something else."""
    holds = rng.random() < 0.5 if holds is None else holds
    hand = Gripper(rng.randrange(GRID), rng.choice(list(COLOURS)) if holds else None)
    things = {
        cell: Thing("block", rng.choice(list(COLOURS)), Size.SMALL)
        for cell in rng.sample(range(GRID, CELLS), rng.randint(1, 4))
    }
    if rng.random() < 0.5:
        free = [cell for cell in range(CELLS) if cell != hand.column and cell not in things]
        things[rng.choice(free)] = rng.choice(THINGS)
    return Scene.of(rng.choice(BACKGROUNDS), things, hand)


_MAKERS: dict[type[Operation], Callable[[Random, int], Operation]] = {
    Add: lambda rng, cell: Add(rng.choice(THINGS), cell % CELLS),
    Remove: lambda rng, cell: Remove(cell),
    Recolour: lambda rng, cell: Recolour(cell, rng.choice(list(COLOURS))),
    Replace: lambda rng, cell: Replace(cell, rng.choice(THINGS)),
    Resize: lambda rng, cell: Resize(cell, rng.choice(list(Size))),
    Move: lambda rng, cell: Move(cell, rng.randrange(CELLS)),
    Swap: lambda rng, cell: Swap(cell, rng.randrange(CELLS)),
    ChangeState: lambda rng, cell: ChangeState(cell, rng.randrange(4)),
    ChangeBackground: lambda rng, cell: ChangeBackground(rng.choice(ALL_BACKGROUNDS)),
    Put: lambda rng, cell: Put(cell, rng.choice(list(Relation)), rng.randrange(CELLS)),
    PutNew: lambda rng, cell: PutNew(rng.choice(THINGS), rng.choice(list(Relation)), cell % CELLS),
    Pick: lambda rng, cell: Pick(cell),
    Place: lambda rng, cell: Place(cell % CELLS),
}
OPERATIONS = tuple(_MAKERS)
HANDLING = (Pick, Place)
ON_THE_GRID = tuple(each for each in OPERATIONS if each not in HANDLING)


def possible(kind: type[Operation], scene: Scene, rng: Random, tries: int = 60) -> Operation | None:
    """A random operation of this kind that can be done in this scene, if one is found."""
    for _ in range(tries):
        operation = _MAKERS[kind](rng, rng.choice([*scene.everything, rng.randrange(CELLS)]))
        try:
            operation.apply(scene)
        except Impossible:
            continue
        return operation
    return None


def scene_and(kind: type[Operation], rng: Random) -> tuple[Scene, Operation]:
    """A random scene with something of this kind that can happen in it."""
    while True:
        if kind in HANDLING:
            scene = scene_with_gripper(rng, holds=kind is Place)
        else:
            scene = random_scene(rng, most=6)
        operation = possible(kind, scene, rng)
        if operation is not None:
            return scene, operation
