"""The document layer of a run: what a person changed of the words shown, their order and their visibility.

It never changes the plan, attempts or verdicts.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable

from pydantic import Field

from interleave.runs.journal import StepWords, Words
from interleave.types import WRITTEN_IF_GIVEN, AltText, Heading, Lettering, PlanStep, Prose, Title, Value


class StepLayer(Value):
    """Changes of one step. Fields that are `None` follow the plan."""

    name: Heading | None = WRITTEN_IF_GIVEN
    text: Prose | None = WRITTEN_IF_GIVEN
    alt: AltText | None = WRITTEN_IF_GIVEN
    """Alternative text of the image. `None`: the text of the step."""
    hidden: bool = Field(default=False, exclude_if=operator.not_)
    lettering: tuple[Lettering, ...] | None = WRITTEN_IF_GIVEN
    prompt: Prose | None = WRITTEN_IF_GIVEN
    """Prompt of the image for which the text was written or confirmed. `None`: the planned prompt."""

    def edited(self, words: StepWords) -> StepLayer:
        changes = {key: value for key, value in words if key != "number" and value is not None}
        if words.alt == "":
            changes["alt"] = None
        return self.model_copy(update=changes)

    def name_of(self, planned: PlanStep) -> str:
        return (planned.name or "") if self.name is None else self.name

    def text_of(self, planned: PlanStep) -> str:
        if self.text is not None:
            return self.text
        return planned.caption or planned.instruction or self.name_of(planned)

    def lettering_of(self, planned: PlanStep) -> tuple[Lettering, ...]:
        return (planned.lettering or ()) if self.lettering is None else self.lettering


class DocumentLayer(Value):
    """Changes of a document, folded from the edits in effect."""

    title: Title | None = WRITTEN_IF_GIVEN
    order: tuple[int, ...] = Field(default=(), exclude_if=operator.not_)
    """Steps to show first; the others follow in the order of the plan."""
    steps: dict[int, StepLayer] = Field(default_factory=dict, exclude_if=operator.not_)

    def of(self, step: int) -> StepLayer:
        return self.steps.get(step, StepLayer())

    def edited(self, words: Words, plan: Iterable[PlanStep]) -> DocumentLayer:
        """Return the layer after an edit; `plan` has the prompts of the images that the person saw."""
        steps, planned = dict(self.steps), {step.number: step for step in plan}
        for each in words.steps:
            steps[each.number] = self.of(each.number).edited(each)
        named = [planned[each.number] for each in words.steps]
        rewritten = {step.number for step in named if steps[step.number].text_of(step) != self.text_of(step)}
        for number in rewritten.union(words.keep):
            layer = steps.get(number, StepLayer())
            steps[number] = layer.model_copy(update={"prompt": planned[number].prompt})
        return DocumentLayer(
            title=self.title if words.title is None else words.title,
            order=words.order or self.order,
            steps=steps,
        )

    def text_of(self, planned: PlanStep) -> str:
        return self.of(planned.number).text_of(planned)

    def in_order(self, numbers: Iterable[int]) -> list[int]:
        """Return step numbers of a plan in the order to show them."""
        planned = list(numbers)
        first = [number for number in self.order if number in planned]
        return [*first, *(number for number in planned if number not in first)]
