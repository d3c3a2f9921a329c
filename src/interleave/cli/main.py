"""`interleave`: all commands, and the one place where errors become messages and exit codes.

Exit codes: 0 done · 1 ended short · 2 bad input or configuration · 3 a backend or agent failed
(resumable) · 130 interrupted (resumable).
"""

from __future__ import annotations

import logging
import sys
import traceback
from functools import cache
from typing import Annotated, Any, NoReturn

import typer

from interleave import plugins
from interleave.cli import (
    backends,
    bench,
    calibrate,
    data,
    export,
    generate,
    options,
    plan,
    prompts,
    resume,
    robot,
    serve,
    show,
    studio,
    train,
    work,
)
from interleave.cli.json_output import print_error
from interleave.cli.run_command import say
from interleave.cli.streams import tolerate_closed_streams
from interleave.errors import BackendError, InterleaveError, LimitReached, ReplyError, StorageError
from interleave.redaction import RedactingFormatter, redacted
from interleave.version import __version__

DONE, SHORT, BAD_INPUT, FAILED, INTERRUPTED = 0, 1, 2, 3, 130

app = typer.Typer(
    name="interleave",
    help="Answer a request with text and pictures, using any image generator: plan, draw, judge, redraw.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(generate.generate)
app.command()(plan.plan)
app.command()(resume.resume)
app.command()(show.show)
app.command()(export.export)
app.command()(calibrate.calibrate)
app.command()(studio.studio)
app.add_typer(backends.app, name="backends")
app.add_typer(prompts.app, name="prompts")
app.add_typer(bench.app, name="bench")
app.add_typer(data.app, name="data")
app.add_typer(train.app, name="train")
app.add_typer(serve.app, name="serve")
app.add_typer(robot.app, name="robot")
app.command()(work.work)


def _add_plugins(arguments: list[str]) -> frozenset[str]:
    """Add the plugin commands that these arguments may call; without a command, as in `--help`, all."""
    verb = next((each for each in arguments if not each.startswith("-")), None)
    commands = {name for name in plugins.installed("commands") if verb in (None, name)}
    for name in commands - {group.name for group in app.registered_groups}:
        app.add_typer(plugins.load(plugins.installed("commands")[name], f"the command {name!r}"), name=name)
    benchmarks = {name for name in plugins.installed("benchmarks") if verb == "bench"}
    for name in benchmarks - {command.name for command in bench.app.registered_commands}:
        point = plugins.installed("benchmarks")[name]
        bench.add_benchmark(name, plugins.load(point, f"the benchmark {name!r}"))
    return frozenset(commands | {f"bench {name}" for name in benchmarks})


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"interleave {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(RedactingFormatter("%(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run a command and exit with its code."""
    given = sys.argv[1:] if arguments is None else arguments
    sys.exit(run(given))


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code; an error is printed on stderr in one or two lines."""
    if "--follow" in arguments:  # it only prints: when its reader is gone, it must end
        return _run(arguments)
    try:
        with tolerate_closed_streams():
            return _run(arguments)
    except OSError as error:
        say(f"interleave: cannot write to standard output ({error.strerror})")
        return FAILED


def _run(arguments: list[str]) -> int:
    try:
        command = _command(_add_plugins(arguments))
        return int(command(args=arguments, prog_name="interleave", standalone_mode=False) or DONE)
    except InterleaveError as error:
        return _complain(error, _code_of(error), arguments)
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted(arguments)
    except BrokenPipeError:
        sys.stderr.close()  # the reader is gone, and a further message would fail too
        return SHORT
    except Exception as error:
        if not hasattr(error, "format_message"):  # typer's own errors have it; anything else is a bug
            return _complain(error, FAILED, arguments)
        return _usage(error, arguments)


@cache
def _command(plugged_in: frozenset[str]) -> Any:
    """All commands with their options, built once per process: that takes longer than most of them run."""
    command = typer.main.get_command(app)
    _add_option(command, _debug_option())
    return command


def _debug_option() -> Any:
    """`--debug`, which `_complain` looks for in the arguments."""

    def no_command(debug: options.Debug = False) -> None: ...

    just_this = typer.Typer(add_completion=False)
    just_this.command()(no_command)
    (option,) = typer.main.get_command(just_this).params
    option.expose_value = False
    return option


def _add_option(command: Any, option: Any) -> None:
    """Add an option to every command below this one that does not have it."""
    if subcommands := getattr(command, "commands", None):
        for subcommand in subcommands.values():
            _add_option(subcommand, option)
    elif not any(parameter.name == option.name for parameter in command.params):
        command.params.append(option)


def _code_of(error: InterleaveError) -> int:
    if isinstance(error, LimitReached):
        return SHORT
    return FAILED if isinstance(error, BackendError | ReplyError | StorageError) else BAD_INPUT


def _complain(error: Exception, code: int, arguments: list[str]) -> int:
    """Say what went wrong, for people and, where JSON is asked for, for programs."""
    from interleave.runs.error_report import UNEXPECTED, report_of

    report = report_of(error)
    if "--debug" in arguments:
        print(redacted(traceback.format_exc(), message=True), end="", file=sys.stderr)
    unexpected = f"{type(error).__name__}: {error} (add --debug to see where)"
    say(f"interleave: {unexpected if report.kind == UNEXPECTED else report.message}")
    print_error(report, code, arguments, sys.stdout)
    return code


def _interrupted(arguments: list[str]) -> int:
    from interleave.runs.error_report import ErrorReport

    say("interleave: interrupted")
    report = ErrorReport(kind="interrupted", message="interrupted", advice="run the same command again")
    print_error(report, INTERRUPTED, arguments, sys.stdout)
    return INTERRUPTED


def _usage(error: Exception, arguments: list[str]) -> int:
    from interleave.runs.error_report import ErrorReport

    command = getattr(getattr(error, "ctx", None), "command_path", "interleave")
    message = str(error.format_message())  # type: ignore[attr-defined]
    if type(error).__name__ == "NoArgsIsHelpError":  # the message is the help
        print(message, file=sys.stderr)
        return BAD_INPUT
    if "unexpected extra argument" in message and command in ("interleave generate", "interleave plan"):
        message += ": put the request in quotes"
    stop = "" if message.endswith(("?", ".", "!")) else "."
    say(f"interleave: {message}{stop} See '{command} --help'")
    report = ErrorReport(kind="usage_error", message=message, advice=f"see '{command} --help'")
    print_error(report, BAD_INPUT, arguments, sys.stdout)
    return BAD_INPUT
