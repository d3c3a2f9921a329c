"""`interleave data`: from requests to rows that train a planner and a critic, a command for each stage."""

from __future__ import annotations

import typer

from interleave.cli.data import prompts

app = typer.Typer(help="Make training data: requests, runs, scores, rows.", no_args_is_help=True)


@app.callback()
def _data() -> None:
    """Make training data: requests, runs, scores, rows."""


app.command()(prompts.prompts)
