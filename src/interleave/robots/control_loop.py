"""The loop of a robot's controller: carry out a sub-task, check it with the critic, and correct it."""

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
class SubTaskAttempt:
    """One attempt at a sub-task, and its verdict."""

    number: int
    """Number of the sub-task, from 1."""
    attempt: int
    sub_task: str
    instruction: str
    """The robot's instruction: the sub-task, or later a correction."""
    before: Image
    """The camera image before the first attempt."""
    after: Image
    verdict: Verdict
    check_seconds: float


async def carry_out(
    sub_tasks: Iterable[str], robot: Robot, check: SubTaskCheck, *, max_tries: int = MAX_TRIES
) -> AsyncGenerator[SubTaskAttempt]:
    """Carry out sub-tasks in sequence, and yield every attempt.

    A sub-task that is not done is tried again with the check's correction, up to `max_tries` times; then the
    next one begins. After an unreadable check the robot gets the same sub-task again.
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
            yield SubTaskAttempt(number, attempt, sub_task, instruction, before, after, verdict, seconds)
            if verdict.accepted:
                break
            instruction = verdict.refined_prompt or sub_task
        before = after
