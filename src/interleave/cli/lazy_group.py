"""Groups of commands that import a command when it is called, not to list it; help in sections."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from interleave import entry_points
from interleave.cli import options
from interleave.cli.streams import JSON, JSON_EVENTS, interrupt_on_terminate, say
from interleave.errors import ConfigurationError

OTHER = "Other commands"


class Row(NamedTuple):
    """A command that can be listed before it is imported."""

    load: Callable[[], Any]
    """Returns a function to call, or a typer application; `None` for no command."""
    help: str | None = None
    """Its line in the list of commands. `None`: the help of the loaded command."""
    panel: str | None = None
    """The heading it is listed under."""


def lazy_command(target: str, help: str, panel: str | None = None) -> Row:
    """Return the row of the command at `target`, "module:name"."""
    return Row(partial(pkgutil.resolve_name, target), help, panel)


def plugged_in(group: str, kind: str) -> dict[str, Row]:
    """Return the rows of the commands that installed packages add; an entry names a command or its row."""
    points = entry_points.installed(group).items()
    return {name: Row(partial(entry_points.load, point, f"the {kind} {name!r}")) for name, point in points}


def lazy_group(rows: Callable[[], Mapping[str, Row]]) -> type[TyperGroup]:
    """Return a class for `typer.Typer(cls=…)` that adds these commands to those of the application."""

    class LazyGroup(TyperGroup):
        def __init__(self, **settings: Any) -> None:
            super().__init__(**settings)
            _finish(self)
            self.commands: Any = _Commands(self.commands, rows)

        def invoke(self, ctx: Any) -> Any:
            """Report a signal as JSON, if JSON is asked for, even before the command handles signals."""
            wants_json = not {JSON, JSON_EVENTS}.isdisjoint(ctx.args)
            with interrupt_on_terminate() if wants_json else nullcontext():
                return super().invoke(ctx)

        def list_commands(self, ctx: Any) -> list[str]:
            return list(self.commands)

        def shell_complete(self, ctx: Any, incomplete: str) -> Any:
            """Complete the names of commands without importing them."""
            commands = self.commands
            listed = {name: TyperCommand(name, help=row.help) for name, row in rows().items()}
            self.commands = {**listed, **commands.own}
            try:
                return super().shell_complete(ctx, incomplete)
            finally:
                self.commands = commands

    return LazyGroup


def taking(values: type) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Add the fields of a dataclass to a command as options; the command receives them as one value, last."""
    fields = signature(values, eval_str=True).parameters

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        *own, _ = signature(command, eval_str=True).parameters.values()

        @wraps(command)
        def combined(**given: Any) -> int:
            return command(*(given.pop(each.name) for each in own), values(**given))

        every = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in (*own, *fields.values())]
        combined.__signature__ = Signature(every)  # type: ignore[attr-defined]
        return combined

    return decorate


class _Commands(Mapping[str, Any]):
    """Commands by name, loaded on lookup."""

    def __init__(self, own: Mapping[str, Any], rows: Callable[[], Mapping[str, Row]]) -> None:
        self.own = own
        self.rows = rows

    def __getitem__(self, name: str) -> Any:
        if name in self.own:
            return self.own[name]
        if (loaded := self.rows()[name].load()) is None:
            raise KeyError(name)
        return _as_command(name, loaded)

    def __contains__(self, name: object) -> bool:
        return name in self.own or name in self.rows()

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self.own, *self.rows())))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _as_command(name: str, loaded: Any) -> Any:
    """Return the click command of a function or an application."""
    if isinstance(loaded, Row):
        loaded = loaded.load()
    holder = typer.Typer(rich_markup_mode=None)
    if isinstance(loaded, typer.Typer):
        holder.add_typer(loaded, name=name)
    else:
        holder.command(name)(loaded)
    (command,) = typer.main.get_group(holder).commands.values()
    _finish(command)
    return command


def _finish(command: Any) -> None:
    """Add the options that every command has, and our help, to a command and those below it."""
    if isinstance(command, TyperGroup):
        command.subcommand_metavar = "COMMAND"
        command.format_commands = partial(_format_commands, command)  # type: ignore[method-assign]
        command.format_options = partial(_format_group, command)  # type: ignore[method-assign]
        if not isinstance(command.commands, _Commands):  # those are finished when they load
            for each in command.commands.values():
                _finish(each)
    else:
        command.format_options = partial(_format_options, command)
    known = {parameter.name for parameter in command.params}
    command.params += [each for each in _common_options() if each.name not in known]


def _common_options() -> list[Any]:
    """Return new `-v`, `-q` and `--debug`; the error handler looks for the last in the arguments."""

    def no_command(
        verbose: options.Verbose = False, quiet: options.Quiet = False, debug: options.Debug = False
    ) -> None: ...

    alone = typer.Typer(add_completion=False)
    alone.command()(no_command)
    found: list[Any] = typer.main.get_command(alone).params
    for option in found:
        option.expose_value = False
    return found


def _format_group(group: Any, ctx: Any, formatter: Any) -> None:
    group.format_commands(ctx, formatter)
    _format_options(group, ctx, formatter)


def _format_options(command: Any, ctx: Any, formatter: Any) -> None:
    """Write arguments, options without a panel, the panels, and the options that every command has."""
    panels: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for parameter in command.get_params(ctx):
        kind = "Arguments" if parameter.param_type_name == "argument" else "Options"
        panel = getattr(parameter, "rich_help_panel", None) or kind
        if parameter.name == "help":
            panel = options.COMMON
        if (record := parameter.get_help_record(ctx)) is not None:
            panels.setdefault(panel, []).append(record)
    panels[options.COMMON] = panels.pop(options.COMMON)
    _write(panels, formatter)


def _format_commands(group: Any, ctx: Any, formatter: Any) -> None:
    panels: dict[str, list[tuple[str, str]]] = {}
    for name in group.commands:
        try:
            text, panel = _listed(group.commands, name)
        except ConfigurationError as error:  # a package that cannot be loaded
            say(f"interleave: {error} (left out)")
            continue
        if text is not None:
            panels.setdefault(panel or OTHER, []).append((name, text))
    others = panels.pop(OTHER, [])
    _write({**panels, OTHER if panels else "Commands": others}, formatter)


def _listed(commands: Mapping[str, Any], name: str) -> tuple[str | None, str | None]:
    """Return the help line of a command and its panel. Loads it if its row has no line."""
    row: Any = commands.rows().get(name) if isinstance(commands, _Commands) else None
    if row and not row.help:
        row = row.load()
    if isinstance(row, Row) and row.help:
        return row.help, row.panel
    command = commands.get(name)
    return (None, None) if command is None else (str(command.get_short_help_str(limit=200)), None)


def _write(panels: Mapping[str, Iterable[tuple[str, str]]], formatter: Any) -> None:
    """Write sections with their second columns aligned."""
    filled = {name: list(rows) for name, rows in panels.items() if rows}
    width = min(28, max((len(first) for rows in filled.values() for first, _ in rows), default=0))
    for name, rows in filled.items():
        with formatter.section(name):
            formatter.write_dl([(first.ljust(width), second) for first, second in rows], col_max=width)
