"""Deadlines that count only the time in which a call is worked on.

A call may wait: for its turn among our own calls, behind other calls of a model in this process, or in the
queue of a server that says so. Such a wait says nothing about the call, so its deadlines stand still in it: a
backend puts `with waiting():` around it. A context variable finds the deadlines of the call under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar

TIMEOUT_ADVICE = "; ?timeout=SECONDS in its spec gives it longer"
"""The end of every message about an answer that did not come in time."""

_CURRENT: ContextVar[tuple[Deadline, ...]] = ContextVar("deadlines", default=())
"""The deadlines of the call under way, outermost first."""


class Deadline:
    """The seconds that a call may take, over all the stretches of time in which it is `running`."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.used = 0.0
        """The seconds counted before the present stretch."""
        self._window: asyncio.Timeout | None = None
        self._since: float | None = None
        """When the present stretch began; None while nothing is counted."""
        self._waits = 0

    @property
    def elapsed(self) -> float:
        """The seconds counted so far."""
        return self.used + (0.0 if self._since is None else _now() - self._since)

    @property
    def left(self) -> float:
        return self.seconds - self.elapsed

    @property
    def expired(self) -> bool:
        """Whether the last stretch was ended because the time was used up."""
        return self._window is not None and self._window.expired()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Count the time in the body, and raise `TimeoutError` there when none is left."""
        token = _CURRENT.set((*_CURRENT.get(), self))
        self._waits = 0
        try:
            async with asyncio.timeout(max(0.0, self.left)) as self._window:
                self._since = _now()
                try:
                    yield
                finally:
                    self._stop()
        finally:
            _CURRENT.reset(token)

    def pause(self) -> None:
        """Stop counting, until `resume` has been called as often."""
        self._waits += 1
        if self._waits == 1 and self._window is not None and not self._window.expired():
            self._stop()
            self._window.reschedule(None)

    def resume(self) -> None:
        self._waits -= 1
        if self._waits == 0 and self._window is not None and not self._window.expired():
            self._since = _now()
            self._window.reschedule(self._since + max(0.0, self.seconds - self.used))

    def _stop(self) -> None:
        self.used, self._since = self.elapsed, None


@contextmanager
def waiting() -> Iterator[None]:
    """Let the deadlines of the call under way stand still in the body, where it only waits for its turn."""
    deadlines = _CURRENT.get()
    for deadline in deadlines:
        deadline.pause()
    try:
        yield
    finally:
        for deadline in deadlines:
            deadline.resume()


def _now() -> float:
    return asyncio.get_running_loop().time()
