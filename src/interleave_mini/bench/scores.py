"""How an answer is scored against the truth: step by step, place by place, from its pictures and captions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from interleave.batches.batch import Ended
from interleave.errors import RunError
from interleave.intervals import Estimate, estimate
from interleave.runs.record import RunRecord, StepRecord, read_record
from interleave.runs.store import PictureStore
from interleave.types import Value
from interleave_mini.bench.read_pictures import read_files
from interleave_mini.language.tasks import Task
from interleave_mini.reader import Reading
from interleave_mini.reader.scores import shows


class StepScore(Value):
    """One step of the truth, against the same step of the answer."""

    image: bool | None
    """Whether the picture shows the true scene; None where the truth has no picture."""
    text: bool


class ItemScore(Value):
    """How one task went."""

    id: str
    topic: str
    unseen: tuple[str, ...]
    status: str
    folder: str
    reason: str = ""
    steps: tuple[StepScore, ...]
    too_many: int = 0
    """Steps of the answer beyond those of the truth."""
    drawn: int = 0
    """Pictures it took."""
    forced: int = 0
    """Steps of which no attempt was accepted."""
    unreadable_plan: bool = False
    """Whether it failed because its planner wrote nothing that can be read: that is an answer, and wrong."""

    @property
    def has_pictures(self) -> bool:
        return any(step.image is not None for step in self.steps)

    @property
    def image(self) -> float:
        """The share of steps whose picture is right."""
        return _share([step.image for step in self.steps if step.image is not None])

    @property
    def text(self) -> float:
        """The share of steps whose caption states their facts."""
        return _share([step.text for step in self.steps])

    @property
    def average(self) -> float:
        """Of text and image; the text alone where the answer has no pictures."""
        return (self.image + self.text) / 2 if self.has_pictures else self.text

    @property
    def strict(self) -> float:
        """1 when every step is right and none is too many: its picture, or its text where it has none."""
        right = [step.text if step.image is None else step.image for step in self.steps]
        return float(all(right) and not self.too_many)


class Scores(Value):
    strict: Estimate
    image: Estimate | None
    """None where the answer is text alone."""
    text: Estimate


@dataclass(frozen=True)
class Answered:
    """A task, how its answer scored, and the record of the run that answered it."""

    task: Task
    score: ItemScore
    record: RunRecord | None


def scores_of(items: Sequence[ItemScore]) -> Scores:
    return Scores(
        strict=estimate([item.strict for item in items]),
        image=estimate([item.image for item in items]) if any(item.has_pictures for item in items) else None,
        text=estimate([item.text for item in items]),
    )


def score_all(work: Sequence[Task], ended: Mapping[str, Ended], folder: Path) -> list[Answered]:
    """How these tasks went, their pictures read all at once."""
    records = {each.id: _record(folder / each.folder) for each in ended.values()}
    shown = [
        (task.id, place, PictureStore(folder / ended[task.id].folder).path(step.attempt.image))
        for task in work
        if (record := records.get(task.id)) is not None and ended[task.id].status != "failed"
        for place, step in enumerate(record.steps)
        if step.attempt is not None
    ]
    readings: dict[str, dict[int, Reading]] = {}
    for (identity, place, _), reading in zip(shown, read_files([path for *_, path in shown]), strict=True):
        readings.setdefault(identity, {})[place] = reading
    return [
        _answered(task, ended.get(task.id), records.get(task.id), readings.get(task.id, {}), folder)
        for task in work
    ]


def _record(folder: Path) -> RunRecord | None:
    try:
        return read_record(folder)
    except RunError:  # refused before it was begun
        return None


def _answered(
    task: Task, ended: Ended | None, record: RunRecord | None, readings: Mapping[int, Reading], folder: Path
) -> Answered:
    drawn = record.calls.generator if record else 0
    forced = len(record.forced_steps) if record else 0
    unreadable = record is not None and record.plan is None and bool(record.planner_bad_replies)
    if ended is None or ended.status == "failed":
        record = None
    score = ItemScore(
        id=task.id,
        topic=f"{task.domain}: {task.topic}" if task.suite != "edit" else task.topic,
        unseen=task.unseen,
        status=ended.status if ended else "failed",
        folder=str(folder / ended.folder) if ended else "",
        reason=ended.reason if ended else "",
        steps=score_steps(task, record.steps if record else (), readings),
        too_many=max(0, len(record.steps) - len(task.steps)) if record else 0,
        drawn=drawn,
        forced=forced,
        unreadable_plan=unreadable,
    )
    return Answered(task, score, record)


def score_steps(
    task: Task, steps: Sequence[StepRecord], readings: Mapping[int, Reading]
) -> tuple[StepScore, ...]:
    """The steps of an answer against the truth, place by place; what is missing is wrong."""
    scores = []
    for place, truth in enumerate(task.steps):
        step = steps[place] if place < len(steps) else None
        text = step is not None and all(fact.is_said_in(step.plan.text) for fact in truth.facts)
        right = None if task.text_only else place in readings and shows(readings[place], truth.scene)
        scores.append(StepScore(image=right, text=text))
    return tuple(scores)


def _share(values: Sequence[bool]) -> float:
    return sum(values) / len(values) if values else 0.0
