"""Remedies against drift that need no call, around any generator; and models that measure identities.

What an edit was not asked to change comes from the source. `keep_unchanged` puts the changed part into the
source image. `align_colours` leaves the drawn image and corrects its low frequencies (brightness, tint,
gradients) by what the unchanged part says about them.
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
from interleave.config.run_config import Remedies
from interleave.config.specs import Spec, parse_spec
from interleave.drift.measures import NamedMeasure, Pixels, as_image, as_pixels, changed_mask, weights
from interleave.errors import ConfigurationError


def improved(remedies: Remedies, before: Image.Image, drawn: Image.Image) -> Image.Image:
    """A drawn image after the remedies; `before` is the image that it was to change."""
    if remedies.align:
        drawn = align_colours(before, drawn)
    return keep_unchanged(before, drawn) if remedies.keep else drawn


class RemediedGenerator:
    """A generator whose edits get the remedies."""

    def __init__(self, generator: ImageGenerator, remedies: Remedies) -> None:
        self.generator = generator
        self.remedies = remedies

    @property
    def capabilities(self) -> GeneratorCapabilities:
        return self.generator.capabilities

    async def generate(self, request: ImageRequest) -> Image.Image:
        drawn = await self.generator.generate(request)
        sources: Sequence[Image.Image] = request.sources if request.changes_last else ()
        return await asyncio.to_thread(improved, self.remedies, sources[-1], drawn) if sources else drawn


def with_remedies(generator: ImageGenerator, remedies: Remedies) -> ImageGenerator:
    """The generator itself where there is nothing to do."""
    return RemediedGenerator(generator, remedies) if remedies.keep or remedies.align else generator


MOST_CHANGED = 0.6
"""Where more of the image has changed, the edit was about the whole of it: nothing is kept."""
LOW = 1 / 10
"""The radius of what counts as a low frequency, as a share of the shorter side."""


def keep_unchanged(source: Image.Image, drawn: Image.Image) -> Image.Image:
    """The drawn image where it has changed, and the source everywhere else."""
    changed = _changed(source, drawn)
    if changed is None:
        return drawn
    return as_image(as_pixels(source) * (1 - changed) + as_pixels(drawn) * changed)


def align_colours(source: Image.Image, drawn: Image.Image) -> Image.Image:
    """The drawn image, its low frequencies corrected to those of the source where nothing has changed.

    Near a change, where the source says nothing, the correction of the surroundings is used.
    """
    changed = _changed(source, drawn)
    if changed is None:
        return drawn
    kept = 1 - changed
    wanted = _low((as_pixels(source) - as_pixels(drawn)) * kept)
    known = _low(np.repeat(kept, 3, axis=2) * 255) / 255
    return as_image(as_pixels(drawn) + wanted / np.maximum(known, 0.05))


def _changed(source: Image.Image, drawn: Image.Image) -> Pixels | None:
    """How much each pixel has changed; None where the images cannot be compared, or little is left."""
    if source.size != drawn.size:
        return None
    changed = weights(changed_mask(source, drawn))
    return None if float(changed.mean()) > MOST_CHANGED else changed


def _low(values: Pixels) -> Pixels:
    """The low frequencies of signed values, by three box blurs in a row: close to a Gaussian one."""
    radius = max(1, round(LOW * min(values.shape[:2])))
    for axis in (0, 1):
        for _ in range(3):
            values = _box(values, radius, axis)
    return values


def _box(values: Pixels, radius: int, axis: int) -> Pixels:
    """The mean over a window along one axis; the image is mirrored at its edges."""
    around = [(0, 0)] * values.ndim
    around[axis] = (radius + 1, radius)
    sums = np.cumsum(np.pad(values, around, mode="symmetric"), axis=axis, dtype=np.float64)
    length, window = values.shape[axis], 2 * radius + 1
    ahead = np.take(sums, range(window, window + length), axis=axis)
    behind = np.take(sums, range(length), axis=axis)
    return ((ahead - behind) / window).astype(np.float32)


COLOURS = "colours"
"""The name of the measure that is built in."""


def checked_identity(text: str | None) -> str | None:
    """The spec of a model for identities, checked but not loaded; None for the colours."""
    if not text or text == COLOURS:
        return None
    spec = parse_spec(text)
    _measure_of(spec).check(spec)
    return text


@lru_cache(maxsize=4)
def identity_model(text: str) -> NamedMeasure:
    """The measure of a spec, loaded once for all runs of a process."""
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
