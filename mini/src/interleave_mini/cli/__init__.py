"""`interleave mini`: its own commands, and those that the research package adds where it is installed."""

from __future__ import annotations

from functools import partial

import typer

from interleave.plugin import cli, lazy_group
from interleave_mini.cli import commands

app = typer.Typer(
    cls=lazy_group(partial(cli.plugged_in, "mini.commands", "command")),
    help="The built-in miniature.",
    no_args_is_help=True,
)
app.command("label")(commands.label)
app.command("episodes")(commands.episodes)
app.command("closed-loop")(commands.closed_loop)
