"""Drift of a step, from its images alone: cheap enough for every step of every run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter, ImageOps
from pydantic import Field

from interleave.types import WRITTEN_IF_GIVEN, Value

Pixels = NDArray[Any]
"""Colours as floating-point numbers of 0 to 255, or weights of 0 to 1."""

UNIT = 256
"""Lengths below are for a shorter side of so many pixels, and grow with it."""
NOTICEABLE = 20.0
"""A difference of so many levels of 255, in any colour, counts as a change."""
MOST_SHIFT = 12.0
"""A shift of all colours by more levels is no drift: the edit was about the whole image."""
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
    """White where the edit has changed something, with a soft edge; both images have one size.

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


WINDOWED_SIDE = 96
"""Images are compared at this size."""
LEVELS = 6
"""Levels of each colour that are told apart."""
WINDOWS = (1 / 4, 1 / 3, 1 / 2, 1)
"""The sizes of windows, as shares of the image."""
BACKGROUND = 40.0
"""A pixel of the reference within so many levels of its border's colour is background."""
LEAST_FOREGROUND = 0.02


def identity(reference: Image.Image, image: Image.Image) -> float:
    """How much of the colours of an asset is found together somewhere in an image: 0 to 1.

    Cheap, and blind to shape. The colours of the reference image's foreground are looked for in windows of
    the image, at a few sizes. A character whose scarf has turned from red to blue loses as much as the
    scarf makes up of it.
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


SIDE = 256
"""Images are measured at this size of the longer side: drift is not about the finest detail."""


class NamedMeasure(Protocol):
    """Says how much an asset resembles its reference image, 0 to 1."""

    name: str

    def __call__(self, reference: Image.Image, image: Image.Image) -> float: ...


class StepDrift(Value):
    """How far a step's image has moved from where it should have stayed."""

    changed: float = Field(ge=0, le=1)
    """The share of the image that the step has changed."""
    outside: float = Field(ge=0, le=255)
    """The mean difference in the rest, which should have stayed, in levels of 255."""
    likeness: float = Field(ge=-1, le=1)
    """The structural similarity of the rest to what it was: 1 is the same."""
    from_start: float | None = Field(default=None, ge=0, le=255)
    """The difference of tint and brightness from the first image of the document, in levels of 255."""
    identity: dict[str, float] = Field(default_factory=dict)
    """How much each asset of the step resembles its reference image, 0 to 1."""
    identity_by: str | None = WRITTEN_IF_GIVEN
    """The model that said so; None: their colours did."""


def step_drift(
    before: Image.Image | None,
    after: Image.Image,
    start: Image.Image | None = None,
    references: Mapping[str, Image.Image] | None = None,
    measure: NamedMeasure | None = None,
) -> StepDrift:
    """The drift of an image from the one that it was to change; None: it was drawn anew.

    Identities are measured by colours, or by the model of a `measure`, which sees the image at full size.
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
    """The image at the size at which it is measured."""
    if max(image.size) <= SIDE:
        return image
    scale = SIDE / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image.resize(size, Image.Resampling.BOX)


def difference(one: Image.Image, other: Image.Image) -> float:
    """The mean difference of two images, in levels of 255."""
    one = small(one)
    return float(np.abs(as_pixels(one) - as_pixels(_same_size(other, one))).mean())


def tint_difference(one: Image.Image, other: Image.Image) -> float:
    """The difference of two images at a size of 4 × 4: of tint, brightness and gradients alone."""
    tiny = (as_pixels(each.resize((4, 4), Image.Resampling.BOX)) for each in (one, other))
    return float(np.abs(next(tiny) - next(tiny)).mean())


def _same_size(image: Image.Image, like: Image.Image) -> Image.Image:
    return image if image.size == like.size else image.resize(like.size, Image.Resampling.BOX)


def _mean(values: Pixels, weight: Pixels, empty: float = 0.0) -> float:
    total = float(weight.sum())
    return float((values.mean(axis=2, keepdims=True) * weight).sum()) / total if total >= 1 else empty


WINDOW = 3
"""The structural similarity of a pixel is that of the window of this radius around it."""
_C1, _C2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2


def _similarity(one: Pixels, other: Pixels) -> Pixels:
    """The structural similarity (SSIM) of the grey values at every pixel."""
    a, b = one.mean(axis=2), other.mean(axis=2)
    mean_a, mean_b = _window(a), _window(b)
    var_a, var_b = _window(a * a) - mean_a**2, _window(b * b) - mean_b**2
    both = _window(a * b) - mean_a * mean_b
    above = (2 * mean_a * mean_b + _C1) * (2 * both + _C2)
    likeness: Pixels = above / ((mean_a**2 + mean_b**2 + _C1) * (np.maximum(var_a + var_b, 0) + _C2))
    return likeness


def _window(values: Pixels) -> Pixels:
    """The mean of the window around every pixel; the image is mirrored at its edges."""
    size = 2 * WINDOW + 1
    padded = np.pad(values.astype(np.float64), ((WINDOW + 1, WINDOW), (WINDOW + 1, WINDOW)), mode="symmetric")
    sums = padded.cumsum(axis=0).cumsum(axis=1)
    total = sums[size:, size:] - sums[:-size, size:] - sums[size:, :-size] + sums[:-size, :-size]
    means: Pixels = (total / size**2).astype(np.float32)
    return means
