"""The critic's audit of a plan: does it do what its request says?

The rules of `plan_check.py` find words without an image. Who does what to whom, they cannot tell; the critic
has learned it from plans with one action exchanged. It answers without an image, before anything is drawn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from interleave import Message, Plan, Reply, Request, Sampling, Text, VisionLanguageModel

CERTAIN = 0.5
"""Probability of a rejection from which on the user is asked."""
_MOST_TOKENS = 48
_STEP = re.compile(r"Step (\d+) ")


class PlanAudit:
    """Asks the critic about plans; `load` returns it when it is first needed."""

    def __init__(self, load: Callable[[], VisionLanguageModel], certain: float = CERTAIN) -> None:
        self._load = load
        self.certain = certain

    async def objection(self, request: Request, plan: Plan) -> str:
        """Return what is wrong with a plan, as the end of a sentence about it; empty if it may fit."""
        prompts = [step.prompt for step in plan.steps if step.prompt]
        if request.images or len(prompts) < len(plan.steps):
            return ""
        question = Message("user", (Text(plan_question(request.text, prompts)),))
        reply = await self._load().complete(
            [question], Sampling(max_tokens=_MOST_TOKENS, token_probabilities=True)
        )
        if rejection_probability(reply) < self.certain:
            return ""
        found = _STEP.search(reply.text)
        if found is None or not 1 <= int(found[1]) <= len(prompts):
            return "seems to lack something" if "missing" in reply.text else "seems to do something else"
        return f"seems to do something else in step {found[1]}, “{prompts[int(found[1]) - 1]}”"


def plan_question(request: str, prompts: Iterable[str]) -> str:
    """Return the critic's prompt about a plan."""
    plan = " ".join(f"{number}. {prompt}" for number, prompt in enumerate(prompts, start=1))
    return f"Fits: {request} Plan: {plan}"


def rejection_probability(reply: Reply) -> float:
    """Return the probability of a rejection, from the first word of the reasoning."""
    from interleave_mini.reader.scores import ACCEPTED  # with all drawings, which a check needs not

    for token in reply.tokens:
        words = token.text.removeprefix("<think>").strip()
        if words:
            accepts = ACCEPTED.startswith(words)
            return 1 - token.probability if accepts else token.probability
    return 0.0
