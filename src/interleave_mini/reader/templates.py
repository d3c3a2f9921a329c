"""Everything the world could draw in a cell, at two coarser resolutions, ready for comparison."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from interleave_mini.reader.arrays import Array, Arrays
from interleave_mini.world.backgrounds import SIDE, background
from interleave_mini.world.batches import THINGS, atlas
from interleave_mini.world.drawing import MARGIN
from interleave_mini.world.kinds import BACKGROUNDS
from interleave_mini.world.scene import CELLS, GRID
from interleave_mini.world.sprites import CELL

HANDS_FROM = 1 + len(THINGS)
"""Rows of the atlas from here on are grippers, which hang in the top row only."""


@dataclass(frozen=True)
class Templates:
    """Sprites at one resolution: what a cell shows is `colour + (1 − opacity) · background`."""

    side: int
    colour: Array
    """rows × (side·side·3), premultiplied, 0–255"""
    opacity: Array
    """rows × (side·side), 0–1"""
    backgrounds: Array
    """(backgrounds·cells) × (side·side·3), the cells of the empty backgrounds"""

    @classmethod
    def at(cls, side: int, arrays: Arrays) -> Templates:
        sprites = reduced(atlas().astype(np.float32), side)
        empty = np.stack([background(name) for name in BACKGROUNDS]).astype(np.float32)
        rows = len(sprites)
        return cls(
            side,
            arrays.floats(sprites[..., :3].reshape(rows, -1)),
            arrays.floats(sprites[..., 3].reshape(rows, -1) / 255),
            arrays.floats(reduced(cells_of(empty), side).reshape(len(BACKGROUNDS) * CELLS, -1)),
        )


def cells_of(pictures: Array) -> Array:
    """n×256×256×3 pictures → (n·9)×80×80×3 cells."""
    inner = pictures[:, MARGIN : SIDE - MARGIN, MARGIN : SIDE - MARGIN]
    grid = inner.reshape(-1, GRID, CELL, GRID, CELL, 3).swapaxes(2, 3)
    return grid.reshape(-1, CELL, CELL, 3)


def reduced(cells: Array, side: int) -> Array:
    """Cells with fewer pixels, each the mean of a square of the old ones; halved as often as it takes."""
    while cells.shape[1] > side:
        pairs = cells[:, 0::2] + cells[:, 1::2]
        cells = (pairs[:, :, 0::2] + pairs[:, :, 1::2]) * 0.25
    return cells


def borders_of(pictures: Array) -> list[Array]:
    """The four strips around the grid, which no thing ever covers, as rows of numbers."""
    count = len(pictures)
    top = pictures[:, :MARGIN].reshape(count, -1)
    bottom = pictures[:, -MARGIN:].reshape(count, -1)
    left = pictures[:, MARGIN:-MARGIN, :MARGIN].reshape(count, -1)
    right = pictures[:, MARGIN:-MARGIN, -MARGIN:].reshape(count, -1)
    return [top, bottom, left, right]
