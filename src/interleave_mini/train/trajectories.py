"""Trajectories: stories drawn to their end under a critic's verdicts, to learn from as a whole.

A step is drawn, judged and redrawn with the critic's prompt, as in use, and the next one starts from the
picture that was chosen: a mistake that is accepted spoils all that follow. Plans are true ones.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from statistics import fmean
from typing import TYPE_CHECKING

from interleave.agents.critic import critic_input, critic_messages, read_verdict
from interleave.agents.prompts import PromptPack
from interleave.backends.protocols import (
    ImageGenerator,
    ImageRequest,
    Message,
    Sampling,
    VisionLanguageModel,
)
from interleave.choice import best_attempt
from interleave.errors import ReplyError
from interleave.types import Outcome, Slot, Verdict
from interleave_mini.bench.scores import read_pictures
from interleave_mini.language.story import Step
from interleave_mini.language.tasks import Task
from interleave_mini.reader.scores import shows

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_TOKENS = 160


@dataclass(frozen=True)
class JudgedAttempt:
    """An attempt at a step: what the critic was asked, what it said, and whether the picture is right."""

    number: int
    messages: tuple[Message, ...]
    answer: str
    verdict: Verdict
    image: Image
    right: bool

    @property
    def judged_rightly(self) -> bool:
        return self.verdict.accepted == self.right and self.verdict.outcome is not Outcome.UNREADABLE


@dataclass
class Trajectory:
    """A story as it was drawn: the attempts at each of its steps."""

    story: int
    """Trajectories of one story are compared with each other."""
    steps: list[list[JudgedAttempt]] = field(default_factory=list)

    @property
    def attempts(self) -> list[JudgedAttempt]:
        return [attempt for attempts in self.steps for attempt in attempts]


@dataclass(frozen=True)
class TrajectoryReward:
    """The reward of a trajectory, from 0 to 1 less the cost of its redraws."""

    peak: float = 0.4
    """For the share of steps of which any attempt is right,"""
    kept: float = 0.6
    """for the share of steps whose chosen picture is right,"""
    redraw: float = 0.05
    """and what each redraw costs, divided by the number of steps. A refusal of a right picture gains nothing
    and is paid for: that is what holds false alarms down."""

    def of(self, trajectory: Trajectory) -> float:
        steps = trajectory.steps
        peak = fmean(any(each.right for each in attempts) for attempts in steps)
        kept = fmean(chosen(attempts).right for attempts in steps)
        redraws = sum(len(attempts) - 1 for attempts in steps) / len(steps)
        return self.peak * peak + self.kept * kept - self.redraw * redraws


def step_reward(attempts: Sequence[JudgedAttempt], place: int) -> float:
    """The reward of one verdict alone: is it right, and is the picture of its prompt?"""
    attempt = attempts[place]
    if attempt.verdict.outcome is not Outcome.REJECTED or place + 1 == len(attempts):
        return float(attempt.judged_rightly)
    return 0.5 * attempt.judged_rightly + 0.5 * attempts[place + 1].right


def chosen(attempts: Sequence[JudgedAttempt]) -> JudgedAttempt:
    """The attempt that counts, as in use."""
    first, *others = attempts
    return reduce(best_attempt, others, first)


class Player:
    """Draws stories under the verdicts of a critic, which are sampled, not the likeliest ones."""

    def __init__(
        self,
        critic: VisionLanguageModel,
        generator: ImageGenerator,
        pack: PromptPack,
        *,
        max_attempts: int = 3,
        temperature: float = 1.0,
    ) -> None:
        self.critic, self.generator, self.pack = critic, generator, pack
        self.max_attempts, self.temperature = max_attempts, temperature

    async def play(self, stories: Sequence[Task], samples: int, seed: int) -> list[Trajectory]:
        """Each story so many times, all at once: the models take the calls in batches."""
        return await asyncio.gather(
            *(
                self._trajectory(number, story, _seed(seed, number, sample))
                for number, story in enumerate(stories)
                for sample in range(samples)
            )
        )

    async def _trajectory(self, number: int, story: Task, seed: int) -> Trajectory:
        made = Trajectory(number)
        before = next(
            (part.image for part in reversed(story.request().parts) if hasattr(part, "image")), None
        )
        for place, step in enumerate(story.steps, start=1):
            made.steps.append(await self._step(step, before, Slot(place), _seed(seed, place)))
            before = chosen(made.steps[-1]).image
        return made

    async def _step(self, step: Step, before: Image | None, slot: Slot, seed: int) -> list[JudgedAttempt]:
        attempts: list[JudgedAttempt] = []
        prompt, sources = step.prompt, (before,) if before is not None else ()
        while True:
            number = len(attempts) + 1
            drawn = await self.generator.generate(ImageRequest(prompt, _seed(seed, number), sources, slot))
            messages = critic_messages(critic_input(step.prompt, prompt, sources, drawn, slot), self.pack)
            sampling = Sampling(
                temperature=self.temperature, seed=_seed(seed, number, 1), max_tokens=MAX_TOKENS
            )
            reply = await self.critic.complete(messages, sampling)
            try:
                verdict = read_verdict(reply)
            except ReplyError as error:
                verdict = Verdict(outcome=Outcome.UNREADABLE, reasoning=str(error))
            [reading] = await asyncio.to_thread(read_pictures, [drawn])
            right = shows(reading, step.scene)
            attempts.append(JudgedAttempt(number, messages, reply.text, verdict, drawn, right))
            if verdict.outcome is not Outcome.REJECTED or number == self.max_attempts:
                return attempts
            prompt = verdict.refined_prompt or step.prompt


def _seed(*parts: int) -> int:
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4], "big") >> 1
