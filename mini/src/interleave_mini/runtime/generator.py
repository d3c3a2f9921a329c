"""The image generator: FLUX.2 klein on onnxruntime, with a queue of calls."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from interleave import BackendError, GeneratorCapabilities, ImageRequest
from interleave.local.batching import BatchQueue, QueuedCall, device_executor
from interleave.local.library_errors import as_backend_error
from interleave.local.options import LEAST_SIDE, MOST_SIDE, DiffusersOptions
from interleave.local.source_images import SIDE_MULTIPLE, on_canvas, size_like, usable_source
from interleave.plugin import backends, images
from interleave_mini.runtime.image_model import Drawing, ImageModel

if TYPE_CHECKING:
    from PIL.Image import Image

log = logging.getLogger(__name__)

SIDES = range(LEAST_SIDE, MOST_SIDE + 1, SIDE_MULTIPLE)
SOURCE_SIDE_MULTIPLE = 32
"""Sides are multiples of this if a size is chosen from a source."""


@dataclass(frozen=True)
class Call:
    """A request with its size and steps."""

    request: ImageRequest
    drawing: Drawing
    size: tuple[int, int]
    steps: int


class _AllCancelled(Exception):
    """Every call of a batch has been cancelled."""


class OnnxGenerator:
    """The image model in a folder."""

    def __init__(self, folder: Path, options: DiffusersOptions) -> None:
        self.options = options
        settings = json.loads((folder / "interleave.json").read_bytes())
        self.steps: int = options.steps or settings["num_inference_steps"]
        self.size: tuple[int, int] = (
            options.width or options.size or settings["width"],
            options.height or options.size or settings["height"],
        )
        self.prompt_tokens: int = options.prompt_tokens or settings["max_sequence_length"]
        self.model = ImageModel(folder)
        self._words = self.prompt_tokens - self.model.template_tokens()
        self.queue: BatchQueue[Call, Image] = BatchQueue(
            self._run,
            executor=device_executor("cpu"),
            max_batch=options.batch or 1,  # a CPU gains nothing, and single images are repeatable
            batch_key=_batch_key,
            free_memory=self.model.kept_latents.clear,
        )
        self.capabilities = GeneratorCapabilities(
            max_sources=settings["max_sources"],
            request_settings=("steps", "size"),
            price_per_image=0.0,
            draws_writing=False,
            concurrency=options.concurrency or self.queue.max_batch,
        )

    async def generate(self, request: ImageRequest) -> Image:
        self._refuse(request)
        size = self._size(request)
        changed = len(request.sources) - 1 if request.changes_last else 0
        sources = tuple(
            on_canvas(usable_source(source), size)
            if self.options.shape == "source" and place == changed
            else usable_source(source)
            for place, source in enumerate(request.sources)
        )
        drawing = Drawing(request.prompt, request.seed, sources)
        steps = request.settings.steps or self.steps
        return await self.queue.submit(Call(request, drawing, size, steps))

    def _refuse(self, request: ImageRequest) -> None:
        most = self.capabilities.max_sources
        if len(request.sources) > most:
            raise BackendError(f"the generator takes at most {most} sources, not {len(request.sources)}")
        backends.check_extras(request, self.capabilities)
        size = request.settings.size
        if size is not None and not all(side in SIDES for side in size):
            raise BackendError(
                f"{size[0]}×{size[1]}: width and height must be multiples of {SIDE_MULTIPLE} from "
                f"{LEAST_SIDE} to {MOST_SIDE}"
            )

    def _size(self, request: ImageRequest) -> tuple[int, int]:
        if request.settings.size is not None:
            return request.settings.size
        if self.options.shape != "source" or not request.sources:
            return self.size
        like = request.sources[-1 if request.changes_last else 0]
        return size_like(like, self.size, multiple=SOURCE_SIDE_MULTIPLE)

    def _run(self, batch: Sequence[QueuedCall[Call, Image]]) -> list[Image]:
        calls = [call.input for call in batch]
        first = calls[0]

        def after_step(done: int) -> None:
            if all(call.cancelled for call in batch):
                raise _AllCancelled
            for call in calls:
                backends.report(call.request.slot, done, call.steps)

        for call in calls:
            self._warn_of_long_prompt(call.request.prompt)
        try:
            with as_backend_error("the generator", len(batch), let_through=_AllCancelled):
                pixels = self.model.draw(
                    [call.drawing for call in calls],
                    size=first.size,
                    steps=first.steps,
                    prompt_tokens=self.prompt_tokens,
                    after_step=after_step,
                )
                return [_as_image(each) for each in pixels]
        except _AllCancelled:
            return [images.white_canvas(call.size) for call in calls]  # cancelled calls drop their results

    def _warn_of_long_prompt(self, prompt: str) -> None:
        count = len(self.model.tokenizer.encode(prompt))
        if count > self._words:
            log.warning(
                "the prompt has %d tokens, and the generator reads the first %d: shorten it",
                count,
                self._words,
            )


def _batch_key(call: Call) -> object:
    """Return what calls of one batch have in common."""
    return call.size, call.steps, tuple(source.size for source in call.drawing.sources)


def _as_image(pixels: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> Image:
    from PIL import Image as pillow

    if not np.isfinite(pixels).all():
        raise BackendError("the generator computed NaN or infinity")
    levels = (pixels * np.float32(255)).round().astype(np.uint8)
    return pillow.fromarray(np.ascontiguousarray(levels.transpose(1, 2, 0)))
