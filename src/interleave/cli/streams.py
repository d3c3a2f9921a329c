"""Standard streams that may be closed while a command runs, and messages about retries that do not repeat.

A command goes on when its output is no longer read, because its results are on disk. A line that cannot be
written is dropped, and the exit code says how the work ended.
"""

from __future__ import annotations

import errno
import logging
import math
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, TextIO, cast

from interleave.redaction import redacted
from interleave.text import count, one_line, storable, visible

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
