"""Standard streams that may be closed while a command runs, consoles on them, and signals that end it.

A command goes on when its output is no longer read, because its results are on disk. A line that cannot be
written is dropped, and the exit code says how the work ended.
"""

from __future__ import annotations

import errno
import json
import logging
import math
import os
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, TextIO, cast

import typer

from interleave.redaction import redacted
from interleave.text import count, one_line, storable, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TextColumn

    from interleave.runs.event_lines import ErrorReport, EventLine
    from interleave.types import Value


READER_GONE = frozenset({errno.EPIPE, errno.EIO, errno.ESHUTDOWN})
"""The other end of a pipe, or the terminal, is gone."""
SECONDS_BETWEEN_RETRY_MESSAGES = 120.0
RETRY_LOGGER = "interleave.backends.retries"
KIND_CHARACTERS = 300
MOST_KINDS = 8
OTHER_KINDS = "other retries"


class TolerantStream:
    """A standard stream that discards its output, instead of raising, when its reader is gone."""

    def __init__(self, stream: TextIO, *, carries_result: bool) -> None:
        self._stream = stream
        self._carries_result = carries_result
        """Whether the result goes there: then a full disk is an error, and only a closed pipe is not."""

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
    """While the block runs, a closed standard output or error does not end the command."""
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
    """Passes the first of messages that are alike at once, and counts the others.

    Messages are alike if they differ in numbers only. Of each kind one line more is passed every `seconds`,
    with the number of those left out; kinds beyond the first few are counted together.
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
        """What is still to be said: how many lines of each kind were not shown."""
        for kind, number in self._left_out.items():
            yield f"{count(number, 'line')} like this not shown: {self._examples[kind]}"

    def _kind(self, message: str) -> str:
        kind = re.sub(r"\d[\d.]*", "…", one_line(message, KIND_CHARACTERS))
        return kind if kind in self._shown_at or len(self._shown_at) < MOST_KINDS else OTHER_KINDS


@contextmanager
def collapse_retry_messages() -> Iterator[None]:
    """While the block runs, of retries that are alike only the first is logged, and how many followed."""
    logger, collapse = logging.getLogger(RETRY_LOGGER), CollapseFilter(SECONDS_BETWEEN_RETRY_MESSAGES)
    logger.addFilter(collapse)
    try:
        yield
    finally:
        logger.removeFilter(collapse)
        for line in collapse.left_out():
            logger.warning("%s", line)


def say(message: str) -> None:
    """Print one line on stderr."""
    print(" ".join(visible(redacted(message, message=True)).split()), file=sys.stderr)


def make_console(*, stderr: bool = True, width: int | None = None) -> Console:
    """A console that prints brackets, emoji codes and numbers as they are, also in the cells of tables.

    Requests, paths, model names and `pip install "…[api]"` have brackets that rich would take for markup.
    """
    from rich.console import Console

    return Console(stderr=stderr, width=width, markup=False, emoji=False, highlight=False)


def text_column(text: str) -> TextColumn:
    """A column of a progress bar: these read markup whatever the console says."""
    from rich.progress import TextColumn

    return TextColumn(text, markup=False)


@contextmanager
def interrupt_on_terminate() -> Iterator[None]:
    """Raise `KeyboardInterrupt` for SIGTERM and SIGHUP where no event loop does, as while models load.

    It leaves the block as `typer.Abort`: typer turns the other into an exit code, and nothing is said.
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
    """SIGTERM, and SIGHUP unless it is ignored, as under nohup."""
    known = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]  # Windows: one
    return [each for each in known if signal.getsignal(each) != signal.SIG_IGN]


def open_terminals() -> list[int]:
    """Which of standard output and error are terminals."""
    return [number for number in (1, 2) if os.isatty(number)]


def redirect_closed(terminals: list[int]) -> None:
    """Redirect the streams of a closed terminal to the null device, since writing to them would fail."""
    closed = [number for number in terminals if not os.isatty(number)]
    if closed:
        null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        for number in closed:
            os.dup2(null, number)
        os.close(null)


JSON, JSON_EVENTS = "--json", "--json-events"
STATUS_OF_CODE = {1: "short", 2: "refused", 3: "failed", 130: "interrupted"}


def as_json(value: Value | dict[str, Any]) -> str:
    """One line of JSON; a path that is not valid Unicode can be read back from it."""
    plain = value if isinstance(value, dict) else value.model_dump(mode="json")
    return storable(json.dumps(plain, ensure_ascii=False))


class EventPrinter:
    """Prints event lines as they happen; runs of a batch may report theirs from several threads."""

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
