"""Models that cache their answers, so that runs which differ little share their calls.

Runs with at most 1, 3 and 5 attempts are the same until one of them has an attempt left and the others have
not. Rows of the table that differ only in their critic have the same plans and first attempts. With one cache
these are computed once, and the rows are compared without the noise of a second drawing.
"""

from __future__ import annotations

import asyncio
import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from interleave import (
    CriticInput,
    ImageGenerator,
    ImageRequest,
    Message,
    Plan,
    Reply,
    Request,
    Sampling,
    Slot,
    Text,
    Verdict,
    load_generator,
)
from interleave.plugin import Models, PromptPack, RoleConfig, RunConfig, agents, backends, images, runs

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class CompressedImage:
    """An image in memory, lightly compressed: thousands are kept, and few are used again."""

    size: tuple[int, int]
    pixels: bytes

    @classmethod
    def of(cls, image: Image) -> CompressedImage:
        plain = images.as_rgb(image)
        return cls(plain.size, zlib.compress(plain.tobytes(), 1))

    def image(self) -> Image:
        from PIL import Image

        return Image.frombytes("RGB", self.size, zlib.decompress(self.pixels))


class CachingGenerator:
    def __init__(self, generator: ImageGenerator) -> None:
        self._generator = generator
        self.capabilities = generator.capabilities
        self._images: dict[tuple[Any, ...], CompressedImage] = {}

    async def generate(self, request: ImageRequest) -> Image:
        key = (request.prompt, request.seed, *map(images.pixel_digest, request.sources))
        if (kept := self._images.get(key)) is not None:
            return await asyncio.to_thread(kept.image)
        drawn = await self._generator.generate(request)
        self._images[key] = await asyncio.to_thread(CompressedImage.of, drawn)
        return drawn


class CachingVlm:
    def __init__(self, vlm: Any) -> None:
        self._vlm = vlm
        self.capabilities = vlm.capabilities
        self._replies: dict[tuple[Any, ...], Reply] = {}

    async def complete(self, messages: tuple[Message, ...], sampling: Sampling) -> Reply:
        key = (*map(_message_key, messages), repr(replace(sampling, slot=Slot())))
        if key not in self._replies:
            self._replies[key] = await self._vlm.complete(messages, sampling)
        return self._replies[key]


def _message_key(message: Message) -> tuple[str, ...]:
    parts = (
        part.text if isinstance(part, Text) else images.pixel_digest(part.image) for part in message.parts
    )
    return (message.role, *parts)


class CachingAgent:
    """A planner or critic that is not a model, with a cache."""

    def __init__(self, agent: Any) -> None:
        self._agent = agent
        self._answers: dict[tuple[Any, ...], Any] = {}

    async def plan(self, request: Request) -> Plan:
        key = (request.text, *map(images.pixel_digest, request.images))
        if key not in self._answers:
            self._answers[key] = await self._agent.plan(request)
        answer: Plan = self._answers[key]
        return answer

    async def judge(self, seen: CriticInput) -> Verdict:
        key = (
            seen.planned_prompt,
            seen.prompt,
            images.pixel_digest(seen.before),
            images.pixel_digest(seen.after),
        )
        if key not in self._answers:
            self._answers[key] = await self._agent.judge(seen)
        answer: Verdict = self._answers[key]
        return answer


def with_caches(models: Models) -> Models:
    """The same models, each with a cache."""
    return replace(
        models,
        planner=models.planner.wrapped(cached_agent),
        critic=models.critic.wrapped(cached_agent),
        generator=CachingGenerator(models.generator),
    )


def cached_agent(agent: Any) -> Any:
    """A planner or critic, or the model behind it, with a cache."""
    return CachingVlm(agent) if hasattr(agent, "complete") else CachingAgent(agent)


class SharedModels:
    """Loads models once for all runs of a table, and shares their caches."""

    def __init__(self) -> None:
        self._loaded: dict[tuple[str, str], Any] = {}
        self._cached: dict[tuple[str, str], Any] = {}

    def models_of(self, config: RunConfig, pack: PromptPack, chosen: runs.Choices) -> Models:
        """The models of a run, with the caches of earlier runs."""
        return Models(
            planner=agents.planner_from(
                self._cached_role(chosen.planner, config.planner, "planner"), pack, max_steps=config.max_steps
            ),
            critic=agents.critic_from(
                self._cached_role(chosen.critic, config.critic, "critic"),
                pack,
                **runs.critic_options(config.critic).model_dump(),
            ),
            generator=self._cached_generator(config.generator.spec),
        )

    def generator(self, spec: str) -> ImageGenerator:
        """The generator of a spec, without a cache."""
        key = ("generator", spec)
        if key not in self._loaded:
            self._loaded[key] = load_generator(spec)
        generator: ImageGenerator = self._loaded[key]
        return generator

    def agent(self, spec: str, role: str) -> Any:
        """The planner or critic of a spec, or the model behind it, without a cache."""
        key = (role, spec)
        if key not in self._loaded:
            self._loaded[key] = backends.load_agent(spec, role)
        return self._loaded[key]

    def clear_caches(self) -> None:
        """Drop the caches, not the models: the next suite has other tasks."""
        self._cached.clear()

    def _cached_generator(self, spec: str) -> ImageGenerator:
        key = ("generator", spec)
        if key not in self._cached:
            self._cached[key] = CachingGenerator(self.generator(spec))
        painter: ImageGenerator = self._cached[key]
        return painter

    def _cached_role(self, chosen: Any, role: RoleConfig, name: str) -> Any:
        if chosen is not None and not isinstance(chosen, str):  # part of the system of this run only
            return cached_agent(runs.load_agent(chosen, role, name))
        key = (name, role.spec)
        if key not in self._cached:
            self._cached[key] = cached_agent(self.agent(role.spec, name))
        return self._cached[key]
