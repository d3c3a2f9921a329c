"""`interleave train recipes`: the recipes there are."""

from __future__ import annotations

from typing import Annotated

import typer

from interleave.cli import options as shared


def recipes(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Show this one whole.")] = None,
    debug: shared.Debug = False,
) -> int:
    """List the recipes that come with the package, or show one."""
    import tomllib

    from interleave.errors import ConfigurationError, did_you_mean
    from interleave.training.recipes import shipped_recipes

    known = shipped_recipes()
    if name is None:
        for each, path in known.items():
            typer.echo(f"{each:<26} {tomllib.loads(path.read_text('utf-8')).get('description', '')}")
        return 0
    if name not in known:
        raise ConfigurationError(f"no recipe named {name!r}. {did_you_mean(name, known)}")
    typer.echo(known[name].read_text("utf-8").rstrip())
    return 0
