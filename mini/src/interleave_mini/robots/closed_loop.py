"""The gripper in a closed loop: it errs, a critic checks every sub-task and says what to correct.

The same goals and the same first mistakes are met with and without a critic, so that what differs is the
critic's doing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from PIL.Image import Image

from interleave import InputError, Outcome, Planner, ReplyError, Verdict
from interleave.plugin import Value
from interleave.robots.control_loop import MAX_TRIES, carry_out
from interleave.robots.sub_task_check import SubTaskCheck, SubTaskInput
from interleave_mini.bench.task_file import shipped_tasks
from interleave_mini.bench.tasks import ROBOT, Task
from interleave_mini.intervals import Estimate, estimate
from interleave_mini.language.patterns import NotUnderstood
from interleave_mini.language.prompts import parse_prompt
from interleave_mini.robots.gripper import carry_out as follow
from interleave_mini.robots.gripper import same_state
from interleave_mini.world.drawing import draw
from interleave_mini.world.operations import Impossible
from interleave_mini.world.scene import Scene

DEFAULT_ERRORS = 0.2
"""The share of sub-tasks in which the gripper errs."""


class LoopReport(Value):
    """How episodes ended."""

    episodes: int
    critic: str
    planner: str
    errs: float
    success: Estimate
    """The share of episodes in which everything ended up where the goal wants it."""
    sub_tasks: int
    tries: int
    wrongly_accepted: int
    """Checks that called a sub-task done that was not."""
    wrongly_refused: int
    failures_seen: int
    """Checks of sub-tasks that were not done."""
    check_seconds_median: float
    check_seconds_p95: float
    plans_failed: int


@dataclass
class SimulatedGripper:
    """The bench, and a gripper that follows instructions and errs."""

    scene: Scene
    rng: Random
    errs: float

    async def do(self, instruction: str) -> None:
        self.scene = follow(instruction, self.scene, self.rng, errs=self.errs)

    async def look(self) -> Image:
        return draw(self.scene)


class NoCheck:
    """Calls everything done."""

    async def check(self, seen: SubTaskInput) -> Verdict:
        return Verdict(outcome=Outcome.ACCEPTED)


@dataclass(frozen=True)
class _Ended:
    """How one episode ended."""

    success: bool
    planned: bool = True
    sub_tasks: int = 0
    tries: int = 0
    wrongly_accepted: int = 0
    wrongly_refused: int = 0
    failures: int = 0
    seconds: tuple[float, ...] = ()


@dataclass(frozen=True)
class ClosedLoop:
    """What goals are met with: a planner or their true plans, a check or none."""

    check: SubTaskCheck | None
    planner: Planner | None = None
    errs: float = DEFAULT_ERRORS
    max_tries: int = MAX_TRIES

    async def run(self, task: Task, rng: Random) -> _Ended:
        """Let the gripper work on one goal."""
        start = task.steps[0].before or task.steps[0].scene
        robot, sub_tasks = SimulatedGripper(start, rng, self.errs), await self._sub_tasks(task)
        if sub_tasks is None:
            return _Ended(success=False, planned=False)
        begun, verdicts, seconds, tries = start, list[tuple[bool, bool]](), list[float](), 0
        most = self.max_tries if self.check else 1
        async for tried in carry_out(sub_tasks, robot, self.check or NoCheck(), max_tries=most):
            tries += 1
            seconds.append(tried.check_seconds)
            verdicts.append((is_done(tried.sub_task, begun, robot.scene), tried.verdict.accepted))
            if tried.verdict.accepted or tried.attempt == most:
                begun = robot.scene
        return _Ended(
            success=same_state(robot.scene, task.steps[-1].scene),
            sub_tasks=len(sub_tasks),
            tries=tries,
            wrongly_accepted=sum(accepted and not done for done, accepted in verdicts),
            wrongly_refused=sum(done and not accepted for done, accepted in verdicts),
            failures=sum(not done for done, _ in verdicts),
            seconds=tuple(seconds),
        )

    async def _sub_tasks(self, task: Task) -> list[str] | None:
        """The instructions of the plan; None where the planner had none to give."""
        if self.planner is None:
            return [step.prompt for step in task.steps]
        try:
            plan = await self.planner.plan(task.request())
        except (InputError, ReplyError):
            return None
        return [step.prompt for step in plan.steps if step.prompt]


def is_done(sub_task: str, before: Scene, now: Scene) -> bool:
    """Whether the bench is as a sub-task wants it; one that made no sense is never done."""
    try:
        return same_state(now, parse_prompt(sub_task, before))
    except (NotUnderstood, Impossible):
        return False


async def run_episodes(
    count: int,
    loop: ClosedLoop,
    *,
    critic: str,
    planner: str,
    seed: int = 0,
    concurrency: int = 16,
) -> LoopReport:
    """Let the gripper work on goals of the test split; without a check every sub-task is tried once."""
    slots = asyncio.Semaphore(concurrency)

    async def one(number: int, task: Task) -> _Ended:
        async with slots:
            return await loop.run(task, Random(f"gripper/{seed}/{number}"))

    goals = shipped_tasks(ROBOT, count, seed=seed)
    ended = await asyncio.gather(*(one(number, task) for number, task in enumerate(goals)))
    seconds = [each for episode in ended for each in episode.seconds]
    return LoopReport(
        episodes=count,
        critic=critic,
        planner=planner,
        errs=loop.errs,
        success=estimate([float(each.success) for each in ended]),
        sub_tasks=sum(each.sub_tasks for each in ended),
        tries=sum(each.tries for each in ended),
        wrongly_accepted=sum(each.wrongly_accepted for each in ended),
        wrongly_refused=sum(each.wrongly_refused for each in ended),
        failures_seen=sum(each.failures for each in ended),
        check_seconds_median=_share_below(seconds, 0.5),
        check_seconds_p95=_share_below(seconds, 0.95),
        plans_failed=sum(not each.planned for each in ended),
    )


def _share_below(values: Sequence[float], share: float) -> float:
    """The value that so large a share of all is below."""
    return round(sorted(values)[min(len(values) - 1, int(share * len(values)))], 4) if values else 0.0
