"""Fake models with chosen latencies, to measure everything except the models."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from PIL import Image

from interleave.backends.protocols import (
    GeneratorCapabilities,
    ImageRequest,
    Message,
    Reply,
    Sampling,
    VlmCapabilities,
)
from interleave.types import Plan, PlanStep


@dataclass
class StubGenerator:
    """Returns the same small image after a delay, with as many concurrent calls as replicas."""

    delay: float = 0.0
    replicas: int | None = None
    side: int = 64
    busy_seconds: float = 0.0
    entered: list[float] = field(default_factory=list)
    left: list[float] = field(default_factory=list)

    @property
    def capabilities(self) -> GeneratorCapabilities:
        return GeneratorCapabilities(concurrency=self.replicas, price_per_image=0.0)

    async def generate(self, request: ImageRequest) -> Image.Image:
        self.entered.append(time.perf_counter())
        if self.delay:
            await asyncio.sleep(self.delay)
        image = Image.new("RGB", (self.side, self.side), (request.seed % 256, request.slot.step % 256, 0))
        self.left.append(time.perf_counter())
        self.busy_seconds += self.left[-1] - self.entered[-1] if not self.delay else self.delay
        return image


@dataclass
class StubCritic:
    """Accepts every attempt after a delay; optionally rejects every fourth."""

    delay: float = 0.0
    refuse_every: int = 0
    calls: int = 0
    entered: list[float] = field(default_factory=list)
    left: list[float] = field(default_factory=list)

    capabilities = VlmCapabilities(knows_its_price=True)

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        self.entered.append(time.perf_counter())
        if self.delay:
            await asyncio.sleep(self.delay)
        self.calls += 1
        refused = self.refuse_every and self.calls % self.refuse_every == 0
        self.left.append(time.perf_counter())
        if refused:
            return Reply(
                '<answer>{"previous_step_success": false, "refine_prompt": "again, larger"}</answer>'
            )
        return Reply('<answer>{"previous_step_success": true, "refine_prompt": ""}</answer>')


def plan_of(steps: int) -> Plan:
    """Return a plan of `steps` steps, so that no planner is called."""
    return Plan(
        steps=tuple(
            PlanStep(number=number, instruction=f"Step number {number}", prompt=f"Draw part {number}")
            for number in range(1, steps + 1)
        )
    )
