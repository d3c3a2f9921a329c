"""`interleave data`: the commands that turn requests into training rows, one for each stage."""

from __future__ import annotations

import typer

from interleave.cli.data import collect, export, import_runs, prompts, report, score, select, sequences

app = typer.Typer(help="Make training data: requests, runs, scores, rows.", no_args_is_help=True)


@app.callback()
def _data() -> None:
    """Make training data: requests, runs, scores, rows."""


app.command()(prompts.prompts)
app.command()(collect.collect)
app.command()(score.score)
app.command()(select.select)
app.command()(export.export)
app.command()(sequences.sequences)
app.command("import")(import_runs.import_runs)
app.command()(report.report)
