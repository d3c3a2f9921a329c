"""Drift of a step, measured from its images. It is cheap enough for every step of every run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter, ImageOps
from pydantic import Field

from interleave.types import WRITTEN_IF_GIVEN, Value

Pixels = NDArray[Any]
"""Colours as floats from 0 to 255, or weights from 0 to 1."""

UNIT = 256
"""Length of the shorter side in pixels for which the lengths below hold. They scale with it."""
NOTICEABLE = 20.0
"""Difference in levels of 255, in any colour, that counts as a change."""
MOST_SHIFT = 12.0
"""Largest shift of all colours, in levels of 255, that counts as drift and not as an edit."""
SMOOTHED = 1.2
"""Radius by which differences are smoothed first, so that noise and fine texture do not count."""
SPECK = 3
"""Width below which a change counts as noise."""
GROWN = 7
"""Margin added to a change, because its outline differs less than its middle."""
SOFT = 2.0
"""Radius of the soft edge."""


def as_pixels(image: Image.Image) -> Pixels:
    return np.asarray(image.convert("RGB"), dtype=np.float32)


def as_image(pixels: Pixels) -> Image.Image:
    return Image.fromarray(np.clip(np.rint(pixels), 0, 255).astype(np.uint8), "RGB")


def changed_mask(before: Image.Image, after: Image.Image) -> Image.Image:
    """Return a mask that is white in changed areas, with a soft edge. Both images have the same size.

    A small uniform shift of all colours is drift, not a change.
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
    """Return how much each pixel has changed, 0 to 1, with an axis for the colours."""
    return (np.asarray(mask, dtype=np.float32) / 255)[..., None]


def _grown(mask: Image.Image, radius: int) -> Image.Image:
    """Return the white area grown by a radius. Box blurs take the same time for any radius."""
    for along in ((radius, 0), (0, radius)):
        mask = mask.filter(ImageFilter.BoxBlur(along)).point(lambda level: 255 if level else 0)
    return mask


def _shrunk(mask: Image.Image, radius: int) -> Image.Image:
    """Return the white area shrunk by a radius."""
    return ImageOps.invert(_grown(ImageOps.invert(mask), radius))


WINDOWED_SIDE = 96
"""Side in pixels at which images are compared."""
LEVELS = 6
"""Levels per colour channel."""
WINDOWS = (1 / 4, 1 / 3, 1 / 2, 1)
"""Window sizes, as shares of the image."""
BACKGROUND = 40.0
"""Distance from the border's colour, in levels of 255, within which a reference pixel is background."""
LEAST_FOREGROUND = 0.02


def identity(reference: Image.Image, image: Image.Image) -> float:
    """Return the share of an asset's colours that one window of the image contains: 0 to 1.

    The measure is cheap and ignores shape. It searches windows of several sizes for the colours of the
    reference image's foreground. A scarf that turns from red to blue lowers it by the scarf's share.
    """
    wanted = _foreground(
        as_pixels(reference.convert("RGB").resize((WINDOWED_SIDE, WINDOWED_SIDE), Image.Resampling.BOX))
    )
    bins = _bins(as_pixels(image.convert("RGB").resize((WINDOWED_SIDE, WINDOWED_SIDE), Image.Resampling.BOX)))
    found = 0.0
    for share in WINDOWS:
        size = round(WINDOWED_SIDE * share)
        for top in range(0, WINDOWED_SIDE - size + 1, max(1, size // 3)):
            for left in range(0, WINDOWED_SIDE - size + 1, max(1, size // 3)):
                window = np.bincount(bins[top : top + size, left : left + size].ravel(), minlength=LEVELS**3)
                found = max(found, _overlap(wanted, window))
    return min(1.0, found)


def _overlap(wanted: NDArray[np.float64], window: NDArray[np.int64]) -> float:
    """Return the overlap of two colour distributions, ignoring window colours that the asset lacks."""
    own = window * (wanted > 0)
    total = own.sum()
    return float(np.minimum(wanted, own / total).sum()) if total else 0.0


def _foreground(pixels: Pixels) -> NDArray[np.float64]:
    """Return the distribution of colours other than the border's."""
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


SIDE = 256
"""Longer side in pixels at which images are measured, because fine detail does not matter."""


class NamedMeasure(Protocol):
    """Measure of how much an asset resembles its reference image, 0 to 1."""

    name: str

    def __call__(self, reference: Image.Image, image: Image.Image) -> float: ...


class StepDrift(Value):
    """Drift of a step's image in the area that it should have kept."""

    changed: float = Field(ge=0, le=1)
    """Share of the image that the step has changed."""
    outside: float = Field(ge=0, le=255)
    """Mean difference in the unchanged area, in levels of 255."""
    likeness: float = Field(ge=-1, le=1)
    """Structural similarity of the unchanged area before and after: 1 is identical."""
    from_start: float | None = Field(default=None, ge=0, le=255)
    """Difference of tint and brightness from the first image of the document, in levels of 255."""
    identity: dict[str, float] = Field(default_factory=dict)
    """Resemblance of each asset of the step to its reference image, 0 to 1."""
    identity_by: str | None = WRITTEN_IF_GIVEN
    """Model that measured `identity`. `None`: the built-in colour measure."""


def step_drift(
    before: Image.Image | None,
    after: Image.Image,
    start: Image.Image | None = None,
    references: Mapping[str, Image.Image] | None = None,
    measure: NamedMeasure | None = None,
) -> StepDrift:
    """Return the drift of `after` from the image that it edits. `before` is `None` for a new image.

    Identities are measured by colours, or by `measure`, which receives the image at full size.
    """
    whole, after = after, small(after)
    found = {
        name: round(measure(each, whole) if measure else identity(each, after), 4)
        for name, each in (references or {}).items()
    }
    shared: dict[str, Any] = {
        "from_start": None if start is None else round(tint_difference(start, after), 3),
        "identity": found,
        "identity_by": measure.name if measure and found else None,
    }
    if before is None:
        return StepDrift(changed=1.0, outside=0.0, likeness=1.0, **shared)
    before = _same_size(before, after)
    changed = weights(changed_mask(before, after))
    old, new, kept = as_pixels(before), as_pixels(after), 1 - changed
    return StepDrift(
        changed=round(float(changed.mean()), 4),
        outside=round(_mean(np.abs(new - old), kept), 3),
        likeness=round(_mean(_similarity(old, new)[..., None], kept, empty=1.0), 4),
        **shared,
    )


def small(image: Image.Image) -> Image.Image:
    """Return the image scaled to the size at which it is measured."""
    if max(image.size) <= SIDE:
        return image
    scale = SIDE / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image.resize(size, Image.Resampling.BOX)


def difference(one: Image.Image, other: Image.Image) -> float:
    """Return the mean difference of two images, in levels of 255."""
    one = small(one)
    return float(np.abs(as_pixels(one) - as_pixels(_same_size(other, one))).mean())


def tint_difference(one: Image.Image, other: Image.Image) -> float:
    """Return the difference of two images at 4 × 4 pixels: only tint, brightness and gradients."""
    tiny = (as_pixels(each.resize((4, 4), Image.Resampling.BOX)) for each in (one, other))
    return float(np.abs(next(tiny) - next(tiny)).mean())


def _same_size(image: Image.Image, like: Image.Image) -> Image.Image:
    return image if image.size == like.size else image.resize(like.size, Image.Resampling.BOX)


def _mean(values: Pixels, weight: Pixels, empty: float = 0.0) -> float:
    total = float(weight.sum())
    return float((values.mean(axis=2, keepdims=True) * weight).sum()) / total if total >= 1 else empty


WINDOW = 3
"""Radius of the window for the structural similarity of a pixel."""
_C1, _C2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2


def _similarity(one: Pixels, other: Pixels) -> Pixels:
    """Return the structural similarity (SSIM) of the grey values at every pixel."""
    a, b = one.mean(axis=2), other.mean(axis=2)
    mean_a, mean_b = _window(a), _window(b)
    var_a, var_b = _window(a * a) - mean_a**2, _window(b * b) - mean_b**2
    both = _window(a * b) - mean_a * mean_b
    above = (2 * mean_a * mean_b + _C1) * (2 * both + _C2)
    likeness: Pixels = above / ((mean_a**2 + mean_b**2 + _C1) * (np.maximum(var_a + var_b, 0) + _C2))
    return likeness


def _window(values: Pixels) -> Pixels:
    """Return the mean of the window around every pixel. The image is mirrored at its edges."""
    size = 2 * WINDOW + 1
    padded = np.pad(values.astype(np.float64), ((WINDOW + 1, WINDOW), (WINDOW + 1, WINDOW)), mode="symmetric")
    sums = padded.cumsum(axis=0).cumsum(axis=1)
    total = sums[size:, size:] - sums[:-size, size:] - sums[size:, :-size] + sums[:-size, :-size]
    means: Pixels = (total / size**2).astype(np.float32)
    return means
