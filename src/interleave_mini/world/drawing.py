"""Scene → pixels, one at a time or many. Integer arithmetic, so that a GPU paints the very same pixels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from interleave_mini.world.backgrounds import SIDE, background
from interleave_mini.world.scene import GRID, Gripper, Scene, Thing
from interleave_mini.world.sprites import CELL, sprite

Pixels = NDArray[np.uint8]
MARGIN = (SIDE - GRID * CELL) // 2


def draw(scene: Scene) -> Image.Image:
    """The picture of a scene, 256×256."""
    return Image.fromarray(draw_pixels(scene))


def draw_pixels(scene: Scene) -> Pixels:
    """The pixels of a scene, 256×256×3."""
    pixels = background(scene.background).copy()
    for cell, what in occupants(scene).items():
        top, left = corner(cell)
        spot = pixels[top : top + CELL, left : left + CELL]
        spot[...] = laid_over(sprite(what), spot)
    return pixels


def draw_many(scenes: Sequence[Scene]) -> Pixels:
    """The pixels of many scenes, n×256×256×3."""
    pixels = np.empty((len(scenes), SIDE, SIDE, 3), np.uint8)
    for index, scene in enumerate(scenes):
        pixels[index] = draw_pixels(scene)
    return pixels


def occupants(scene: Scene) -> dict[int, Thing | Gripper]:
    """What is to be seen in which cell, the gripper among the things."""
    seen: dict[int, Thing | Gripper] = dict(scene.things)
    if scene.gripper is not None:
        seen[scene.gripper.column] = scene.gripper
    return seen


def corner(cell: int) -> tuple[int, int]:
    """The top and left edge of a cell in pixels."""
    row, column = divmod(cell, GRID)
    return MARGIN + row * CELL, MARGIN + column * CELL


def laid_over(upper: Pixels, lower: Pixels) -> Pixels:
    """A premultiplied sprite over opaque pixels, rounded to the nearest."""
    see_through = 255 - upper[..., 3:].astype(np.uint16)
    return upper[..., :3] + ((lower * see_through + 127) // 255).astype(np.uint8)
