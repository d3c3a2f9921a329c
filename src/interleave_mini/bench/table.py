"""Everything the ablation has found, put together: what is printed, written as JSON, Markdown and pages."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from interleave.agents.prompts import load_pack
from interleave.errors import InterleaveError
from interleave.files import write_atomic
from interleave.types import Value
from interleave_mini.bench.ablation import EXAM_FOLDER, TableRow, TableSettings, assemble, run_rows
from interleave_mini.bench.critic_exam import Exam
from interleave_mini.bench.critic_exam_run import CriticResult, Examiner
from interleave_mini.bench.model_cache import SharedModels
from interleave_mini.bench.rows import ORACLE, ROWS, NotThere

JSON_NAME = "ablation.json"


class ExamResult(Value):
    """The exam and how every critic did in it."""

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
    settings: TableSettings, out: Path, exam: tuple[int, int], tell: Callable[[str], None]
) -> tuple[Table, Examiner | None]:
    """Run what is left to run, put the table together and write it; `exam`: attempts and failures."""
    models = SharedModels()
    refused = run_rows(settings, out, models, tell)
    examiner, examined = _examined(settings, out, exam, models, tell)
    table = Table(
        generator=settings.generator,
        trained=str(settings.cast.trained) if settings.cast.trained else None,
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
    tell: Callable[[str], None],
) -> tuple[Examiner | None, ExamResult | None]:
    count, failures = asked
    if not count:
        return None, None
    exam = Exam(
        out / EXAM_FOLDER, lambda: models.generator(settings.generator), settings.seed, settings.concurrency
    )
    attempts = exam.prepare(settings.generator, count, failures, tell)
    examiner = Examiner(exam, attempts, tell)
    results, missing = [], {}
    for critic in dict.fromkeys(row.critic for row in ROWS if row.critic):
        try:
            if not any(row.critic == critic for row in settings.rows):
                raise NotThere("no row of --rows has it")
            spec = settings.cast.spec(critic, "critic")
            pack = load_pack("default" if critic == ORACLE else settings.cast.prompts)
            load = partial(models.agent, spec, "critic")
            results.append(examiner.examine(critic, spec, load, pack))
        except NotThere as reason:
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
