"""The models of a run, loaded, with what all calls to them share: retries, turns, syncs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from interleave.agents.critic import Critic
from interleave.agents.planner import Planner
from interleave.agents.prompts import PromptPack
from interleave.backends.protocols import ImageGenerator, VisionLanguageModel
from interleave.backends.retries import RetryPolicy
from interleave.runs.journal import Role
from interleave.runs.syncing import GroupSync


class Gate:
    """Lets so many calls through at once, in the order in which they came; None means all of them."""

    def __init__(self, concurrency: int | None) -> None:
        self._turns = asyncio.Semaphore(concurrency) if concurrency else None

    async def __aenter__(self) -> None:
        if self._turns is not None:
            await self._turns.acquire()

    async def __aexit__(self, *_: object) -> None:
        if self._turns is not None:
            self._turns.release()


@dataclass
class Models:
    """The models and words of a run. Many runs may share them, and then share their limits."""

    planner: VisionLanguageModel | Planner
    critic: VisionLanguageModel | Critic
    generator: ImageGenerator
    pack: PromptPack
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    syncing: GroupSync = field(default_factory=GroupSync)
    gates: dict[Role, Gate] = field(init=False)

    def __post_init__(self) -> None:
        self.gates = {
            "planner": Gate(_concurrency(self.planner)),
            "critic": Gate(_concurrency(self.critic)),
            "generator": Gate(self.generator.capabilities.concurrency),
        }

    def prices_known(self, *, planner_is_asked: bool) -> dict[str, bool]:
        """For every model that will be called, whether it knows what it costs."""
        known = {"generator": self.generator.capabilities.price_per_image is not None}
        known["critic"] = _knows_its_price(self.critic)
        return known | ({"planner": _knows_its_price(self.planner)} if planner_is_asked else {})


def _concurrency(agent: VisionLanguageModel | Planner | Critic) -> int | None:
    return agent.capabilities.concurrency if isinstance(agent, VisionLanguageModel) else None


def _knows_its_price(agent: VisionLanguageModel | Planner | Critic) -> bool:
    # an agent that is no model computes its answers, and costs nothing
    return not isinstance(agent, VisionLanguageModel) or agent.capabilities.knows_its_price
