"""`interleave data`: one command per stage, from requests to training rows."""

from __future__ import annotations

import typer

from interleave.plugin import lazy_command, lazy_group

COMMANDS = {
    "prompts": lazy_command(
        "interleave.train.cli.data.prompts:prompts", "Write requests, offline and without a model."
    ),
    "collect": lazy_command(
        "interleave.train.cli.data.collect:collect", "Run the requests, with any models."
    ),
    "score": lazy_command("interleave.train.cli.data.score:score", "Score every attempt, 0 to 10."),
    "select": lazy_command(
        "interleave.train.cli.data.select:select", "Choose the critic's rows for SFT and for RL."
    ),
    "export": lazy_command(
        "interleave.train.cli.data.export:export", "Write rows in the formats of the trainers."
    ),
    "sequences": lazy_command(
        "interleave.train.cli.data.sequences:sequences", "Write interleaved sequences."
    ),
    "import": lazy_command(
        "interleave.train.cli.data.import_runs:import_runs", "Import interleaved data of others."
    ),
    "report": lazy_command(
        "interleave.train.cli.data.report:report", "Show runs, scores and rows on one page."
    ),
}
app = typer.Typer(
    cls=lazy_group(lambda: COMMANDS),
    help="Make training data: requests, runs, scores, rows.",
    no_args_is_help=True,
)


@app.callback()
def _data() -> None:
    """Make training data: requests, runs, scores, rows."""
