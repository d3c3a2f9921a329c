"""Images as Qwen3-VL reads them: scaled to a number of pixels, cut into patches, with their positions."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from interleave import BackendError, Failure
from interleave_mini.runtime.sessions import Floats, Integers

if TYPE_CHECKING:
    from PIL.Image import Image

Grid = tuple[int, int]
"""Rows and columns of patches."""
HALF = np.float32(127.5)
MAX_RATIO = 200
"""Of the sides of an image, as in the library that the models were trained with."""


@dataclass(frozen=True)
class PatchLayout:
    """How images are scaled and cut."""

    patch: int
    merge: int
    """Patches of `merge` × `merge` become one token."""
    least: int
    """Pixels of an image, at least"""
    most: int
    """and at most."""

    @classmethod
    def read(cls, folder: Path) -> PatchLayout:
        """Return the layout in a model's folder."""
        settings = json.loads((folder / "processor_config.json").read_bytes())["image_processor"]
        size = settings["size"]
        return cls(
            settings["patch_size"], settings["merge_size"], size["shortest_edge"], size["longest_edge"]
        )

    def cut(self, image: Image) -> tuple[Floats, Grid]:
        """Return the patches of an image, those of one token after another, and its grid."""
        from PIL import Image as pillow

        image = image if image.mode == "RGB" else image.convert("RGB")
        size = self.scaled(image.size)
        if size != image.size:
            image = image.resize(size, pillow.Resampling.BICUBIC)
        rows, columns = size[1] // self.patch, size[0] // self.patch
        merge, patch = self.merge, self.patch
        pixels = np.asarray(image).reshape(rows // merge, merge, patch, columns // merge, merge, patch, 3)
        flat = pixels.transpose(0, 3, 1, 4, 6, 2, 5).reshape(rows * columns, 3 * patch * patch)
        return flat.astype(np.float32) / HALF - np.float32(1), (rows, columns)

    def scaled(self, size: tuple[int, int]) -> tuple[int, int]:
        """Return the size that an image is scaled to: sides of whole tokens, about the same aspect ratio."""
        width, height = size
        if max(size) > MAX_RATIO * min(size):
            raise BackendError(
                f"an image of {width}×{height} is too narrow: its sides may differ {MAX_RATIO} times at most",
                kind=Failure.INVALID,
            )
        unit = self.patch * self.merge
        sides = [round(side / unit) * unit for side in size]
        if sides[0] * sides[1] > self.most:
            scale = math.sqrt(width * height / self.most)
            sides = [max(unit, math.floor(side / scale / unit) * unit) for side in size]
        elif sides[0] * sides[1] < self.least:
            scale = math.sqrt(self.least / (width * height))
            sides = [math.ceil(side * scale / unit) * unit for side in size]
        return sides[0], sides[1]


@cache
def patch_positions(grid: Grid, merge: int, side: int) -> tuple[Integers, Floats, Integers]:
    """Return, for each patch: four learned positions, their weights, and its row and column.

    The model has learned `side` × `side` positions; other grids are interpolated between them.
    """
    rows, columns = grid
    places = np.mgrid[:rows, :columns].reshape(2, rows // merge, merge, columns // merge, merge)
    row, column = places.transpose(0, 1, 3, 2, 4).reshape(2, -1)
    row_taps, row_weights = _taps(row, rows, side)
    column_taps, column_weights = _taps(column, columns, side)
    taps = row_taps[:, :, None] * side + column_taps[:, None, :]
    weights = row_weights[:, :, None] * column_weights[:, None, :]
    return taps.reshape(-1, 4), weights.reshape(-1, 4), np.stack([row, column], axis=1).astype(np.int64)


def _taps(index: Integers, size: int, side: int) -> tuple[Integers, Floats]:
    """Return the two learned positions beside each index of an axis, and their weights."""
    place = index.astype(np.float32) * np.float32(side - 1) / np.float32(max(size - 1, 1))
    low = np.floor(place)
    after = place - low
    taps = np.stack([low, low + 1], axis=1).astype(np.int64).clip(0, side - 1)
    return taps, np.stack([1 - after, after], axis=1)
