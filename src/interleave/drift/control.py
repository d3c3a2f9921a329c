"""Drift control that needs no model call, for any generator; and models that measure identities.

Areas that an edit does not change come from the source. `keep_unchanged` pastes the changed area into the
source image. `align_colours` keeps the generated image and corrects its low frequencies (brightness, tint,
gradients) to match the source in the unchanged area.
"""

from __future__ import annotations

import asyncio
import pkgutil
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from PIL import Image

from interleave.backends.protocols import GeneratorCapabilities, ImageGenerator, ImageRequest
from interleave.backends.registry import find_backend
from interleave.config.run_config import DriftControl
from interleave.config.specs import Spec, parse_spec
from interleave.drift.measures import NamedMeasure, Pixels, as_image, as_pixels, changed_mask, weights
from interleave.errors import ConfigurationError
from interleave.images import original_of, with_original


def apply_drift_control(control: DriftControl, before: Image.Image, drawn: Image.Image) -> Image.Image:
    """Return the generated image after drift control. `before` is the image that it edits."""
    if control.align:
        drawn = align_colours(before, drawn)
    return keep_unchanged(before, drawn) if control.keep else drawn


class DriftControlledGenerator:
    """A generator with drift control for its edits."""

    def __init__(self, generator: ImageGenerator, control: DriftControl) -> None:
        self.generator = generator
        self.control = control

    @property
    def capabilities(self) -> GeneratorCapabilities:
        return self.generator.capabilities

    async def generate(self, request: ImageRequest) -> Image.Image:
        drawn = await self.generator.generate(request)
        sources: Sequence[Image.Image] = request.sources if request.changes_last else ()
        if not sources:
            return drawn
        controlled = await asyncio.to_thread(apply_drift_control, self.control, sources[-1], drawn)
        return with_original(controlled, original_of(drawn))


def with_drift_control(generator: ImageGenerator, control: DriftControl) -> ImageGenerator:
    """Return the generator with drift control, or the generator itself if none is needed."""
    return DriftControlledGenerator(generator, control) if control.keep or control.align else generator


MOST_CHANGED = 0.6
"""Share of changed pixels above which an edit concerns the whole image and nothing is kept."""
LOW = 1 / 10
"""Blur radius for low frequencies, as a share of the shorter side."""


def keep_unchanged(source: Image.Image, drawn: Image.Image) -> Image.Image:
    """Return the generated image in changed areas and the source everywhere else."""
    changed = _changed(source, drawn)
    if changed is None:
        return drawn
    return as_image(as_pixels(source) * (1 - changed) + as_pixels(drawn) * changed)


def align_colours(source: Image.Image, drawn: Image.Image) -> Image.Image:
    """Return the generated image with the low frequencies of the source in unchanged areas.

    Changed areas, where the source gives no information, get the correction of their surroundings.
    """
    changed = _changed(source, drawn)
    if changed is None:
        return drawn
    kept = 1 - changed
    wanted = _low((as_pixels(source) - as_pixels(drawn)) * kept)
    known = _low(np.repeat(kept, 3, axis=2) * 255) / 255
    return as_image(as_pixels(drawn) + wanted / np.maximum(known, 0.05))


def _changed(source: Image.Image, drawn: Image.Image) -> Pixels | None:
    """Return how much each pixel has changed. `None` if sizes differ or most of the image has changed."""
    if source.size != drawn.size:
        return None
    changed = weights(changed_mask(source, drawn))
    return None if float(changed.mean()) > MOST_CHANGED else changed


def _low(values: Pixels) -> Pixels:
    """Return the low frequencies of signed values, by three box blurs, which approximate a Gaussian blur."""
    radius = max(1, round(LOW * min(values.shape[:2])))
    for axis in (0, 1):
        for _ in range(3):
            values = _box(values, radius, axis)
    return values


def _box(values: Pixels, radius: int, axis: int) -> Pixels:
    """Return the mean over a window along one axis. The image is mirrored at its edges."""
    around = [(0, 0)] * values.ndim
    around[axis] = (radius + 1, radius)
    sums = np.cumsum(np.pad(values, around, mode="symmetric"), axis=axis, dtype=np.float64)
    length, window = values.shape[axis], 2 * radius + 1
    ahead = np.take(sums, range(window, window + length), axis=axis)
    behind = np.take(sums, range(length), axis=axis)
    return ((ahead - behind) / window).astype(np.float32)


COLOURS = "colours"
"""Name of the built-in measure."""


def checked_identity(text: str | None) -> str | None:
    """Return the spec of an identity model, checked but not loaded. `None` for the built-in measure."""
    if not text or text == COLOURS:
        return None
    spec = parse_spec(text)
    _measure_of(spec).check(spec)
    return text


@lru_cache(maxsize=4)
def identity_model(text: str) -> NamedMeasure:
    """Return the measure of a spec, loaded once per process."""
    spec = parse_spec(text)
    measure: NamedMeasure = _measure_of(spec)(spec)
    return measure


def _measure_of(spec: Spec) -> Any:
    info = find_backend(spec.name, "vlm")
    if info is None or not info.identity:
        raise ConfigurationError(
            f"identity is measured by {COLOURS!r}, or by a model such as "
            f"'transformers:facebook/dinov2-small', not by {str(spec)!r}"
        )
    return pkgutil.resolve_name(info.identity)
