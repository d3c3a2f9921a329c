"""`interleave bench`: run, judge, score and compare benchmarks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from shutil import get_terminal_size
from textwrap import TextWrapper
from typing import TYPE_CHECKING, Annotated, Any

import typer

from interleave import ConfigurationError
from interleave.bench.cli.options import BenchOptions
from interleave.bench.table import TABLE, find_benchmark, is_benchmark
from interleave.plugin import cli, entry_points, lazy_command, lazy_group, options, say

if TYPE_CHECKING:
    from interleave.bench.base import Benchmark


def complete_benchmark(incomplete: str) -> list[str]:
    names = (*TABLE, *entry_points.installed("benchmarks"))
    return [name for name in names if name.startswith(incomplete)]


BenchmarkName = Annotated[
    str,
    typer.Argument(
        metavar="NAME", autocompletion=complete_benchmark, help="A benchmark; see 'interleave bench list'."
    ),
]


def _rows() -> dict[str, cli.Row]:
    """Return our commands, and those that packages bring; their benchmarks are run by `bench run NAME`."""
    added = {
        name: row._replace(load=partial(_own_command, row))
        for name, row in cli.plugged_in("benchmarks", "benchmark").items()
        if name not in COMMANDS
    }
    return COMMANDS | added


def _own_command(row: cli.Row) -> Any:
    """Return the command that a package brings; `None` for a benchmark."""
    loaded = row.load()
    return None if is_benchmark(loaded) else loaded


def _stage(stage: str, does: str) -> cli.Row:
    """Return the row of a command that carries out one stage of a benchmark, or all of them."""

    @cli.taking(BenchOptions)
    def command(name: BenchmarkName, given: BenchOptions) -> int:
        from interleave.bench.cli.stages import run_stages

        return run_stages(find_benchmark(name), stage, given)

    command.__doc__ = does
    return cli.Row(lambda: command, does)


COMMANDS = {
    "list": lazy_command(
        "interleave.bench.cli.bench:list_benchmarks", "List the benchmarks and their judges."
    ),
    "run": _stage("all", "Run a benchmark: generate outputs, judge, score, report."),
    "generate": _stage("run", "Only generate the outputs of a benchmark."),
    "judge": _stage("judge", "Only ask the judge about outputs."),
    "score": _stage("score", "Compute the scores from judgements, and write the report."),
    "report": lazy_command(
        "interleave.bench.cli.report:report", "Write the report again, or the paper's tables with ours."
    ),
    "export": _stage("export", "Write outputs in the layout of the official scripts."),
    "convert-comm": lazy_command(
        "interleave.bench.cli.convert:convert_comm", "Convert CoMM's pickled files, and load their images."
    ),
    "compare": lazy_command("interleave.bench.cli.bench:compare", "Compare two systems on the same items."),
    "calibrate": lazy_command(
        "interleave.bench.cli.calibrate:calibrate", "Compare a critic's confidence with labels."
    ),
    "drift": lazy_command("interleave.bench.cli.drift:drift", "Measure how far long documents drift."),
}
app = typer.Typer(
    cls=lazy_group(_rows), help="Measure planners, critics and generators.", no_args_is_help=True
)


@app.callback()
def _bench() -> None:
    """Measure planners, critics and generators."""


def list_benchmarks(json_output: options.Json = False) -> int:
    """List the benchmarks, what they test, and their judges."""
    rows = list(_benchmarks())
    if json_output:
        typer.echo(json.dumps([_as_json(row) for row in rows]))
        return 0
    width = max(len(row.name) for row in rows) + 2
    wrapper = TextWrapper(max(60, get_terminal_size().columns), subsequent_indent=" " * width)
    for row in rows:
        facts = f"{row.title}. Tests {row.tests}, judge {row.judge.name}, data {row.licence}."
        typer.echo(wrapper.fill(f"{row.name:{width}}{facts}"))
    return 0


def _benchmarks() -> Iterator[Benchmark]:
    """Yield our benchmarks, then those of other packages; warn if one cannot be loaded."""
    yield from map(find_benchmark, TABLE)
    for name, row in cli.plugged_in("benchmarks", "benchmark").items():
        try:
            if is_benchmark(row.load()):
                yield find_benchmark(name)
        except ConfigurationError as error:
            say(f"interleave: {error} (left out)")


def _as_json(row: Benchmark) -> dict[str, str]:
    return {
        "name": row.name,
        "title": row.title,
        "tests": row.tests,
        "judge": row.judge.name,
        "judge_spec": row.judge.spec,
        "licence": row.licence,
        "about": row.about,
    }


def compare(
    ours: Annotated[
        Path, typer.Argument(metavar="A", help="The folder of a system, or a file of its scores/.")
    ],
    theirs: Annotated[Path, typer.Argument(metavar="B", help="Another system on the same benchmark.")],
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The benchmark's data. [default: where A found it]")
    ] = None,
    json_output: options.Json = False,
) -> int:
    """Compare two systems on the same items: paired differences with 95 % intervals, wins and losses."""
    from interleave.bench.compare import compare_folders, write_comparison

    comparison = compare_folders(ours, theirs)
    page = write_comparison(comparison, ours, theirs, data)
    if json_output:
        typer.echo(comparison.model_dump_json())
        return 0
    from rich.table import Table

    from interleave.plugin import make_console

    table = Table("", "A − B", "95 %", "items", title=f"{ours} against {theirs}", title_justify="left")
    for gap in comparison.gaps:
        digits = gap.digits
        shown = "–" if gap.value is None else f"{gap.value:+.{digits}f}"
        bounds = (
            "–" if gap.low is None or gap.high is None else f"{gap.low:+.{digits}f} to {gap.high:+.{digits}f}"
        )
        table.add_row(gap.name, shown, bounds, f"{gap.items:,}", style="bold" if gap.is_clear else "")
    console = make_console()
    console.print(table)
    console.print(
        f"{len(comparison.wins):,} wins of A, {len(comparison.losses):,} losses, {comparison.ties:,} ties; "
        "bold: the interval excludes zero"
    )
    for note in comparison.notes:
        console.print(note, style="yellow")
    typer.echo(str(page))
    return 0
