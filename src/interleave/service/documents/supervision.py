"""Background loops of a process, and whether each still beats.

    with supervision.loop("claim jobs", max_age=30) as loop:
        while not stopping:
            loop.beat()
            …

A loop that raises ends the process. One without a beat for longer than `max_age` makes `/health/live` fail,
so that the process is started again. A loop that returns or is cancelled has ended in order. Loops may run
in any thread.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from types import TracebackType

from interleave import InterleaveError

log = logging.getLogger(__name__)


class LoopDied(InterleaveError):
    """A loop ended without which the process cannot do its work; it must be started again."""


class Loop:
    """A background loop, as a context manager around it."""

    def __init__(self, supervision: Supervision, name: str, max_age: float) -> None:
        self.name = name
        self.max_age = max_age
        """Seconds after a beat until the loop counts as stuck."""
        self.error: BaseException | None = None
        self._supervision = supervision
        self._beaten_at = supervision.clock()

    def beat(self) -> None:
        """Report that the loop is alive."""
        self._beaten_at = self._supervision.clock()

    @property
    def age(self) -> float:
        """Seconds since the last beat."""
        return self._supervision.clock() - self._beaten_at

    @property
    def problem(self) -> str | None:
        """What is wrong with the loop, if anything."""
        if self.error is not None:
            return f"{self.name}: ended by {type(self.error).__name__}"
        if self.age > self.max_age:
            return f"{self.name}: no sign of life for {self.age:.0f} s, of {self.max_age:.0f} allowed"
        return None

    def __enter__(self) -> Loop:
        self.beat()
        self._supervision.loops[self.name] = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, asyncio.CancelledError):
            self._supervision.loops.pop(self.name, None)
        else:
            self.error = error
            self._supervision.report(self.name, error)


class Supervision:
    """The background loops of a process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.loops: dict[str, Loop] = {}
        self._died: asyncio.Future[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def loop(self, name: str, *, max_age: float) -> Loop:
        """Return a loop to enter with `with`. Entering one of the same name again replaces it."""
        return Loop(self, name, max_age)

    def died(self) -> asyncio.Future[None]:
        """Return a future that fails with `LoopDied` when a loop ends with an error."""
        self._loop = asyncio.get_running_loop()
        self._died = self._loop.create_future()
        return self._died

    def report(self, name: str, error: BaseException) -> None:
        """Report a loop that ended with an error; it may come from any thread."""
        log.critical("the loop %r ended", name, exc_info=error)
        if self._loop is not None:
            reason = f"the loop {name!r} ended ({type(error).__name__}: {error}): start it again"
            self._loop.call_soon_threadsafe(self._fail, LoopDied(reason))

    def _fail(self, error: LoopDied) -> None:
        if self._died is not None and not self._died.done():
            self._died.set_exception(error)

    @property
    def problems(self) -> list[str]:
        """What is wrong with each dead or stuck loop."""
        return [problem for loop in list(self.loops.values()) if (problem := loop.problem) is not None]
