"""The remedies against drift, as one value: named on the command line, kept in a run's configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from PIL.Image import Image
from pydantic import Field

from interleave.backends.protocols import GeneratorCapabilities, ImageGenerator, ImageRequest
from interleave.drift.keeping import align_colours, keep_unchanged
from interleave.types import Value


class Remedies(Value):
    """What is done against drift; nothing by default, as in the paper."""

    keep: bool = False
    """Whether what a step has not changed is taken from the picture that it starts from."""
    align: bool = False
    """Whether brightness and tint are aligned to that picture."""
    anchor_every: int | None = Field(default=None, ge=1)
    """Every so many steps a picture is drawn from its whole description instead of from the one before."""

    def improved(self, sources: Iterable[Image], drawn: Image) -> Image:
        """A drawn picture after the remedies that need no call; the last source is what it starts from."""
        source = next(reversed(tuple(sources)), None)
        if source is None:
            return drawn
        if self.align:
            drawn = align_colours(source, drawn)
        return keep_unchanged(source, drawn) if self.keep else drawn

    def re_anchors(self, place: int) -> bool:
        """Whether the picture at this place of a chain, from 1, is drawn from its whole description."""
        return self.anchor_every is not None and place > 1 and (place - 1) % self.anchor_every == 0


class RemediedGenerator:
    """A generator whose edits get the remedies that need no call."""

    def __init__(self, generator: ImageGenerator, remedies: Remedies) -> None:
        self.generator = generator
        self.remedies = remedies

    @property
    def capabilities(self) -> GeneratorCapabilities:
        return self.generator.capabilities

    async def generate(self, request: ImageRequest) -> Image:
        drawn = await self.generator.generate(request)
        if not request.sources:
            return drawn
        return await asyncio.to_thread(self.remedies.improved, request.sources, drawn)


def with_remedies(generator: ImageGenerator, remedies: Remedies) -> ImageGenerator:
    """The generator itself where there is nothing to do."""
    return RemediedGenerator(generator, remedies) if remedies.keep or remedies.align else generator
