"""Models that remember their answers, so that runs which differ only in their limits share their calls.

Runs with at most 1, 3 and 5 attempts agree until one of them has an attempt left and the others have not.
With models that remember, all three cost little more than the longest.
"""

from __future__ import annotations

import asyncio
import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from interleave.agents.critic import CriticInput
from interleave.backends.protocols import ImageGenerator, ImageRequest, Message, Reply, Sampling
from interleave.pictures import as_rgb, pixel_digest
from interleave.runs.models import Models
from interleave.types import Plan, Request, Slot, Text, Verdict

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class Kept:
    """A picture in memory, lightly compressed: thousands of them are kept, and few are looked at again."""

    size: tuple[int, int]
    pixels: bytes

    @classmethod
    def of(cls, image: Image) -> Kept:
        plain = as_rgb(image)
        return cls(plain.size, zlib.compress(plain.tobytes(), 1))

    def picture(self) -> Image:
        from PIL import Image

        return Image.frombytes("RGB", self.size, zlib.decompress(self.pixels))


class RememberingGenerator:
    def __init__(self, generator: ImageGenerator) -> None:
        self._generator = generator
        self.capabilities = generator.capabilities
        self._drawn: dict[tuple[Any, ...], Kept] = {}

    async def generate(self, request: ImageRequest) -> Image:
        key = (request.prompt, request.seed, *map(pixel_digest, request.sources))
        if (kept := self._drawn.get(key)) is not None:
            return await asyncio.to_thread(kept.picture)
        drawn = await self._generator.generate(request)
        self._drawn[key] = await asyncio.to_thread(Kept.of, drawn)
        return drawn


class RememberingVlm:
    def __init__(self, vlm: Any) -> None:
        self._vlm = vlm
        self.capabilities = vlm.capabilities
        self._replies: dict[tuple[Any, ...], Reply] = {}

    async def complete(self, messages: tuple[Message, ...], sampling: Sampling) -> Reply:
        key = (*map(_said, messages), repr(replace(sampling, slot=Slot())))
        if key not in self._replies:
            self._replies[key] = await self._vlm.complete(messages, sampling)
        return self._replies[key]


def _said(message: Message) -> tuple[str, ...]:
    parts = (part.text if isinstance(part, Text) else pixel_digest(part.image) for part in message.parts)
    return (message.role, *parts)


class RememberingAgent:
    """A planner or critic that is no model."""

    def __init__(self, agent: Any) -> None:
        self._agent = agent
        self._answers: dict[tuple[Any, ...], Any] = {}

    async def plan(self, request: Request) -> Plan:
        key = (request.text, *map(pixel_digest, request.pictures))
        if key not in self._answers:
            self._answers[key] = await self._agent.plan(request)
        answer: Plan = self._answers[key]
        return answer

    async def judge(self, seen: CriticInput) -> Verdict:
        key = (seen.planned_prompt, seen.prompt, pixel_digest(seen.before), pixel_digest(seen.after))
        if key not in self._answers:
            self._answers[key] = await self._agent.judge(seen)
        answer: Verdict = self._answers[key]
        return answer


def remembering(models: Models) -> Models:
    """The same models, each with a memory."""
    return replace(
        models,
        planner=models.planner.wrapped(remembering_agent),
        critic=models.critic.wrapped(remembering_agent),
        generator=RememberingGenerator(models.generator),
    )


def remembering_agent(agent: Any) -> Any:
    """A planner or critic, or the model that plays it, with a memory."""
    return RememberingVlm(agent) if hasattr(agent, "complete") else RememberingAgent(agent)
