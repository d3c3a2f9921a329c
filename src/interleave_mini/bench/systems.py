"""The systems that are compared: the bare generator, with a plan, with a plan and a critic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from interleave.agents.critic import CriticInput
from interleave.errors import ConfigurationError
from interleave.pictures import pixel_digest
from interleave.types import Outcome, Plan, PlanStep, Request, Verdict
from interleave_mini.language.tasks import Task

SYSTEMS = {
    "base": "the generator alone: as many pictures as the truth has steps, each from the request itself and "
    "the picture before; no text",
    "plan": "planner and generator, one attempt a step",
    "full": "planner, generator and critic",
}


class EachStepFromTheRequest:
    """The plan of a system without a planner: the request itself as the prompt of every picture."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._steps = {_key(task.request()): (task.first_number, len(task.steps)) for task in tasks}

    async def plan(self, request: Request) -> Plan:
        first, count = self._steps[_key(request)]
        return Plan(
            steps=tuple(
                PlanStep(number=number, prompt=request.text) for number in range(first, first + count)
            )
        )


class NoCritic:
    """Takes every picture as it is."""

    async def judge(self, seen: CriticInput) -> Verdict:
        return Verdict(outcome=Outcome.ACCEPTED)


def choices_for(system: str, tasks: Iterable[Task], chosen: dict[str, Any]) -> dict[str, Any]:
    """What a user chose, changed to what the system leaves out."""
    if system not in SYSTEMS:
        raise ConfigurationError(f"no system named {system!r}: choose one of {', '.join(SYSTEMS)}")
    if system == "full":
        return chosen
    without_critic = {**chosen, "critic": NoCritic(), "max_attempts": 1}
    if system == "plan":
        return without_critic
    tasks = list(tasks)
    if any(task.text_only for task in tasks):
        raise ConfigurationError(
            "a bare generator writes no text: 'annotate' is for the systems plan and full"
        )
    return {**without_critic, "planner": EachStepFromTheRequest(tasks)}


def _key(request: Request) -> tuple[str, ...]:
    return (request.text, *map(pixel_digest, request.pictures))
