"""`none`: leaves the planner or the critic out, to measure what each contributes."""

from __future__ import annotations

from interleave.agents.critic import CriticInput
from interleave.config.specs import BackendOptions, Spec
from interleave.errors import ConfigurationError
from interleave.types import Outcome, Plan, PlanStep, Request, Verdict

ROLES = ("planner", "critic")


class NoAgent:
    """As planner, makes the request itself the prompt of one picture; as critic, accepts every picture."""

    class Options(BackendOptions):
        """It has none of its own."""

    def __init__(self, *, spec: Spec, options: Options, role: str) -> None:
        if spec.model or spec.base_url:
            raise ConfigurationError(f"{str(spec)!r}: 'none' takes no model and no address")
        if role not in ROLES:
            raise ConfigurationError(
                f"there is no {role} called 'none': only planner and critic can be left out"
            )

    async def plan(self, request: Request) -> Plan:
        if not request.text.strip():
            raise ConfigurationError("without a planner the request needs text, the prompt of its picture")
        return Plan(steps=(PlanStep(number=1, prompt=request.text),))

    async def judge(self, seen: CriticInput) -> Verdict:
        return Verdict(outcome=Outcome.ACCEPTED)
