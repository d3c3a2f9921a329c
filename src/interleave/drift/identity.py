"""Whether an asset is still itself, by its colours: cheap, and blind to shape.

The colours of the reference picture's foreground are looked for in windows of the picture, at a few sizes.
A character whose scarf has turned from red to blue loses as much as the scarf makes up of it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from interleave.drift.unchanged import Pixels, as_pixels

SIDE = 96
"""Pictures are compared at this size."""
LEVELS = 6
"""Levels of each colour that are told apart."""
WINDOWS = (1 / 4, 1 / 3, 1 / 2, 1)
"""The sizes of windows, as shares of the picture."""
BACKGROUND = 40.0
"""A pixel of the reference within so many levels of its border's colour is background."""
LEAST_FOREGROUND = 0.02


def identity(reference: Image.Image, picture: Image.Image) -> float:
    """How much of the colours of an asset is found together somewhere in a picture: 0 to 1."""
    wanted = _foreground(as_pixels(reference.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BOX)))
    bins = _bins(as_pixels(picture.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BOX)))
    found = 0.0
    for share in WINDOWS:
        size = round(SIDE * share)
        for top in range(0, SIDE - size + 1, max(1, size // 3)):
            for left in range(0, SIDE - size + 1, max(1, size // 3)):
                window = np.bincount(bins[top : top + size, left : left + size].ravel(), minlength=LEVELS**3)
                found = max(found, _overlap(wanted, window))
    return min(1.0, found)


def _overlap(wanted: NDArray[np.float64], window: NDArray[np.int64]) -> float:
    """The shared part of two colour distributions; of the window only colours that the asset has count."""
    own = window * (wanted > 0)
    total = own.sum()
    return float(np.minimum(wanted, own / total).sum()) if total else 0.0


def _foreground(pixels: Pixels) -> NDArray[np.float64]:
    """The distribution of colours that are not those of the border."""
    border = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    away = np.abs(pixels - np.median(border, axis=0)).max(axis=2) > BACKGROUND
    chosen = _bins(pixels)[away] if away.mean() >= LEAST_FOREGROUND else _bins(pixels).ravel()
    counts = np.bincount(chosen, minlength=LEVELS**3).astype(np.float64)
    shares: NDArray[np.float64] = counts / counts.sum()
    return shares


def _bins(pixels: Pixels) -> NDArray[np.int64]:
    levels = np.minimum((pixels * LEVELS / 256).astype(np.int64), LEVELS - 1)
    found: NDArray[np.int64] = (levels[..., 0] * LEVELS + levels[..., 1]) * LEVELS + levels[..., 2]
    return found
