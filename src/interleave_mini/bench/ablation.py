"""The ablation table: the same tasks for every row, each row and suite an ordinary run that can go on.

OUT/rows/ROW/SUITE     the run of a row on a suite, as `bench mini` writes it
OUT/exam               the exam of the critics
OUT/ablation.json      everything, for programs; ablation.md and refinements.html are for people

Several processes may each do some rows in the same OUT. Whoever comes last finds all of them done and only
puts the table together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import Field

from interleave.backends.registry import check_generator
from interleave.errors import ConfigurationError, InterleaveError
from interleave.types import Value
from interleave_mini.bench.model_cache import SharedModels
from interleave_mini.bench.paired import Difference, difference
from interleave_mini.bench.rows import FULL, ROWS, Cast, NotThere, Row, same_model
from interleave_mini.bench.runner import Result, Settings, read_items, read_result, run_mini
from interleave_mini.bench.scores import ItemScore, scores_of
from interleave_mini.intervals import Estimate, estimate
from interleave_mini.language.tasks import SUITES

ROWS_FOLDER = "rows"
EXAM_FOLDER = "exam"
DEFAULT_ITEMS, DEFAULT_MORE_ITEMS = 1000, 300


@dataclass(frozen=True)
class TableSettings:
    """What goes into the table, and what this process does of it."""

    rows: tuple[Row, ...] = ROWS
    suites: tuple[str, ...] = ()
    """For all rows; none: those that each row has."""
    items: int = DEFAULT_ITEMS
    more_items: int = DEFAULT_MORE_ITEMS
    seed: int = 0
    concurrency: int = 16
    generator: str = "mini"
    cast: Cast = field(default_factory=Cast)
    max_attempts: int | None = None

    def __post_init__(self) -> None:
        check_generator(self.generator)

    def items_of(self, row: Row) -> int:
        return self.more_items if row.further else self.items

    def suites_of(self, row: Row) -> tuple[str, ...]:
        return self.suites or row.suites


class Line(Value):
    """One row on one suite, with at most so many attempts."""

    suite: str
    attempts: int
    items: int
    failed: int
    """Tasks that brought no answer; they count as wrong."""
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
    """A row of the table, or why there is none."""

    key: str
    label: str
    system: str
    models: dict[str, str] = Field(default_factory=dict)
    lines: tuple[Line, ...] = ()
    not_run: dict[str, str] = Field(default_factory=dict)
    """The reason, by suite."""


Scored = dict[int, list[ItemScore]]
"""How the tasks went, by the most attempts allowed."""
Found = dict[tuple[str, str], Scored]
"""By row and suite."""
Told = Callable[[str], None]


def run_rows(
    settings: TableSettings, out: Path, models: SharedModels, tell: Told
) -> dict[tuple[str, str], str]:
    """Run what has not been run; returns why a row has not been run on a suite, where it has not."""
    refused: dict[tuple[str, str], str] = {}
    for suite in SUITES:
        models.forget()
        for row in settings.rows:
            if suite not in settings.suites_of(row) or not settings.items_of(row):
                continue
            try:
                _run_row(row, suite, settings, out, models, tell)
            except NotThere as reason:
                if not _is_done(_folder(out, row, suite), settings.items_of(row), settings.seed):
                    refused[row.key, suite] = str(reason)
            except InterleaveError as error:
                refused[row.key, suite] = f"failed: {error}"
    return refused


def _run_row(
    row: Row, suite: str, settings: TableSettings, out: Path, models: SharedModels, tell: Told
) -> None:
    if suite == "annotate" and row.system == "base":
        raise NotThere("a bare generator writes no text")
    choices: dict[str, Any] = {**settings.cast.choices(row), "generator": settings.generator}
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

    def progress(attempts: int, total: int, done: int) -> None:
        tell(f"{row.key}, {suite}, at most {attempts} attempts: {done} of {total} tasks")

    run_mini(asked, folder, progress, models.models_of)


def _folder(out: Path, row: Row, suite: str) -> Path:
    return out / ROWS_FOLDER / row.key / suite


def _is_done(folder: Path, items: int, seed: int) -> bool:
    """Whether a run is there and no task would be tried again; an unreadable plan is an answer too."""
    result, found = read_result(folder), read_items(folder)
    if result is None or not found or result.items < items or result.seed != seed:
        return False
    return not any(item.status == "failed" and not item.unreadable_plan for item in found[max(found)][:items])


def _refuse_others(folder: Path, choices: Mapping[str, Any], row: Row) -> None:
    """A folder made with other models is not read as if it were of these."""
    result = read_result(folder)
    for role, there in (result.models if result else {}).items():
        here = str(choices[role])
        if same_model(here) != same_model(there):
            raise ConfigurationError(
                f"the row {row.key!r} in {folder} was made with the {role} {there!r}, not with {here!r}: "
                "choose another --out"
            )


# Putting the table together


def assemble(
    settings: TableSettings, out: Path, refused: Mapping[tuple[str, str], str]
) -> tuple[TableRow, ...]:
    """All rows from what is in the folder, whoever ran them."""
    found: Found = {}
    models: dict[str, dict[str, str]] = {}
    for row in ROWS:
        for suite in settings.suites_of(row):
            folder, items = _folder(out, row, suite), settings.items_of(row)
            result = read_result(folder)
            if (row.key, suite) in refused or not _is_table_like(result, items, settings.seed):
                continue
            found[row.key, suite] = {most: scores[:items] for most, scores in read_items(folder).items()}
            models[row.key] = result.models if result else {}
    return tuple(_table_row(row, settings, found, models.get(row.key, {}), refused) for row in ROWS)


def _is_table_like(result: Result | None, items: int, seed: int) -> bool:
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
    """Compared with `full`, and a main row with the row above; with fewer attempts, with all of its own."""
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
