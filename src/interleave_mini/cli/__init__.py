"""`interleave mini`: train the built-in miniature's own models, label their pictures, let its robot work."""

from __future__ import annotations

import typer

from interleave_mini.cli import label, robot
from interleave_mini.cli import train_commands as commands

app = typer.Typer(help="The built-in miniature.", no_args_is_help=True)
train = typer.Typer(help="Train the miniature's models from scratch.", no_args_is_help=True)
app.add_typer(train, name="train")


@train.callback()
def _train() -> None:
    """Train the miniature's models from scratch."""


train.command()(commands.generator)
train.command("sight")(commands.vision)
train.command()(commands.planner)
train.command()(commands.critic)
train.command()(commands.trajectories)
train.command("all")(commands.everything)
app.command()(commands.fresh)
app.command()(commands.grow)
app.command("halve")(commands.to_fp16)
app.command("label")(label.label)
app.command("episodes")(robot.episodes)
app.command("closed-loop")(robot.closed_loop)
