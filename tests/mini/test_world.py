"""The miniature's world: what a scene may be, how it is drawn, and what can happen in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from itertools import product
from random import Random
from time import sleep

import numpy as np
import pytest
from samples import HANDLING, ON_THE_GRID, OPERATIONS, possible, random_scene, scene_and, scene_with_gripper

from interleave.errors import InputError
from interleave_mini.world import drawing, sprites
from interleave_mini.world.art import DRAWINGS
from interleave_mini.world.backgrounds import background
from interleave_mini.world.brush import painted_once
from interleave_mini.world.drawing import (
    THINGS,
    Pixels,
    TorchPainter,
    corner,
    draw,
    draw_many,
    draw_pixels,
    scene_codes,
    scene_of,
)
from interleave_mini.world.kinds import BACKGROUNDS, COLOURS, KINDS, NOUNS
from interleave_mini.world.mistakes import with_mistake
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
    changes,
)
from interleave_mini.world.scene import CELLS, GRID, Gripper, Scene, Size, Thing
from interleave_mini.world.sprites import CELL, PIXELS, sprite
from interleave_mini.world.wider import ALL_BACKGROUNDS, ALL_COLOURS, ALL_KINDS, ALL_NOUNS

CAT = Thing("cat", "red")
DOG = Thing("dog", "brown")
BLOCK = Thing("block", "blue", Size.SMALL)
NEAREST, NEAREST_COLOURS = {Size.LARGE: 10.0, Size.SMALL: 5.0}, 4.5
"""How far apart any two nouns are in one colour, and two colours of one noun, on average over their cell."""
LEARNED_DRAWINGS = "865d66ef4a3c6bc11573cb95875d9882dfca82620e9dd72451d3a25f5f5ae22e"
"""A digest of every drawing of the world that the shipped models were trained on."""


# Scenes


def test_the_world_is_as_rich_as_promised() -> None:
    assert len(KINDS) >= 54
    assert len(NOUNS) >= 84
    assert len(COLOURS) == 8
    assert len(BACKGROUNDS) == 12
    assert len({kind.category for kind in KINDS.values()}) >= 10


def test_the_whole_world_contains_what_the_planner_has_learned() -> None:
    assert (len(ALL_KINDS), len(ALL_NOUNS), len(ALL_COLOURS), len(ALL_BACKGROUNDS)) == (121, 364, 11, 47)
    for name, kind in KINDS.items():
        wider = ALL_KINDS[name]
        assert (wider.category, wider.colour, wider.usual) == (kind.category, kind.colour, kind.usual)
        assert wider.states[: len(kind.states)] == kind.states
    assert all(ALL_COLOURS[name] == colour for name, colour in COLOURS.items())
    assert ALL_BACKGROUNDS[: len(BACKGROUNDS)] == BACKGROUNDS
    assert DRAWINGS.keys() == ALL_NOUNS.keys()


def test_drawings_that_the_critic_has_learned_stay_as_they_are() -> None:
    digest = sha256()
    for noun, size in product(NOUNS, Size):
        kind, state = NOUNS[noun]
        for colour in COLOURS:
            digest.update(sprite(Thing(kind, colour, size, state)).tobytes())
    for name in BACKGROUNDS:
        digest.update(background(name).tobytes())
    assert digest.hexdigest() == LEARNED_DRAWINGS


def test_every_noun_belongs_to_one_kind_and_state() -> None:
    assert len(NOUNS) == sum(len(kind.states) for kind in KINDS.values())
    for noun, (kind, state) in NOUNS.items():
        assert Thing(kind, "red", state=state).noun == noun


@pytest.mark.parametrize(
    "make",
    [
        lambda: Thing("wizard", "red"),
        lambda: Thing("cat", "beige"),
        lambda: Thing("frog", "red", state=8),
        lambda: Thing("frog", "red", state=-1),
        lambda: Gripper(3),
        lambda: Gripper(0, "beige"),
        lambda: Scene("moonbase"),
        lambda: Scene("meadow", (None,) * 8),
        lambda: Scene.of("meadow", {1: CAT}, Gripper(1)),
    ],
    ids=[
        "kind",
        "colour",
        "state",
        "state below",
        "column",
        "held",
        "background",
        "cells",
        "gripper in thing",
    ],
)
def test_what_the_world_has_not_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(InputError):
        make()


def test_a_scene_is_a_value() -> None:
    scene = Scene.of("meadow", {4: CAT})
    assert scene == Scene("meadow").with_cell(4, CAT)
    assert hash(scene) == hash(Scene("meadow").with_cell(4, CAT))
    assert scene.things == {4: CAT}
    assert scene.with_cell(4, None) == Scene("meadow")


def test_a_place_under_the_gripper_is_not_free() -> None:
    scene = Scene.of("workbench", {4: BLOCK}, Gripper(0))
    assert [cell for cell in range(CELLS) if not scene.is_free(cell)] == [0, 4]


# Drawing


@pytest.mark.parametrize("noun", ALL_NOUNS)
def test_every_noun_is_drawn_inside_its_cell(noun: str) -> None:
    kind, state = ALL_NOUNS[noun]
    for colour, size in product(("red",), Size):  # in every colour a drawing has the same outline
        opacity = sprite(Thing(kind, colour, size, state))[..., 3]
        side = PIXELS[size]
        left, top = (CELL - side) // 2, CELL - side - 2
        canvas = opacity[top : top + side, left : left + side]
        rim = np.concatenate([canvas[0], canvas[-1], canvas[:, 0], canvas[:, -1]])
        assert canvas.sum() == opacity.sum(), f"{size.value} {colour} {noun} leaves its place"
        assert rim.max() <= 128, f"{size.value} {colour} {noun} is cut off at an edge"
        assert np.count_nonzero(opacity > 128) > 60, f"{size.value} {colour} {noun} can hardly be seen"


def test_a_large_thing_covers_more_than_a_small_one() -> None:
    for noun, (kind, state) in ALL_NOUNS.items():
        small, large = (
            np.count_nonzero(sprite(Thing(kind, "red", size, state))[..., 3])
            for size in (Size.SMALL, Size.LARGE)
        )
        assert large > 1.5 * small, noun


@pytest.mark.parametrize("cell", range(CELLS))
def test_a_thing_changes_its_own_cell_alone(cell: int) -> None:
    top, left = corner(cell)
    rest = np.ones((256, 256), bool)
    rest[top : top + CELL, left : left + CELL] = False
    changed = (draw_pixels(Scene.of("beach", {cell: CAT})) != background("beach")).any(axis=2)
    assert changed.any()
    assert not changed[rest].any()


@pytest.mark.parametrize("size", Size)
def test_no_two_sprites_are_near_each_other(size: Size) -> None:
    for colour in ("red", "black", "white"):
        things = [sprite(Thing(kind, colour, size, state)) for kind, state in ALL_NOUNS.values()]
        near, first, second = _nearest(np.stack(things))
        nouns = list(ALL_NOUNS)
        assert near >= NEAREST[size], f"{colour} {nouns[first]} and {nouns[second]} are only {near:.1f} apart"
    for noun, (kind, state) in ALL_NOUNS.items():
        things = [sprite(Thing(kind, each, size, state)) for each in ALL_COLOURS]
        near, first, second = _nearest(np.stack(things))
        colours = list(ALL_COLOURS)
        assert near >= NEAREST_COLOURS, f"{noun}: {colours[first]} and {colours[second]} are {near:.1f} apart"


def _nearest(sprites: Pixels) -> tuple[float, int, int]:
    """How far apart the most similar two are over grey, and which they are."""
    small = sprites.reshape(len(sprites), CELL // 2, 2, CELL // 2, 2, 4).mean(axis=(2, 4), dtype=np.float32)
    on_grey = (small[..., :3] + 128 * (1 - small[..., 3:] / 255) - 128).reshape(len(sprites), -1)
    squares = (on_grey**2).sum(axis=1)
    apart = squares[:, None] + squares[None, :] - 2 * on_grey @ on_grey.T
    np.fill_diagonal(apart, np.inf)
    first, second = np.unravel_index(apart.argmin(), apart.shape)
    return float(np.sqrt(apart.min() / on_grey.shape[1])), int(first), int(second)


def test_the_same_scene_is_drawn_with_the_same_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(3)
    scenes = [random_scene(rng, most=3) for _ in range(5)] + [scene_with_gripper(rng) for _ in range(2)]
    first = draw_many(scenes)
    monkeypatch.setattr(sprites, "_drawing", sprites._drawing.__wrapped__)  # painted anew, not remembered
    monkeypatch.setattr(sprites, "_gripper", sprites._gripper.__wrapped__)
    monkeypatch.setattr(drawing, "sprite", sprite.__wrapped__)
    monkeypatch.setattr(drawing, "background", background.__wrapped__)
    assert np.array_equal(first, draw_many(scenes))
    assert np.array_equal(first[0], np.asarray(draw(scenes[0])))
    assert first.shape == (7, 256, 256, 3)


def test_different_scenes_are_drawn_with_different_pixels() -> None:
    rng = Random(4)
    for _ in range(60):
        scene = random_scene(rng)
        assert not np.array_equal(draw_pixels(scene), draw_pixels(with_mistake(scene, rng)))


def test_backgrounds_differ_and_cannot_be_written_to() -> None:
    pixels = [background(name) for name in ALL_BACKGROUNDS]
    assert len({each.tobytes() for each in pixels}) == len(ALL_BACKGROUNDS)
    with pytest.raises(ValueError, match="read-only"):
        pixels[0][0, 0] = 0


# Batches


def test_scenes_survive_as_nineteen_numbers() -> None:
    rng = Random(5)
    scenes = [random_scene(rng) for _ in range(100)] + [scene_with_gripper(rng) for _ in range(50)]
    codes = scene_codes(scenes)
    assert codes.shape == (150, 19)
    assert [scene_of(row) for row in codes] == scenes


def test_numbers_with_two_grippers_are_still_a_scene() -> None:
    codes = scene_codes([Scene.of("room", {}, Gripper(0)), Scene.of("room", {}, Gripper(1, "red"))]).max(
        axis=0
    )
    assert scene_of(codes) == Scene.of("room", {}, Gripper(0))


def test_torch_paints_the_very_same_pixels() -> None:
    torch = pytest.importorskip("torch")
    rng = Random(6)
    scenes = [random_scene(rng) for _ in range(24)] + [scene_with_gripper(rng) for _ in range(8)]
    painted = TorchPainter().paint(torch.from_numpy(scene_codes(scenes)))
    assert np.array_equal(painted.numpy(), draw_many(scenes))


# Operations

SCENE = Scene.of("meadow", {3: CAT, 4: DOG, 5: Thing("frog", "green", Size.LARGE, 3)})
ROBOT = Scene.of("workbench", {6: BLOCK, 2: CAT}, Gripper(1))
HOLDING = Scene.of("workbench", {6: BLOCK, 2: CAT}, Gripper(1, "red"))


@pytest.mark.parametrize(
    ("scene", "operation", "expected"),
    [
        (SCENE, Add(DOG, 0), {**SCENE.things, 0: DOG}),
        (SCENE, Remove(4), {cell: thing for cell, thing in SCENE.things.items() if cell != 4}),
        (SCENE, Recolour(3, "blue"), {**SCENE.things, 3: Thing("cat", "blue")}),
        (SCENE, Replace(3, DOG), {**SCENE.things, 3: DOG}),
        (SCENE, Resize(3, Size.SMALL), {**SCENE.things, 3: Thing("cat", "red", Size.SMALL)}),
        (SCENE, Move(3, 8), {4: DOG, 5: SCENE.things[5], 8: CAT}),
        (SCENE, Swap(3, 4), {3: DOG, 4: CAT, 5: SCENE.things[5]}),
        (SCENE, ChangeState(5, 1), {3: CAT, 4: DOG, 5: Thing("frog", "green", Size.LARGE, 1)}),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, OPERATIONS) else "",
)
def test_an_operation_does_just_that(scene: Scene, operation: Operation, expected: dict[int, Thing]) -> None:
    assert operation.apply(scene) == Scene.of(scene.background, expected, scene.gripper)


def test_the_background_changes_behind_everything() -> None:
    assert ChangeBackground("snow").apply(ROBOT) == Scene("snow", ROBOT.cells, ROBOT.gripper)


def test_the_gripper_picks_up_and_puts_down() -> None:
    lifted = Pick(6).apply(ROBOT)
    assert lifted == Scene.of("workbench", {2: CAT}, Gripper(0, "blue"))
    assert Place(7).apply(lifted) == Scene.of("workbench", {2: CAT, 7: BLOCK}, Gripper(1))


@pytest.mark.parametrize(
    ("scene", "operation"),
    [
        (SCENE, Add(DOG, 3)),
        (ROBOT, Add(DOG, 1)),
        (SCENE, Remove(0)),
        (SCENE, Recolour(3, "red")),
        (SCENE, Recolour(0, "red")),
        (SCENE, Replace(3, CAT)),
        (SCENE, Replace(0, CAT)),
        (SCENE, Resize(3, Size.LARGE)),
        (SCENE, Resize(0, Size.LARGE)),
        (SCENE, Move(3, 4)),
        (SCENE, Move(3, 3)),
        (SCENE, Move(0, 1)),
        (ROBOT, Move(2, 1)),
        (SCENE, Swap(3, 0)),
        (SCENE, Swap(3, 3)),
        (Scene.of("meadow", {0: CAT, 1: CAT}), Swap(0, 1)),
        (SCENE, ChangeState(3, 5)),
        (SCENE, ChangeState(5, 3)),
        (SCENE, ChangeState(5, -1)),
        (SCENE, ChangeState(0, 0)),
        (SCENE, ChangeBackground("meadow")),
        (SCENE, Pick(3)),
        (HOLDING, Pick(6)),
        (ROBOT, Pick(2)),
        (ROBOT, Pick(7)),
        (Scene.of("room", {6: Thing("block", "blue")}, Gripper(0)), Pick(6)),
        (Scene.of("room", {0: CAT, 6: BLOCK}, Gripper(1)), Pick(6)),
        (ROBOT, Place(7)),
        (SCENE, Place(7)),
        (HOLDING, Place(6)),
        (HOLDING, Place(0)),
        (HOLDING, Place(5)),
    ],
    ids=lambda value: str(value) if isinstance(value, OPERATIONS) else "",
)
def test_what_cannot_happen_is_refused(scene: Scene, operation: Operation) -> None:
    with pytest.raises(Impossible):
        operation.apply(scene)


def test_what_happened_between_any_two_scenes_is_found() -> None:
    rng = Random(7)
    for _ in range(400):
        before, after = random_scene(rng), random_scene(rng)
        assert apply_all(changes(before, after), before) == after


@pytest.mark.parametrize("kind", ON_THE_GRID)
def test_a_single_change_is_found_as_a_single_operation(kind: type[Operation]) -> None:
    rng = Random(kind.__name__)
    for _ in range(60):
        scene, operation = scene_and(kind, rng)
        found = changes(scene, operation.apply(scene))
        assert len(found) == 1
        assert apply_all(found, scene) == operation.apply(scene)


@pytest.mark.parametrize("deeds", [(Pick,), (Place,), (Pick, Place), (Place, Pick)])
def test_what_a_gripper_has_done_is_found_among_other_changes(deeds: tuple[type[Operation], ...]) -> None:
    rng, seen = Random(8), Counter[str]()
    while seen["pairs"] < 100:
        before = scene_with_gripper(rng, holds=deeds[0] is Place)
        after = before
        for kind in (*deeds, *rng.sample(ON_THE_GRID, rng.randint(0, 3))):
            operation = possible(kind, after, rng, 20)
            if operation is not None:
                after = operation.apply(after)
            elif kind in HANDLING:
                break
        else:
            found = changes(before, after)
            assert apply_all(found, before) == after
            seen.update(["pairs", *(type(each).__name__ for each in found)])
    assert all(seen[kind.__name__] for kind in deeds)


def test_a_gripper_from_nowhere_is_refused() -> None:
    with pytest.raises(Impossible):
        changes(Scene("workbench"), Scene.of("workbench", {}, Gripper(0)))


# Mistakes


def test_a_mistake_is_always_another_scene_and_of_many_sorts() -> None:
    rng, sorts = Random(9), Counter[str]()
    for _ in range(300):
        scene = random_scene(rng, most=6)
        wrong = with_mistake(scene, rng)
        assert wrong != scene
        sorts.update(type(each).__name__ for each in changes(scene, wrong))
    assert {"Add", "Remove", "Recolour", "Resize", "Replace", "Move"} <= set(sorts)


def test_even_a_full_grid_can_be_spoiled() -> None:
    rng = Random(10)
    full = Scene.of("sea", {cell: rng.choice(THINGS) for cell in range(GRID * GRID)})
    assert with_mistake(full, rng) != full


def test_many_threads_at_once_have_each_thing_painted_once() -> None:
    painted: list[str] = []

    @painted_once
    def paint(name: str) -> str:
        sleep(0.01)
        painted.append(name)
        return name.upper()

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(paint, ["sun", "moon"] * 8)) == ["SUN", "MOON"] * 8
    assert sorted(painted) == ["moon", "sun"]
