"""`interleave mini train …`: the models of the miniature from scratch."""

from __future__ import annotations

import typer

from miniature.cli import train_commands as commands

train = typer.Typer(help="Train the miniature's models from scratch.", no_args_is_help=True)


@train.callback()
def _train() -> None:
    """Train the miniature's models from scratch."""


train.command()(commands.generator)
train.command("vision")(commands.vision)
train.command()(commands.planner)
train.command()(commands.critic)
train.command()(commands.trajectories)
train.command("all")(commands.everything)
