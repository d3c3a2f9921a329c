"""The events of a pipeline, in the order in which they happen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from interleave.types import Plan, PlanStep, Slot, Verdict

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class Planned:
    """The plan is complete, and nothing has been drawn yet; or another chapter of it is."""

    plan: Plan
    drawn: int = 0
    """The number of its steps that were planned before and are drawn."""

    @property
    def new_steps(self) -> tuple[PlanStep, ...]:
        """The steps that are to be drawn now."""
        return self.plan.steps[self.drawn :]


@dataclass(frozen=True)
class Drawn:
    """An image has been drawn; the critic has not seen it yet."""

    slot: Slot
    prompt: str
    seed: int
    image: Image


@dataclass(frozen=True)
class Judged:
    """The critic has judged the image of this slot."""

    slot: Slot
    verdict: Verdict


@dataclass(frozen=True)
class Attempt:
    """One image with its verdict."""

    number: int
    prompt: str
    seed: int
    image: Image
    verdict: Verdict


@dataclass(frozen=True)
class StepFinished:
    """A step is complete; `attempt` is the one to show, or None for a step of text only."""

    step: PlanStep
    attempt: Attempt | None
    chosen: bool = False
    """Whether a person chose the attempt."""
    before: tuple[Image, ...] = ()
    """The image that the step was to change; none where it was drawn anew."""
    references: Mapping[str, Image] = field(default_factory=dict)
    """The reference images of the assets that it shows, by their names."""

    @property
    def forced(self) -> bool:
        """Whether no attempt was accepted, and the best one is shown nevertheless."""
        return self.attempt is not None and not self.attempt.verdict.accepted and not self.chosen


Event = Planned | Drawn | Judged | StepFinished
