"""Random scenes, and operations that are possible in them, without held-out pairs of kind and colour.

They are of the part of the world that the benchmark is about; `wider_scenes` makes those of all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from random import Random

from interleave_mini.bench.splits import HELD_OUT_PAIRS, has_held_out_pair
from interleave_mini.world.kinds import BACKGROUNDS, COLOURS, KINDS, NOUNS
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
from interleave_mini.world.scene import CELLS, GRID, Gripper, Scene, Size, Thing

Maker = Callable[[Scene, Random], Operation]
"""Makes a random operation for a scene, or raises `Impossible` or IndexError."""
MAX_THINGS = 6
"""Of scenes in exact prompts and in the evaluation."""
COUNTS = (2, 10, 12, 10, 8, 6, 4, 2, 1, 1)
"""How often a random scene has nothing in it, one thing, two, up to nine."""
_NOUNS = tuple(NOUNS)
_COLOURS = tuple(COLOURS)
_PAIRS = tuple(
    (noun, colour) for noun in _NOUNS for colour in _COLOURS if (NOUNS[noun][0], colour) not in HELD_OUT_PAIRS
)


def random_scene(rng: Random, things: int | None = None) -> Scene:
    """Some things on a background, a few of them alike; now and then a gripper with blocks."""
    background = rng.choice(BACKGROUNDS)
    if things is None and rng.random() < 0.08:
        return gripper_scene(background if rng.random() < 0.3 else "workbench", _COLOURS, rng)
    return filled(background, things, rng, random_thing, alike=0.12)


def random_thing(rng: Random) -> Thing:
    """Any noun in any colour that training may see; mostly large, as in stories."""
    noun, colour = rng.choice(_PAIRS)
    kind, state = NOUNS[noun]
    return Thing(kind, colour, Size.SMALL if rng.random() < 0.35 else Size.LARGE, state)


def random_operations(scene: Scene, rng: Random) -> tuple[Operation, ...] | None:
    """One possible operation in this scene (sometimes two); None when no try is possible."""
    made: list[Operation] = []
    for _ in range(2 if rng.random() < 0.08 else 1):
        operation = possible_operation(apply_all(made, scene), rng, _MAKERS)
        if operation is None:
            break
        made.append(operation)
    return tuple(made) or None


def _another_state(scene: Scene, rng: Random) -> Operation:
    changing = [cell for cell, thing in scene.things.items() if len(KINDS[thing.kind].states) > 1]
    cell = rng.choice(changing)
    thing = scene.things[cell]
    return ChangeState(cell, rng.randrange(len(KINDS[thing.kind].states)))


def _other(scene: Scene, rng: Random) -> Operation:
    cell = any_cell(scene, rng)
    new = random_thing(rng)
    return Replace(cell, replace(new, size=scene.things[cell].size))


_MAKERS: tuple[Maker, ...] = (
    lambda scene, rng: Add(random_thing(rng), free_cell(scene, rng)),
    lambda scene, rng: Add(random_thing(rng), free_cell(scene, rng)),
    lambda scene, rng: Remove(any_cell(scene, rng)),
    lambda scene, rng: Recolour(any_cell(scene, rng), rng.choice(_COLOURS)),
    lambda scene, rng: Resize(any_cell(scene, rng), rng.choice(list(Size))),
    lambda scene, rng: Move(any_cell(scene, rng), free_cell(scene, rng)),
    lambda scene, rng: Move(any_cell(scene, rng), free_cell(scene, rng)),
    *([lambda scene, rng: Swap(any_cell(scene, rng), any_cell(scene, rng))] * 3),  # the hardest
    _another_state,
    _another_state,
    _other,
    lambda scene, rng: ChangeBackground(rng.choice(BACKGROUNDS)),
)


# Parts of all random scenes


def filled(
    background: str, things: int | None, rng: Random, make: Callable[[Random], Thing], alike: float
) -> Scene:
    """A scene with this number of things, or a random one; a share of them is like another of them."""
    count = things if things is not None else rng.choices(range(CELLS + 1), COUNTS)[0]
    chosen: dict[int, Thing] = {}
    for cell in rng.sample(range(CELLS), count):
        copies = chosen and rng.random() < alike
        chosen[cell] = rng.choice(list(chosen.values())) if copies else make(rng)
    return Scene.of(background, chosen)


def gripper_scene(background: str, colours: Sequence[str], rng: Random) -> Scene:
    """A few small blocks below a gripper, which may hold another."""
    cells = rng.sample(range(GRID, CELLS), rng.randint(1, 4))
    blocks = {cell: Thing("block", rng.choice(colours), Size.SMALL) for cell in cells}
    return Scene.of(background, blocks, Gripper(rng.randrange(GRID), rng.choice((None, *colours))))


def possible_operation(scene: Scene, rng: Random, makers: Sequence[Maker]) -> Operation | None:
    """An operation of one of the makers, or often one of the gripper; None when no try is possible."""
    makers = _HANDLING if scene.gripper is not None and rng.random() < 0.7 else makers
    for _ in range(8):
        with suppress(Impossible, IndexError):
            operation = rng.choice(makers)(scene, rng)
            if not has_held_out_pair(operation.apply(scene)):
                return operation
    return None


def any_cell(scene: Scene, rng: Random) -> int:
    """A cell with a thing in it; an IndexError if there is none."""
    return rng.choice(list(scene.things))


def free_cell(scene: Scene, rng: Random) -> int:
    """A cell where a thing can be put; an IndexError if there is none."""
    return rng.choice([cell for cell in range(CELLS) if scene.is_free(cell)])


_HANDLING: tuple[Maker, ...] = (
    lambda scene, rng: Pick(any_cell(scene, rng)),
    lambda scene, rng: Place(free_cell(scene, rng)),
)
