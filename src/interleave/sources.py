"""Which pictures a step starts from, within what the generator can take."""

from __future__ import annotations

from typing import Generic, TypeVar

from interleave.backends.protocols import GeneratorCapabilities
from interleave.config.run_config import SourceRule
from interleave.errors import ConfigurationError
from interleave.text import count
from interleave.types import Plan, PlanStep

T = TypeVar("T")


class SourcePictures(Generic[T]):
    """The pictures so far, or their names, and which of them each step starts from."""

    def __init__(self, given: tuple[T, ...], rule: SourceRule, capabilities: GeneratorCapabilities) -> None:
        self._pictures = list(given)  # oldest first; only the last, where no older one is ever used
        self._by_step: dict[int, T] = {}
        self._named: set[int] = set()
        self._rule = rule
        self._capabilities = capabilities

    def add(self, step: int, image: T) -> None:
        """Add the picture of a step; pictures that no later step can start from are dropped."""
        if self._rule is SourceRule.PREVIOUS:
            self._pictures.clear()
        self._pictures.append(image)
        if step in self._named:
            self._by_step[step] = image

    def sources_of(self, step: PlanStep) -> tuple[T, ...]:
        """The pictures to start from, oldest first; none means text-to-image."""
        if step.sources is not None:
            return tuple(self._by_step[number] for number in step.sources)
        wanted = 1 if self._rule is SourceRule.PREVIOUS else self._capabilities.max_sources
        return tuple(self._pictures[-wanted:]) if wanted else ()

    def check_plan(self, plan: Plan) -> None:
        """Note which pictures the plan refers to, and refuse a plan that this generator cannot draw."""
        self._named = {number for step in plan.steps for number in step.sources or ()}
        most = self._capabilities.max_sources
        has_source = bool(self._pictures)
        for step in (step for step in plan.steps if step.prompt is not None):
            named = len(step.sources or ())
            from_nothing = not named and (step.sources is not None or not has_source)
            if from_nothing and not self._capabilities.text_to_image:
                raise ConfigurationError(
                    f"step {step.number} has no picture to start from, and this generator only edits: "
                    "give one with --image, or use a generator that draws from text"
                )
            if named > most or (most == 0 and not from_nothing):
                raise ConfigurationError(
                    f"step {step.number} starts from {count(max(named, 1), 'picture')}, and this generator "
                    f"takes {most or 'none'}: use one that edits pictures, or a plan whose steps name fewer "
                    '("sources": [] draws a step from its prompt alone)'
                )
            has_source = True


def steps_that_follow(plan: Plan, rule: SourceRule, number: int) -> set[int]:
    """The later steps whose pictures depend on the picture of this one, directly or through others."""
    follow: set[int] = set()
    previous: int | None = None
    for step in (step for step in plan.steps if step.prompt is not None):
        if step.sources is not None:
            starts_from = set(step.sources)
        elif rule is SourceRule.HISTORY:
            starts_from = {number} if step.number > number else set()
        else:
            starts_from = set() if previous is None else {previous}
        if step.number > number and starts_from & {number, *follow}:
            follow.add(step.number)
        previous = step.number
    return follow
