"""Events of a pipeline, in the order in which they happen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from interleave.types import Plan, PlanStep, Slot, Verdict

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class Planned:
    """The plan, or another chapter of it, is complete and not drawn yet."""

    plan: Plan
    drawn: int = 0
    """Number of steps of earlier chapters, which are drawn."""

    @property
    def new_steps(self) -> tuple[PlanStep, ...]:
        """Steps to draw now."""
        return self.plan.steps[self.drawn :]


@dataclass(frozen=True)
class Drawn:
    """An image has been generated and not judged yet."""

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
    """A step is complete. `attempt` is the one to show, `None` for a text-only step."""

    step: PlanStep
    attempt: Attempt | None
    chosen: bool = False
    """Whether a person chose the attempt."""
    before: tuple[Image, ...] = ()
    """Image that the step edits. Empty if it was drawn from its scene."""
    references: Mapping[str, Image] = field(default_factory=dict)
    """Reference images of the assets in the step, by name."""

    @property
    def forced(self) -> bool:
        """Whether no attempt was accepted, so that the best one is shown."""
        return self.attempt is not None and not self.attempt.verdict.accepted and not self.chosen


Event = Planned | Drawn | Judged | StepFinished
