"""The scorer at work: a model that is asked in turns, retried and paid for, or an agent that computes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from interleave.agents.critic import CriticInput
from interleave.agents.prompts import PromptPack
from interleave.agents.scorer import Scorer, VlmScorer
from interleave.backends.protocols import Message, Reply, Sampling, VisionLanguageModel, VlmCapabilities
from interleave.backends.registry import load_agent
from interleave.backends.retries import VLM_DEADLINE_SECONDS, RetryPolicy
from interleave.config.run_config import Limits
from interleave.runs.limits import Meter, refuse_unpriced
from interleave.runs.models import Gate
from interleave.types import Scores


@dataclass
class Bill:
    """What the marks of one attempt took."""

    calls: int | None = None
    """None where no model is asked."""
    cost: float | None = None

    def add(self, reply: Reply) -> None:
        self.calls = (self.calls or 0) + 1
        if reply.cost is not None:
            self.cost = (self.cost or 0.0) + reply.cost


class ScoringDesk(Protocol):
    """Marks attempts, many at once; `bill` is filled in even where the marks cannot be read."""

    async def score(self, seen: CriticInput, bill: Bill) -> Scores: ...


def load_scorer(spec: str, limits: Limits) -> VisionLanguageModel | Scorer:
    """A model that is to score, or an agent that computes marks; refuses limits that mean nothing to it."""
    scorer = load_agent(spec, "scorer")
    if isinstance(scorer, VisionLanguageModel):
        refuse_unpriced(limits, {"scorer": scorer.capabilities.knows_its_price})
        return scorer
    agent: Scorer = scorer
    return agent


def open_desk(scorer: VisionLanguageModel | Scorer, pack: PromptPack, meter: Meter) -> ScoringDesk:
    """The place where a scorer works; the meter knows the limits, and what earlier sessions have spent."""
    if isinstance(scorer, VisionLanguageModel):
        return ModelDesk(scorer, pack, meter)
    return ComputingDesk(scorer)


@dataclass
class ComputingDesk:
    """A scorer that is no model: nothing to wait for and nothing to pay."""

    scorer: Scorer

    async def score(self, seen: CriticInput, bill: Bill) -> Scores:
        return await self.scorer.score(seen)


class ModelDesk:
    """A vision-language model that scores."""

    def __init__(self, vlm: VisionLanguageModel, pack: PromptPack, meter: Meter) -> None:
        self.vlm = vlm
        self.pack = pack
        self.meter = meter
        self.retries = RetryPolicy()
        self.gate = Gate(vlm.capabilities.concurrency)

    async def score(self, seen: CriticInput, bill: Bill) -> Scores:
        return await VlmScorer(_OneAttempt(self, bill), self.pack).score(seen)

    async def ask(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        """One question: wait for a turn, then ask within the limits, by the one policy of retries."""

        async def call() -> Reply:
            expected = self.vlm.capabilities.typical_price or 0.0
            self.meter.spend(expected)  # what is under way counts, or many at once would overrun the limit
            try:
                return await self.vlm.complete(messages, sampling)
            finally:
                self.meter.spend(-expected)

        deadline = self.vlm.capabilities.deadline or VLM_DEADLINE_SECONDS
        async with self.gate.turn(sampling.slot):
            reply = await self.retries.call("the scorer", self._within_limits(call), deadline=deadline)
        self.meter.spend(reply.cost)
        return reply

    def _within_limits(self, call: Callable[[], Awaitable[Reply]]) -> Callable[[], Awaitable[Reply]]:
        price = self.vlm.capabilities.typical_price
        return lambda: self.meter.through(call, price=price)


@dataclass
class _OneAttempt:
    """The model as the scorer of one attempt sees it: calls are numbered from 1, and billed."""

    desk: ModelDesk
    bill: Bill
    asked: int = field(default=0)

    @property
    def capabilities(self) -> VlmCapabilities:
        return self.desk.vlm.capabilities

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        self.asked += 1
        numbered = replace(sampling, slot=replace(sampling.slot, call=self.asked))
        reply = await self.desk.ask(messages, numbered)
        self.bill.add(reply)
        return reply
