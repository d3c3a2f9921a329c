"""Source images as an image model accepts them: enlarged, padded, with cached latents."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from PIL import Image as pillow
from PIL import ImageOps

if TYPE_CHECKING:
    from PIL.Image import Image

Size = tuple[int, int]
MIN_SIDE = 64
MAX_RATIO = 8
SIDE_MULTIPLE = 16
"""Sides are multiples of this: pipelines round others down, and an image must have the requested size."""
MOST_ROUNDINGS = 20
"""Maximum iterations; the rounding of a size converges after a few."""
MOST_KEPT = 64
"""Maximum sources with cached latents: a megabyte each, for an image of 1024×1024."""


def usable_source(image: Image) -> Image:
    """Return the image in a size that every pipeline accepts: enlarge a tiny one, add margins to a strip."""
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


def as_mask(image: Image) -> Image:
    """Return a mask as pipelines expect it: grey levels in RGB."""
    return image.convert("L").convert("RGB")


def on_canvas(image: Image, size: tuple[int, int], *, enlarge: bool = True) -> Image:
    """Return the whole image, centred on a white canvas of this size."""
    if image.size == size:
        return image
    if enlarge:
        return ImageOps.pad(image, size, pillow.Resampling.BICUBIC, color="white")
    canvas = pillow.new("RGB", size, "white")
    canvas.paste(image, ((size[0] - image.width) // 2, (size[1] - image.height) // 2))
    return canvas


def size_like(
    image: Image, size: tuple[int, int], *, multiple: int = SIDE_MULTIPLE, sizes: Sequence[Size] = ()
) -> Size:
    """Return a size with about as many pixels as `size` and the aspect ratio of an image.

    The size is a fixed point: an image of this size gets the same size, so a chain of edits is not rescaled.
    `sizes` are a model's trained sizes; without them, sides are multiples of `multiple`.
    """
    if sizes:
        return min(
            sizes, key=lambda each: abs(math.log(each[0] / each[1]) - math.log(image.width / image.height))
        )
    area, found = size[0] * size[1], image.size
    for _ in range(MOST_ROUNDINGS):
        rounded = _rounded(found, area, multiple)
        if rounded == found:
            break
        found = rounded
    return found


def _rounded(size: Size, area: int, multiple: int) -> Size:
    ratio = min(max(size[0] / size[1], 1 / MAX_RATIO), MAX_RATIO)
    width, height = (round(math.sqrt(each) / multiple) * multiple for each in (area * ratio, area / ratio))
    return max(width, MIN_SIDE), max(height, MIN_SIDE)


class KeptLatents:
    """An LRU cache of source latents, keyed by pixels."""

    def __init__(self) -> None:
        self.found = 0
        """Number of cache hits."""
        self._kept: OrderedDict[bytes, Any] = OrderedDict()

    def clear(self) -> None:
        self._kept.clear()

    def get(self, key: bytes) -> Any | None:
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        self.found += 1
        return self._kept[key]

    def keep(self, key: bytes, latents: Any) -> None:
        self._kept[key] = latents
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
