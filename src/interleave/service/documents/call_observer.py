"""Metrics, logs and traces of every model call, with the ids of its request and job."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from PIL.Image import Image

from interleave import (
    CriticInput,
    GeneratorCapabilities,
    ImageGenerator,
    ImageRequest,
    Message,
    Plan,
    Reply,
    Request,
    Sampling,
    Slot,
    Verdict,
    VisionLanguageModel,
    VlmCapabilities,
)
from interleave.plugin import Models
from interleave.service.documents.tracing import span

T = TypeVar("T")
log = logging.getLogger(__name__)


class CallObserver(Protocol):
    def called(self, role: str, outcome: str, seconds: float) -> None: ...


def observed(models: Models, observer: CallObserver) -> Models:
    """Return the models wrapped so that each call is observed."""

    def wrap(role: str) -> Callable[[Any], Any]:
        return lambda model: (
            ObservedVlm(model, role, observer)
            if isinstance(model, VisionLanguageModel)
            else ObservedAgent(model, role, observer)
        )

    return replace(
        models,
        planner=models.planner.wrapped(wrap("planner")),
        critic=models.critic.wrapped(wrap("critic")),
        generator=ObservedGenerator(models.generator, observer),
    )


class ObservedGenerator:
    """An observed image generator."""

    def __init__(self, generator: ImageGenerator, observer: CallObserver) -> None:
        self.generator = generator
        self.observer = observer

    @property
    def capabilities(self) -> GeneratorCapabilities:
        return self.generator.capabilities

    async def generate(self, request: ImageRequest) -> Image:
        return await _observe(
            "generator", self.observer, request.slot, lambda: self.generator.generate(request)
        )


class ObservedVlm:
    """An observed vision-language model."""

    def __init__(self, vlm: VisionLanguageModel, role: str, observer: CallObserver) -> None:
        self.vlm = vlm
        self.role = role
        self.observer = observer

    @property
    def capabilities(self) -> VlmCapabilities:
        return self.vlm.capabilities

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        return await _observe(
            self.role, self.observer, sampling.slot, lambda: self.vlm.complete(messages, sampling)
        )


class ObservedAgent:
    """An observed planner or critic that computes instead of calling a model."""

    def __init__(self, agent: Any, role: str, observer: CallObserver) -> None:
        self.agent = agent
        self.role = role
        self.observer = observer

    async def plan(self, request: Request) -> Plan:
        return await _observe(self.role, self.observer, Slot(), lambda: self.agent.plan(request))

    async def judge(self, seen: CriticInput) -> Verdict:
        return await _observe(self.role, self.observer, seen.slot, lambda: self.agent.judge(seen))

    @property
    def check(self) -> Callable[[Any], Awaitable[Verdict]]:
        """The critic's method for checking a robot's sub-task, if it has one."""
        check = self.agent.check
        return lambda seen: _observe(self.role, self.observer, Slot(), lambda: check(seen))


async def _observe(role: str, observer: CallObserver, slot: Slot, call: Callable[[], Awaitable[T]]) -> T:
    began, outcome = time.monotonic(), "failed"
    with span(f"interleave.{role}", step=slot.step, attempt=slot.attempt):
        try:
            result = await call()
            outcome = "ok"
            return result
        finally:
            seconds = time.monotonic() - began
            observer.called(role, outcome, seconds)
            fields = {
                "role": role,
                "step": slot.step,
                "attempt": slot.attempt,
                "seconds": round(seconds, 3),
                "outcome": outcome,
            }
            log.info(
                "%s call for step %d, attempt %d: %s",
                role,
                slot.step,
                slot.attempt,
                outcome,
                extra={"fields": fields},
            )
