"""The remedies that need no call, around any generator."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from PIL.Image import Image

from interleave.backends.protocols import GeneratorCapabilities, ImageGenerator, ImageRequest
from interleave.config.run_config import Remedies
from interleave.drift.keeping import align_colours, keep_unchanged


def improved(remedies: Remedies, before: Image, drawn: Image) -> Image:
    """A drawn picture after the remedies; `before` is the picture that it was to change."""
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

    async def generate(self, request: ImageRequest) -> Image:
        drawn = await self.generator.generate(request)
        sources: Sequence[Image] = request.sources if request.changes_last else ()
        return await asyncio.to_thread(improved, self.remedies, sources[-1], drawn) if sources else drawn


def with_remedies(generator: ImageGenerator, remedies: Remedies) -> ImageGenerator:
    """The generator itself where there is nothing to do."""
    return RemediedGenerator(generator, remedies) if remedies.keep or remedies.align else generator
