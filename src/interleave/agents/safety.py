"""Safety checks: rules or models that may refuse requests, plans and images.

A refused request or plan ends the run before anything is drawn. A refused image is neither stored nor shown:
its generator counts as having refused it. A check with `redraws` rejects images in place of the critic, so
that they are drawn again. A check that fails refuses everything.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from interleave import entry_points
from interleave.agents.critic import Critic, CriticInput
from interleave.backends.protocols import GeneratorCapabilities, ImageGenerator, ImageRequest
from interleave.errors import (
    BackendError,
    ConfigurationError,
    Failure,
    InputError,
    InterleaveError,
    class_and_message,
    did_you_mean,
)
from interleave.events import Event, Planned
from interleave.types import Outcome, Plan, Request, Verdict

if TYPE_CHECKING:
    from PIL.Image import Image

GROUP = "safety"
Subject = Literal["request", "plan", "image"]


class SafetyCheck(Protocol):
    """A rule or a model. Constructed with the part of its spec after the colon."""

    async def problem(self, subject: Subject, text: str, images: Sequence[Image]) -> str | None:
        """Return why this must not be made or shown, or `None`. The text of an image is its prompt."""
        ...


@dataclass(frozen=True)
class _Named:
    """A check with the spec that errors name."""

    spec: str
    check: SafetyCheck

    async def problem(self, subject: Subject, text: str, images: Sequence[Image]) -> str | None:
        try:
            return await self.check.problem(subject, text, images)
        except InterleaveError:
            raise
        except Exception as bug:
            raise BackendError(f"the safety check {self.spec!r} failed: {class_and_message(bug)}") from bug

    async def refuse(self, subject: Subject, text: str, images: Sequence[Image] = ()) -> None:
        """Raise if the check refuses."""
        reason = await self.problem(subject, text, images)
        if reason is None:
            return
        message = f"the {subject} was refused by the safety check {self.spec!r}: {reason}"
        if subject == "image":
            raise BackendError(message, kind=Failure.REFUSED)
        raise InputError(message)


class Safety:
    """The checks of a run."""

    def __init__(self, specs: Iterable[str]) -> None:
        named = [_Named(spec, _loaded(spec)) for spec in specs]
        self._rejecting = [each for each in named if getattr(each.check, "redraws", False)]
        self._refusing = [each for each in named if each not in self._rejecting]

    async def checked(self, request: Request, events: AsyncGenerator[Event]) -> AsyncGenerator[Event]:
        """Yield the events of a run; raise `InputError` for its request, or before the event of its plan."""
        async with aclosing(events) as running:
            for each in self._refusing:
                await each.refuse("request", request.text, request.all_images)
            async for event in running:
                if isinstance(event, Planned):
                    for each in self._refusing:
                        await each.refuse("plan", _words_of(event.plan))
                yield event

    def generator(self, generator: ImageGenerator) -> ImageGenerator:
        return _CheckedGenerator(generator, self._refusing) if self._refusing else generator

    def critic(self, critic: Critic) -> Critic:
        return _CheckedCritic(critic, self._rejecting) if self._rejecting else critic


def _words_of(plan: Plan) -> str:
    texts = (text for step in plan.steps for text in (step.name, step.instruction, step.prompt, step.caption))
    return "\n".join(filter(None, texts))


def _loaded(spec: str) -> SafetyCheck:
    name, _, rest = spec.partition(":")
    known = entry_points.installed(GROUP)
    if name not in known:
        raise ConfigurationError(f"safety={spec}: no check {name!r}. {did_you_mean(name, known)}")
    check: SafetyCheck = entry_points.load(known[name], f"the safety check {name!r}")(rest)
    return check


@dataclass(frozen=True)
class _CheckedGenerator:
    """A generator whose refused images are not returned."""

    inner: ImageGenerator
    checks: Sequence[_Named]

    @property
    def capabilities(self) -> GeneratorCapabilities:
        return self.inner.capabilities

    async def generate(self, request: ImageRequest) -> Image:
        drawn = await self.inner.generate(request)
        for each in self.checks:
            await each.refuse("image", request.prompt, (drawn,))
        return drawn


@dataclass(frozen=True)
class _CheckedCritic:
    """A critic that is not asked about images that a check rejects."""

    inner: Critic
    checks: Sequence[_Named]

    async def judge(self, seen: CriticInput) -> Verdict:
        for each in self.checks:
            if reason := await each.problem("image", seen.prompt, (seen.after,)):
                return Verdict(outcome=Outcome.REJECTED, reasoning=f"{each.spec}: {reason}", confidence=0.0)
        return await self.inner.judge(seen)
