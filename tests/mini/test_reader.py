"""The reader: exact on what the world draws, steady under damage, unsure where an image is unclear."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from itertools import groupby
from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageFilter
from samples import random_scene, scene_with_gripper

from interleave_mini.reader import Reader, shared_reader
from interleave_mini.reader.scene_reader import Cell
from interleave_mini.reader.scores import is_clear, score, shows
from interleave_mini.world.backgrounds import background
from interleave_mini.world.drawing import THINGS, corner, draw, draw_many, laid_over
from interleave_mini.world.kinds import COLOURS
from interleave_mini.world.operations import Add, Recolour
from interleave_mini.world.scene import CELLS, Gripper, Load, Relation, Scene, Size, Thing
from interleave_mini.world.sprites import CELL, sprite
from interleave_mini.world.wider import ALL_BACKGROUNDS

Pixels = NDArray[np.uint8]


def scenes(count: int, seed: int, *, least: int = 0, most: int = CELLS) -> list[Scene]:
    rng = Random(seed)
    return [random_scene(rng, least=least, most=most) for _ in range(count)]


# What the world draws


def test_a_cell_is_looked_for_once_and_seen_the_same_in_any_company(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, looked_for = Reader(), []
    find = Reader._nearest_templates

    def counting(self: Reader, cells: Pixels, spots: NDArray[np.int64]) -> list[Cell]:
        looked_for.append(len(cells))
        return find(self, cells, spots)

    monkeypatch.setattr(Reader, "_nearest_templates", counting)
    first, second = scenes(2, 7, least=3)
    moved = first.with_cell(8, None if first.cells[8] else Thing("cat", "red"))
    together = reader.read_many([draw(first), draw(second)])
    assert [reader.read(draw(first)), reader.read(draw(second))] == together
    assert reader.read(draw(moved)).scene == moved
    assert looked_for == [2 * CELLS, 1]


def test_every_drawn_scene_is_read_exactly() -> None:
    rng = Random(1)
    drawn = [*scenes(60, 1), *(scene_with_gripper(rng) for _ in range(20)), *map(Scene, ALL_BACKGROUNDS)]
    drawn += [
        Scene(name, each.cells)
        for name, each in zip(ALL_BACKGROUNDS[::4], scenes(12, 2, least=9), strict=True)
    ]
    drawn += [Scene.of("paper", {}, Gripper(column)) for column in range(3)]
    drawn += [Scene.of("sea", {}, Gripper(1, colour)) for colour in COLOURS]
    assert len(drawn) >= 140
    readings = shared_reader().read_many(draw_many(drawn))
    assert [reading.scene for reading in readings] == drawn
    assert all(shows(reading, scene) for reading, scene in zip(readings, drawn, strict=True))
    assert min(min(reading.confidence) for reading in readings) > 0.9
    assert max(reading.error for reading in readings) < 1


def test_every_thing_is_read_exactly() -> None:
    rng = Random(3)
    things = [rng.choice([*some]) for _, some in groupby(THINGS, key=lambda thing: thing.noun)]
    full = [
        Scene.of(rng.choice(ALL_BACKGROUNDS), dict(enumerate(things[start : start + CELLS])))
        for start in range(0, len(things), CELLS)
    ]
    assert [reading.scene for reading in shared_reader().read_many(draw_many(full))] == full


@pytest.mark.parametrize("relation", Relation)
def test_what_a_thing_carries_is_read_exactly(relation: Relation) -> None:
    rng = Random(relation)
    carriers = [
        thing for thing in THINGS if relation.is_possible_with(thing.noun) and thing.size is Size.LARGE
    ]
    small = [thing for thing in THINGS if thing.size is Size.SMALL]
    drawn = [
        Scene.of(
            rng.choice(ALL_BACKGROUNDS),
            {
                cell: replace(rng.choice(carriers), load=Load(relation, rng.choice(small)))
                for cell in (1, 3, 8)
            },
        )
        for _ in range(4)
    ]
    readings = shared_reader().read_many(draw_many(drawn))
    assert [reading.scene for reading in readings] == drawn
    assert all(shows(reading, scene) for reading, scene in zip(readings, drawn, strict=True))


# Damage


def _noise(pixels: Pixels) -> Pixels:
    noise = np.random.default_rng(0).normal(0, 20, pixels.shape)
    return np.clip(pixels + noise, 0, 255).astype(np.uint8)


def _jpeg(pixels: Pixels) -> Pixels:
    data = io.BytesIO()
    Image.fromarray(pixels).save(data, "JPEG", quality=50)
    return np.asarray(Image.open(data))


def _blur(pixels: Pixels) -> Pixels:
    return np.asarray(Image.fromarray(pixels).filter(ImageFilter.GaussianBlur(1)))


def _half_resolution(pixels: Pixels) -> Pixels:
    small = Image.fromarray(pixels).resize((128, 128), Image.Resampling.BICUBIC)
    return np.asarray(small.resize((256, 256), Image.Resampling.BICUBIC))


@pytest.mark.parametrize("damage", [_noise, _jpeg, _blur, _half_resolution])
def test_a_little_damage_changes_nothing(damage: Callable[[Pixels], Pixels]) -> None:
    drawn = scenes(4, 4, most=7)
    readings = shared_reader().read_many(np.stack([damage(each) for each in draw_many(drawn)]))
    right = [shows(reading, scene) for reading, scene in zip(readings, drawn, strict=True)]
    assert all(right), f"{right.count(False)} of {len(drawn)}"
    assert max(max(reading.confidence) for reading in readings) < 1


@pytest.mark.parametrize("size", [(512, 512), (1024, 1024), (200, 200), (512, 384)])
def test_images_of_other_sizes_are_read(size: tuple[int, int]) -> None:
    drawn = scenes(5, 5, most=6)
    images = [draw(scene).resize(size, Image.Resampling.LANCZOS) for scene in drawn]
    assert [reading.scene for reading in shared_reader().read_many(images)] == drawn


def test_images_of_other_modes_are_read() -> None:
    scene = Scene.of("meadow", {0: Thing("cat", "red"), 8: Thing("house", "blue", Size.SMALL, 2)})
    plain = shared_reader().read(draw(scene))
    assert shared_reader().read(draw(scene).convert("RGBA")) == plain
    assert shared_reader().read(draw(scene).quantize(256)).scene == scene
    for mode in ("L", "1", "LA", "CMYK", "I"):
        reading = shared_reader().read(draw(scene).convert("L" if mode == "I" else mode).convert(mode))
        assert len(reading.confidence) == CELLS


def test_an_image_without_colours_is_not_taken_for_the_scene() -> None:
    drawn = scenes(4, 6, least=3, most=6)
    readings = shared_reader().read_many([draw(scene).convert("L") for scene in drawn])
    assert not any(shows(reading, scene) for reading, scene in zip(readings, drawn, strict=True))


@pytest.mark.parametrize("colour", [(0, 0, 0), (128, 128, 128), (255, 0, 255)])
def test_an_image_of_one_colour_shows_no_scene(colour: tuple[int, int, int]) -> None:
    reading = shared_reader().read(Image.new("RGB", (256, 256), colour))
    assert not shows(reading, reading.scene)


def test_pure_noise_shows_no_scene() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (2, 256, 256, 3), np.uint8)
    for reading in shared_reader().read_many(pixels):
        assert not shows(reading, reading.scene)
        assert score(reading, reading.scene, None).quality < 3


# Half-drawn and blended things


def _left_half_gone(shown: Pixels, empty: Pixels, thing: Thing, rng: Random) -> Pixels:
    columns = np.where(sprite(thing)[..., 3] > 0)[1]
    shown[:, : int(np.median(columns))] = empty[:, : int(np.median(columns))]
    return shown


def _upper_half_gone(shown: Pixels, empty: Pixels, thing: Thing, rng: Random) -> Pixels:
    rows = np.where(sprite(thing)[..., 3] > 0)[0]
    shown[: int(np.median(rows))] = empty[: int(np.median(rows))]
    return shown


def _faded(shown: Pixels, empty: Pixels, thing: Thing, rng: Random) -> Pixels:
    return ((shown.astype(int) + empty) // 2).astype(np.uint8)


def _blended(shown: Pixels, empty: Pixels, thing: Thing, rng: Random) -> Pixels:
    other = rng.choice([each for each in THINGS if each.kind != thing.kind])
    return ((shown.astype(int) + laid_over(sprite(other), empty)) // 2).astype(np.uint8)


def _halves_of_two(shown: Pixels, empty: Pixels, thing: Thing, rng: Random) -> Pixels:
    other = rng.choice([each for each in THINGS if each.kind != thing.kind])
    return np.concatenate([shown[:, :40], laid_over(sprite(other), empty)[:, 40:]], axis=1)


@pytest.mark.parametrize(
    ("spoil", "most_clear"),
    [
        (_left_half_gone, 0.1),
        (_upper_half_gone, 0.1),
        (_faded, 0.25),
        (_blended, 0.1),
        (_halves_of_two, 0.15),
    ],
)
def test_half_drawn_and_blended_things_are_unclear(spoil: Callable[..., Pixels], most_clear: float) -> None:
    rng, clear = Random(7), 0
    drawn = scenes(12, 8, least=1, most=5)
    images, cells = draw_many(drawn), [rng.choice(list(scene.things)) for scene in drawn]
    for scene, image, cell in zip(drawn, images, cells, strict=True):
        top, left = corner(cell)
        spot = np.s_[top : top + CELL, left : left + CELL]
        thing = scene.things[cell]
        image[spot] = spoil(image[spot].copy(), background(scene.background)[spot], thing, rng)
    for reading, scene, cell in zip(shared_reader().read_many(images), drawn, cells, strict=True):
        clear += is_clear(reading, cell) and reading.scene.cells[cell] == scene.cells[cell]
    assert clear <= most_clear * len(drawn)


# On a device


@pytest.mark.slow
def test_torch_reads_as_numpy_does() -> None:
    torch = pytest.importorskip("torch")
    rng = Random(9)
    pixels = draw_many([*scenes(6, 9), *(scene_with_gripper(rng) for _ in range(2))])
    pixels = np.stack([_noise(each) if index % 2 else each for index, each in enumerate(pixels)])
    plain = shared_reader().read_many(pixels)
    for found in (Reader("cpu").read_many(pixels), Reader("cpu").read_many(torch.from_numpy(pixels))):
        assert [reading.scene for reading in found] == [reading.scene for reading in plain]
        for ours, theirs in zip(found, plain, strict=True):
            assert ours.confidence == pytest.approx(theirs.confidence, abs=0.01)
            assert ours.errors == pytest.approx(theirs.errors, abs=0.2)


# Scores

BEFORE = Scene.of("meadow", {0: Thing("cat", "red"), 8: Thing("house", "blue", Size.LARGE, 2)})
DOG = Thing("dog", "brown")
AFTER = Add(DOG, 4).apply(BEFORE)


def scored(
    shown: Scene | Image.Image, target: Scene = AFTER, before: Scene | None = BEFORE
) -> tuple[float, float]:
    image = draw(shown) if isinstance(shown, Scene) else shown
    scores = score(shared_reader().read(image), target, before)
    return scores.semantics, scores.quality


def test_the_right_image_has_full_marks() -> None:
    semantics, quality = scored(AFTER)
    assert semantics == 10
    assert quality >= 9.5
    assert scored(AFTER, before=None)[0] == 10


def test_an_edit_that_was_not_made_has_no_marks_though_the_image_is_good() -> None:
    semantics, quality = scored(BEFORE)
    assert semantics == 0
    assert quality >= 9.5


def test_each_unwanted_change_costs_marks() -> None:
    marks, scene = [scored(AFTER)[0]], AFTER
    for operation in (Recolour(0, "blue"), Add(DOG, 2), Recolour(8, "red")):
        scene = operation.apply(scene)
        marks.append(scored(scene)[0])
    assert marks[0] == 10
    assert marks == sorted(marks, reverse=True)
    assert marks[1] == pytest.approx(6.6)
    assert marks[3] == 0


def test_another_background_counts_as_an_unwanted_change_or_as_a_missing_one() -> None:
    assert scored(replace(AFTER, background="sea"))[0] == pytest.approx(6.6)
    target = replace(BEFORE, background="sea")
    assert scored(BEFORE, target)[0] == 0
    assert scored(target, target)[0] == 10


def test_a_thing_that_is_right_in_part_has_some_marks() -> None:
    wrong_colour = scored(AFTER.with_cell(4, replace(DOG, colour="pink")))[0]
    wrong_kind = scored(AFTER.with_cell(4, Thing("car", "pink", Size.SMALL)))[0]
    assert 0 < wrong_colour < 5
    assert wrong_kind < wrong_colour


def test_the_gripper_counts() -> None:
    block = Thing("block", "red", Size.SMALL)
    before = Scene.of("workbench", {6: block}, Gripper(0))
    target = Scene.of("workbench", {}, Gripper(0, "red"))
    assert scored(target, target, before)[0] == 10
    assert scored(before, target, before)[0] == 0
    assert scored(Scene.of("workbench", {}, Gripper(0)), target, before)[0] == 5


def test_quality_falls_with_noise() -> None:
    noise = np.random.default_rng(2).normal(0, 1, (256, 256, 3))
    pixels = np.asarray(draw(AFTER), dtype=float)
    marks = [
        scored(Image.fromarray(np.clip(pixels + strength * noise, 0, 255).astype(np.uint8)))[1]
        for strength in (0, 10, 20, 40, 80)
    ]
    assert marks == sorted(marks, reverse=True)
    assert len(set(marks)) == len(marks)
    assert marks[0] - marks[-1] > 5


def test_a_white_canvas_is_neither_right_nor_good() -> None:
    semantics, quality = scored(Image.new("RGB", (256, 256), "white"))
    assert semantics == 0
    assert quality < 5
