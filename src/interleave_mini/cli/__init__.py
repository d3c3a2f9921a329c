"""`interleave mini`: train the built-in miniature's own models."""

from __future__ import annotations

import typer

from interleave_mini.cli import train_agents as agents
from interleave_mini.cli import train_generator as generator

app = typer.Typer(help="The built-in miniature.", no_args_is_help=True)
train = typer.Typer(help="Train the miniature's models from scratch.", no_args_is_help=True)
app.add_typer(train, name="train")


@train.callback()
def _train() -> None:
    """Train the miniature's models from scratch."""


train.command()(generator.generator)
train.command()(agents.sight)
train.command()(agents.planner)
train.command()(agents.critic)
train.command("all")(agents.everything)
app.command()(agents.fresh)
app.command()(agents.halve)
