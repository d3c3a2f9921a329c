"""Descriptions of the miniature's images, and points of things in them, for alternative texts and labels."""

from __future__ import annotations

import re

from PIL.Image import Image

from interleave_mini.language.descriptions import describe as describe_scene
from interleave_mini.language.words import plural
from interleave_mini.reader.scene_reader import Reading, shared_reader
from interleave_mini.world.backgrounds import SIDE
from interleave_mini.world.drawing import MARGIN
from interleave_mini.world.kinds import COLOURS
from interleave_mini.world.scene import GRID, Thing
from interleave_mini.world.sprites import CELL

MOST_ERROR = 45.0
"""Error of a cell (RMS, of 255) up to which it counts as read."""


class SceneReader:
    """What an image shows, if all of it can be read; and where the one thing is that a phrase names."""

    def describe(self, image: Image) -> str | None:
        reading = shared_reader().read(image)
        return describe_scene(reading.scene) if max(reading.errors) <= MOST_ERROR else None

    def point(self, image: Image, phrase: str) -> tuple[float, float] | None:
        reading = shared_reader().read(image)
        named = [cell for cell, thing in reading.scene.things.items() if _is_named(thing, phrase)]
        if len(named) != 1 or not _is_sure(reading, named[0]):
            return None
        row, column = divmod(named[0], GRID)
        return _centre(column), _centre(row)


def _is_sure(reading: Reading, cell: int) -> bool:
    return reading.errors[cell] <= MOST_ERROR


def _centre(place: int) -> float:
    return (MARGIN + (place + 0.5) * CELL) / SIDE


def _is_named(thing: Thing, phrase: str) -> bool:
    """Return whether a phrase names this thing, and no other colour than its own."""
    words = set(re.findall(r"[a-z]+", phrase.lower()))
    colours = words & set(COLOURS)
    names = {thing.noun, thing.kind, plural(thing.noun)}
    return any(set(name.split()) <= words for name in names) and colours <= {thing.colour}


READER = SceneReader()
