"""Standard streams that may be closed while a command runs, and a rate limit for messages about retries.

A command goes on when its output is no longer read, because its results are on disk. A line that cannot be
written is dropped, and the exit code says how the work ended.
"""

from __future__ import annotations

import errno
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, TextIO, cast

from interleave.text import count, storable

READER_GONE = frozenset({errno.EPIPE, errno.EIO, errno.ESHUTDOWN})
"""The other end of a pipe, or the terminal, is gone."""
SECONDS_BETWEEN_RETRY_MESSAGES = 120.0
RETRY_LOGGER = "interleave.backends.retries"


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


class RateLimitFilter(logging.Filter):
    """Passes at most one record per interval, with the number of those dropped since the last."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._seconds = seconds
        self._clock = clock
        self._last = -seconds
        self._dropped = 0

    def filter(self, record: logging.LogRecord) -> bool:
        now = self._clock()
        if now - self._last < self._seconds:
            self._dropped += 1
            return False
        if self._dropped:
            record.msg = f"{record.getMessage()} ({count(self._dropped, 'line')} like this not shown)"
            record.args = ()
        self._last, self._dropped = now, 0
        return True


@contextmanager
def limit_retry_messages() -> Iterator[None]:
    """While the block runs, log retries only now and then, so that they do not hide everything else."""
    logger, limiter = logging.getLogger(RETRY_LOGGER), RateLimitFilter(SECONDS_BETWEEN_RETRY_MESSAGES)
    logger.addFilter(limiter)
    try:
        yield
    finally:
        logger.removeFilter(limiter)
