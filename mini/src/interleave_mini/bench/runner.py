"""The benchmark of the miniature: suites whose truth is known, scored from the images alone."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from interleave import ConfigurationError, Ended
from interleave.plugin import (
    Models,
    PromptPack,
    RunConfig,
    Value,
    batches,
    count,
    did_you_mean,
    load_models,
    resolve,
    runs,
    split_choices,
    write_atomic,
)
from interleave_mini.bench.harder import HARDER_SUITES, harder_tasks
from interleave_mini.bench.model_cache import with_caches
from interleave_mini.bench.scores import Answered, ItemScore, Scores, StepScore, score_all, scores_of
from interleave_mini.bench.splits import UNSEEN_PAIR, UNSEEN_TEMPLATE, UNSEEN_VOICE
from interleave_mini.bench.systems import choices_for
from interleave_mini.bench.task_file import shipped_tasks
from interleave_mini.bench.tasks import SUITES, Task

__all__ = [
    "Answered",
    "ItemScore",
    "Result",
    "Scores",
    "Settings",
    "StepScore",
    "default_folder",
    "run_mini",
]

RESULT_NAME = "result.json"
ITEMS_NAME = "items.jsonl"
"""The score of every task with every limit of attempts: the input of the ablation table."""
FEWER_ATTEMPTS = (3, 1)
"""A run of the full system is also scored with these limits of attempts."""


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
        if self.suite not in (suites := (*SUITES, *HARDER_SUITES)):
            raise ConfigurationError(f"no suite named {self.suite!r}. {did_you_mean(self.suite, suites)}")
        if self.items < 1:
            raise ConfigurationError("--items must be at least 1")


class Result(Value):
    """The result of a benchmark run; fractions from 0 to 1, with 95 % intervals."""

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


class ItemLine(Value):
    """A line of `items.jsonl`."""

    attempts: int
    score: ItemScore


Load = Callable[[RunConfig, PromptPack, runs.Choices], Models]


def _load_with_caches(config: RunConfig, pack: PromptPack, chosen: runs.Choices) -> Models:
    return with_caches(load_models(config, pack, chosen))


def run_mini(
    settings: Settings,
    out: Path,
    watcher: batches.Watcher | None = None,
    load: Load = _load_with_caches,
) -> tuple[Result, list[Answered]]:
    """Run what has not been run in this folder yet, score everything, and write the result."""
    before = read_result(out)
    if before is not None and (before.suite, before.system) != (settings.suite, settings.system):
        raise ConfigurationError(
            f"{out} holds the suite {before.suite!r} with the system {before.system!r}: choose another --out"
        )
    tasks = harder_tasks if settings.suite in HARDER_SUITES else shipped_tasks
    work = tasks(settings.suite, settings.items, seed=settings.seed)
    config, passes, seconds = asyncio.run(
        _run_passes(settings, work, out, watcher or batches.Watcher(), load)
    )
    most = max(passes)
    answered = passes[most]
    seconds = round(seconds + (before.seconds if before else 0.0), 3)
    result = _result(settings, config, passes, most, answered, seconds)
    write_atomic(out / ITEMS_NAME, _as_lines(passes))
    write_atomic(out / RESULT_NAME, result.model_dump_json(indent=1).encode())
    return result, answered


def read_items(out: Path) -> dict[int, list[ItemScore]]:
    """The scores of a finished run by the limit of attempts; empty when it is not finished."""
    found: dict[int, list[ItemScore]] = {}
    try:
        lines = (out / ITEMS_NAME).read_bytes().splitlines()
        for line in map(ItemLine.model_validate_json, lines):
            found.setdefault(line.attempts, []).append(line.score)
    except (OSError, ValidationError):
        return {}
    return found


def _as_lines(passes: Mapping[int, Sequence[Answered]]) -> bytes:
    lines = (
        ItemLine(attempts=attempts, score=each.score).model_dump_json()
        for attempts, answered in passes.items()
        for each in answered
    )
    return "".join(f"{line}\n" for line in lines).encode()


def default_folder(settings: Settings) -> Path:
    """A folder for this choice of models and settings, the same every time it is chosen."""
    chosen = repr(sorted((key, str(value)) for key, value in settings.choices.items() if value is not None))
    digest = hashlib.sha256(f"{chosen}/{settings.seed}".encode()).hexdigest()[:8]
    return Path("runs") / "bench" / f"mini-{settings.suite}-{settings.system}-{digest}"


async def _run_passes(
    settings: Settings, work: Sequence[Task], out: Path, watcher: batches.Watcher, load: Load
) -> tuple[RunConfig, dict[int, list[Answered]], float]:
    """The run, for the full system also with fewer attempts, and the seconds of the run itself."""
    chosen, limits = split_choices(
        choices_for(settings.system, work, {**settings.choices, "seed": settings.seed})
    )
    config, pack = resolve(chosen)
    models = load(config, pack, chosen)

    async def run(attempts: int, wanted: Sequence[Task]) -> tuple[list[Answered], float]:
        folder = out / f"attempts-{attempts}"
        limited = config.model_copy(update={"max_attempts": attempts})
        batch = batches.batch_of(folder, limited, limits, models, watcher)
        is_work = any(
            task.id not in batch.ended or batch.ended[task.id].status == "failed" for task in wanted
        )
        started = time.monotonic()
        about = f"{settings.suite}, {settings.system}, at most {count(attempts, 'attempt')}"
        watcher.begin(len(wanted), about)
        ended = await _run_batch(batch, wanted, settings.concurrency)
        seconds = time.monotonic() - started if is_work else 0.0  # reading back old results is not work
        return await asyncio.to_thread(score_all, wanted, ended, folder), seconds

    most = config.max_attempts
    whole, seconds = await run(most, work)
    passes = {most: whole}
    for attempts in FEWER_ATTEMPTS if settings.system == "full" else ():
        if attempts < most:
            other = [each.task for each in whole if not _is_same_with(each, attempts)]
            again = (await run(attempts, other))[0] if other else []
            changed = {each.task.id: each for each in again}
            passes[attempts] = [changed.get(each.task.id, each) for each in whole]
    return config, passes, seconds


def _is_same_with(answered: Answered, attempts: int) -> bool:
    """Whether this answer never needed more attempts: then the lower limit gives the same answer."""
    record = answered.record
    return (
        record is not None
        and record.status == "done"
        and all(len(step.attempts) <= attempts for step in record.steps)
        and not any(step.forced for step in record.steps)
    )


async def _run_batch(batch: batches.Batch, work: Sequence[Task], concurrency: int) -> dict[str, Ended]:
    asked = ((task.id, task.request()) for task in work)
    ended: dict[str, Ended] = {}
    async with aclosing(
        batch.run(batches.items_of(asked), concurrency=concurrency, retry_failed=True)
    ) as all_ended:
        async for each in all_ended:
            ended[each.id] = each
    return ended


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
        scores=scores_of(items),
        coverage=round(sum(item.status == "done" for item in items) / len(items), 4),
        calls={
            role: 0 if role in left_out else sum(getattr(count, role) for count in calls) for role in roles
        },
        seconds_per_item=round(seconds / len(items), 3),
        max_attempts=most,
        models={role: getattr(config, role).spec for role in roles if role not in left_out},
        notes=tuple(note for role in roles if (note := getattr(config, role).note)),
        by_attempts={
            str(attempts): scores_of([each.score for each in passes[attempts]]) for attempts in sorted(passes)
        },
        apart=_apart(items),
        by_topic=_by_topic(items, "edit" if settings.suite == "edit" else "domain"),
        seconds=round(seconds, 3),
    )


def _apart(items: Sequence[ItemScore]) -> dict[str, Scores]:
    groups = {
        "seen": [item for item in items if not item.unseen],
        "unseen wording": [item for item in items if UNSEEN_TEMPLATE in item.unseen],
        "unseen voice": [item for item in items if UNSEEN_VOICE in item.unseen],
        "unseen kind and colour": [item for item in items if UNSEEN_PAIR in item.unseen],
    }
    return {name: scores_of(group) for name, group in groups.items() if group}


def _by_topic(items: Sequence[ItemScore], level: str) -> dict[str, Scores]:
    groups: dict[str, list[ItemScore]] = {}
    for item in items:
        groups.setdefault(item.topic.split(":")[0] if level == "domain" else item.topic, []).append(item)
    return {name: scores_of(group) for name, group in sorted(groups.items())} if len(groups) > 1 else {}


def read_result(out: Path) -> Result | None:
    """The result in this folder, if there is one."""
    try:
        return Result.model_validate_json((out / RESULT_NAME).read_bytes())
    except (OSError, ValidationError):
        return None
