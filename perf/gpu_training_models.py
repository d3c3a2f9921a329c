"""Builds the full-size models of a training on the device: the trained one, and those of its reward."""

from __future__ import annotations

import asyncio
import hashlib
import time
from pathlib import Path
from typing import Any

import torch
from gpu_bench import Bench
from gpu_training_pool import MadeGenerator
from gpu_training_rows import KINDS
from random_models import build_vlm, refusals, write_settings

from interleave.agents.critic import CriticInput, VlmScorer
from interleave.agents.prompts import load_pack
from interleave.backends.protocols import GeneratorCapabilities, ImageRequest
from interleave.backends.registry import load_generator
from interleave.config.specs import Spec
from interleave.errors import InterleaveError
from interleave.local.diffusers_generator import DiffusersGenerator
from interleave.local.qwen3_vl.batched_vision import batch_vision
from interleave.local.qwen3_vl.uint8_pixels import use_uint8_pixels
from interleave.local.tiny.vlms import split_into_distinct
from interleave.local.transformers_vlm import LoadedModel, TransformersVlm
from interleave.train.models import TrainableModel, freeze, lora_config
from interleave.train.recipes import ModelPart
from interleave.train.rewards.redraws import Redrawer
from interleave.types import Scores

MARKS = '<think>Both look right to me.</think><answer>{"score": [7, 8], "reasoning": "fine"}</answer>'


def learner_for(bench: Bench, part: ModelPart, folder: Path, *, taught: bool = True) -> TrainableModel:
    """Return the same as `load_trainable_model`, with random but fixed weights."""
    bench.free()
    torch.manual_seed(0)
    pieces = refusals(bench.tokens, KINDS)
    model, processor = build_vlm(bench.size, bench.device, bench.dtype, pieces, taught=taught)
    model.train()
    batch_vision(model)
    use_uint8_pixels(model, processor)
    freeze(model, part)
    return TrainableModel(folder, model, processor, str(folder), lora_config(part))


def write_model_settings(bench: Bench, folder: Path) -> None:
    """Write the files of a checkpoint except weights: row lengths are counted before a model is loaded."""
    write_settings(folder, bench.size, refusals(bench.tokens, KINDS))


class Makers:
    """Generator and scorer of a reward, and their busy times."""

    def __init__(
        self, bench: Bench, *, scorer: bool, pool: str | None = None, seconds: float | None = None
    ) -> None:
        """`pool` is the spec of drawing servers; `seconds` is the time of an image that uses no device.

        Without either, a model in this process draws.
        """
        self.bench = bench
        self.step = 0
        self.spans: list[tuple[int, str, float, float]] = []
        """Step, kind, start and end of each call."""
        self.misread = 0
        """Number of scorer replies that could not be parsed."""
        self.generator: Any = None
        if seconds is not None:
            self.generator = ElsewhereGenerator(bench.image(), seconds)
        else:
            self.generator = load_generator(pool) if pool else self._generator()
        self.scorer = self._scorer() if scorer else None

    def begin_again(self, *, scorer: bool) -> None:
        """Reset for another training; drop the scorer unless it is needed."""
        self.step, self.spans = 0, []
        if not scorer:
            self.scorer = None
            self.bench.free()

    def _generator(self) -> DiffusersGenerator:
        toy, device = self.bench.options.toy, self.bench.device.type
        options = MadeGenerator.Options(toy=toy, device=device, batch=4, compile=False)
        return MadeGenerator(spec=Spec("made"), options=options)

    def _scorer(self) -> VlmScorer:
        """Build an 8B model that answers each question with the same scores."""
        parts = build_vlm(self.bench.size, self.bench.device, self.bench.dtype, split_into_distinct(MARKS))
        how: dict[str, Any] = {"device": self.bench.device.type, "batch": 32}
        how |= {"compile": False, "cache": "static"}
        vlm = TransformersVlm(
            spec=Spec("transformers", "Qwen/Qwen3-VL-8B-Instruct"),
            options=TransformersVlm.Options(**how),
            loaded=LoadedModel(*parts),
        )
        return VlmScorer(vlm, load_pack())

    def redrawer(self) -> Redrawer:
        return Redrawer(_TimedGenerator(self), _TimedScorer(self))

    def busy(self, what: str, step: int) -> float:
        """Return the seconds of a step during which at least one call was in flight."""
        spent, until = 0.0, 0.0
        for begin, end in sorted(self._of_step(what, step)):
            spent += max(0.0, end - max(begin, until))
            until = max(until, end)
        return spent

    def count(self, what: str, step: int) -> int:
        return len(self._of_step(what, step))

    def note(self, what: str, began: float) -> None:
        """Record a call of the current step that started at `began` and ends now."""
        self.spans.append((self.step, what, began, time.perf_counter()))

    def _of_step(self, what: str, step: int) -> list[tuple[float, float]]:
        return [(began, ended) for number, name, began, ended in self.spans if (number, name) == (step, what)]

    def free(self) -> None:
        self.generator = self.scorer = None
        self.bench.free()


class ElsewhereGenerator:
    """Simulates a generator on another device that draws sequentially: it only waits."""

    def __init__(self, image: Any, seconds: float) -> None:
        self.capabilities = GeneratorCapabilities()
        self._image, self._seconds = image, seconds
        self._free = asyncio.Lock()

    async def generate(self, request: ImageRequest) -> Any:
        async with self._free:
            await asyncio.sleep(self._seconds)
        return self._image


class _TimedGenerator:
    def __init__(self, makers: Makers) -> None:
        self.makers = makers
        self.capabilities = makers.generator.capabilities

    async def generate(self, request: ImageRequest) -> Any:
        began = time.perf_counter()
        image = await self.makers.generator.generate(request)
        self.makers.note("drawing", began)
        return image


class _TimedScorer:
    """Scores by request, so that answers of a group differ, after a model has read the images."""

    def __init__(self, makers: Makers) -> None:
        self.makers = makers

    async def score(self, seen: CriticInput) -> Scores:
        began = time.perf_counter()
        if self.makers.scorer is not None:
            try:
                await self.makers.scorer.score(seen)
            except InterleaveError:
                self.makers.misread += 1
        else:
            await asyncio.sleep(0)
        self.makers.note("scoring", began)
        digest = hashlib.sha256(seen.prompt.encode()).digest()
        return Scores(semantics=digest[0] % 11, quality=digest[1] % 11)
