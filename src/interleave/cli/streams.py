"""Standard streams whose readers may go away, and log lines that would bury all others.

Work goes on when nobody reads its progress any more: what it makes is on disk. So a line that cannot be
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

NOBODY_READS = frozenset({errno.EPIPE, errno.EIO, errno.ESHUTDOWN})
"""The other end of a pipe, or the terminal, is gone."""
SECONDS_BETWEEN_RETRIES_TOLD = 120.0
RETRIES = "interleave.backends.retries"


class Outlet:
    """A standard stream that falls silent, instead of raising, when its reader is gone."""

    def __init__(self, stream: TextIO, *, needed: bool) -> None:
        self._stream = stream
        self._needed = needed
        """Whether it carries the result: then a full disk behind it is an error, and only nobody is none."""

    def write(self, text: str) -> int:
        try:
            self._try(self._stream.write, text)
        except UnicodeEncodeError:  # the name of a file that is not text
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
            if self._needed and error.errno not in NOBODY_READS:
                raise
            self._fall_silent()

    def _fall_silent(self) -> None:
        """Lead what is still to come, and what the interpreter flushes at its end, to nowhere."""
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
            self._stream.flush()


@contextmanager
def readers_may_leave() -> Iterator[None]:
    """Within this, standard output and error never end the work; a closed one is as good as none."""
    before = sys.stdout, sys.stderr
    with ExitStack() as nowhere:
        # Opened at once, so that no journal gets the number of a standard stream that is closed.
        out, err = (
            stream or nowhere.enter_context(open(os.devnull, "w", encoding="utf-8")) for stream in before
        )
        sys.stdout = cast(TextIO, Outlet(out, needed=True))
        sys.stderr = cast(TextIO, Outlet(err, needed=False))
        try:
            yield
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            sys.stdout, sys.stderr = before


class Sparing(logging.Filter):
    """Lets one line of a logger through every so often, and says how many it held back."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._seconds = seconds
        self._clock = clock
        self._last = -seconds
        self._held_back = 0

    def filter(self, record: logging.LogRecord) -> bool:
        now = self._clock()
        if now - self._last < self._seconds:
            self._held_back += 1
            return False
        if self._held_back:
            record.msg = f"{record.getMessage()} ({count(self._held_back, 'line')} like this not shown)"
            record.args = ()
        self._last, self._held_back = now, 0
        return True


@contextmanager
def few_retries_told() -> Iterator[None]:
    """Within this, calls that are tried again are told of now and then, or they would bury all else."""
    logger, sparing = logging.getLogger(RETRIES), Sparing(SECONDS_BETWEEN_RETRIES_TOLD)
    logger.addFilter(sparing)
    try:
        yield
    finally:
        logger.removeFilter(sparing)
