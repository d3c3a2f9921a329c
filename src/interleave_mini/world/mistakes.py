"""Mistakes that generators make, made on purpose: for critics to find and tests to catch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from interleave_mini.world.kinds import COLOURS, KINDS
from interleave_mini.world.misunderstandings import misunderstood
from interleave_mini.world.scene import CELLS, Scene, Size, Thing

MISUNDERSTOOD = 0.6
"""The share of mistakes that come of taking a wish wrongly, where there was a picture before."""


def spoiled(scene: Scene, rng: Random, before: Scene | None = None) -> Scene:
    """The scene with one mistake in it: never the same scene."""
    if before is not None and rng.random() < MISUNDERSTOOD:
        wrong = misunderstood(before, scene, rng)
        if wrong is not None:
            return wrong
    things = scene.things
    ways = [
        _something_extra,
        *([_wrong_colour, _wrong_size, _missing, _wrong_kind, _misplaced] if things else []),
    ]
    while True:
        wrong = rng.choice(ways)(scene, rng)
        if wrong != scene:
            return wrong


def _wrong_colour(scene: Scene, rng: Random) -> Scene:
    return _changed(scene, rng, lambda thing: replace(thing, colour=rng.choice(list(COLOURS))))


def _wrong_size(scene: Scene, rng: Random) -> Scene:
    return _changed(scene, rng, lambda thing: replace(thing, size=rng.choice(list(Size))))


def _wrong_kind(scene: Scene, rng: Random) -> Scene:
    return _changed(scene, rng, lambda thing: Thing(rng.choice(list(KINDS)), thing.colour, thing.size))


def _missing(scene: Scene, rng: Random) -> Scene:
    return _changed(scene, rng, lambda thing: None)


def _misplaced(scene: Scene, rng: Random) -> Scene:
    cell, to = rng.choice(list(scene.things)), rng.randrange(CELLS)
    return scene.with_cell(cell, None).with_cell(to, scene.cells[cell]) if scene.is_free(to) else scene


def _something_extra(scene: Scene, rng: Random) -> Scene:
    cell = rng.randrange(CELLS)
    extra = Thing(rng.choice(list(KINDS)), rng.choice(list(COLOURS)), rng.choice(list(Size)))
    return scene.with_cell(cell, extra) if scene.is_free(cell) else scene


def _changed(scene: Scene, rng: Random, change: Callable[[Thing], Thing | None]) -> Scene:
    cell, thing = rng.choice(list(scene.things.items()))
    return scene.with_cell(cell, change(thing))
