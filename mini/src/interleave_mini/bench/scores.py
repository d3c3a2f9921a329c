"""How an answer is scored against the truth, step by step, from its images and captions; and how two
systems are compared on the same tasks."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from PIL import Image

from interleave import Ended, RunError, RunRecord, read_record
from interleave.plugin import ImageStore, Value, errors, runs
from interleave_mini.bench.tasks import Task
from interleave_mini.intervals import Estimate, estimate
from interleave_mini.reader import Reading, shared_reader
from interleave_mini.reader.scores import shows

READ_BATCH = 8
"""Images read at once: as many as fit a core's cache."""
MAX_THREADS = 8

Item = TypeVar("Item")
_RESAMPLES = 10_000


class StepScore(Value):
    """One step of the truth, against the same step of the answer."""

    image: bool | None
    """Whether the image shows the true scene; None where the truth has no image."""
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
    """Images drawn for it."""
    forced: int = 0
    """Steps of which no attempt was accepted."""
    unreadable_plan: bool = False
    """Whether the planner refused it, or gave an unreadable reply: that counts as a wrong answer."""

    @property
    def has_images(self) -> bool:
        return any(step.image is not None for step in self.steps)

    @property
    def image(self) -> float:
        """The share of steps whose image is right."""
        return _share([step.image for step in self.steps if step.image is not None])

    @property
    def text(self) -> float:
        """The share of steps whose caption states their facts."""
        return _share([step.text for step in self.steps])

    @property
    def average(self) -> float:
        """Of text and image; the text alone where the answer has no images."""
        return (self.image + self.text) / 2 if self.has_images else self.text

    @property
    def strict(self) -> float:
        """1 when every step is right (its image, or its text if it has none) and there is none too many."""
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
        image=estimate([item.image for item in items]) if any(item.has_images for item in items) else None,
        text=estimate([item.text for item in items]),
    )


def score_all(work: Sequence[Task], ended: Mapping[str, Ended], folder: Path) -> list[Answered]:
    """Score these tasks, reading all their images at once."""
    records = {each.id: _record(folder / each.folder) for each in ended.values()}
    shown = [
        (task.id, place, ImageStore(folder / ended[task.id].folder).path(step.attempt.image))
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
    unreadable = unreadable or (ended is not None and ended.bad_request)
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
    task: Task, steps: Sequence[runs.StepRecord], readings: Mapping[int, Reading]
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


# Two systems on the same tasks


class Difference(Value):
    """Ours minus theirs, with a 95 % interval; pairing by task keeps the spread of the tasks out of it."""

    mean: float
    low: float
    high: float
    items: int
    """The number of shared tasks."""

    @property
    def is_clear(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low > 0 or self.high < 0


def difference(ours: Mapping[str, float], theirs: Mapping[str, float]) -> Difference | None:
    """A bootstrap over the tasks that both have; None when they share none."""
    import numpy as np

    shared = [identity for identity in ours if identity in theirs]
    if not shared:
        return None
    count = len(shared)
    gaps = np.array([ours[identity] - theirs[identity] for identity in shared])
    different, counts = np.unique(gaps, return_counts=True)
    mean = float(gaps.mean())
    if len(different) == 1:  # the rule of three: what has not been seen in n cases is rarer than 3 in n
        low, high = max(-1.0, mean - 3 / count), min(1.0, mean + 3 / count)
    else:
        drawn = np.random.default_rng(0).multinomial(count, counts / count, size=_RESAMPLES)
        low, high = (float(value) for value in np.quantile(drawn @ different / count, (0.025, 0.975)))
    return Difference(mean=round(mean, 4), low=round(low, 4), high=round(high, 4), items=count)


# Reading many images, in threads: decoding and template matching release the GIL


def read_files(paths: Sequence[Path]) -> list[Reading]:
    """Read stored images; raises `MissingImage` for one that is missing or altered."""
    return _in_threads(paths, lambda some: [stored_image(path) for path in some])


def read_images(images: Sequence[Image.Image]) -> list[Reading]:
    """Read images in memory."""
    return _in_threads(images, list)


def stored_image(path: Path) -> Image.Image:
    """An image of a store; its name is its hash, so the bytes are our own and need no further checks."""
    try:
        data = path.read_bytes()
    except OSError:
        raise errors.MissingImage(path, "is missing") from None
    if hashlib.sha256(data).hexdigest() != path.stem:
        raise errors.MissingImage(path, "has been altered")
    with Image.open(io.BytesIO(data), formats=("PNG",)) as opened:
        return opened.convert("RGB")


def _in_threads(
    given: Sequence[Item], opened: Callable[[Sequence[Item]], list[Image.Image]]
) -> list[Reading]:
    reader = shared_reader()
    slices = [given[start : start + READ_BATCH] for start in range(0, len(given), READ_BATCH)]
    with ThreadPoolExecutor(min(MAX_THREADS, os.cpu_count() or 1)) as pool:
        return [
            reading
            for some in pool.map(lambda part: reader.read_many(opened(part)), slices)
            for reading in some
        ]
