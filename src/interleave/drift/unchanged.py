"""Where an edit has changed a picture, found from the two pictures alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter, ImageOps

Pixels = NDArray[Any]
"""Colours as floating-point numbers of 0 to 255, or weights of 0 to 1."""

UNIT = 256
"""Lengths below are for a shorter side of so many pixels, and grow with it."""
NOTICEABLE = 20.0
"""A difference of so many levels of 255, in any colour, counts as a change."""
MOST_SHIFT = 12.0
"""A shift of all colours by more levels is no drift: the edit was about the whole picture."""
SMOOTHED = 1.2
"""Differences are smoothed by this radius first, so that noise and fine texture do not count."""
SPECK = 3
"""Changes narrower than this are taken for noise."""
GROWN = 7
"""By how much a change is grown: its outline differs less than its middle does."""
SOFT = 2.0
"""The radius of the soft edge."""


def as_pixels(image: Image.Image) -> Pixels:
    return np.asarray(image.convert("RGB"), dtype=np.float32)


def as_image(pixels: Pixels) -> Image.Image:
    return Image.fromarray(np.clip(np.rint(pixels), 0, 255).astype(np.uint8), "RGB")


def changed_mask(before: Image.Image, after: Image.Image) -> Image.Image:
    """White where the edit has changed something, with a soft edge; both pictures have one size.

    A small shift of all colours alike is no change: it is drift, which the remedies undo.
    """
    scale = min(before.size) / UNIT
    difference = as_pixels(after) - as_pixels(before)
    shift = np.median(difference, axis=(0, 1))
    if np.abs(shift).max() <= MOST_SHIFT:
        difference -= shift
    largest = np.abs(difference).max(axis=2)
    smooth = Image.fromarray(np.clip(largest, 0, 255).astype(np.uint8), "L").filter(
        ImageFilter.GaussianBlur(SMOOTHED * scale)
    )
    mask = smooth.point(lambda level: 255 if level >= NOTICEABLE else 0)
    speck, grown = max(1, round(SPECK * scale / 2)), max(1, round(GROWN * scale / 2))
    mask = _grown(_shrunk(mask, speck), speck + grown)
    return mask.filter(ImageFilter.GaussianBlur(SOFT * scale))


def weights(mask: Image.Image) -> Pixels:
    """How much each pixel has changed, 0 to 1, with an axis for the colours."""
    return (np.asarray(mask, dtype=np.float32) / 255)[..., None]


def _grown(mask: Image.Image, radius: int) -> Image.Image:
    """The white part, larger by a radius; by means along each axis, which take no longer for a large one."""
    for along in ((radius, 0), (0, radius)):
        mask = mask.filter(ImageFilter.BoxBlur(along)).point(lambda level: 255 if level else 0)
    return mask


def _shrunk(mask: Image.Image, radius: int) -> Image.Image:
    """The white part, smaller by a radius."""
    return ImageOps.invert(_grown(ImageOps.invert(mask), radius))
