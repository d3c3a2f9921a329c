"""`interleave`: all commands, and the place where errors become messages and exit codes.

Exit codes: 0 done · 1 ended short · 2 bad input or configuration, or the planner asks back · 3 a backend or
agent failed (resumable) · 130 interrupted (resumable).
"""

from __future__ import annotations

import logging
import re
import sys
import traceback
from functools import cache
from typing import Annotated, Any, NoReturn

import typer

from interleave.cli.lazy_group import Row, lazy_command, lazy_group, plugged_in
from interleave.cli.old_spellings import rewrite
from interleave.cli.streams import (
    error_stream,
    own_verbosity,
    print_error,
    say,
    tolerate_closed_streams,
    with_options,
)
from interleave.errors import (
    BackendError,
    InterleaveError,
    LimitReached,
    MissingDependency,
    ReplyError,
    StorageError,
)
from interleave.redaction import RedactingFormatter, redacted
from interleave.version import __version__

DONE, SHORT, BAD_INPUT, FAILED, INTERRUPTED = 0, 1, 2, 3, 130

DOCUMENTS = "Make documents"
COMMANDS = {
    "generate": lazy_command(
        "interleave.cli.generate:generate", "Answer a request with text and images.", DOCUMENTS
    ),
    "plan": lazy_command("interleave.cli.plan:plan", "Plan a request without drawing.", DOCUMENTS),
    "resume": lazy_command("interleave.cli.resume:resume", "Continue a run.", DOCUMENTS),
    "edit": lazy_command(
        "interleave.cli.edit:app", "Redraw, choose, undo, branch or approve in a run.", DOCUMENTS
    ),
    "show": lazy_command(
        "interleave.cli.show:show", "Show the steps of a run and the path of its document.", DOCUMENTS
    ),
    "export": lazy_command(
        "interleave.cli.export:export", "Write a document as PDF, EPUB, HTML, PPTX or ZIP.", DOCUMENTS
    ),
}
BROUGHT_BY = {
    "local": ("torch", "transformers", "diffusers", "accelerate", "peft", "safetensors", "tokenizers"),
    "train": ("trl", "datasets"),
    "robots": ("av", "pyarrow"),
}
"""Packages that commands import unchecked, by the extra that installs them."""


def _rows() -> dict[str, Row]:
    return COMMANDS | {
        name: row for name, row in plugged_in("commands", "command").items() if name not in COMMANDS
    }


app = typer.Typer(
    name="interleave",
    cls=lazy_group(_rows),
    help="Answer a request with text and images, using any image generator: plan, draw, judge, redraw.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
    handler = logging.StreamHandler(error_stream())
    handler.setFormatter(RedactingFormatter("%(message)s"))
    logging.basicConfig(handlers=[handler])


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run a command and exit with its code."""
    given = sys.argv[1:] if arguments is None else arguments
    sys.exit(run(given))


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code. An error is one or two lines on stderr."""
    if "--follow" in arguments:  # it only prints, so it must end when its reader is gone
        return _run(arguments)
    try:
        with tolerate_closed_streams():
            return _run(arguments)
    except OSError as error:
        say(f"interleave: cannot write to standard output ({error.strerror})", error=True)
        return FAILED


@own_verbosity()
def _run(arguments: list[str]) -> int:
    try:
        arguments, hints = rewrite(arguments)
        for hint in hints if {"-q", "--quiet"}.isdisjoint(arguments) else ():
            say(f"interleave: {hint}")
        return int(root_command()(args=arguments, prog_name="interleave", standalone_mode=False) or DONE)
    except InterleaveError as error:
        return _complain(error, _code_of(error), arguments)
    except ModuleNotFoundError as error:
        return _complain(_missing(error) or error, BAD_INPUT, arguments)
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
def root_command() -> Any:
    """Return the root command, built once per process."""
    return typer.main.get_command(app)


def _missing(error: ModuleNotFoundError) -> MissingDependency | None:
    """Return an error with the command that installs the package; `None` if no extra installs it."""
    package = (error.name or "").partition(".")[0]
    extra = next((extra for extra, packages in BROUGHT_BY.items() if package in packages), None)
    if extra is None:
        return None
    return MissingDependency(
        f"this command needs the package {package!r}, which is not installed. "
        f'Install it with: pip install "interleavethinker[{extra}]"'
    )


def _code_of(error: InterleaveError) -> int:
    if isinstance(error, LimitReached):
        return SHORT
    return FAILED if isinstance(error, BackendError | ReplyError | StorageError) else BAD_INPUT


def _complain(error: Exception, code: int, arguments: list[str]) -> int:
    """Print an error on stderr and, if JSON is asked for, as JSON. Return the exit code."""
    from interleave.runs.event_lines import UNEXPECTED, report_of

    report = report_of(error)
    report = report.model_copy(update={"message": with_options(report.message)})
    if "--debug" in arguments:
        print(redacted(traceback.format_exc(), message=True), end="", file=error_stream())
    unexpected = f"{type(error).__name__}: {error} (add --debug to see where)"
    say(f"interleave: {unexpected if report.kind == UNEXPECTED else report.message}", error=True)
    print_error(report, code, arguments, sys.stdout)
    return code


def _interrupted(arguments: list[str]) -> int:
    from interleave.runs.event_lines import ErrorReport

    say("interleave: interrupted", error=True)
    report = ErrorReport(kind="interrupted", message="interrupted", advice="run the same command again")
    print_error(report, INTERRUPTED, arguments, sys.stdout)
    return INTERRUPTED


def _usage(error: Exception, arguments: list[str]) -> int:
    from interleave.runs.event_lines import ErrorReport

    command = getattr(getattr(error, "ctx", None), "command_path", "interleave").replace("{RUN}", "RUN")
    message = str(error.format_message())  # type: ignore[attr-defined]
    message = re.sub(r"Input should be ([^,]*)(, unable to parse.*)?", r"it must be \1", message)
    if type(error).__name__ == "NoArgsIsHelpError":  # the message is the help
        print(message, file=sys.stderr)
        return BAD_INPUT
    if "unexpected extra argument" in message and command in ("interleave generate", "interleave plan"):
        message += ": put the request in quotes"
    stop = "" if message.endswith(("?", ".", "!")) else "."
    say(f"interleave: {message}{stop} See '{command} --help'", error=True)
    report = ErrorReport(kind="usage_error", message=message, advice=f"see '{command} --help'")
    print_error(report, BAD_INPUT, arguments, sys.stdout)
    return BAD_INPUT
