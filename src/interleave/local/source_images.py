"""Source images as an image model accepts them: enlarged, padded, with kept latents."""

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
"""Sides are multiples of this: pipelines round others down, and an image must have the size asked for."""
MOST_ROUNDINGS = 20
"""The rounding of a size settles after a few turns."""
MOST_KEPT = 64
"""Sources whose latents are kept: a megabyte each, for an image of 1024×1024."""


def usable_source(image: Image) -> Image:
    """The image as every pipeline accepts it: a tiny one is enlarged, a strip gets white margins."""
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
    """A mask as pipelines take it: grey levels, in RGB."""
    return image.convert("L").convert("RGB")


def on_canvas(image: Image, size: tuple[int, int], *, enlarge: bool = True) -> Image:
    """The whole image, centred on a white canvas of this size."""
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
    """A size of about as many pixels as `size`, with the aspect ratio of an image.

    It is one that keeps itself: an image of this size gets the same size again, so that no step of a chain
    of edits is scaled. `sizes` are those that a model was trained with; without, sides are multiples.
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
    """Latents of sources by their pixels, those unused for longest dropped first."""

    def __init__(self) -> None:
        self.found = 0
        """How often some were used."""
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
