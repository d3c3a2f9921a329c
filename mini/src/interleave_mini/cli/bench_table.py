"""`interleave bench mini --table ablation`: many systems on the same tasks, and an exam of their critics."""

from __future__ import annotations

import hashlib
import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status
    from rich.text import Text

    from interleave_mini.bench.ablation import ExamResult, Line, Table, TableRow, TableSettings
    from interleave_mini.intervals import Estimate

ABLATION = "ablation"
WIDTH = 130
"""The width of the tables where the terminal has none."""


def chosen(of_one_run: Mapping[str, object], of_a_table: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a table by name; refuses what only a single run has."""
    from interleave import ConfigurationError

    for option, value in of_one_run.items():
        if value is not None:
            raise ConfigurationError(
                f"{option} is for a single run: a table has its own rows and suites (--rows, --suites)"
            )
    return {option.removeprefix("--").replace("-", "_"): value for option, value in of_a_table.items()}


def ablation(
    name: str,
    options: Mapping[str, Any],
    *,
    generator: str | None,
    prompts: str | None,
    items: int | None,
    seed: int,
    max_attempts: int | None,
    out: Path | None,
    concurrency: int,
    json_output: bool,
) -> int:
    """Run what is missing of the table, print and write it."""
    from interleave import ConfigurationError
    from interleave.plugin import make_console
    from interleave_mini.bench.ablation import DEFAULT_ITEMS, DEFAULT_MORE_ITEMS, TableSettings, run_table
    from interleave_mini.bench.critic_exam import DEFAULT_ATTEMPTS, DEFAULT_FAILURES
    from interleave_mini.bench.systems import AgentSpecs, rows_named, suites_named

    if name != ABLATION:
        raise ConfigurationError(f"there is no table {name!r}: the one there is, is --table {ABLATION}")
    if items is not None and items < 0:
        raise ConfigurationError("--items must not be negative; 0 leaves the main rows out")
    settings = TableSettings(
        rows=rows_named(_listed(options["rows"])),
        suites=suites_named(_listed(options["suites"])),
        items=_given(items, DEFAULT_ITEMS),
        more_items=_given(options["more_items"], DEFAULT_MORE_ITEMS),
        seed=seed,
        concurrency=concurrency,
        generator=generator or "mini",
        agents=AgentSpecs(options["trained"], prompts or "mini", options["vlm_options"] or ""),
        max_attempts=max_attempts,
    )
    exam = (_given(options["exam"], DEFAULT_ATTEMPTS), _given(options["failures"], DEFAULT_FAILURES))
    folder = out or _default_folder(settings)
    console = make_console(width=None if sys.stderr.isatty() else WIDTH)
    with console.status("loading models…") as status:
        table, examiner = run_table(settings, folder, exam, StatusPrinter(console, status))
    pages = _write_pages(table, examiner, folder)
    if json_output:
        typer.echo(table.model_dump_json())
    else:
        _print(table, console)
        for page in pages:
            typer.echo(str(page))
    return _exit_code(table)


class StatusPrinter:
    """Shows the current activity: live on a terminal, else a plain line whenever it changes."""

    def __init__(self, console: Console, status: Status) -> None:
        self.console = console
        self.status = status
        self._last = ""

    def __call__(self, said: str) -> None:
        from rich.text import Text

        self.status.update(Text(said))  # a string would be read as markup
        what = said.partition(":")[0]
        if not self.console.is_terminal and what != self._last:
            self._last = what
            self.console.print(f"{time.strftime('%H:%M:%S')} {said}")


def _write_pages(table: Table, examiner: Any, folder: Path) -> list[Path]:
    from interleave.plugin import write_atomic
    from interleave_mini.bench.reports import MARKDOWN_NAME, as_markdown, write_refinements

    command = shlex.join(["interleave", *sys.argv[1:]])
    write_atomic(folder / MARKDOWN_NAME, as_markdown(table, command).encode())
    pages = [folder / MARKDOWN_NAME]
    critics = {each.key: each for each in table.exam.critics} if table.exam else {}
    shown = critics.get("critic") or next(iter(critics.values()), None)
    if shown is not None and examiner.failures:
        pages.append(write_refinements(examiner, shown, folder))
    return pages


def _exit_code(table: Table) -> int:
    """1 if something failed; a row whose model is not available is not a failure."""
    reasons = [reason for row in table.rows for reason in row.not_run.values()]
    reasons += table.exam.not_examined.values() if table.exam else []
    failed_tasks = any(line.failed > line.unreadable_plans for row in table.rows for line in row.lines)
    return 1 if failed_tasks or any(reason.startswith("failed: ") for reason in reasons) else 0


def _default_folder(settings: TableSettings) -> Path:
    """The same for the same models and seed, whichever rows are asked for."""
    models = f"{settings.agents.trained}/{settings.agents.prompts}/{settings.generator}/{settings.seed}"
    return Path("runs") / "bench" / f"mini-{ABLATION}-{hashlib.sha256(models.encode()).hexdigest()[:8]}"


def _listed(value: str | None) -> list[str]:
    return [piece.strip() for piece in (value or "").split(",") if piece.strip()]


def _given(value: int | None, default: int) -> int:
    return default if value is None else value


# Showing


def _print(table: Table, console: Console) -> None:
    for suite in dict.fromkeys(line.suite for row in table.rows for line in row.lines):
        console.print(_suite_table(table.rows, suite))
    for row in table.rows:
        for reason in dict.fromkeys(row.not_run.values()):
            suites = ", ".join(suite for suite, why in row.not_run.items() if why == reason)
            console.print(f"{row.key}: not run on {suites}: {reason}", style="yellow")
    if table.exam is not None:
        console.print(_exam_table(table.exam))
        for key, reason in table.exam.not_examined.items():
            console.print(f"{key}: not examined: {reason}", style="yellow")


def _suite_table(rows: tuple[TableRow, ...], suite: str) -> Any:
    from rich.table import Table as Drawn

    drawn = Drawn(title=f"ablation: {suite}", title_justify="left")
    for name in ("", "tasks", "text", "image", "average", "strict", "to full", "drawn", "forced"):
        drawn.add_column(name, justify="left" if not name else "right")
    for row in rows:
        lines = [line for line in row.lines if line.suite == suite]
        for line in lines:
            drawn.add_row(*_cells(row, line, is_whole=line is lines[0]), end_section=line is lines[-1])
    return drawn


def _cells(row: TableRow, line: Line, *, is_whole: bool) -> list[str | Text]:
    from rich.text import Text

    from interleave_mini.bench.reports import points

    against = line.against.get("full" if is_whole else row.key, {})
    return [
        row.key if is_whole else Text(f"  at most {line.attempts}", "dim"),
        f"{line.items:,}",
        *(_percent(each) for each in (line.text, line.image, line.average, line.strict)),
        points(against.get("strict")).replace("**", ""),
        f"{line.drawn:,}",
        f"{line.forced:,}",
    ]


def _exam_table(exam: ExamResult) -> Any:
    from rich.table import Table as Drawn

    from interleave_mini.bench.reports import points

    drawn = Drawn(
        title=f"exam: {exam.attempts:,} attempts, {exam.failures} failures",
        caption="repaired and drawn again: of all failures",
        title_justify="left",
    )
    names = (
        *("accuracy", "caught", "false alarms", "another step", "unreadable", "tokens"),
        *("repaired", "drawn again", "gain"),
    )
    for name in ("", *names):
        drawn.add_column(name, justify="left" if not name else "right")
    for each in exam.critics:
        shares = (each.accuracy, each.caught, each.false_alarms, each.other_steps, each.unreadable)
        drawn.add_row(
            each.key,
            *map(_percent, shares),
            f"{each.tokens:.0f}",
            _percent(each.repaired),
            _percent(each.again),
            points(each.gain).replace("**", ""),
        )
    return drawn


def _percent(share: Estimate | None) -> Text:
    from rich.text import Text

    if share is None:
        return Text("–")
    interval = f"{100 * share.low:.0f}–{100 * share.high:.0f}"
    return Text.assemble(f"{100 * share.mean:.1f} ", (interval, "dim"))
