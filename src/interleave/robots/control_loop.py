"""The loop of a robot's controller: do a sub-task, look, let the critic check it, correct what went wrong."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from interleave import Verdict
from interleave.robots.sub_task_check import SubTaskCheck, SubTaskInput

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_TRIES = 5


class Robot(Protocol):
    """A robot that follows instructions, and its camera."""

    async def do(self, instruction: str) -> None: ...

    async def look(self) -> Image: ...


@dataclass(frozen=True)
class Tried:
    """One try of a sub-task, and what the check says about it."""

    number: int
    """Of the sub-task, from 1."""
    attempt: int
    sub_task: str
    instruction: str
    """What the robot was told: the sub-task, or later what it had to correct."""
    before: Image
    """As the camera saw it before the first try."""
    after: Image
    verdict: Verdict
    check_seconds: float


async def carry_out(
    sub_tasks: Iterable[str], robot: Robot, check: SubTaskCheck, *, max_tries: int = MAX_TRIES
) -> AsyncGenerator[Tried]:
    """Carry out sub-tasks one after another, and yield every try.

    A sub-task that is not done is tried again with the correction that the check names, at most so many
    times; then the next one is begun, and whoever iterates may stop instead. A check that could not be read
    counts as not done: the robot is told the sub-task again.
    """
    before = await robot.look()
    for number, sub_task in enumerate(sub_tasks, start=1):
        instruction, after = sub_task, before
        for attempt in range(1, max_tries + 1):
            await robot.do(instruction)
            after = await robot.look()
            began = time.perf_counter()
            verdict = await check.check(SubTaskInput(sub_task, before, after))
            seconds = time.perf_counter() - began
            yield Tried(number, attempt, sub_task, instruction, before, after, verdict, seconds)
            if verdict.accepted:
                break
            instruction = verdict.refined_prompt or sub_task
        before = after
