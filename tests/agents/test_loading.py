"""Backends become planners, critics and scorers once; what comes after never asks which kind they are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from interleave.agents.critic import CriticInput, VlmCritic, VlmScorer
from interleave.agents.loading import (
    critic_from,
    is_prompted,
    planner_from,
    refuse_unusable_object,
    scorer_from,
)
from interleave.agents.planner import VlmPlanner
from interleave.agents.prompts import load_pack
from interleave.backends.protocols import Message, Reply, Sampling, VlmCapabilities
from interleave.backends.registry import load_vlm
from interleave.config.specs import parse_spec
from interleave.errors import ConfigurationError
from interleave.types import Outcome, Plan, PlanStep, Request, Verdict

PACK = load_pack()
PLAN = Plan(steps=(PlanStep(number=1, prompt="a boat"),))


class Computing:
    """A planner and critic without a model."""

    async def plan(self, request: Request) -> Plan:
        return PLAN

    async def judge(self, seen: CriticInput) -> Verdict:
        return Verdict(outcome=Outcome.ACCEPTED)


class Priced:
    capabilities = VlmCapabilities(concurrency=3, knows_its_price=True, typical_price=0.25)

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        return Reply("")


def test_a_model_is_prompted_for_its_role() -> None:
    vlm = load_vlm("scripted", "planner")
    assert isinstance(planner_from(vlm, PACK, max_steps=7).agent, VlmPlanner)
    assert isinstance(critic_from(vlm, PACK).agent, VlmCritic)
    assert isinstance(scorer_from(vlm, PACK).agent, VlmScorer)


def test_an_agent_that_computes_is_used_as_it_is_and_costs_nothing() -> None:
    computing = Computing()
    loaded = planner_from(computing, PACK, max_steps=7)
    assert loaded.agent is computing and loaded.vlm is None
    assert loaded.with_calls_through(lambda vlm: pytest.fail("there is no model to wrap")) is computing
    assert (loaded.concurrency, loaded.knows_its_price, loaded.typical_price) == (None, True, None)


def test_what_a_model_can_do_is_what_its_agent_can_do() -> None:
    loaded = critic_from(Priced(), PACK)
    assert (loaded.concurrency, loaded.knows_its_price, loaded.typical_price) == (3, True, 0.25)


def test_every_call_goes_through_the_wrapper() -> None:
    asked: list[str] = []

    class Noted:
        def __init__(self, vlm: Any) -> None:
            self.vlm = vlm
            self.capabilities = vlm.capabilities

        async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
            asked.append(messages[-1].text)
            reply: Reply = await self.vlm.complete(messages, sampling)
            return reply

    loaded = planner_from(load_vlm("scripted", "planner"), PACK, max_steps=7)
    request = Request.of("A boat in 2 pictures")
    plan = asyncio.run(loaded.with_calls_through(Noted).plan(request))
    assert len(plan.steps) == 2 and len(asked) == 1
    assert asyncio.run(loaded.wrapped(Noted).agent.plan(request)) == plan
    assert len(asked) == 2


def test_a_spec_says_whether_it_will_be_prompted() -> None:
    assert is_prompted(parse_spec("scripted")) and is_prompted(Priced())
    assert not is_prompted(parse_spec("oracle")) and not is_prompted(Computing())


@pytest.mark.parametrize("given", [Computing, 7, object()], ids=["a class", "a number", "an object"])
def test_what_can_neither_plan_nor_be_prompted_is_refused(given: object) -> None:
    with pytest.raises(ConfigurationError, match="the planner must be an object with 'async def plan"):
        refuse_unusable_object(given, "planner")
