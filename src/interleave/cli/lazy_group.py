"""Groups of commands that import a command when it is called, and nothing to list it."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup

from interleave import entry_points
from interleave.cli import options
from interleave.cli.streams import JSON, JSON_EVENTS, interrupt_on_terminate, say
from interleave.errors import ConfigurationError


class Row(NamedTuple):
    """A command that can be listed before it is imported."""

    load: Callable[[], Any]
    """Returns a function to call, or a typer application."""
    help: str | None = None
    """Its line in the list of commands; None: whatever the loaded command says."""


def lazy_command(target: str, help: str) -> Row:
    """The row of the command that `target`, "module:name", names."""
    return Row(partial(pkgutil.resolve_name, target), help)


def plugged_in(group: str, kind: str) -> dict[str, Row]:
    """The rows of the commands that installed packages add; each entry names a command or the row of one."""
    points = entry_points.installed(group).items()
    return {name: Row(partial(entry_points.load, point, f"the {kind} {name!r}")) for name, point in points}


def lazy_group(rows: Callable[[], Mapping[str, Row]]) -> type[TyperGroup]:
    """A class for `typer.Typer(cls=…)` whose commands are these, beside those that the application adds."""

    class LazyGroup(TyperGroup):
        def __init__(self, **settings: Any) -> None:
            super().__init__(**settings)
            for command in self.commands.values():
                _add_debug_option(command)
            self.commands: Any = _Commands(self.commands, rows)

        def invoke(self, ctx: Any) -> Any:
            """A signal that comes before a command handles it ends in JSON too, where that is asked for."""
            wants_json = not {JSON, JSON_EVENTS}.isdisjoint(ctx.args)
            with interrupt_on_terminate() if wants_json else nullcontext():
                return super().invoke(ctx)

        def list_commands(self, ctx: Any) -> list[str]:
            return list(self.commands)

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            listed = [(name, text) for name in self.commands if (text := self._help(name)) is not None]
            with formatter.section("Commands"):
                formatter.write_dl(listed)

        def _help(self, name: str) -> str | None:
            """The line of a command; None, and a warning, for a plugin that cannot be loaded."""
            row: Any = rows().get(name)
            try:
                if row and not row.help:
                    row = row.load()
                if isinstance(row, Row) and row.help:
                    return row.help
                return str(self.commands[name].get_short_help_str(limit=120))
            except ConfigurationError as error:
                say(f"interleave: {error} (left out)")
                return None

    return LazyGroup


class _Commands(Mapping[str, Any]):
    """Commands by name, loaded when they are looked up."""

    def __init__(self, own: Mapping[str, Any], rows: Callable[[], Mapping[str, Row]]) -> None:
        self._own = own
        self._rows = rows

    def __getitem__(self, name: str) -> Any:
        return self._own[name] if name in self._own else _as_command(name, self._rows()[name].load())

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in self._rows()

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._own, *self._rows())))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _as_command(name: str, loaded: Any) -> Any:
    """What typer makes of a function or an application, with `--debug`."""
    if isinstance(loaded, Row):
        loaded = loaded.load()
    holder = typer.Typer(rich_markup_mode=None)
    if isinstance(loaded, typer.Typer):
        holder.add_typer(loaded, name=name)
    else:
        holder.command(name)(loaded)
    (command,) = typer.main.get_group(holder).commands.values()
    _add_debug_option(command)
    return command


def _add_debug_option(command: Any) -> None:
    """Add `--debug` to every command at and below this one that is loaded and does not have it."""
    if isinstance(command, TyperGroup):
        if not isinstance(command.commands, _Commands):  # those add it when they load
            for subcommand in command.commands.values():
                _add_debug_option(subcommand)
    elif not any(parameter.name == "debug" for parameter in command.params):
        command.params.append(_debug_option())


def _debug_option() -> Any:
    """`--debug`, which the error handler looks for in the arguments."""

    def no_command(debug: options.Debug = False) -> None: ...

    just_this = typer.Typer(add_completion=False)
    just_this.command()(no_command)
    (option,) = typer.main.get_command(just_this).params
    option.expose_value = False
    return option
