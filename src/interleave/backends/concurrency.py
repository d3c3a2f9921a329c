"""Limits on concurrent calls to one model, and deadlines that exclude waiting time.

A server that processes one call at a time queues the others, and queueing time counts against every call:
with too many calls in flight, all of them time out. So the limit is halved when calls time out repeatedly. It
rises again, up to the limit of the backend, while answers are fast enough that one more call could not make
them late even if the server processes one call at a time.

A call may wait for its turn among our own calls, behind other calls of a model in this process, or in the
queue of a server that reports it. Waiting must not count against the call, so a backend pauses its deadlines
with `with waiting():`. A context variable holds the deadlines of the current call.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from heapq import heappop, heappush
from itertools import count

from interleave.backends.protocols import GeneratorCapabilities, VlmCapabilities
from interleave.errors import BackendError, Failure
from interleave.types import Slot

TIMEOUT_ADVICE = "; raise ?timeout=SECONDS in its spec"
"""End of every timeout message."""

_CURRENT: ContextVar[tuple[Deadline, ...]] = ContextVar("deadlines", default=())
"""Deadlines of the current call, outermost first."""


class Deadline:
    """Maximum seconds of a call, counted over all periods in which it is `running`."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.used = 0.0
        """Seconds counted before the current period."""
        self._window: asyncio.Timeout | None = None
        self._since: float | None = None
        """Start of the current period. `None` while paused."""
        self._waits = 0

    @property
    def elapsed(self) -> float:
        """Seconds counted so far."""
        return self.used + (0.0 if self._since is None else _now() - self._since)

    @property
    def left(self) -> float:
        return self.seconds - self.elapsed

    @property
    def expired(self) -> bool:
        """Whether the last period ended because no time was left."""
        return self._window is not None and self._window.expired()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Count the time in the body, and raise `TimeoutError` in it when no time is left."""
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
        """Stop counting until `resume` has been called as many times."""
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
    """Pause the deadlines of the current call in the body, in which it only waits for its turn."""
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


log = logging.getLogger(__name__)

TIMEOUTS = 2
"""Number of consecutive timeouts that halves the limit."""
QUICK_SHARE = 0.5
"""Share of the timeout within which answers must be expected for the limit to rise."""


class CallLimit:
    """Limit of concurrent calls to one model, in order of arrival.

    Later attempts at a step have priority: a run with a rejected image does not fall behind the others, and a
    batch does not end with a few stragglers.
    """

    def __init__(
        self,
        most: int | None,
        *,
        first: int | None = None,
        timeout: float | None = None,
        what: str = "the model",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create a limit that starts at `first` and rises to `most`. `None` means no limit.

        `timeout` is the maximum seconds of one try. Without it the limit does not rise.
        """
        self.most = math.inf if most is None else max(1, most)  # a plugin that reports 0 must not hang a run
        self.limit = min(self.most, math.inf if first is None else first)
        self.in_flight = 0
        self._peak = 0
        """Maximum calls in flight since the limit last fell. If there is no limit, half of it becomes one."""
        self._timeout = timeout
        self._what = what
        self._clock = clock
        self._queue: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrivals = count()
        self._calls = 0
        self._ignored = 0
        """Number of the last call before the limit fell. Timeouts up to it do not count again."""
        self._timeouts = 0
        self._has_fallen = False
        self._answers_since = 0
        """Quick answers since the limit last changed, after it fell."""

    @classmethod
    def of(
        cls, capabilities: GeneratorCapabilities | VlmCapabilities, *, seconds: float, what: str
    ) -> CallLimit:
        """Return the limit of a model. `seconds` is its default timeout."""
        return cls(
            capabilities.concurrency,
            first=capabilities.first_concurrency,
            timeout=capabilities.timeout or capabilities.deadline or seconds,
            what=what,
        )

    @asynccontextmanager
    async def acquire(self, slot: Slot) -> AsyncGenerator[None]:
        """Hold a slot for a call, waiting until one is free."""
        await self._wait(slot)
        self._calls += 1
        self._peak = max(self._peak, self.in_flight)
        number, among, started = self._calls, self.in_flight, self._clock()
        try:
            yield
        except BackendError as error:
            if error.kind is Failure.TIMEOUT:
                self._timed_out(number)
            elif error.kind is not Failure.UNREACHABLE:
                self._timeouts = 0
            raise
        else:
            self._answered(self._clock() - started, among)
        finally:
            self.in_flight -= 1
            self._admit()

    async def _wait(self, slot: Slot) -> None:
        if self.in_flight < self.limit:
            self.in_flight += 1
            return
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._queue, (-slot.attempt, next(self._arrivals), mine))
        try:
            with waiting():
                await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():  # cancelled just after it got a slot
                self.in_flight -= 1
                self._admit()
            raise

    def _admit(self) -> None:
        while self._queue and self.in_flight < self.limit:
            _, _, place = heappop(self._queue)
            if not place.done():
                self.in_flight += 1
                place.set_result(None)

    def _answered(self, seconds: float, among: int) -> None:
        """Raise the limit if the answer was quick. `among` calls were in flight when its call began."""
        self._timeouts = 0
        if self._timeout is None or self.limit >= self.most:
            return
        # the time behind a full queue, if the server processes one call at a time
        if seconds / among * (self.limit + 1) > QUICK_SHARE * self._timeout:
            return
        self._answers_since += 1
        # At first each answer adds one, so the limit doubles per call duration. After a fall it grows by one
        # per call duration.
        if not self._has_fallen or self._answers_since >= self.limit:
            self.limit += 1
            self._answers_since = 0

    def _timed_out(self, number: int) -> None:
        if number <= self._ignored:
            return
        self._timeouts += 1
        now = min(self.limit, self._peak)
        if self._timeouts < TIMEOUTS or now <= 1:
            return
        self.limit = max(1, int(now) // 2)
        self._timeouts, self._ignored, self._peak = 0, self._calls, 0
        self._has_fallen, self._answers_since = True, 0
        log.warning("%s does not answer in time: now at most %d concurrent calls", self._what, self.limit)
