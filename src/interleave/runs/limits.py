"""The meter of a run: it counts calls, time and money, and ends the run in order when a limit is reached."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from interleave.config.run_config import Limits
from interleave.errors import ConfigurationError, LimitReached
from interleave.text import count

T = TypeVar("T")


class Meter:
    """Wraps every model call. Calls and costs of earlier sessions count; their time does not."""

    def __init__(self, limits: Limits, *, calls: int = 0, cost: float = 0.0) -> None:
        self.limits = limits
        self.calls = calls
        self.cost = max(0.0, cost)  # read from a folder, where a negative cost would raise the limit
        self.reserved = 0.0
        """The prices of the calls under way."""
        self.started_at = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started_at

    async def call(self, call: Callable[[], Awaitable[T]], *, price: float | None = None) -> T:
        """Make a call within the limits. Its price is an expected one: what it cost is spent afterwards."""
        async with self._under_way(price or 0.0):
            return await call()

    @asynccontextmanager
    async def counted(self, price: float | None = None) -> AsyncGenerator[None]:
        """Count one call, made in the body, and its price, if it is known before and the call succeeds.

        Raises `LimitReached` where the limits do not allow it.
        """
        async with self._under_way(price or 0.0):
            yield
            self.cost += price or 0.0

    @asynccontextmanager
    async def _under_way(self, price: float) -> AsyncGenerator[None]:
        """Count one call; its price is set aside meanwhile, or many at once would exceed the limit."""
        self._refuse_beyond_limits(price)
        self.calls += 1
        self.reserved += price
        try:
            async with self._within_time():
                yield
        finally:
            self.reserved -= price

    @asynccontextmanager
    async def _within_time(self) -> AsyncGenerator[None]:
        if self.limits.max_seconds is None:
            yield
            return
        try:
            async with asyncio.timeout(self.limits.max_seconds - self.seconds) as window:
                yield
        except TimeoutError:
            if window.expired():
                raise self._out_of_time() from None
            raise

    def spend(self, cost: float | None) -> None:
        self.cost += cost or 0.0

    def _refuse_beyond_limits(self, price: float) -> None:
        limits = self.limits
        if limits.max_calls is not None and self.calls >= limits.max_calls:
            raise LimitReached(
                f"the limit of {count(limits.max_calls, 'model call')} is reached (--max-calls)"
            )
        if limits.max_seconds is not None and self.seconds >= limits.max_seconds:
            raise self._out_of_time()
        cost = self.cost + self.reserved
        if limits.max_cost is not None and (cost >= limits.max_cost > 0 or cost + price > limits.max_cost):
            raise LimitReached(f"the limit of {limits.max_cost:g} US dollars is reached (--max-cost)")

    def _out_of_time(self) -> LimitReached:
        return LimitReached(f"the limit of {self.limits.max_seconds:g} seconds is reached (--max-seconds)")


def refuse_unpriced(limits: Limits, priced: dict[str, bool]) -> None:
    """Refuse a cost limit where a backend does not know what a call costs."""
    unknown = [role for role, known in priced.items() if not known]
    if limits.max_cost is not None and unknown:
        raise ConfigurationError(
            f"--max-cost needs backends that know their price, and the {unknown[0]} does not: say it in its "
            "spec where it takes one (?price=0.04), or limit the run with --max-calls instead"
        )
