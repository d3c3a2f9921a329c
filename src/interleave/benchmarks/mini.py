"""The benchmark of the miniature: five suites whose truth is known, scored from the pictures alone."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError

from interleave.benchmarks.memory import remembering
from interleave.benchmarks.systems import choices_for
from interleave.errors import ConfigurationError, did_you_mean
from interleave.estimates import Estimate, estimate
from interleave.mini.language.splits import UNSEEN_PAIR, UNSEEN_TEMPLATE
from interleave.mini.language.tasks import SUITES, Task, tasks
from interleave.mini.reader import shared_reader
from interleave.mini.reader.scores import shows
from interleave.runs.assembly import load_models, resolve, split_choices
from interleave.runs.batch import Batch, Ended
from interleave.runs.config import RunConfig
from interleave.runs.generating import batch_of
from interleave.runs.record import RunRecord, StepRecord, read_record
from interleave.runs.requests import items_of
from interleave.runs.store import PictureStore, write_whole
from interleave.types import Value

if TYPE_CHECKING:
    from PIL.Image import Image

RESULT_NAME = "result.json"
FEWER_ATTEMPTS = (3, 1)
"""A full run also tells how it would have gone with so many attempts."""


@dataclass(frozen=True)
class Settings:
    """One run of the benchmark."""

    suite: str = "story"
    system: str = "full"
    items: int = 40
    seed: int = 0
    concurrency: int = 16
    choices: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.suite not in SUITES:
            raise ConfigurationError(f"no suite named {self.suite!r}. {did_you_mean(self.suite, SUITES)}")
        if self.items < 1:
            raise ConfigurationError("--items must be at least 1")


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
    def strict(self) -> float:
        """1 when every step is right and none is too many: its picture, or its text where it has none."""
        right = [step.text if step.image is None else step.image for step in self.steps]
        return float(all(right) and not self.too_many)


class Scores(Value):
    strict: Estimate
    image: Estimate | None
    """None where the answer is text alone."""
    text: Estimate


class Result(Value):
    """What a benchmark run came to; fractions from 0 to 1, with 95 % intervals."""

    suite: str
    system: str
    items: int
    seed: int
    scores: Scores
    coverage: float
    """The share of tasks that were answered to the end; the others count as wrong."""
    calls: dict[str, int]
    seconds_per_item: float
    """Of the run itself, as `calls` is: not of its repetitions with fewer attempts, nor of scoring."""
    max_attempts: int
    models: dict[str, str]
    notes: tuple[str, ...] = ()
    by_attempts: dict[str, Scores] = Field(default_factory=dict)
    """The same run with fewer attempts allowed."""
    apart: dict[str, Scores] = Field(default_factory=dict)
    """Tasks like those of training, and tasks with a wording or a pair of kind and colour it never sees."""
    by_topic: dict[str, Scores] = Field(default_factory=dict)
    seconds: float = 0.0


Progress = Callable[[int, int, int], None]
"""Told how many attempts are allowed in this pass, how many tasks there are, and how many are done."""


@dataclass(frozen=True)
class Answered:
    """A task, how its answer scored, and the record of the run that answered it."""

    task: Task
    score: ItemScore
    record: RunRecord | None


def run_mini(
    settings: Settings, out: Path, progress: Progress = lambda *_: None
) -> tuple[Result, list[Answered]]:
    """Run what has not been run in this folder yet, score everything, and write the result."""
    before = _result_before(out)
    if before is not None and (before.suite, before.system) != (settings.suite, settings.system):
        raise ConfigurationError(
            f"{out} holds the suite {before.suite!r} with the system {before.system!r}: choose another --out"
        )
    work = list(islice(tasks(settings.suite, "test", seed=settings.seed), settings.items))
    config, passes, seconds = asyncio.run(_run_passes(settings, work, out, progress))
    most = max(passes)
    answered = passes[most]
    seconds = round(seconds + (before.seconds if before else 0.0), 3)
    result = _result(settings, config, passes, most, answered, seconds)
    write_whole(out / RESULT_NAME, result.model_dump_json(indent=1).encode())
    return result, answered


def default_folder(settings: Settings) -> Path:
    """A folder of its own for every choice of models and rules, the same whenever it is chosen again."""
    chosen = repr(sorted((key, str(value)) for key, value in settings.choices.items() if value is not None))
    digest = hashlib.sha256(f"{chosen}/{settings.seed}".encode()).hexdigest()[:8]
    return Path("runs") / "bench" / f"mini-{settings.suite}-{settings.system}-{digest}"


async def _run_passes(
    settings: Settings, work: Sequence[Task], out: Path, progress: Progress
) -> tuple[RunConfig, dict[int, list[Answered]], float]:
    """The run, and for the full system the same with fewer attempts; and how long the run itself took."""
    chosen, limits = split_choices(
        choices_for(settings.system, work, {**settings.choices, "seed": settings.seed})
    )
    config, pack = resolve(chosen)
    models = remembering(load_models(config, pack, chosen))
    most = config.max_attempts
    fewer = [count for count in FEWER_ATTEMPTS if count < most] if settings.system == "full" else []
    passes: dict[int, list[Answered]] = {}
    seconds = 0.0
    for attempts in (most, *fewer):
        folder = out / f"attempts-{attempts}"
        limited = config.model_copy(update={"max_attempts": attempts})
        batch = batch_of(folder, limited, limits, models)
        is_work = any(task.id not in batch.ended or batch.ended[task.id].status == "failed" for task in work)
        started = time.monotonic()
        ended = await _run_batch(batch, work, settings.concurrency, partial(progress, attempts, len(work)))
        if attempts == most and is_work:  # reading back what is there is no work
            seconds = time.monotonic() - started
        passes[attempts] = [_answered(task, ended.get(task.id), folder) for task in work]
    return config, passes, seconds


async def _run_batch(
    batch: Batch, work: Sequence[Task], concurrency: int, progress: Callable[[int], None]
) -> dict[str, Ended]:
    asked = ((task.id, task.request()) for task in work)
    ended: dict[str, Ended] = {}
    async with aclosing(batch.run(items_of(asked), concurrency=concurrency, retry_failed=True)) as all_ended:
        async for each in all_ended:
            ended[each.id] = each
            progress(len(ended))
    return ended


def _answered(task: Task, ended: Ended | None, folder: Path) -> Answered:
    if ended is None or ended.status == "failed":
        return Answered(task, score_item(task, (), {}, ended, folder), None)
    record = read_record(folder / ended.folder)
    pictures = _pictures(record, PictureStore(folder / ended.folder))
    return Answered(task, score_item(task, record.steps, pictures, ended, folder), record)


def score_item(
    task: Task, steps: Sequence[StepRecord], pictures: dict[int, Image], ended: Ended | None, folder: Path
) -> ItemScore:
    """The steps of an answer against the truth, place by place; what is missing is wrong."""
    readings = dict(zip(pictures, shared_reader().read_many(list(pictures.values())), strict=True))
    scores = []
    for place, beat in enumerate(task.beats):
        step = steps[place] if place < len(steps) else None
        text = step is not None and all(fact.is_said_in(step.plan.text) for fact in beat.facts)
        right = None if task.text_only else place in readings and shows(readings[place], beat.scene)
        scores.append(StepScore(image=right, text=text))
    return ItemScore(
        id=task.id,
        topic=f"{task.domain}: {task.topic}" if task.suite != "edit" else task.topic,
        unseen=task.unseen,
        status=ended.status if ended else "failed",
        folder=str(folder / ended.folder) if ended else "",
        reason=ended.reason if ended else "",
        steps=tuple(scores),
        too_many=max(0, len(steps) - len(task.beats)),
    )


def _pictures(record: RunRecord, store: PictureStore) -> dict[int, Image]:
    shown = {place: step.attempt for place, step in enumerate(record.steps)}
    return {place: store.get(attempt.image) for place, attempt in shown.items() if attempt is not None}


def _result(
    settings: Settings,
    config: RunConfig,
    passes: dict[int, list[Answered]],
    most: int,
    answered: list[Answered],
    seconds: float,
) -> Result:
    items = [each.score for each in answered]
    calls = [each.record.calls for each in answered if each.record]
    roles = ("planner", "critic", "generator")
    left_out = {"base": ("planner", "critic"), "plan": ("critic",)}.get(settings.system, ())
    return Result(
        suite=settings.suite,
        system=settings.system,
        items=len(items),
        seed=settings.seed,
        scores=_scores(items),
        coverage=round(sum(item.status == "done" for item in items) / len(items), 4),
        calls={
            role: 0 if role in left_out else sum(getattr(count, role) for count in calls) for role in roles
        },
        seconds_per_item=round(seconds / len(items), 3),
        max_attempts=most,
        models={role: getattr(config, role).spec for role in roles if role not in left_out},
        notes=tuple(note for role in roles if (note := getattr(config, role).note)),
        by_attempts={
            str(attempts): _scores([each.score for each in passes[attempts]]) for attempts in sorted(passes)
        },
        apart=_apart(items),
        by_topic=_by_topic(items, "edit" if settings.suite == "edit" else "domain"),
        seconds=round(seconds, 3),
    )


def _scores(items: Sequence[ItemScore]) -> Scores:
    return Scores(
        strict=estimate([item.strict for item in items]),
        image=estimate([item.image for item in items]) if any(item.has_pictures for item in items) else None,
        text=estimate([item.text for item in items]),
    )


def _apart(items: Sequence[ItemScore]) -> dict[str, Scores]:
    groups = {
        "seen": [item for item in items if not item.unseen],
        "unseen wording": [item for item in items if UNSEEN_TEMPLATE in item.unseen],
        "unseen kind and colour": [item for item in items if UNSEEN_PAIR in item.unseen],
    }
    return {name: _scores(group) for name, group in groups.items() if group}


def _by_topic(items: Sequence[ItemScore], level: str) -> dict[str, Scores]:
    groups: dict[str, list[ItemScore]] = {}
    for item in items:
        groups.setdefault(item.topic.split(":")[0] if level == "domain" else item.topic, []).append(item)
    return {name: _scores(group) for name, group in sorted(groups.items())} if len(groups) > 1 else {}


def _result_before(out: Path) -> Result | None:
    """What an earlier session has left in this folder."""
    try:
        return Result.model_validate_json((out / RESULT_NAME).read_bytes())
    except (OSError, ValidationError):
        return None


def _share(values: Sequence[bool]) -> float:
    return sum(values) / len(values) if values else 0.0
