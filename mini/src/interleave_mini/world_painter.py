"""`world`: the generator that draws the miniature's world by rule, without a model and without torch."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Literal

from PIL import Image
from pydantic import Field

from interleave import BackendError, ConfigurationError, GeneratorCapabilities, ImageRequest
from interleave.plugin import BackendOptions, Spec


class WorldPainter:
    """Parses the prompt and draws the scene it asks for, starting from the source image if there is one.

    It is the upper bound for generators. With `?mistakes=0.3` it errs on purpose in that share of its
    images, so that a critic has something to find. From a prompt it cannot parse it draws the things named.
    """

    class Options(BackendOptions):
        mistakes: float = Field(default=0.0, ge=0, le=1)
        """The share of images with a mistake made on purpose; half of it for exact prompts."""
        of: Literal["thing", "picture"] = "thing"
        """What is wrong then: one thing, as critics were trained to see, or everything in the image."""

    def __init__(self, *, spec: Spec, options: Options) -> None:
        if spec.model or spec.base_url:
            raise ConfigurationError(
                f"{str(spec)!r}: 'world' takes no model and no address, only ?mistakes= and of="
            )
        self.options = options
        self.capabilities = GeneratorCapabilities(
            max_sources=1,
            seeds=False,
            price_per_image=0.0,
            draws_writing=False,
            concurrency=options.concurrency,
        )

    async def generate(self, request: ImageRequest) -> Image.Image:
        if len(request.sources) > 1:
            raise BackendError(f"'world' takes one source, not {len(request.sources)}")
        return await asyncio.to_thread(self._paint, request)

    def _paint(self, request: ImageRequest) -> Image.Image:
        from interleave_mini.language.patterns import NotUnderstood
        from interleave_mini.language.prompts import is_exact, literal_scene, parse_prompt
        from interleave_mini.reader import shared_batched_reader
        from interleave_mini.world.drawing import draw
        from interleave_mini.world.mistakes import with_mistake, with_mistake_of_the_image
        from interleave_mini.world.operations import Impossible

        before = shared_batched_reader().read(request.sources[0]).scene if request.sources else None
        try:
            scene = parse_prompt(request.prompt, before)
        except (NotUnderstood, Impossible):
            scene = literal_scene(request.prompt, before)
        rng = Random(f"{request.seed}/{request.prompt}")
        share = self.options.mistakes * (0.5 if is_exact(request.prompt) else 1)
        if rng.random() >= share:
            return draw(scene)
        if self.options.of == "picture":
            return draw(with_mistake_of_the_image(scene, rng))
        return draw(with_mistake(scene, rng, before))
