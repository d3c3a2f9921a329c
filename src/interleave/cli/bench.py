"""`interleave bench`: the benchmarks there are; each is a command of its own."""

from __future__ import annotations

import typer

app = typer.Typer(help="Measure planners, critics and generators.", no_args_is_help=True)


@app.callback()
def _bench() -> None:
    """Measure planners, critics and generators."""
