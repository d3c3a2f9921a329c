"""Image → scene, with a confidence for every cell, by template matching on the pixels alone.

The background is found from the border, which no thing covers. Every cell is then compared with all sprites
at a coarse resolution, and the best few of them again at a finer one. A cell that none of them fits may show
a thing that carries another (`pairs`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from interleave_mini.reader.arrays import (
    Array,
    Arrays,
    NumpyArrays,
    Templates,
    TorchArrays,
    confidence_of,
    reduced,
)
from interleave_mini.reader.pairs import PairReader
from interleave_mini.reader.template_cache import FINE, painted
from interleave_mini.world.backgrounds import SIDE
from interleave_mini.world.drawing import EMPTY, MARGIN, THINGS, scene_of
from interleave_mini.world.scene import CELLS, GRID, Scene, Thing
from interleave_mini.world.sprites import CELL

COARSE = 20
SHORTLIST = 5
UNCLEAR, MUCH_BETTER = 7.0, 0.7
"""The error from which a cell may show a thing that carries another, and how much better that has to fit."""
_BATCH, _DEVICE_BATCH = 8, 256
"""Small batches fit a CPU's cache; a GPU needs large ones."""
CELL_CACHE_SIZE = 65_536
FIRST_GRIPPER = 1 + len(THINGS)
"""Rows of the atlas from here on are grippers, which are in the top row only."""
CellKey = tuple[int, bytes]
"""Background and position of a cell as one number, and a digest of its pixels."""
Likely = Mapping[int, Sequence[Thing]]
"""By number of the cell, the things with a load that it may show."""
Cell = tuple[int, int, float, float]
"""The atlas row of what a cell shows, the code of what that carries, the confidence, and the error of its
pixels."""


@dataclass(frozen=True)
class Reading:
    """The scene found in one image, and how well it fits."""

    scene: Scene
    confidence: tuple[float, ...]
    """For every cell, 0 to 1: high when the pixels are near the best template and far from the next."""
    errors: tuple[float, ...]
    """For every cell, the error of its pixels against the best template: RMS, of 255."""
    border_error: float

    @property
    def error(self) -> float:
        """The error of the whole image."""
        return float(np.sqrt(np.mean(np.square(self.errors))))


class Reader:
    """Reads images, one or many at a time, on the CPU with numpy or on a device with torch."""

    def __init__(self, device: str | None = None) -> None:
        self.arrays: Arrays = TorchArrays(device) if device else NumpyArrays()
        self.batch = _DEVICE_BATCH if device else _BATCH
        world = painted()
        empty, sprites = world.backgrounds, world.as_pixels()
        cells = reduced(cells_of(empty).astype(np.float32), FINE)
        self.fine = Templates.of(sprites, cells, self.arrays)
        self.coarse = Templates.of(reduced(sprites, COARSE), reduced(cells, COARSE), self.arrays)
        self._borders = [self.arrays.floats(border) for border in borders_of(empty)]
        self._norms = self._template_norms()
        self._cell_cache: dict[CellKey, Cell] = {}
        self._pairs = PairReader(self.arrays, self.coarse)

    def read(self, image: Image.Image) -> Reading:
        """One image, of any size."""
        return self.read_many([image])[0]

    def read_many(
        self,
        images: Sequence[Image.Image] | NDArray[np.uint8] | Array,
        expected: Sequence[Sequence[Scene]] | None = None,
    ) -> list[Reading]:
        """Many images: PIL images, or n×256×256×3 pixels as an array or tensor.

        `expected` are scenes that each of them may show. Only what things carry there is then looked for:
        a search among all pairs takes ten times as long as all the rest.
        """
        readings: list[Reading] = []
        for start in range(0, len(images), self.batch):
            end = start + self.batch
            likely = None if expected is None else _loaded(expected[start:end])
            readings += self._read_batch(_as_pixels(images[start:end]), likely)
        return readings

    def _read_batch(self, pixels: Any, likely: Likely | None) -> list[Reading]:
        places, border_errors = map(self.arrays.to_numpy, self._backgrounds(pixels))
        spots = (places.reshape(-1, 1) * CELLS + np.arange(CELLS)).reshape(-1)
        seen = self._read_cells(cells_of(pixels), spots, likely)
        return [
            _reading(int(place), seen[first : first + CELLS], float(border))
            for place, border, first in zip(
                places, border_errors, range(0, len(places) * CELLS, CELLS), strict=True
            )
        ]

    def _read_cells(self, cells: Any, spots: NDArray[np.int64], likely: Likely | None) -> list[Cell]:
        """The contents of cells; identical pixels are matched once and then cached."""
        if likely is not None or not isinstance(cells, np.ndarray):
            return self._nearest_templates(cells, spots, likely)
        keys = [(spot, sha256(cell).digest()) for spot, cell in zip(spots.tolist(), cells, strict=True)]
        known = {key: found for key in keys if (found := self._cell_cache.get(key)) is not None}
        new = {key: place for place, key in enumerate(keys) if key not in known}
        if new:
            places = list(new.values())
            known.update(zip(new, self._nearest_templates(cells[places], spots[places]), strict=True))
            self._cache_cells({key: known[key] for key in new})
        return [known[key] for key in keys]

    def _cache_cells(self, cells: dict[CellKey, Cell]) -> None:
        if len(self._cell_cache) + len(cells) > CELL_CACHE_SIZE:
            self._cell_cache = {}
        self._cell_cache.update(cells)

    def _nearest_templates(
        self, pixels: Any, spots: NDArray[np.int64], likely: Likely | None = None
    ) -> list[Cell]:
        """The best template for each cell."""
        where = self.arrays.integers(spots)
        fine = reduced(self.arrays.floats(pixels), FINE)
        coarse = reduced(fine, COARSE).reshape(len(fine), -1)
        candidates = self.arrays.smallest(self._coarse_errors(coarse, where), SHORTLIST)
        errors, apart = map(
            self.arrays.to_numpy, self._fine_errors(fine.reshape(len(fine), -1), where, candidates)
        )
        alone = _best_of_shortlist(self.arrays.to_numpy(candidates), errors, apart)
        unclear = [place for place, (*_, error) in enumerate(alone) if error > UNCLEAR]
        for place in unclear if likely is None else likely.keys() & unclear:
            things = () if likely is None else likely[place]
            pair = self._pairs.read(pixels[place], coarse[place], int(spots[place]), things)
            if pair[-1] < MUCH_BETTER * alone[place][-1]:
                alone[place] = pair
        return alone

    def _backgrounds(self, images: Array) -> tuple[Array, Array]:
        """The best background of each image, and the error of its border."""
        borders = [self.arrays.floats(border) for border in borders_of(images)]
        size = sum(border.shape[1] for border in borders)
        squares = sum(
            self._distances(border, known) for border, known in zip(borders, self._borders, strict=True)
        )
        places = self.arrays.smallest(squares, 1)[:, 0]
        off = sum(
            ((border - known[places]) ** 2).sum(axis=1)
            for border, known in zip(borders, self._borders, strict=True)
        )
        return places, (off / size) ** 0.5

    def _distances(self, rows: Array, known: Array) -> Array:
        """The squared distance of every row to every known one."""
        crossed = self.arrays.product(rows, known.T)
        return (rows**2).sum(axis=1).reshape(-1, 1) - 2 * crossed + (known**2).sum(axis=1)

    def _template_norms(self) -> Array:
        """‖colour − opacity · background‖² for every background cell and template, computed once."""
        known = self.coarse
        per_pixel = known.backgrounds.reshape(len(known.backgrounds), -1, 3)
        opacity_3 = known.opacity.reshape(len(known.opacity), -1, 1)
        tinted = (known.colour.reshape(len(known.colour), -1, 3) * opacity_3).reshape(len(known.colour), -1)
        return (
            (known.colour**2).sum(axis=1)
            - 2 * self.arrays.product(known.backgrounds, tinted.T)
            + self.arrays.product((per_pixel**2).sum(axis=2), (known.opacity**2).T)
        )

    def _coarse_errors(self, cells: Array, spots: Array) -> Array:
        """The squared distance of every cell to every template over the cell's own background."""
        known = self.coarse
        behind = known.backgrounds[spots]
        change = cells - behind
        veiled = (change * behind).reshape(len(cells), -1, 3).sum(axis=2)
        product = self.arrays.product
        squares = self._norms[spots] - 2 * (
            product(change, known.colour.T) - product(veiled, known.opacity.T)
        )
        squares[spots % CELLS >= GRID, FIRST_GRIPPER:] = 1e30
        return squares

    def _fine_errors(self, cells: Array, spots: Array, candidates: Array) -> tuple[Array, Array]:
        """RMS errors at the finer resolution of the shortlisted templates and of the empty cell, and their
        distances from the best of them."""
        known = self.fine
        behind = known.backgrounds[spots]
        change = (cells - behind).reshape(len(cells), 1, -1)
        opacity = known.opacity[candidates].reshape(*candidates.shape, -1, 1)
        off = known.colour[candidates]
        off -= (opacity * behind.reshape(len(cells), 1, -1, 3)).reshape(off.shape)
        off = self.arrays.joined(off, change * 0)
        off -= change  # in place: allocating memory costs more than the arithmetic
        errors = (off**2).mean(axis=2) ** 0.5
        best = self.arrays.smallest(errors, 1)[:, 0]
        off -= off[self.arrays.integers(range(len(cells))), best][:, None]
        off *= off
        return errors, off.mean(axis=2) ** 0.5


def _best_of_shortlist(
    candidates: NDArray[np.int64], errors: NDArray[np.float32], apart: NDArray[np.float32]
) -> list[Cell]:
    """The contents of cells by the errors of their candidates, of which the last is an empty cell."""
    rows = np.arange(len(candidates))
    candidates = np.concatenate([candidates, np.full((len(candidates), 1), EMPTY)], axis=1)
    chosen = errors.argmin(axis=1)
    least = errors[rows, chosen]
    confidence = confidence_of(least, errors, apart)
    nothing = [EMPTY] * len(rows)
    return list(
        zip(candidates[rows, chosen].tolist(), nothing, confidence.tolist(), least.tolist(), strict=True)
    )


def _loaded(expected: Sequence[Sequence[Scene]]) -> Likely:
    """By number of the cell, the things with a load that scenes have there."""
    found: dict[int, list[Thing]] = {}
    for number, scenes in enumerate(expected):
        for scene in scenes:
            for cell, thing in scene.things.items():
                if thing.load is not None:
                    found.setdefault(number * CELLS + cell, []).append(thing)
    return found


def _reading(place: int, cells: list[Cell], border_error: float) -> Reading:
    rows, loads, confidence, errors = zip(*cells, strict=True)
    return Reading(scene_of(np.array([place, *rows, *loads])), confidence, errors, border_error)


_shared_lock = Lock()


def shared_reader() -> Reader:
    """The reader of this process: painting its templates takes a moment, so it is done once."""
    with _shared_lock:
        return _only_reader()


@cache
def _only_reader() -> Reader:
    return Reader()


def _as_pixels(images: Any) -> Any:
    if isinstance(images, np.ndarray) or not isinstance(images[0], Image.Image):
        return images
    return np.stack([_at_size(image) for image in images])


def _at_size(image: Image.Image) -> NDArray[np.uint8]:
    image = image if image.mode == "RGB" else image.convert("RGB")
    if image.size != (SIDE, SIDE):
        image = image.resize((SIDE, SIDE), Image.Resampling.LANCZOS)
    return np.asarray(image, dtype=np.uint8)


def cells_of(images: Array) -> Array:
    """n×256×256×3 images → (n·9)×80×80×3 cells."""
    inner = images[:, MARGIN : SIDE - MARGIN, MARGIN : SIDE - MARGIN]
    grid = inner.reshape(-1, GRID, CELL, GRID, CELL, 3).swapaxes(2, 3)
    return grid.reshape(-1, CELL, CELL, 3)


def borders_of(images: Array) -> list[Array]:
    """The four strips around the grid, which no thing ever covers, as rows of numbers."""
    count = len(images)
    top = images[:, :MARGIN].reshape(count, -1)
    bottom = images[:, -MARGIN:].reshape(count, -1)
    left = images[:, MARGIN:-MARGIN, :MARGIN].reshape(count, -1)
    right = images[:, MARGIN:-MARGIN, -MARGIN:].reshape(count, -1)
    return [top, bottom, left, right]
