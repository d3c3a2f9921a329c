"""GRPO over whole stories: every verdict of a trajectory gets the reward of the resulting document.

The reference calls this impractical and rewards every step alone. In the miniature the same loop does both at
the same cost, so that they can be compared: `trajectory` gives all verdicts of a story its reward, `step`
gives each verdict its own. Advantages are relative to the other trajectories of the same story, or to the
other verdicts on the same image. They are not divided by their deviation: the cost of a false alarm would
then not count, and a difference of one redraw would weigh as much as a lost story.

A good critic is right and certain about most stories, which teaches nothing. So more stories are drawn once,
and those with the least certain verdicts are played. Where it is wrong and certain, all samples are equal.

OUT/model      the critic        OUT/log.jsonl   rewards, shares and times        OUT/state.pt   to resume
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any, Literal

import torch

from interleave import ConfigurationError, Outcome, load_generator, load_vlm
from interleave.local.processors import load_processor
from interleave.local.silence import quiet
from interleave.plugin import load_pack
from interleave_mini.bench.tasks import Task
from miniature.grammar.tasks import sample_training_task
from miniature.train.agent_model import check_model_folder
from miniature.train.training_loop import Log, TimedSchedule, learning_rate
from miniature.train.trajectories import (
    ImageCache,
    JudgedAttempt,
    Player,
    StepReward,
    Trajectory,
    TrajectoryReward,
    chosen,
)
from miniature.train.trajectory_learner import Learner, Lesson

Kind = Literal["trajectory", "step"]
SUITES = ("story", "story", "story", "edit", "plain")
"""Suites of the stories; one named three times is three times as frequent."""
LONGEST = 5
"""Maximum steps of a story; longer stories would delay all others."""
SMALLEST_GAP = 1e-6
SAVE_SECONDS = 120
WARM_STEPS = 6
"""Warm-up steps: before Adam has seen some gradients, it moves all weights equally."""


@dataclass(frozen=True)
class TrajectoryTraining:
    """Settings of GRPO over trajectories."""

    kind: Kind = "trajectory"
    stories: int = 32
    """Stories per step."""
    samples: int = 8
    """Trajectories per story."""
    scouts: int = 4
    """Stories drawn once per story kept, to find the most informative ones."""
    max_attempts: int = 3
    strays: float = 0.1
    """Share of first attempts that show another step of the story."""
    temperature: float = 1.0
    rate: float = 2e-5
    hold: float = 0.05
    """Weight of the divergence from the initial model."""
    device_batch: int = 256
    reward: TrajectoryReward = field(default_factory=TrajectoryReward)
    step_reward: StepReward = field(default_factory=StepReward)


def train_on_trajectories(
    model: Path,
    out: Path,
    minutes: float,
    *,
    settings: TrajectoryTraining = TrajectoryTraining(),
    generators: Sequence[str] = ("mini",),
    steps: int | None = None,
    device: str | None = None,
    seed: int = 0,
) -> Path:
    """Train a critic for `minutes` or `steps`, whichever ends first; return the folder of the model.

    The same call on the same folder resumes. The seed determines stories and images; verdicts are sampled at
    random, a whole batch together.
    """
    check_model_folder(model)
    if settings.samples < 2:
        raise ConfigurationError("trajectories of a story are compared: use at least 2 samples")
    training = _Training(model, out, settings, generators, device, seed)
    schedule = TimedSchedule(minutes, spent=training.spent)
    for _ in schedule.steps():
        if training.done == steps:
            break
        training.step(schedule)
    training.save(schedule.spent)
    return out / "model"


@dataclass(frozen=True)
class _Scouted:
    """Stories that were drawn once. Played again with the same seed, they have the same images."""

    stories: Sequence[Task]
    seed: int
    cache: ImageCache
    trajectories: list[Trajectory]


class _Training:
    """Models and state of a training."""

    def __init__(
        self,
        model: Path,
        out: Path,
        settings: TrajectoryTraining,
        generators: Sequence[str],
        device: str | None,
        seed: int,
    ) -> None:
        self.folder, self.out, self.settings, self.seed = model, out, settings, seed
        where = f"&device={device}" if device else ""
        batch = settings.stories * (settings.samples + settings.scouts)
        options = f"dtype=float32&compile=false&cache=dynamic&batch={batch}{where}"
        critic: Any = load_vlm(f"transformers:{model.resolve()}?{options}", "critic")
        self.executor = critic.loaded.executor
        self.player = Player(
            critic,
            [load_generator(each) for each in generators],
            load_pack("mini"),
            max_attempts=settings.max_attempts,
            temperature=settings.temperature,
            strays=settings.strays,
        )
        self.learner = Learner(
            critic.loaded.decoder,
            device_batch=settings.device_batch,
            hold=settings.hold,
            temperature=settings.temperature,
        )
        self.log = Log(out / "log.jsonl")
        self.scouted: _Scouted | None = None
        self.done, self.spent, self.saved = 0, 0.0, time.monotonic()
        self._restore()

    def step(self, schedule: TimedSchedule) -> None:
        began, rng = schedule.spent, Random(f"trajectories/{self.seed}/{self.done}")
        played, scouted = asyncio.run(self._play(rng))
        made = schedule.spent
        learned = self.executor.submit(
            self.learner.learn,
            lessons(played, self.settings, rng),
            learning_rate(self.settings.rate, schedule.progress) * min(1.0, (self.done + 1) / WARM_STEPS),
        ).result()
        self.log.write(
            step=self.done,
            seconds=schedule.spent,
            playing=made - began,
            learning=schedule.spent - made,
            **figures(scouted, self.settings),
            groups=useful_groups(played, self.settings),
            verdicts=sum(len(each.attempts) for each in (*scouted, *played)),
            **learned,
        )
        self.done += 1
        if time.monotonic() - self.saved > SAVE_SECONDS:
            self.save(schedule.spent)

    async def _play(self, rng: Random) -> tuple[list[Trajectory], list[Trajectory]]:
        """Play the trajectories to learn from and, concurrently, those that select the next stories."""
        now = self.scouted or await self._scout(rng)
        stories = [now.stories[each.story] for each in sorted(now.trajectories, key=doubt, reverse=True)]
        played, scouted = await asyncio.gather(
            self.player.play(stories[: self.settings.stories], self.settings.samples, now.seed, now.cache),
            self._scout(rng),
        )
        self.scouted = scouted
        return played, scouted.trajectories

    async def _scout(self, rng: Random) -> _Scouted:
        seed, cache = rng.getrandbits(31), ImageCache()
        stories = sample_stories(self.settings.stories * self.settings.scouts, rng)
        return _Scouted(stories, seed, cache, await self.player.play(stories, 1, seed, cache))

    def save(self, spent: float) -> None:
        """Save the current model and the state needed to resume."""
        with quiet():
            self.learner.model.save_pretrained(self.out / "model")
            load_processor(self.folder, "qwen3_vl").save_pretrained(self.out / "model")
        state = {**self.learner.state(), "done": self.done, "spent": spent}
        torch.save(state, self.out / "state.new")
        (self.out / "state.new").replace(self.out / "state.pt")
        self.saved = time.monotonic()

    def _restore(self) -> None:
        if (self.out / "state.pt").is_file():
            state = torch.load(self.out / "state.pt", map_location=self.learner.model.device)
            self.learner.restore(state)
            self.done, self.spent = state["done"], state["spent"]


def sample_stories(count: int, rng: Random) -> list[Task]:
    found: list[Task] = []
    while len(found) < count:
        task = sample_training_task(rng.choice(SUITES), rng)
        if len(task.steps) <= LONGEST:
            found.append(task)
    return found


def doubt(trajectory: Trajectory) -> float:
    """Return the critic's highest uncertainty: a certain verdict is the same in all samples."""
    return max(each.doubt for each in trajectory.attempts)


# Advantages


def lessons(played: Sequence[Trajectory], settings: TrajectoryTraining, rng: Random) -> list[Lesson]:
    """Return the verdicts better or worse than others, and at most as many neutral ones to keep."""
    groups = _groups(played, settings)
    made: list[Lesson] = []
    others: list[Lesson] = []
    for rewarded in groups.values():
        mean = fmean(reward for _, reward in rewarded)
        for attempts, reward in rewarded:
            advantage = reward - mean if _differ(rewarded) else 0.0
            some = [Lesson(each.messages, each.answer, advantage) for each in attempts]
            (made if advantage else others).extend(some)
    return made + rng.sample(others, min(len(others), len(made)))


def useful_groups(played: Sequence[Trajectory], settings: TrajectoryTraining) -> float:
    """Return the share of groups with several members whose rewards differ."""
    several = [each for each in _groups(played, settings).values() if len(each) > 1]
    return fmean(_differ(each) for each in several) if several else 0.0


Rewarded = tuple[Sequence[JudgedAttempt], float]
"""Verdicts of one trajectory and their reward."""


def _groups(played: Sequence[Trajectory], settings: TrajectoryTraining) -> dict[Hashable, list[Rewarded]]:
    """Return the groups whose members are compared."""
    groups: dict[Hashable, list[Rewarded]] = defaultdict(list)
    rewarded = _of_trajectories if settings.kind == "trajectory" else _of_steps
    for trajectory in played:
        for group, attempts, reward in rewarded(trajectory, settings):
            groups[group].append((attempts, reward))
    return groups


def _of_trajectories(
    trajectory: Trajectory, settings: TrajectoryTraining
) -> Iterator[tuple[Hashable, Sequence[JudgedAttempt], float]]:
    yield trajectory.story, trajectory.attempts, settings.reward.of(trajectory)


def _of_steps(
    trajectory: Trajectory, settings: TrajectoryTraining
) -> Iterator[tuple[Hashable, Sequence[JudgedAttempt], float]]:
    """Group verdicts by image, which identifies the prompt and the source image."""
    for number, attempts in enumerate(trajectory.steps):
        for place, attempt in enumerate(attempts):
            group = (trajectory.story, number, place, id(attempt.image))
            yield group, [attempt], settings.step_reward.of(attempts, place)


def _differ(rewarded: Sequence[Rewarded]) -> bool:
    rewards = [reward for _, reward in rewarded]
    return max(rewards) - min(rewards) > SMALLEST_GAP


def figures(played: Sequence[Trajectory], settings: TrajectoryTraining) -> dict[str, float]:
    """Return metrics of the critic over unselected trajectories."""
    steps = [attempts for trajectory in played for attempts in trajectory.steps]
    judged = [attempt for attempts in steps for attempt in attempts]
    right = [each for each in judged if each.right]
    wrong = [each for each in judged if not each.right]
    alone = [settings.step_reward.of(attempts, place) for attempts in steps for place in range(len(attempts))]
    return {
        "reward": fmean(settings.reward.of(each) for each in played),
        "step_reward": fmean(alone),
        "stories": fmean(each.is_right for each in played),
        "kept": fmean(chosen(attempts).right for attempts in steps),
        "attempts": len(judged) / len(steps),
        "false_alarms": fmean(not each.verdict.accepted for each in right) if right else 0.0,
        "caught": fmean(each.verdict.outcome is Outcome.REJECTED for each in wrong) if wrong else 0.0,
        "wrong": len(wrong) / len(judged),
    }
