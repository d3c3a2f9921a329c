"""The ablation table: the same tasks for every row, each row and suite an ordinary, resumable run.

OUT/rows/ROW/SUITE     the run of a row on a suite, as `bench mini` writes it
OUT/exam               the exam of the critics
OUT/ablation.json      everything, for programs; ablation.md and refinements.html are for people

Several processes may each run some rows in the same OUT; the last one finds all rows done and only assembles
the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field

from interleave import ConfigurationError, Ended, InterleaveError
from interleave.plugin import Value, backends, batches, load_pack, write_atomic
from interleave_mini.bench.critic_exam import Exam
from interleave_mini.bench.critic_exam_run import CriticResult, Examiner
from interleave_mini.bench.model_cache import SharedModels
from interleave_mini.bench.runner import Result, Settings, read_items, read_result, run_mini
from interleave_mini.bench.scores import Difference, ItemScore, difference, scores_of
from interleave_mini.bench.systems import FULL, ORACLE, ROWS, AgentSpecs, Row, Unavailable, same_model
from interleave_mini.bench.tasks import SUITES
from interleave_mini.intervals import Estimate, estimate

JSON_NAME = "ablation.json"
ROWS_FOLDER = "rows"
EXAM_FOLDER = "exam"
DEFAULT_ITEMS, DEFAULT_MORE_ITEMS = 1000, 300


@dataclass(frozen=True)
class TableSettings:
    """What is in the table, and which of its rows this process runs."""

    rows: tuple[Row, ...] = ROWS
    suites: tuple[str, ...] = ()
    """For all rows; empty: the suites of each row."""
    items: int = DEFAULT_ITEMS
    more_items: int = DEFAULT_MORE_ITEMS
    seed: int = 0
    concurrency: int = 16
    generator: str = "mini"
    agents: AgentSpecs = field(default_factory=AgentSpecs)
    max_attempts: int | None = None

    def __post_init__(self) -> None:
        backends.check_generator(self.generator)

    def items_of(self, row: Row) -> int:
        return self.more_items if row.further else self.items

    def suites_of(self, row: Row) -> tuple[str, ...]:
        return self.suites or row.suites


class Line(Value):
    """One row on one suite, with a limit of attempts."""

    suite: str
    attempts: int
    items: int
    failed: int
    """Tasks without an answer; they count as wrong."""
    unreadable_plans: int
    text: Estimate
    image: Estimate | None
    average: Estimate
    strict: Estimate
    drawn: int
    forced: int
    against: dict[str, dict[str, Difference]] = Field(default_factory=dict)
    """The paired differences of `strict` and `average` to other rows, by their keys."""


class TableRow(Value):
    """A row of the table, or the reasons why it was not run."""

    key: str
    label: str
    system: str
    models: dict[str, str] = Field(default_factory=dict)
    lines: tuple[Line, ...] = ()
    not_run: dict[str, str] = Field(default_factory=dict)
    """The reason, by suite."""


Scored = dict[int, list[ItemScore]]
"""Scores of the tasks, by the limit of attempts."""
Found = dict[tuple[str, str], Scored]
"""By row and suite."""
Reporter = Callable[[str], None]


def run_rows(
    settings: TableSettings, out: Path, models: SharedModels, report: Reporter
) -> dict[tuple[str, str], str]:
    """Run what has not been run; returns the reason for every row and suite that could not be."""
    refused: dict[tuple[str, str], str] = {}
    for suite in SUITES:
        models.clear_caches()
        for row in settings.rows:
            if suite not in settings.suites_of(row) or not settings.items_of(row):
                continue
            try:
                _run_row(row, suite, settings, out, models, report)
            except Unavailable as reason:
                if not _is_done(_folder(out, row, suite), settings.items_of(row), settings.seed):
                    refused[row.key, suite] = str(reason)
            except InterleaveError as error:
                refused[row.key, suite] = f"failed: {error}"
    return refused


def _run_row(
    row: Row, suite: str, settings: TableSettings, out: Path, models: SharedModels, report: Reporter
) -> None:
    if suite == "annotate" and row.system == "base":
        raise Unavailable("a bare generator writes no text")
    choices: dict[str, Any] = {**settings.agents.choices(row), "generator": settings.generator}
    folder = _folder(out, row, suite)
    _refuse_others(folder, choices, row)
    if _is_done(folder, settings.items_of(row), settings.seed):
        return
    asked = Settings(
        suite,
        row.system,
        settings.items_of(row),
        settings.seed,
        settings.concurrency,
        {**choices, "max_attempts": settings.max_attempts},
    )

    run_mini(asked, folder, _Reported(row.key, report), models.models_of)


class _Reported(batches.Watcher):
    """Reports how many tasks of a row are done."""

    def __init__(self, row: str, report: Reporter) -> None:
        self._row = row
        self._report = report

    def begin(self, total: int, what: str = "") -> None:
        self._what, self._total, self._done = what, total, 0

    def ended(self, ended: Ended, *, already: bool) -> None:
        self._done += 1
        self._report(f"{self._row}, {self._what}: {self._done} of {self._total} tasks")


def _folder(out: Path, row: Row, suite: str) -> Path:
    return out / ROWS_FOLDER / row.key / suite


def _is_done(folder: Path, items: int, seed: int) -> bool:
    """Whether a run exists and no task would be retried; an unreadable plan is an answer too."""
    result, found = read_result(folder), read_items(folder)
    if result is None or not found or result.items < items or result.seed != seed:
        return False
    return not any(item.status == "failed" and not item.unreadable_plan for item in found[max(found)][:items])


def _refuse_others(folder: Path, choices: Mapping[str, Any], row: Row) -> None:
    """Raise for a folder that was made with other models."""
    result = read_result(folder)
    for role, there in (result.models if result else {}).items():
        here = str(choices[role])
        if same_model(here) != same_model(there):
            raise ConfigurationError(
                f"the row {row.key!r} in {folder} was made with the {role} {there!r}, not with {here!r}: "
                "choose another --out"
            )


# Assembling the table


def assemble(
    settings: TableSettings, out: Path, refused: Mapping[tuple[str, str], str]
) -> tuple[TableRow, ...]:
    """All rows from the results in the folder, including those of other processes."""
    found: Found = {}
    models: dict[str, dict[str, str]] = {}
    for row in ROWS:
        for suite in settings.suites_of(row):
            folder, items = _folder(out, row, suite), settings.items_of(row)
            result = read_result(folder)
            if (row.key, suite) in refused or not _fits_table(result, items, settings.seed):
                continue
            found[row.key, suite] = {most: scores[:items] for most, scores in read_items(folder).items()}
            models[row.key] = result.models if result else {}
    return tuple(_table_row(row, settings, found, models.get(row.key, {}), refused) for row in ROWS)


def _fits_table(result: Result | None, items: int, seed: int) -> bool:
    return result is not None and items > 0 and result.items >= items and result.seed == seed


def _table_row(
    row: Row,
    settings: TableSettings,
    found: Found,
    models: dict[str, str],
    refused: Mapping[tuple[str, str], str],
) -> TableRow:
    lines: list[Line] = []
    not_run: dict[str, str] = {}
    for suite in settings.suites_of(row):
        scored = found.get((row.key, suite))
        if scored:
            lines += [_line(row, suite, most, scored, found) for most in sorted(scored, reverse=True)]
        else:
            not_run[suite] = refused.get((row.key, suite)) or _why_not(row, settings)
    return TableRow(
        key=row.key,
        label=row.label,
        system=row.system,
        models=models,
        lines=tuple(lines),
        not_run=not_run,
    )


def _why_not(row: Row, settings: TableSettings) -> str:
    if not settings.items_of(row):
        return "no tasks were asked for"
    if row not in settings.rows:
        return "not among --rows, and not run before"
    return "not run"


def _line(row: Row, suite: str, attempts: int, scored: Scored, found: Found) -> Line:
    items = scored[attempts]
    scores = scores_of(items)
    return Line(
        suite=suite,
        attempts=attempts,
        items=len(items),
        failed=sum(item.status == "failed" for item in items),
        unreadable_plans=sum(item.unreadable_plan for item in items),
        text=scores.text,
        image=scores.image,
        average=estimate([item.average for item in items]),
        strict=scores.strict,
        drawn=sum(item.drawn for item in items),
        forced=sum(item.forced for item in items),
        against=_against(row, suite, attempts, scored, found),
    )


def _against(
    row: Row, suite: str, attempts: int, scored: Scored, found: Found
) -> dict[str, dict[str, Difference]]:
    """Compared with `full`, a main row also with the row above; with fewer attempts, with itself in full."""
    most = max(scored)
    if attempts < most:
        return _compared({row.key: scored[most]}, scored[attempts])
    rows = [FULL, *([] if row.further else _above(row))]
    others = {key: found[key, suite] for key in rows if key != row.key and (key, suite) in found}
    return _compared({key: other[max(other)] for key, other in others.items()}, scored[attempts])


def _above(row: Row) -> list[str]:
    place = ROWS.index(row)
    return [ROWS[place - 1].key] if place else []


def _compared(
    others: Mapping[str, Sequence[ItemScore]], items: Sequence[ItemScore]
) -> dict[str, dict[str, Difference]]:
    measures: dict[str, Callable[[ItemScore], float]] = {
        "strict": lambda item: item.strict,
        "average": lambda item: item.average,
    }
    compared: dict[str, dict[str, Difference]] = {}
    for key, theirs in others.items():
        for name, measure in measures.items():
            gap = difference(
                {item.id: measure(item) for item in items}, {item.id: measure(item) for item in theirs}
            )
            if gap is not None:
                compared.setdefault(key, {})[name] = gap
    return compared


# The whole table


class ExamResult(Value):
    """The exam and the result of every critic."""

    attempts: int
    failures: int
    by_suite: dict[str, tuple[int, int]]
    """Attempts and failures of each suite."""
    critics: tuple[CriticResult, ...]
    not_examined: dict[str, str]
    """The reason, by critic."""


class Table(Value):
    """The ablation of the miniature."""

    generator: str
    trained: str | None
    seed: int
    rows: tuple[TableRow, ...]
    exam: ExamResult | None = None


def run_table(
    settings: TableSettings, out: Path, exam: tuple[int, int], report: Callable[[str], None]
) -> tuple[Table, Examiner | None]:
    """Run what is missing, assemble the table and write it; `exam` is the number of attempts and failures."""
    models = SharedModels()
    refused = run_rows(settings, out, models, report)
    examiner, examined = _examined(settings, out, exam, models, report)
    table = Table(
        generator=settings.generator,
        trained=str(settings.agents.trained) if settings.agents.trained else None,
        seed=settings.seed,
        rows=assemble(settings, out, refused),
        exam=examined,
    )
    out.mkdir(parents=True, exist_ok=True)
    write_atomic(out / JSON_NAME, table.model_dump_json(indent=1).encode())
    return table, examiner


def _examined(
    settings: TableSettings,
    out: Path,
    asked: tuple[int, int],
    models: SharedModels,
    report: Callable[[str], None],
) -> tuple[Examiner | None, ExamResult | None]:
    count, failures = asked
    if not count:
        return None, None
    exam = Exam(
        out / EXAM_FOLDER, lambda: models.generator(settings.generator), settings.seed, settings.concurrency
    )
    attempts = exam.prepare(settings.generator, count, failures, report)
    examiner = Examiner(exam, attempts, report)
    results, missing = [], {}
    for critic in dict.fromkeys(row.critic for row in ROWS if row.critic):
        try:
            if not any(row.critic == critic for row in settings.rows):
                raise Unavailable("no row of --rows has it")
            spec = settings.agents.spec(critic, "critic")
            pack = load_pack("default" if critic == ORACLE else settings.agents.prompts)
            load = partial(models.agent, spec, "critic")
            results.append(examiner.examine(critic, spec, load, pack))
        except Unavailable as reason:
            missing[critic] = str(reason)
        except InterleaveError as error:
            missing[critic] = f"failed: {error}"
    suites = dict.fromkeys(each.suite for each in attempts)
    return examiner, ExamResult(
        attempts=len(attempts),
        failures=len(examiner.failures),
        by_suite={
            suite: (
                sum(each.suite == suite for each in attempts),
                sum(each.suite == suite and not each.right for each in attempts),
            )
            for suite in suites
        },
        critics=tuple(results),
        not_examined=missing,
    )
