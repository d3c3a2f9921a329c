"""The miniature's backends: its two learned models, `mini`, and `world`, which draws by rule.

The oracle, which plans, judges and scores by rule, is in `oracle.py`.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from random import Random

from PIL import Image
from pydantic import Field

from interleave.backends.generators.diffusers import DiffusersGenerator
from interleave.backends.protocols import GeneratorCapabilities, ImageRequest
from interleave.backends.vlms.transformers import TransformersVlm
from interleave.config.specs import BackendOptions, Spec
from interleave.errors import BackendError, ConfigurationError

WEIGHTS = Path(__file__).parent / "weights"
ROLES = ("planner", "critic")


class MiniGenerator(DiffusersGenerator):
    """The diffusers backend on the weights in this package; it takes the same options."""

    def __init__(self, *, spec: Spec, options: DiffusersGenerator.Options, role: str = "generator") -> None:
        if spec.model or spec.base_url:
            raise ConfigurationError(
                f"{str(spec)!r}: 'mini' is the model in this package and takes no name and no address; "
                "a model of your own is 'diffusers:./folder'"
            )
        super().__init__(spec=replace(spec, model=str(WEIGHTS / "generator")), options=options, role=role)


class MiniAgent(TransformersVlm):
    """The transformers backend on the weights in this package; it takes the same options."""

    class Options(TransformersVlm.Options):
        guess: bool = False
        """Whether to plan requests that match no template it was trained on; most such plans are wrong."""

    def __init__(self, *, spec: Spec, options: Options, role: str) -> None:
        if spec.model or spec.base_url:
            raise ConfigurationError(
                f"{str(spec)!r}: 'mini' is the model in this package and takes no name and no address; "
                "a model of your own is 'transformers:./folder'"
            )
        if role not in ROLES:
            raise ConfigurationError(
                f"'mini' is no {role}: it plans and judges; the miniature's scorer is 'oracle'"
            )
        if options.compile is None:  # compiling takes longer than many documents do
            options = options.model_copy(update={"compile": False})
        super().__init__(spec=replace(spec, model=str(WEIGHTS / role)), options=options, role=role)


class WorldPainter:
    """Parses the prompt and draws the scene it asks for, starting from the source picture if there is one.

    It is the upper bound for generators. With `?mistakes=0.3` it errs on purpose in that share of its
    pictures, so that a critic has something to find. From a prompt it cannot parse it draws the things named.
    """

    class Options(BackendOptions):
        mistakes: float = Field(default=0.0, ge=0, le=1)
        """The share of pictures with a mistake made on purpose; half of it for exact prompts."""

    def __init__(self, *, spec: Spec, options: Options, role: str = "generator") -> None:
        if spec.model or spec.base_url:
            raise ConfigurationError(f"{str(spec)!r}: 'world' takes no model and no address, only ?mistakes=")
        self.options = options
        self.capabilities = GeneratorCapabilities(
            max_sources=1, seeds=False, price_per_image=0.0, concurrency=options.concurrency
        )

    async def generate(self, request: ImageRequest) -> Image.Image:
        if len(request.sources) > 1:
            raise BackendError(f"'world' takes one source, not {len(request.sources)}")
        return await asyncio.to_thread(self._paint, request)

    def _paint(self, request: ImageRequest) -> Image.Image:
        from interleave_mini.language.patterns import NotUnderstood
        from interleave_mini.language.prompts import is_exact, literal_scene, parse_prompt
        from interleave_mini.reader import shared_batched_reader
        from interleave_mini.world import draw
        from interleave_mini.world.mistakes import with_mistake
        from interleave_mini.world.operations import Impossible

        before = shared_batched_reader().read(request.sources[0]).scene if request.sources else None
        try:
            scene = parse_prompt(request.prompt, before)
        except (NotUnderstood, Impossible):
            scene = literal_scene(request.prompt, before)
        rng = Random(f"{request.seed}/{request.prompt}")
        share = self.options.mistakes * (0.5 if is_exact(request.prompt) else 1)
        return draw(with_mistake(scene, rng, before) if rng.random() < share else scene)
