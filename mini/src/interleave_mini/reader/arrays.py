"""What the parts of the reader share: templates, and the array functions that differ in numpy and torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = Any
"""A numpy array or a torch tensor: their common operators are all the reader uses."""
MAX_ERROR = 26.0
"""The error (RMS, of 255) from which a cell counts as showing nothing the world can draw."""
SAME = 0.5
"""Templates nearer than this to each other (RMS, of 255) look the same."""


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
    def of(cls, sprites: NDArray[np.float32], empty: NDArray[np.float32], arrays: Arrays) -> Templates:
        """Templates of sprites and empty cells at their resolution."""
        rows = len(sprites)
        return cls(
            sprites.shape[1],
            arrays.floats(sprites[..., :3].reshape(rows, -1)),
            arrays.floats(sprites[..., 3].reshape(rows, -1) / 255),
            arrays.floats(empty.reshape(len(empty), -1)),
        )


def reduced(cells: Array, side: int) -> Array:
    """Cells with fewer pixels, each the mean of a square of the old ones; halved as often as it takes."""
    while cells.shape[1] > side:
        pairs = cells[:, 0::2] + cells[:, 1::2]
        cells = (pairs[:, :, 0::2] + pairs[:, :, 1::2]) * 0.25
    return cells


def confidence_of(
    error: NDArray[np.floating[Any]], others: NDArray[np.floating[Any]], apart: NDArray[np.floating[Any]]
) -> NDArray[np.floating[Any]]:
    """1 where the pixels are exactly as drawn; 0 where they lie halfway to another template, or far from all.

    `others` are the errors (RMS) of other templates, and `apart` their distances from the best one, in the
    last axis. Noise moves pixels in all directions and hardly towards one template, so it lowers this little.
    """
    squares = np.maximum(apart.astype(np.float64) ** 2, 1e-3)
    margins = np.where(apart > SAME, (others.astype(np.float64) ** 2 - error[..., None] ** 2) / squares, 1)
    near = np.clip(1 - error / MAX_ERROR, 0, 1)
    return np.asarray(np.clip(margins.min(axis=-1), 0, 1) * near)


class Arrays(Protocol):
    def floats(self, values: Any) -> Array: ...
    def integers(self, values: Any) -> Array: ...
    def product(self, rows: Array, columns: Array) -> Array: ...
    def joined(self, one: Array, other: Array) -> Array: ...
    def smallest(self, values: Array, count: int) -> Array: ...
    def to_numpy(self, values: Array) -> np.ndarray[Any, Any]: ...


class NumpyArrays:
    """On the CPU, without torch."""

    def floats(self, values: Any) -> Array:
        return np.asarray(values).astype(np.float32)

    def integers(self, values: Any) -> Array:
        return np.asarray(values, dtype=np.int64)

    def product(self, rows: Array, columns: Array) -> Array:
        return rows @ columns

    def joined(self, one: Array, other: Array) -> Array:
        """Along the second axis."""
        return np.concatenate([one, other], axis=1)

    def smallest(self, values: Array, count: int) -> Array:
        """The indices of the smallest values of each row, the smallest first."""
        places = np.argpartition(values, count - 1, axis=1)[:, :count]
        order = np.argsort(np.take_along_axis(values, places, axis=1), axis=1, kind="stable")
        return np.take_along_axis(places, order, axis=1)

    def to_numpy(self, values: Array) -> np.ndarray[Any, Any]:
        return np.asarray(values)


class TorchArrays:
    """On any device torch knows."""

    def __init__(self, device: str) -> None:
        import torch

        self.torch = torch
        self.device = torch.device(device)

    def floats(self, values: Any) -> Array:
        return self.torch.as_tensor(values, device=self.device).to(self.torch.float32)

    def integers(self, values: Any) -> Array:
        return self.torch.as_tensor(values, device=self.device, dtype=self.torch.long)

    def product(self, rows: Array, columns: Array) -> Array:
        """In double precision on a GPU: training may have enabled TF32 (ten bits), and distances are small
        differences of large products."""
        if self.device.type != "cuda":
            return rows @ columns
        return (rows.double() @ columns.double()).to(self.torch.float32)

    def joined(self, one: Array, other: Array) -> Array:
        return self.torch.cat([one, other], dim=1)

    def smallest(self, values: Array, count: int) -> Array:
        return self.torch.topk(values, count, dim=1, largest=False).indices

    def to_numpy(self, values: Array) -> np.ndarray[Any, Any]:
        return np.asarray(values.cpu().numpy())
