"""`interleave bench report`: the page of one benchmark, or the paper's tables with our numbers beside."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from interleave import ConfigurationError
from interleave.bench.cli.options import BenchOptions
from interleave.bench.table import find_benchmark
from interleave.plugin import cli, make_console, write_atomic


@cli.taking(BenchOptions)
def report(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME|DIR…", help="A benchmark. With --paper: folders of its rows."),
    ] = None,
    paper: Annotated[
        bool,
        typer.Option(
            "--paper",
            help="The paper's tables with ours beside, from folders named after its rows; without a folder, "
            "the command of every row.",
        ),
    ] = False,
    given: BenchOptions = BenchOptions(),
) -> int:
    """Write the report again, and print its numbers."""
    if paper:
        return _paper([Path(name) for name in names or ()], given)
    if names is None or len(names) != 1:
        raise ConfigurationError("name one benchmark; several folders go with --paper")
    from interleave.bench.cli.stages import run_stages

    return run_stages(find_benchmark(names[0]), "report", given)


def _paper(places: list[Path], given: BenchOptions) -> int:
    from interleave.bench.paper.report import PAGE_NAME, as_markdown, commands_as_markdown, paper_report
    from interleave.bench.paper.rows import paper

    if not places and not given.json_output:
        typer.echo(commands_as_markdown(paper()), nl=False)
        return 0
    found = paper_report(places)
    if given.json_output:
        typer.echo(found.model_dump_json())
        return 0
    path = (given.out or places[0]) / PAGE_NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, as_markdown(found).encode())
    console = make_console()
    for row in found.rows:
        for difference in row.differences:
            console.print(f"{row.id}: {difference}", style="yellow", soft_wrap=True)
    console.print(f"{len(found.rows) - len(found.missing)} of {len(found.rows)} rows have scores")
    typer.echo(str(path))
    return 0
