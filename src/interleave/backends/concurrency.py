"""Calls under way: how many to one model at once, and deadlines that count only the time of work.

A server that does one thing at a time queues what it is sent, and the time in its queue counts against every
call: with too many in flight, all of them time out and none is ever answered. So the limit is halved when
calls time out repeatedly. It rises again, up to the limit of the backend, while answers come so quickly that
one call more could not make them late even if the server works on one at a time.

A call may wait: for its turn among our own calls, behind other calls of a model in this process, or in the
queue of a server that says so. Such a wait says nothing about the call, so its deadlines stand still in it: a
backend puts `with waiting():` around it. A context variable finds the deadlines of the call under way.
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


log = logging.getLogger(__name__)

TIMEOUTS = 2
"""So many in a row, with no answer in between, halve the limit."""
QUICK_SHARE = 0.5
"""The limit rises while answers are expected within this share of their timeout."""


class CallLimit:
    """Limits the calls in flight to one model, in order of arrival.

    Later attempts at a step go first: a run whose image was rejected does not fall behind the others, and a
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
        """`most` None is no limit; the limit is `first` until the model is known to do more.

        `timeout` is the seconds that one try may take; without it the limit does not rise.
        """
        self.most = math.inf if most is None else max(1, most)  # a plugin that says 0 must not hang a run
        self.limit = min(self.most, math.inf if first is None else first)
        self.in_flight = 0
        self._peak = 0
        """The most in flight since the limit last fell: where there is no limit, half of that is one."""
        self._timeout = timeout
        self._what = what
        self._clock = clock
        self._queue: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrivals = count()
        self._calls = 0
        self._ignored = 0
        """Calls up to this number were made before the last fall: their timeouts do not count again."""
        self._timeouts = 0
        self._has_fallen = False
        self._answers_since = 0
        """Quick answers since the limit last changed, after a fall."""

    @classmethod
    def of(
        cls, capabilities: GeneratorCapabilities | VlmCapabilities, *, seconds: float, what: str
    ) -> CallLimit:
        """The limit of a model; `seconds` is its usual timeout."""
        return cls(
            capabilities.concurrency,
            first=capabilities.first_concurrency,
            timeout=capabilities.timeout or capabilities.deadline or seconds,
            what=what,
        )

    @asynccontextmanager
    async def acquire(self, slot: Slot) -> AsyncGenerator[None]:
        """Hold one of the places for calls, waiting for it if all are taken."""
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
            if mine.done() and not mine.cancelled():  # cancelled just as it got its place
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
        """Raise the limit if the answer was quick; `among` calls were in flight when its call was made."""
        self._timeouts = 0
        if self._timeout is None or self.limit >= self.most:
            return
        # If the server works on one call at a time, this is how long one waits behind a full queue.
        if seconds / among * (self.limit + 1) > QUICK_SHARE * self._timeout:
            return
        self._answers_since += 1
        # At first each answer adds one, so the limit doubles in the time of a call; after a fall it grows
        # by one in that time.
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
        log.warning("%s does not answer in time: from here on %d at once", self._what, self.limit)
