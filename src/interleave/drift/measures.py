"""Drift of a step, from its pictures alone: cheap enough for every step of every run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from PIL import Image
from pydantic import Field

from interleave.drift.identity import identity
from interleave.drift.unchanged import Pixels, as_pixels, changed_mask, weights
from interleave.types import WRITTEN_IF_GIVEN, Value

SIDE = 256
"""Pictures are measured at this size of the longer side: drift is not about the finest detail."""


class NamedMeasure(Protocol):
    """Says how much an asset resembles its reference picture, 0 to 1."""

    name: str

    def __call__(self, reference: Image.Image, picture: Image.Image) -> float: ...


class StepDrift(Value):
    """How far a step's picture has moved from where it should have stayed."""

    changed: float = Field(ge=0, le=1)
    """The share of the picture that the step has changed."""
    outside: float = Field(ge=0, le=255)
    """The mean difference in the rest, which should have stayed, in levels of 255."""
    likeness: float = Field(ge=-1, le=1)
    """The structural similarity of the rest to what it was: 1 is the same."""
    from_start: float | None = Field(default=None, ge=0, le=255)
    """The difference of tint and brightness from the first picture of the document, in levels of 255."""
    identity: dict[str, float] = Field(default_factory=dict)
    """How much each asset of the step resembles its reference picture, 0 to 1."""
    identity_by: str | None = WRITTEN_IF_GIVEN
    """The model that said so; None: their colours did."""


def step_drift(
    before: Image.Image | None,
    after: Image.Image,
    start: Image.Image | None = None,
    references: Mapping[str, Image.Image] | None = None,
    measure: NamedMeasure | None = None,
) -> StepDrift:
    """The drift of a picture from the one that it was to change; None: it was drawn anew.

    Identities are measured by colours, or by the model of a `measure`, which sees the picture at full size.
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
    """The picture at the size at which it is measured."""
    if max(image.size) <= SIDE:
        return image
    scale = SIDE / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image.resize(size, Image.Resampling.BOX)


def difference(one: Image.Image, other: Image.Image) -> float:
    """The mean difference of two pictures, in levels of 255."""
    one = small(one)
    return float(np.abs(as_pixels(one) - as_pixels(_same_size(other, one))).mean())


def tint_difference(one: Image.Image, other: Image.Image) -> float:
    """The difference of two pictures at a size of 4 × 4: of tint, brightness and gradients alone."""
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
    """The mean of the window around every pixel; the picture is mirrored at its edges."""
    size = 2 * WINDOW + 1
    padded = np.pad(values.astype(np.float64), ((WINDOW + 1, WINDOW), (WINDOW + 1, WINDOW)), mode="symmetric")
    sums = padded.cumsum(axis=0).cumsum(axis=1)
    total = sums[size:, size:] - sums[:-size, size:] - sums[size:, :-size] + sums[:-size, :-size]
    means: Pixels = (total / size**2).astype(np.float32)
    return means
