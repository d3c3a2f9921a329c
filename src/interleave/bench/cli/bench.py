"""`interleave bench`: the benchmarks there are, one command each; `list` and `compare`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from interleave import ConfigurationError
from interleave.bench.cli.options import BenchOptions
from interleave.bench.table import TABLE, find_benchmark, is_benchmark
from interleave.plugin import cli, lazy_command, lazy_group, options, say

if TYPE_CHECKING:
    from interleave.bench.base import Benchmark


def _rows() -> dict[str, cli.Row]:
    """Commands for all benchmarks, then one for each."""
    added = {
        name: row._replace(load=partial(_command_or_benchmark, name, row))
        for name, row in cli.plugged_in("benchmarks", "benchmark").items()
    }
    shipped = {name: cli.Row(partial(_command_of, name), f"Run and score {name}.") for name in TABLE}
    return COMMANDS | shipped | {name: row for name, row in added.items() if name not in COMMANDS | shipped}


COMMANDS = {
    "list": lazy_command(
        "interleave.bench.cli.bench:list_benchmarks", "The benchmarks there are, and who judges."
    ),
    "compare": lazy_command(
        "interleave.bench.cli.bench:compare", "Two systems on the same items, with intervals."
    ),
    "drift": lazy_command(
        "interleave.bench.cli.drift:drift", "How far long documents drift from their start."
    ),
}
app = typer.Typer(
    cls=lazy_group(_rows), help="Measure planners, critics and generators.", no_args_is_help=True
)


@app.callback()
def _bench() -> None:
    """Measure planners, critics and generators."""


def list_benchmarks(json_output: options.Json = False) -> int:
    """The benchmarks there are, what they test, and who judges."""
    rows = list(_benchmarks())
    if json_output:
        typer.echo(json.dumps([_as_json(row) for row in rows]))
        return 0
    from rich.table import Column, Table

    from interleave.plugin import make_console

    table = Table(Column("name", no_wrap=True), "benchmark", "tests", "official judge", "licence of the data")
    for row in rows:
        table.add_row(row.name, row.title, row.tests, row.judge.name, row.licence)
    make_console(stderr=False).print(table)
    return 0


def _benchmarks() -> Iterator[Benchmark]:
    """The benchmarks that ship, then those of other packages; one that cannot be loaded is a warning."""
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
    theirs: Annotated[Path, typer.Argument(metavar="B", help="Another one, of the same benchmark.")],
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The benchmark's data. [default: where A found it]")
    ] = None,
    json_output: options.Json = False,
) -> int:
    """Two systems on the same items: paired differences with 95 % intervals, wins and losses side by side."""
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
        "bold: the interval does not hold zero"
    )
    for note in comparison.notes:
        console.print(note, style="yellow")
    typer.echo(str(page))
    return 0


def _command_of(name: str) -> Callable[..., int]:
    """The command of a benchmark of the table."""

    def bench(**given: Any) -> int:
        from interleave.bench.cli.stages import run_stages

        return run_stages(find_benchmark(name), BenchOptions(**given))

    bench.__doc__ = f"The benchmark {name}: run a system, ask the judge, score, report."
    bench.__signature__ = signature(BenchOptions, eval_str=True)  # type: ignore[attr-defined]
    return bench


def _command_or_benchmark(name: str, row: cli.Row) -> Callable[..., Any]:
    """A package's own command, or the command of its benchmark."""
    loaded: Callable[..., Any] = row.load()
    return _command_of(name) if is_benchmark(loaded) else loaded
