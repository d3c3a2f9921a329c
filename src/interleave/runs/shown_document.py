"""The document of a run as readers see it. Pages, exports and JSON show this."""

from __future__ import annotations

from dataclasses import dataclass

from interleave.runs.document_layer import DocumentLayer
from interleave.runs.record import RunRecord, StepRecord
from interleave.text import one_line
from interleave.types import Lettering

ALT_CHARACTERS, NOTE_CHARACTERS = 1000, 120


@dataclass(frozen=True)
class StepAsShown:
    """One step as readers see it."""

    number: int
    """Number to show: hidden steps are not counted, and moved ones are numbered by their place."""
    name: str
    """Heading; empty if there is none or if it equals the text."""
    text: str
    alt: str
    """Alternative text of the image: the person's, else the text of the step."""
    lettering: tuple[Lettering, ...]
    record: StepRecord

    @property
    def note(self) -> str:
        """Note for the person who edits, if the text was written for an earlier image; else empty."""
        if self.record.words_for is None:
            return ""
        text, drawn = (one_line(each, NOTE_CHARACTERS) for each in (self.text, self.record.plan.prompt or ""))
        return f"The text still says “{text}”; its image was redrawn as “{drawn}”."


@dataclass(frozen=True)
class DocumentAsShown:
    """A document as readers see it: without hidden steps, in order, with a person's words."""

    title: str
    steps: tuple[StepAsShown, ...]

    @property
    def forced(self) -> int:
        """Number of images that the critic did not accept."""
        return sum(step.record.forced for step in self.steps)


def as_shown(record: RunRecord) -> DocumentAsShown:
    """Return the document of a run as readers see it."""
    layer = record.words or DocumentLayer()
    steps = {step.plan.number: step for step in record.steps}
    shown = [steps[number] for number in layer.in_order(steps) if not layer.of(number).hidden]
    numbered = zip(steps, shown, strict=False)  # a continuation counts on from the user's last step
    return DocumentAsShown(
        record.title, tuple(step_as_shown(step, layer, number) for number, step in numbered)
    )


def step_as_shown(step: StepRecord, layer: DocumentLayer, number: int) -> StepAsShown:
    """Return one step with the words of a layer and the number to show."""
    own = layer.of(step.plan.number)
    name, text = own.name_of(step.plan), own.text_of(step.plan)
    return StepAsShown(
        number=number,
        name=name if name != text else "",
        text=text,
        alt=one_line(own.alt or text or name or f"Image {number}", ALT_CHARACTERS),
        lettering=own.lettering_of(step.plan),
        record=step,
    )
