"""The loaded models of a run, with what all calls to them share: retries, semaphores, disk threads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import count

from interleave.agents.critic import Critic
from interleave.agents.loading import LoadedAgent
from interleave.agents.planner import Planner
from interleave.backends.protocols import ImageGenerator
from interleave.backends.result_checks import is_price
from interleave.backends.retries import RetryPolicy
from interleave.runs.disk import Disk
from interleave.runs.journal import Role
from interleave.types import Slot


class CallSemaphore:
    """Limits the calls in flight to one model, in order of arrival; None is no limit.

    Later attempts at a step go first: a run whose picture was rejected does not fall behind the others, and a
    batch does not end with a few stragglers.
    """

    def __init__(self, concurrency: int | None) -> None:
        self._free = concurrency
        self._queue: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrivals = count()

    @asynccontextmanager
    async def acquire(self, slot: Slot) -> AsyncGenerator[None]:
        """Hold one of the places for calls, waiting for it if all are taken."""
        if self._free is None:
            yield
            return
        await self._wait(slot)
        try:
            yield
        finally:
            self._release()

    async def _wait(self, slot: Slot) -> None:
        if self._free:
            self._free -= 1
            return
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._queue, (-slot.attempt, next(self._arrivals), mine))
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self._release()  # cancelled just as it got its place, which must not be lost
            raise

    def _release(self) -> None:
        while self._queue:
            _, _, waiting = heappop(self._queue)
            if not waiting.done():
                waiting.set_result(None)
                return
        self._free = (self._free or 0) + 1


@dataclass
class Models:
    """The models of a run. Many runs may share them, and then share their limits."""

    planner: LoadedAgent[Planner]
    critic: LoadedAgent[Critic]
    generator: ImageGenerator
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    disk: Disk = field(default_factory=Disk)
    semaphores: dict[Role, CallSemaphore] = field(init=False)

    def __post_init__(self) -> None:
        self.semaphores = {
            "planner": CallSemaphore(self.planner.concurrency),
            "critic": CallSemaphore(self.critic.concurrency),
            "generator": CallSemaphore(self.generator.capabilities.concurrency),
        }

    def with_generator(self, generator: ImageGenerator) -> Models:
        """The same models with another generator; planner and critic share their concurrency limits."""
        others = replace(self, generator=generator)
        others.semaphores |= {role: self.semaphores[role] for role in _AGENT_ROLES}
        return others

    def prices_known(self, *, planner_is_asked: bool) -> dict[str, bool]:
        """For every model that will be called, whether it knows what a call costs."""
        known = {
            "generator": is_price(self.generator.capabilities.price_per_image),
            "critic": self.critic.knows_its_price,
        }
        return known | ({"planner": self.planner.knows_its_price} if planner_is_asked else {})


_AGENT_ROLES: tuple[Role, ...] = ("planner", "critic")
