"""Random scenes, and operations that are possible in them, without held-out pairs of kind and colour."""

from __future__ import annotations

from collections.abc import Callable
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
        return _bench(background if rng.random() < 0.3 else "workbench", rng)
    count = things if things is not None else rng.choices(range(CELLS + 1), COUNTS)[0]
    cells = rng.sample(range(CELLS), count)
    chosen: dict[int, Thing] = {}
    for cell in cells:
        alike = chosen and rng.random() < 0.12
        chosen[cell] = rng.choice(list(chosen.values())) if alike else random_thing(rng)
    return Scene.of(background, chosen)


def random_thing(rng: Random) -> Thing:
    """Any noun in any colour that training may see; mostly large, as in stories."""
    noun, colour = rng.choice(_PAIRS)
    kind, state = NOUNS[noun]
    return Thing(kind, colour, Size.SMALL if rng.random() < 0.35 else Size.LARGE, state)


def _bench(background: str, rng: Random) -> Scene:
    cells = rng.sample(range(GRID, CELLS), rng.randint(1, 4))
    blocks = {cell: Thing("block", rng.choice(_COLOURS), Size.SMALL) for cell in cells}
    return Scene.of(background, blocks, Gripper(rng.randrange(GRID), rng.choice((None, *_COLOURS))))


def random_operations(scene: Scene, rng: Random) -> tuple[Operation, ...] | None:
    """One possible operation in this scene (sometimes two); None when no try is possible."""
    made: list[Operation] = []
    for _ in range(2 if rng.random() < 0.08 else 1):
        operation = _random_operation(apply_all(made, scene), rng)
        if operation is None:
            break
        made.append(operation)
    return tuple(made) or None


def _random_operation(scene: Scene, rng: Random) -> Operation | None:
    makers = _HANDLING if scene.gripper is not None and rng.random() < 0.7 else _MAKERS
    for _ in range(8):
        maker = rng.choice(makers)
        with suppress(Impossible, IndexError):
            operation = maker(scene, rng)
            if not has_held_out_pair(operation.apply(scene)):
                return operation
    return None


def _cell(scene: Scene, rng: Random) -> int:
    return rng.choice(list(scene.things))


def _free(scene: Scene, rng: Random) -> int:
    return rng.choice([cell for cell in range(CELLS) if scene.is_free(cell)])


def _another_state(scene: Scene, rng: Random) -> Operation:
    changing = [cell for cell, thing in scene.things.items() if len(KINDS[thing.kind].states) > 1]
    cell = rng.choice(changing)
    thing = scene.things[cell]
    return ChangeState(cell, rng.randrange(len(KINDS[thing.kind].states)))


def _other(scene: Scene, rng: Random) -> Operation:
    cell = _cell(scene, rng)
    new = random_thing(rng)
    return Replace(cell, replace(new, size=scene.things[cell].size))


_MAKERS: tuple[Callable[[Scene, Random], Operation], ...] = (
    lambda scene, rng: Add(random_thing(rng), _free(scene, rng)),
    lambda scene, rng: Add(random_thing(rng), _free(scene, rng)),
    lambda scene, rng: Remove(_cell(scene, rng)),
    lambda scene, rng: Recolour(_cell(scene, rng), rng.choice(_COLOURS)),
    lambda scene, rng: Resize(_cell(scene, rng), rng.choice(list(Size))),
    lambda scene, rng: Move(_cell(scene, rng), _free(scene, rng)),
    lambda scene, rng: Move(_cell(scene, rng), _free(scene, rng)),
    *([lambda scene, rng: Swap(_cell(scene, rng), _cell(scene, rng))] * 3),  # the hardest
    _another_state,
    _another_state,
    _other,
    lambda scene, rng: ChangeBackground(rng.choice(BACKGROUNDS)),
)
_HANDLING: tuple[Callable[[Scene, Random], Operation], ...] = (
    lambda scene, rng: Pick(_cell(scene, rng)),
    lambda scene, rng: Place(_free(scene, rng)),
)
