"""Draws refined prompts and scores the results, once for equal requests."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from interleave import (
    BackendError,
    ConfigurationError,
    ImageGenerator,
    ImageRequest,
    Scorer,
    Scores,
    load_generator,
)
from interleave.plugin import RetriedVlm, agents, backends, critic_input, images

if TYPE_CHECKING:
    from PIL.Image import Image

    from interleave.plugin import PromptPack

MOST_KEPT = 1024


@dataclass(frozen=True)
class RedrawRequest:
    """One image to redraw and score."""

    planned_prompt: str
    prompt: str
    sources: tuple[Image, ...]
    seed: int

    @property
    def key(self) -> str:
        """Digest of the request: equal requests have equal results."""
        digests = [images.pixel_digest(source) for source in self.sources]
        content = "\x00".join([self.planned_prompt, self.prompt, str(self.seed), *digests])
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class Redraw:
    """An image and its scores."""

    image: Image
    scores: Scores
    drawing: float
    scoring: float


class Redrawer:
    """Draws and scores; equal requests are computed once, even if one is still in flight."""

    def __init__(self, generator: ImageGenerator, scorer: Scorer, *, keep: int = MOST_KEPT) -> None:
        self.generator = generator
        self.scorer = scorer
        self.keep = keep
        self._kept: OrderedDict[str, Redraw] = OrderedDict()
        self._in_flight: dict[str, asyncio.Task[Redraw]] = {}
        self._waiting: dict[str, int] = {}

    async def redraw(self, request: RedrawRequest) -> tuple[Redraw, bool]:
        """Return the image with its scores, and whether they were cached; raises errors of the backends."""
        key = request.key
        if kept := self._kept.get(key):
            self._kept.move_to_end(key)
            return kept, True
        task = self._in_flight.get(key)
        shared = task is not None
        if task is None:
            task = self._in_flight[key] = asyncio.create_task(self._make(request))
            task.add_done_callback(_retrieve)  # the task may fail after the last caller was cancelled
        self._waiting[key] = self._waiting.get(key, 0) + 1
        try:
            made = await asyncio.shield(task)
        finally:
            self._leave(key, task)
        self._remember(key, made)
        return made, shared

    def _leave(self, key: str, task: asyncio.Task[Redraw]) -> None:
        """Cancel a redraw when its last caller has stopped waiting."""
        self._waiting[key] -= 1
        if self._waiting[key] == 0:
            del self._waiting[key]
            if self._in_flight.get(key) is task:
                del self._in_flight[key]
            task.cancel()

    def _remember(self, key: str, made: Redraw) -> None:
        self._kept[key] = made
        while len(self._kept) > self.keep:
            self._kept.popitem(last=False)

    async def _make(self, wanted: RedrawRequest) -> Redraw:
        started = time.monotonic()
        request = ImageRequest(wanted.prompt, wanted.seed, wanted.sources)
        image = _image(await self.generator.generate(request))
        drawn = time.monotonic()
        seen = critic_input(wanted.planned_prompt, wanted.prompt, wanted.sources, image)
        scores = checked_scores(await self.scorer.score(seen))
        return Redraw(image, scores, drawn - started, time.monotonic() - drawn)


def load_redrawer(generator: str, scorer: str, pack: PromptPack) -> Redrawer:
    """Load generator and scorer by spec, with the default retry policy."""
    policy = backends.RetryPolicy()
    retried = backends.RetriedGenerator("the generator", load_generator(generator), policy)
    scoring = agents.scorer_from(backends.load_agent(scorer, "scorer"), pack)
    if not hasattr(scoring.agent, "score"):
        raise ConfigurationError(f"{scorer!r} cannot score: name a vision-language model, or 'oracle'")
    return Redrawer(retried, scoring.with_calls_through(lambda vlm: RetriedVlm("the scorer", vlm, policy)))


def checked_scores(scores: Any) -> Scores:
    """Return valid scores; anything else is a failure of the scorer, which never counts as a number."""
    marks = {name: getattr(scores, name, None) for name in Scores.model_fields}
    try:
        return Scores.model_validate(marks, strict=True)
    except ValidationError:
        raise BackendError(f"the scorer returned {scores!r:.120}, not scores from 0 to 10") from None


def _retrieve(task: asyncio.Task[Redraw]) -> None:
    if not task.cancelled():
        task.exception()


def _image(drawn: Any) -> Image:
    from PIL.Image import Image

    if not isinstance(drawn, Image):
        raise BackendError(f"the generator returned a {type(drawn).__name__}, not an image")
    if images.too_large(drawn.size):
        raise BackendError(f"the generator drew {drawn.width}×{drawn.height} pixels, more than is allowed")
    return drawn if drawn.mode == "RGB" else images.as_rgb(drawn)
