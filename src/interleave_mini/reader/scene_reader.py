"""Picture → scene, with a confidence for every cell. The reader sees nothing but the picture.

It knows what the world can draw and looks for the nearest of it: first the background from the rim that no
thing covers, then in every cell a coarse shortlist, and the best of the shortlist at a finer resolution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from interleave_mini.reader.arrays import Array, Arrays, NumpyArrays, TorchArrays
from interleave_mini.reader.templates import HANDS_FROM, Templates, borders_of, cells_of, reduced
from interleave_mini.world.backgrounds import SIDE, background
from interleave_mini.world.batches import scene_of
from interleave_mini.world.kinds import BACKGROUNDS
from interleave_mini.world.scene import CELLS, GRID, Scene

COARSE, FINE = 20, 40
SHORTLIST = 5
LOST = 60.0
"""An error, root mean square of 255, at which a cell shows nothing the world could draw."""
_BATCH, _DEVICE_BATCH = 8, 256
"""Small batches stay in a CPU's cache; a GPU wants them large."""
CELLS_KEPT = 65_536
CellKey = tuple[int, bytes]
"""Where a cell lies, on which background, and a digest of its pixels."""
Cell = tuple[int, float, float]
"""What a cell shows, as a row of the atlas; how sure that is; how far off its pixels are."""


@dataclass(frozen=True)
class Reading:
    """What the reader sees in one picture."""

    scene: Scene
    confidence: tuple[float, ...]
    """For every cell, 0 to 1: how near the picture is to what is read, and how far from anything else."""
    errors: tuple[float, ...]
    """For every cell, how far its pixels are from what is read: root mean square, of 255."""
    border_error: float

    @property
    def error(self) -> float:
        """How far the whole picture is from what is read."""
        return float(np.sqrt(np.mean(np.square(self.errors))))


class Reader:
    """Reads pictures, one or many at a time, on the CPU with numpy or on a device with torch."""

    def __init__(self, device: str | None = None) -> None:
        self.arrays: Arrays = TorchArrays(device) if device else NumpyArrays()
        self.batch = _DEVICE_BATCH if device else _BATCH
        self.coarse = Templates.at(COARSE, self.arrays)
        self.fine = Templates.at(FINE, self.arrays)
        empty = np.stack([background(name) for name in BACKGROUNDS])
        self._borders = [self.arrays.floats(rim) for rim in borders_of(empty)]
        self._norms = self._template_norms()
        self._known: dict[CellKey, Cell] = {}

    def read(self, picture: Image.Image) -> Reading:
        """One picture, of any size."""
        return self.read_many([picture])[0]

    def read_many(self, pictures: Sequence[Image.Image] | NDArray[np.uint8] | Array) -> list[Reading]:
        """Many pictures: PIL images, or n×256×256×3 pixels as an array or tensor."""
        readings: list[Reading] = []
        for start in range(0, len(pictures), self.batch):
            readings += self._read_batch(_as_pixels(pictures[start : start + self.batch]))
        return readings

    def _read_batch(self, pixels: Any) -> list[Reading]:
        places, border_errors = map(self.arrays.to_numpy, self._backgrounds(pixels))
        spots = (places.reshape(-1, 1) * CELLS + np.arange(CELLS)).reshape(-1)
        seen = self._look_at(cells_of(pixels), spots)
        return [
            _reading(int(place), seen[first : first + CELLS], float(rim))
            for place, rim, first in zip(
                places, border_errors, range(0, len(places) * CELLS, CELLS), strict=True
            )
        ]

    def _look_at(self, cells: Any, spots: NDArray[np.int64]) -> list[Cell]:
        """What is seen in cells; what was seen before in the very same pixels is not looked for again."""
        if not isinstance(cells, np.ndarray):
            return self._find(cells, spots)
        keys = [(spot, sha256(cell).digest()) for spot, cell in zip(spots.tolist(), cells, strict=True)]
        known = {key: found for key in keys if (found := self._known.get(key)) is not None}
        new = {key: place for place, key in enumerate(keys) if key not in known}
        if new:
            places = list(new.values())
            known.update(zip(new, self._find(cells[places], spots[places]), strict=True))
            self._remember({key: known[key] for key in new})
        return [known[key] for key in keys]

    def _remember(self, cells: dict[CellKey, Cell]) -> None:
        if len(self._known) + len(cells) > CELLS_KEPT:
            self._known = {}
        self._known.update(cells)

    def _find(self, pixels: Any, spots: NDArray[np.int64]) -> list[Cell]:
        """The nearest the world could draw in each cell."""
        where = self.arrays.integers(spots)
        fine = reduced(self.arrays.floats(pixels), FINE)
        coarse = reduced(fine, COARSE).reshape(len(fine), -1)
        candidates = self.arrays.smallest(self._coarse_errors(coarse, where), SHORTLIST)
        errors = self._fine_errors(fine.reshape(len(fine), -1), where, candidates)
        return _nearest(self.arrays.to_numpy(candidates), self.arrays.to_numpy(errors))

    def _backgrounds(self, pictures: Array) -> tuple[Array, Array]:
        """The nearest background of each picture, and the error of its rim."""
        rims = [self.arrays.floats(rim) for rim in borders_of(pictures)]
        size = sum(rim.shape[1] for rim in rims)
        squares = sum(self._distances(rim, known) for rim, known in zip(rims, self._borders, strict=True))
        places = self.arrays.smallest(squares, 1)[:, 0]
        off = sum(
            ((rim - known[places]) ** 2).sum(axis=1) for rim, known in zip(rims, self._borders, strict=True)
        )
        return places, (off / size) ** 0.5

    def _distances(self, rows: Array, known: Array) -> Array:
        """The square distance of every row to every known one."""
        crossed = self.arrays.product(rows, known.T)
        return (rows**2).sum(axis=1).reshape(-1, 1) - 2 * crossed + (known**2).sum(axis=1)

    def _template_norms(self) -> Array:
        """The square of `colour − opacity · background` for every place and template, summed once."""
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
        """The square distance of every cell to every template over its own background."""
        known = self.coarse
        behind = known.backgrounds[spots]
        change = cells - behind
        veiled = (change * behind).reshape(len(cells), -1, 3).sum(axis=2)
        product = self.arrays.product
        squares = self._norms[spots] - 2 * (
            product(change, known.colour.T) - product(veiled, known.opacity.T)
        )
        squares[spots % CELLS >= GRID, HANDS_FROM:] = 1e30
        return squares

    def _fine_errors(self, cells: Array, spots: Array, candidates: Array) -> Array:
        """Root mean square errors of the shortlisted templates at the finer resolution."""
        known = self.fine
        behind = known.backgrounds[spots]
        change = (cells - behind).reshape(len(cells), 1, -1)
        opacity = known.opacity[candidates].reshape(*candidates.shape, -1, 1)
        off = known.colour[candidates]
        off -= (opacity * behind.reshape(len(cells), 1, -1, 3)).reshape(off.shape)
        off -= change  # in place, as is the square: fresh memory costs more than the sums
        off *= off
        return off.mean(axis=2) ** 0.5


def _nearest(candidates: NDArray[np.int64], errors: NDArray[np.float32]) -> list[Cell]:
    order = np.argsort(errors, axis=1, kind="stable")
    best = np.take_along_axis(candidates, order[:, :1], axis=1)[:, 0]
    nearest = np.take_along_axis(errors, order[:, :2], axis=1)
    confidence = _confidence(nearest[:, 0], nearest[:, 1])
    return list(zip(best.tolist(), confidence.tolist(), nearest[:, 0].tolist(), strict=True))


def _reading(place: int, cells: list[Cell], border_error: float) -> Reading:
    rows, confidence, errors = zip(*cells, strict=True)
    return Reading(scene_of(np.array([place, *rows])), confidence, errors, border_error)


_sharing = Lock()


def shared_reader() -> Reader:
    """The reader of this process: its templates take a moment to paint, so they are painted once."""
    with _sharing:
        return _only_reader()


@cache
def _only_reader() -> Reader:
    return Reader()


def _confidence(error: NDArray[np.float32], next_error: NDArray[np.float32]) -> NDArray[np.floating[Any]]:
    """1 where the pixels are just as drawn; 0 where another reading is as near, or nothing is."""
    apart = 1 - error / np.maximum(next_error, 1e-6)
    near = np.clip(1 - error / LOST, 0, 1)
    return np.asarray(np.clip(apart * near, 0, 1))


def _as_pixels(pictures: Any) -> Any:
    if isinstance(pictures, np.ndarray) or not isinstance(pictures[0], Image.Image):
        return pictures
    return np.stack([_at_size(picture) for picture in pictures])


def _at_size(picture: Image.Image) -> NDArray[np.uint8]:
    picture = picture if picture.mode == "RGB" else picture.convert("RGB")
    if picture.size != (SIDE, SIDE):
        picture = picture.resize((SIDE, SIDE), Image.Resampling.LANCZOS)
    return np.asarray(picture, dtype=np.uint8)
