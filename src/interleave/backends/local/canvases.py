"""Source pictures scaled and padded to what a pipeline accepts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from PIL import Image as pillow
from PIL import ImageOps

if TYPE_CHECKING:
    from PIL.Image import Image

MIN_SIDE = 64
MAX_RATIO = 8
SIDE_MULTIPLE = 16
"""Sides are multiples of this: pipelines round others down, and a picture must have the size asked for."""


def usable_source(image: Image) -> Image:
    """The picture as every pipeline accepts it: a tiny one is enlarged, a strip gets white margins."""
    image = image if image.mode == "RGB" else image.convert("RGB")
    least = min(image.size)
    if least < MIN_SIDE:
        scale = MIN_SIDE / least
        # The long side of a strip is capped: its margins would make the canvas far too large.
        longest = MIN_SIDE * MAX_RATIO * 2
        size = [max(1, min(math.ceil(side * scale), longest)) for side in image.size]
        image = image.resize((size[0], size[1]), pillow.Resampling.BICUBIC)
    short = max(MIN_SIDE, math.ceil(max(image.size) / MAX_RATIO))
    return on_canvas(image, (max(image.width, short), max(image.height, short)), enlarge=False)


def on_canvas(image: Image, size: tuple[int, int], *, enlarge: bool = True) -> Image:
    """The whole picture, centred on a white canvas of this size."""
    if image.size == size:
        return image
    if enlarge:
        return ImageOps.pad(image, size, pillow.Resampling.BICUBIC, color="white")
    canvas = pillow.new("RGB", size, "white")
    canvas.paste(image, ((size[0] - image.width) // 2, (size[1] - image.height) // 2))
    return canvas


def size_like(image: Image, size: tuple[int, int]) -> tuple[int, int]:
    """A size of as many pixels as `size`, with the aspect ratio of a picture."""
    ratio = min(max(image.width / image.height, 1 / MAX_RATIO), MAX_RATIO)
    area = size[0] * size[1]
    width = round(math.sqrt(area * ratio) / SIDE_MULTIPLE) * SIDE_MULTIPLE
    height = round(math.sqrt(area / ratio) / SIDE_MULTIPLE) * SIDE_MULTIPLE
    return max(width, MIN_SIDE), max(height, MIN_SIDE)
