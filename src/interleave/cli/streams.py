"""Standard streams that may be closed while a command runs, consoles, and signals that end a command.

A command continues if its output is no longer read, because its results are on disk. Lines that cannot be
written are dropped. The exit code reports how the work ended.
"""

from __future__ import annotations

import atexit
import errno
import json
import logging
import math
import os
import re
import shlex
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from tempfile import NamedTemporaryFile
from threading import Lock
from typing import TYPE_CHECKING, Any, TextIO, cast

import typer

from interleave.errors import InputError
from interleave.files import STANDARD_INPUT
from interleave.redaction import redacted
from interleave.text import count, one_line, storable, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TextColumn

    from interleave.runs.event_lines import ErrorReport, EventLine
    from interleave.types import Value


READER_GONE = frozenset({errno.EPIPE, errno.EIO, errno.ESHUTDOWN})
"""Errors of a closed pipe or terminal."""
SECONDS_BETWEEN_RETRY_MESSAGES = 120.0
RETRY_LOGGER = "interleave.backends.retries"
KIND_CHARACTERS = 300
MOST_KINDS = 8
OTHER_KINDS = "other retries"
_PARAMETERS = """
allow chapter_steps choose critic drift_control generator hold_plan identity layout max_attempts
max_calls max_cost max_seconds max_steps nearest out paper plan planner profile prompts redraw
reference_sheets retry_failed safety seed skip_bad sources
"""
_VALUE = r"\[[^\]]*\]|[^\s\[)]*[^\s\[),.;:]|"
_PARAMETER = re.compile(rf"(?<![\w?&'\"-])({'|'.join(_PARAMETERS.split())})=({_VALUE})")
"""A parameter of the Python API in an error message, with its value if it has one."""


class TolerantStream:
    """A standard stream that discards its output, instead of raising, when its reader is gone."""

    def __init__(self, stream: TextIO, *, carries_result: bool) -> None:
        self._stream = stream
        self._carries_result = carries_result
        """Whether the stream carries the result: then a full disk is an error, and a closed pipe is not."""

    def write(self, text: str) -> int:
        try:
            self._try(self._stream.write, text)
        except UnicodeEncodeError:  # a file name that is not valid text
            self._try(self._stream.write, storable(text))
        return len(text)

    def flush(self) -> None:
        self._try(self._stream.flush)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _try(self, action: Callable[..., object], *arguments: object) -> None:
        try:
            action(*arguments)
        except OSError as error:
            if self._carries_result and error.errno not in READER_GONE:
                raise
            self._discard_from_now_on()

    def _discard_from_now_on(self) -> None:
        """Redirect all further output, and what the interpreter flushes at exit, to the null device."""
        with suppress(OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stream.fileno())
            os.close(null)
            self._stream.flush()


@contextmanager
def tolerate_closed_streams() -> Iterator[None]:
    """Keep the command running if standard output or error is closed."""
    before = sys.stdout, sys.stderr
    with ExitStack() as opened:
        # Opened first: otherwise a journal could get the file descriptor of a closed standard stream.
        out, err = (
            stream or opened.enter_context(open(os.devnull, "w", encoding="utf-8")) for stream in before
        )
        sys.stdout = cast(TextIO, TolerantStream(out, carries_result=True))
        sys.stderr = cast(TextIO, TolerantStream(err, carries_result=False))
        try:
            yield
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            sys.stdout, sys.stderr = before


class CollapseFilter(logging.Filter):
    """Passes the first of similar messages, and counts the others.

    Messages are similar if they differ only in numbers. Each kind passes one line every `seconds`, with the
    number of lines left out. Kinds beyond the first few are counted together.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._seconds = seconds
        self._clock = clock
        self._shown_at: dict[str, float] = {}
        self._left_out: Counter[str] = Counter()
        self._examples: dict[str, str] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now, kind = self._clock(), self._kind(record.getMessage())
        self._examples.setdefault(kind, record.getMessage())
        if now - self._shown_at.get(kind, -math.inf) < self._seconds:
            self._left_out[kind] += 1
            return False
        self._shown_at[kind] = now
        if more := self._left_out.pop(kind, 0):
            record.msg, record.args = f"{record.getMessage()} ({count(more, 'line')} like this not shown)", ()
        return True

    def left_out(self) -> Iterator[str]:
        """Yield a line per kind with the number of lines not shown."""
        for kind, number in self._left_out.items():
            yield f"{count(number, 'line')} like this not shown: {self._examples[kind]}"

    def _kind(self, message: str) -> str:
        kind = re.sub(r"\d[\d.]*", "…", one_line(message, KIND_CHARACTERS))
        return kind if kind in self._shown_at or len(self._shown_at) < MOST_KINDS else OTHER_KINDS


@contextmanager
def collapse_retry_messages() -> Iterator[None]:
    """Collapse repeated retry messages into one line with a count."""
    logger, collapse = logging.getLogger(RETRY_LOGGER), CollapseFilter(SECONDS_BETWEEN_RETRY_MESSAGES)
    logger.addFilter(collapse)
    try:
        yield
    finally:
        logger.removeFilter(collapse)
        for line in collapse.left_out():
            logger.warning("%s", line)


class _Muted:
    """Standard error under `-q`: it discards everything but errors."""

    def __init__(self, stream: TextIO) -> None:
        self.unmuted = stream

    def write(self, text: str) -> int:
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unmuted, name)


def be_quiet(wanted: bool) -> None:
    """Discard progress, hints and warnings until the command ends."""
    if wanted:
        sys.stderr = cast(TextIO, _Muted(sys.stderr))
        logging.getLogger().setLevel(logging.ERROR)


def be_verbose(wanted: bool) -> None:
    """Log at level INFO until the command ends."""
    if wanted:
        logging.getLogger().setLevel(logging.INFO)


def error_stream() -> TextIO:
    """Return standard error, also under `-q`."""
    return cast(TextIO, getattr(sys.stderr, "unmuted", sys.stderr))


@contextmanager
def own_verbosity() -> Iterator[None]:
    """Undo `-v` and `-q` when the block ends."""
    before, level = sys.stderr, logging.getLogger().level
    try:
        yield
    finally:
        sys.stderr = before
        logging.getLogger().setLevel(level)


def say(message: str, *, error: bool = False) -> None:
    """Print one line on stderr, with options for the parameters that it names; under `-q` only errors."""
    line = " ".join(visible(redacted(with_options(message), message=True)).split())
    print(line, file=error_stream() if error else sys.stderr)


def with_options(message: str) -> str:
    """Replace the parameters of the Python API that a message names by options: `out=` by `--out`."""
    return _PARAMETER.sub(lambda found: _option(found[1], found[2]), message)


def _option(name: str, value: str) -> str:
    option = "--" + name.replace("_", "-")
    if value.startswith("["):
        return " ".join(f"{option} {shlex.quote(each)}" for each in re.findall("'([^']*)'", value))
    return option if value in ("", "True") else f"{option} {value}"


def spool_stdin() -> None:
    """Copy standard input to a temporary file, which is read wherever a command reads the file '-'."""
    if sys.stdin is None:
        raise InputError("standard input ('-') is closed")
    with NamedTemporaryFile(prefix="stdin-", delete=False) as file:
        atexit.register(os.unlink, file.name)
        shutil.copyfileobj(sys.stdin.buffer, file)
    STANDARD_INPUT["-"] = file.name


def make_console(*, stderr: bool = True, width: int | None = None) -> Console:
    """Return a console that prints brackets, emoji codes and numbers literally, also in tables.

    Requests, paths, model names and `pip install "…[api]"` have brackets that rich would take for markup.
    """
    from rich.console import Console

    return Console(stderr=stderr, width=width, markup=False, emoji=False, highlight=False)


def text_column(text: str) -> TextColumn:
    """Return a column of a progress bar without markup, which columns read regardless of the console."""
    from rich.progress import TextColumn

    return TextColumn(text, markup=False)


@contextmanager
def interrupt_on_terminate() -> Iterator[None]:
    """Raise `KeyboardInterrupt` for SIGTERM and SIGHUP outside event loops, such as while models load.

    It leaves the block as `typer.Abort`, since typer turns `KeyboardInterrupt` into a silent exit code.
    """
    terminals, received = open_terminals(), list[int]()

    def stop(number: int, _: object) -> None:
        received.append(number)
        redirect_closed(terminals)
        raise KeyboardInterrupt

    before: dict[signal.Signals, Any] = {}
    with suppress(ValueError):  # not in the main thread
        before = {each: signal.signal(each, stop) for each in stop_signals()}
    try:
        yield
    except BaseException as error:
        if received or isinstance(error, KeyboardInterrupt):  # libraries may make another error of it
            raise typer.Abort from None
        raise
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def stop_signals() -> list[signal.Signals]:
    """Return SIGTERM, and SIGHUP unless it is ignored, as under nohup."""
    known = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]  # Windows: one
    return [each for each in known if signal.getsignal(each) != signal.SIG_IGN]


def open_terminals() -> list[int]:
    """Return which of standard output and error are terminals."""
    return [number for number in (1, 2) if os.isatty(number)]


def redirect_closed(terminals: list[int]) -> None:
    """Redirect the streams of a closed terminal to the null device, as writing to them fails."""
    closed = [number for number in terminals if not os.isatty(number)]
    if closed:
        null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        for number in closed:
            os.dup2(null, number)
        os.close(null)


JSON, JSON_EVENTS = "--json", "--json-events"
STATUS_OF_CODE = {1: "short", 2: "refused", 3: "failed", 130: "interrupted"}


def as_json(value: Value | dict[str, Any]) -> str:
    """Return one line of JSON, from which paths that are not valid Unicode can be read back."""
    plain = value if isinstance(value, dict) else value.model_dump(mode="json")
    return storable(json.dumps(plain, ensure_ascii=False))


class EventPrinter:
    """Prints event lines immediately; runs of a batch may print from several threads."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lock = Lock()

    def __call__(self, line: EventLine) -> None:
        with self._lock:
            self._out.write(f"{as_json(line)}\n")
            self._out.flush()


def print_error(report: ErrorReport, code: int, arguments: Sequence[str], out: TextIO) -> None:
    """Print an error that ended a command, if its arguments ask for JSON."""
    from interleave.runs.event_lines import ErrorLine

    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    line = ErrorLine(status=STATUS_OF_CODE[code], error=report, exit_code=code)
    if JSON_EVENTS in options:
        EventPrinter(out)(line)
    elif JSON in options:
        print(as_json(line.model_dump(mode="json", include={"status", "error", "exit_code"})), file=out)
