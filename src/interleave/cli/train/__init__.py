"""`interleave train`: supervised fine-tuning and GRPO for planner and critic."""

from __future__ import annotations

import typer

from interleave.cli.train import grpo, recipes, sft

app = typer.Typer(help="Train a planner or a critic.", no_args_is_help=True)


@app.callback()
def _train() -> None:
    """Train a planner or a critic."""


app.command()(sft.sft)
app.command()(grpo.grpo)
app.command()(recipes.recipes)
