"""Waiting out models that are away, for work of many pieces: all wait together, and one tries for the others.

A piece whose model cannot be reached, is busy or does not answer in time is taken up again after a pause.
While that lasts, one piece tries at a time, so that a server that is coming back is not met by a storm, and
pauses grow from two seconds to a minute. As soon as one gets through, all go on. A piece that fails again
and again while others get through is given up after a few times: there the trouble is its own.
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

PATIENCE_SECONDS = 90 * 60.0
"""How long an outage is waited out before work is given up."""
FIRST_PAUSE_SECONDS = 2.0
LONGEST_PAUSE_SECONDS = 60.0
SECONDS_BETWEEN_LINES = 120.0
RETAKES = 5
"""How often a piece is taken up again that gets no further while others do."""


def growing_pauses(first: float, longest: float, within: float = math.inf) -> Iterator[float]:
    """Pauses that double up to the longest, until together they have lasted so many seconds."""
    waited, pause = 0.0, first
    while waited < within:
        yield min(pause, within - waited)
        waited, pause = waited + pause, min(2 * pause, longest)


@dataclass(frozen=True)
class Take(Generic[T]):
    """What it brought to take a piece of work up once."""

    result: T
    passing: bool = False
    """Whether it failed for a reason that may pass."""
    reason: str = ""
    reached: int = 0
    """How far the piece has got; what gets further than before has got through."""
    succeeded: bool = False
    """Whether every model it needs has answered it."""


@dataclass(eq=False)
class _Outage:
    """A time in which nothing gets through to a model."""

    since: float
    pauses: Iterator[float]
    told: float = -math.inf
    """When it was last spoken of."""
    over: bool = False
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the piece that tries for all, through its pause and its try."""


class Patience:
    """What the pieces of one work share; `clock` and `sleep` are those of the machine unless given."""

    def __init__(
        self,
        seconds: float | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.seconds = PATIENCE_SECONDS if seconds is None else min(seconds, PATIENCE_SECONDS)
        self._clock = clock
        self._sleep = sleep
        self._outages: dict[str, _Outage] = {}
        self._got_through = False

    async def keep_on(self, take: Callable[[], Awaitable[Take[T]]], model: str = "") -> T:
        """Take a piece up until it ends, or until what it needs has been away for too long.

        `model` tells pieces apart that need different models: what gets through to one says nothing about
        another.
        """
        taken, in_vain = await self._take(take, model), 0
        while taken.passing:
            outage = self._outages.setdefault(model, self._begun())
            again: Take[T] | None = None
            async with outage.turn:
                if not outage.over:
                    if self._clock() - outage.since >= self.seconds:
                        return taken.result
                    await self._pause(outage, taken.reason)
                if not outage.over:
                    again = await self._take(take, model)
                    if not again.passing or again.reached > taken.reached:
                        self._end(outage, model)
            if again is None:  # another has got through
                await self._sleep(_varied(FIRST_PAUSE_SECONDS * 2.0**in_vain))
                again = await self._take(take, model)
            in_vain = 0 if again.reached > taken.reached else in_vain + outage.over
            if in_vain > RETAKES:
                return again.result
            taken = again
        return taken.result

    async def _take(self, take: Callable[[], Awaitable[Take[T]]], model: str) -> Take[T]:
        began = self._clock()
        taken = await take()
        self._got_through |= taken.succeeded
        outage = self._outages.get(model)
        if taken.succeeded and outage is not None and began >= outage.since:
            self._end(outage, model)
        return taken

    def _begun(self) -> _Outage:
        return _Outage(self._clock(), growing_pauses(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS))

    async def _pause(self, outage: _Outage, reason: str) -> None:
        now = self._clock()
        pause = min(_varied(next(outage.pauses)), outage.since + self.seconds - now)
        if now - outage.told >= SECONDS_BETWEEN_LINES:
            outage.told = now
            hint = "" if self._got_through else "; nothing has got through yet: is the address right?"
            log.warning(
                "waiting for a model that is away (%s so far, %s at most): %s%s",
                _spoken(now - outage.since),
                _spoken(self.seconds),
                one_line(reason, 300),
                hint,
            )
        await self._sleep(pause)

    def _end(self, outage: _Outage, model: str) -> None:
        if outage.over:
            return
        outage.over = True
        if self._outages.get(model) is outage:
            del self._outages[model]
        if outage.told > outage.since:  # it was spoken of more than once
            log.warning("what was away is back after %s", _spoken(self._clock() - outage.since))


def _varied(seconds: float) -> float:
    """About so long: processes that began to wait together must not come back together."""
    return seconds * random.uniform(0.5, 1.5)


def _spoken(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
