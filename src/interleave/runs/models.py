"""The models of a run, loaded, with what all calls to them share: retries, turns, syncs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import count

from interleave.agents.critic import Critic
from interleave.agents.planner import Planner
from interleave.agents.prompts import PromptPack
from interleave.backends.checked import is_price
from interleave.backends.protocols import ImageGenerator, VisionLanguageModel
from interleave.backends.retries import RetryPolicy
from interleave.runs.disk import Disk
from interleave.runs.journal import Role
from interleave.types import Slot


class Gate:
    """Lets so many calls through at once, in the order in which they came; None means all of them.

    Redrawing goes first: a trajectory does not fall behind the others for having been refused, and at the
    end of many nobody waits for a few stragglers.
    """

    def __init__(self, concurrency: int | None) -> None:
        self._free = concurrency
        self._queue: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrivals = count()

    @asynccontextmanager
    async def turn(self, slot: Slot) -> AsyncGenerator[None]:
        """Wait for a turn, and give it on afterwards."""
        if self._free is None:
            yield
            return
        await self._wait(slot)
        try:
            yield
        finally:
            self._pass_on()

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
                self._pass_on()  # the turn came in the same moment: it must not be lost
            raise

    def _pass_on(self) -> None:
        while self._queue:
            _, _, waiting = heappop(self._queue)
            if not waiting.done():
                waiting.set_result(None)
                return
        self._free = (self._free or 0) + 1


@dataclass
class Models:
    """The models and words of a run. Many runs may share them, and then share their limits."""

    planner: VisionLanguageModel | Planner
    critic: VisionLanguageModel | Critic
    generator: ImageGenerator
    pack: PromptPack
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    disk: Disk = field(default_factory=Disk)
    gates: dict[Role, Gate] = field(init=False)

    planner_is_model: bool = field(init=False)
    critic_is_model: bool = field(init=False)

    def __post_init__(self) -> None:
        self.planner_is_model = isinstance(self.planner, VisionLanguageModel)
        self.critic_is_model = isinstance(self.critic, VisionLanguageModel)
        self.gates = {
            "planner": Gate(_concurrency(self.planner)),
            "critic": Gate(_concurrency(self.critic)),
            "generator": Gate(self.generator.capabilities.concurrency),
        }

    def drawing_with(self, generator: ImageGenerator) -> Models:
        """The same with another generator: all else is shared, and so are the turns at planner and critic."""
        others = replace(self, generator=generator)
        others.gates["planner"], others.gates["critic"] = self.gates["planner"], self.gates["critic"]
        return others

    def prices_known(self, *, planner_is_asked: bool) -> dict[str, bool]:
        """For every model that will be called, whether it knows what it costs."""
        known = {"generator": is_price(self.generator.capabilities.price_per_image)}
        known["critic"] = _knows_its_price(self.critic)
        return known | ({"planner": _knows_its_price(self.planner)} if planner_is_asked else {})


def _concurrency(agent: VisionLanguageModel | Planner | Critic) -> int | None:
    return agent.capabilities.concurrency if isinstance(agent, VisionLanguageModel) else None


def _knows_its_price(agent: VisionLanguageModel | Planner | Critic) -> bool:
    # an agent that is no model computes its answers, and costs nothing
    return not isinstance(agent, VisionLanguageModel) or agent.capabilities.knows_its_price
