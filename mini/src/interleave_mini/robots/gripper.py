"""What the gripper really does when it is told to do something: it errs as robots do.

It misses the block, takes another one, lets it fall on the way, puts it beside its place, or pushes another
block away. All of that leaves the bench in a scene that a camera sees and a critic has to judge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from random import Random

from interleave_mini.language.patterns import NotUnderstood
from interleave_mini.language.sentences import parse_sentence
from interleave_mini.world.operations import Impossible, Operation, Pick, Place
from interleave_mini.world.scene import CELLS, GRID, Gripper, Scene, Size, Thing

_TRIES = 12


def carry_out(instruction: str, scene: Scene, rng: Random, *, errs: float = 0.0) -> Scene:
    """The scene after the gripper has followed an instruction of one or more sentences, erring now and then.

    What it does not understand, or cannot do here, it leaves undone.
    """
    for sentence in (part.strip() for part in instruction.split(".")):
        try:
            operations = parse_sentence(sentence, scene) if sentence else ()
        except (NotUnderstood, Impossible):
            continue
        for operation in operations:
            if not isinstance(operation, Pick | Place):
                continue
            if rng.random() < errs:
                scene = badly_done(operation, scene, rng)
            else:
                with suppress(Impossible):
                    scene = operation.apply(scene)
    return scene


def badly_done(operation: Operation, scene: Scene, rng: Random) -> Scene:
    """The scene after a sub-task that went wrong; never the one that it should have led to."""
    right = operation.apply(scene)
    ways = _BAD_PICKS if isinstance(operation, Pick) else _BAD_PLACES
    for _ in range(_TRIES):
        with suppress(Impossible):
            wrong = rng.choice(ways)(operation, scene, rng)
            if not same_state(wrong, right):
                return wrong
    return scene


def same_state(shown: Scene, wanted: Scene) -> bool:
    """Whether everything is where it should be, above whichever column the gripper hangs."""
    return replace(shown, gripper=None) == replace(wanted, gripper=None) and _holds(shown) == _holds(wanted)


def correction(shown: Scene, wanted: Scene) -> tuple[Operation, ...]:
    """What the gripper has to do now, so that everything is where it should be; raises `Impossible`."""
    now, done = shown, list[Operation]()

    def do(operation: Operation) -> None:
        nonlocal now
        now = operation.apply(now)
        done.append(operation)

    for _ in range(CELLS):
        if same_state(now, wanted):
            return tuple(done)
        if _holds(now) is not None:
            do(Place(_where_it_belongs(now, wanted)))
        else:
            do(Pick(_next_to_pick(now, wanted)))
    raise Impossible("the gripper cannot put this right")


def _holds(scene: Scene) -> str | None:
    return scene.gripper.holds if scene.gripper else None


def _where_it_belongs(now: Scene, wanted: Scene) -> int:
    """The free cell where the block in the gripper is wanted; else one that stays out of the way."""
    block = Thing("block", _holds(now) or "", Size.SMALL)
    free = [cell for cell in range(GRID, CELLS) if now.is_free(cell)]
    if not free:
        raise Impossible("there is no room")
    at_home = [cell for cell in free if wanted.cells[cell] == block]
    out_of_the_way = [cell for cell in free if wanted.cells[cell] is None]
    return (at_home or out_of_the_way or free)[0]


def _next_to_pick(now: Scene, wanted: Scene) -> int:
    """A block that is not where it should be: the one the gripper is to hold last of all."""
    wrong = [cell for cell in range(GRID, CELLS) if now.cells[cell] not in (None, wanted.cells[cell])]
    held = _holds(wanted)
    others = [cell for cell in wrong if not _is_block(now, cell, held)]
    free = [cell for cell in others if _has_a_free_home(now, wanted, cell)]
    if not (free or others or wrong):
        raise Impossible("nothing is where it should not be")
    return (free or others or wrong)[0]


def _has_a_free_home(now: Scene, wanted: Scene, cell: int) -> bool:
    return any(now.is_free(home) and wanted.cells[home] == now.cells[cell] for home in range(GRID, CELLS))


def _is_block(scene: Scene, cell: int, colour: str | None) -> bool:
    thing = scene.cells[cell]
    return thing is not None and thing.kind == "block" and thing.colour == colour


# What goes wrong

Mishap = Callable[[Operation, Scene, Random], Scene]


def _missed(operation: Operation, scene: Scene, rng: Random) -> Scene:
    """It goes there, grasps nothing and comes up empty."""
    return replace(scene, gripper=Gripper(_column(operation)))


def _nothing(operation: Operation, scene: Scene, rng: Random) -> Scene:
    return scene


def _another_block(operation: Operation, scene: Scene, rng: Random) -> Scene:
    others = [cell for cell in _blocks(scene) if cell != _cell(operation)]
    return Pick(_one_of(others, rng)).apply(scene)


def _let_fall(operation: Operation, scene: Scene, rng: Random) -> Scene:
    """The block is lifted and falls somewhere else."""
    lifted = operation.apply(scene) if isinstance(operation, Pick) else scene
    return Place(_one_of(_free(lifted), rng)).apply(lifted)


def _beside_its_place(operation: Operation, scene: Scene, rng: Random) -> Scene:
    return Place(_one_of([cell for cell in _free(scene) if cell != _cell(operation)], rng)).apply(scene)


def _still_held(operation: Operation, scene: Scene, rng: Random) -> Scene:
    """It goes there and does not let go."""
    return replace(scene, gripper=Gripper(_column(operation), _holds(scene)))


def _pushed_another(operation: Operation, scene: Scene, rng: Random) -> Scene:
    """The sub-task is done, and another block is pushed to a place beside its own."""
    after = operation.apply(scene)
    cell = _one_of([each for each in _blocks(after) if each != _cell(operation)], rng)
    to = _one_of(_free(after), rng)
    return after.with_cell(cell, None).with_cell(to, after.cells[cell])


_BAD_PICKS: Sequence[Mishap] = (_missed, _missed, _nothing, _another_block, _let_fall, _pushed_another)
_BAD_PLACES: Sequence[Mishap] = (_beside_its_place, _beside_its_place, _still_held, _nothing, _pushed_another)


def _cell(operation: Operation) -> int:
    if not isinstance(operation, Pick | Place):
        raise Impossible("the gripper picks up blocks and puts them down")
    return operation.cell


def _column(operation: Operation) -> int:
    return _cell(operation) % GRID


def _blocks(scene: Scene) -> list[int]:
    small = [
        cell for cell, thing in scene.things.items() if (thing.kind, thing.size) == ("block", Size.SMALL)
    ]
    return [cell for cell in small if cell >= GRID]


def _free(scene: Scene) -> list[int]:
    return [cell for cell in range(GRID, CELLS) if scene.is_free(cell)]


def _one_of(cells: Sequence[int], rng: Random) -> int:
    if not cells:
        raise Impossible("there is no such place")
    return rng.choice(cells)
