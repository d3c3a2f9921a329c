"""Waiting out a model outage in batch work: all items wait, and one probes for the others.

An item whose model is unreachable, busy or too slow is retried after a delay. During an outage one item
retries at a time, so that a recovering server is not flooded, and delays grow from two seconds to a minute.
When one item succeeds, all continue. An item that keeps failing while others succeed is given up after a few
retries, as the item itself is the cause.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from interleave.text import one_line

T = TypeVar("T")
log = logging.getLogger(__name__)

LONGEST_OUTAGE_SECONDS = 90 * 60.0
"""Longest outage to wait out before giving up, in seconds."""
FIRST_DELAY_SECONDS = 2.0
LONGEST_DELAY_SECONDS = 60.0
SECONDS_BETWEEN_LINES = 120.0
MOST_RETRIES = 5
"""Maximum retries of an item that makes no progress while others do."""


def backoff_delays(first: float, longest: float, within: float = math.inf) -> Iterator[float]:
    """Yield delays that double from `first` up to `longest`, until their sum reaches `within` seconds."""
    waited, delay = 0.0, first
    while waited < within:
        yield min(delay, within - waited)
        waited, delay = waited + delay, min(2 * delay, longest)


@dataclass(frozen=True)
class TryResult(Generic[T]):
    """Result of one try of an item."""

    result: T
    transient: bool = False
    """Whether it failed for a transient reason."""
    reason: str = ""
    progress: int = 0
    """Progress of the item; an increase means that a call succeeded."""
    succeeded: bool = False
    """Whether every model that it needs has answered."""


@dataclass(eq=False)
class _Outage:
    """A period in which no call to a model succeeds."""

    since: float
    delays: Iterator[float]
    logged_at: float = -math.inf
    over: bool = False
    probe: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the probing item during its delay and its try."""


class OutageRetry:
    """Retries work items through outages; tests replace `clock` and `sleep`."""

    def __init__(
        self,
        seconds: float | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.seconds = LONGEST_OUTAGE_SECONDS if seconds is None else min(seconds, LONGEST_OUTAGE_SECONDS)
        self._clock = clock
        self._sleep = sleep
        self._outages: dict[str, _Outage] = {}
        self._got_through = False

    async def run(self, attempt: Callable[[], Awaitable[TryResult[T]]], model: str = "") -> T:
        """Try an item until it ends or an outage has lasted too long.

        `model` separates items by the model they need, as an outage affects one model only.
        """
        tried, in_vain = await self._try(attempt, model), 0
        while tried.transient:
            outage = self._outages.setdefault(model, self._new_outage())
            again: TryResult[T] | None = None
            async with outage.probe:
                if not outage.over:
                    if self._clock() - outage.since >= self.seconds:
                        return tried.result
                    await self._wait(outage, tried.reason)
                if not outage.over:
                    again = await self._try(attempt, model)
                    if not again.transient or again.progress > tried.progress:
                        self._end(outage, model)
            if again is None:  # another item succeeded
                await self._sleep(_jittered(FIRST_DELAY_SECONDS * 2.0**in_vain))
                again = await self._try(attempt, model)
            in_vain = 0 if again.progress > tried.progress else in_vain + outage.over
            if in_vain > MOST_RETRIES:
                return again.result
            tried = again
        return tried.result

    async def _try(self, attempt: Callable[[], Awaitable[TryResult[T]]], model: str) -> TryResult[T]:
        began = self._clock()
        tried = await attempt()
        self._got_through |= tried.succeeded
        outage = self._outages.get(model)
        if tried.succeeded and outage is not None and began >= outage.since:
            self._end(outage, model)
        return tried

    def _new_outage(self) -> _Outage:
        return _Outage(self._clock(), backoff_delays(FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS))

    async def _wait(self, outage: _Outage, reason: str) -> None:
        now = self._clock()
        delay = min(_jittered(next(outage.delays)), outage.since + self.seconds - now)
        if now - outage.logged_at >= SECONDS_BETWEEN_LINES:
            outage.logged_at = now
            hint = "" if self._got_through else "; no call has succeeded yet: check the address"
            log.warning(
                "waiting for an unavailable model (%s so far, %s at most): %s%s",
                _duration(now - outage.since),
                _duration(self.seconds),
                one_line(reason, 300),
                hint,
            )
        await self._sleep(delay)

    def _end(self, outage: _Outage, model: str) -> None:
        if outage.over:
            return
        outage.over = True
        if self._outages.get(model) is outage:
            del self._outages[model]
        if outage.logged_at > outage.since:  # it was logged more than once
            log.warning("the model is available again after %s", _duration(self._clock() - outage.since))


def _jittered(seconds: float) -> float:
    """Vary a delay by up to half, so that processes that started to wait together do not retry together."""
    return seconds * random.uniform(0.5, 1.5)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
