"""Pictures made to fit what a pipeline can take."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from PIL import Image as pillow
from PIL import ImageOps

if TYPE_CHECKING:
    from PIL.Image import Image

LEAST_SIDE = 64
LARGEST_RATIO = 8
STEP = 16
"""Sides are multiples of this: pipelines round others down, and a picture must be as large as was asked."""


def takeable(image: Image) -> Image:
    """A picture that every pipeline takes: a dot is enlarged, a strip gets white margins."""
    image = image if image.mode == "RGB" else image.convert("RGB")
    least = min(image.size)
    if least < LEAST_SIDE:
        scale = LEAST_SIDE / least
        # A strip is not enlarged beyond what its margins will leave of it.
        longest = LEAST_SIDE * LARGEST_RATIO * 2
        size = [max(1, min(math.ceil(side * scale), longest)) for side in image.size]
        image = image.resize((size[0], size[1]), pillow.Resampling.BICUBIC)
    short = max(LEAST_SIDE, math.ceil(max(image.size) / LARGEST_RATIO))
    return on_canvas(image, (max(image.width, short), max(image.height, short)), enlarge=False)


def on_canvas(image: Image, size: tuple[int, int], *, enlarge: bool = True) -> Image:
    """The whole picture in the middle of a white canvas of this size."""
    if image.size == size:
        return image
    if enlarge:
        return ImageOps.pad(image, size, pillow.Resampling.BICUBIC, color="white")
    canvas = pillow.new("RGB", size, "white")
    canvas.paste(image, ((size[0] - image.width) // 2, (size[1] - image.height) // 2))
    return canvas


def of_same_shape(image: Image, size: tuple[int, int]) -> tuple[int, int]:
    """A size of as many pixels as `size`, with the proportions of a picture."""
    ratio = min(max(image.width / image.height, 1 / LARGEST_RATIO), LARGEST_RATIO)
    area = size[0] * size[1]
    width = round(math.sqrt(area * ratio) / STEP) * STEP
    height = round(math.sqrt(area / ratio) / STEP) * STEP
    return max(width, LEAST_SIDE), max(height, LEAST_SIDE)
