"""GRPO over whole stories: every verdict of a trajectory is as good as the document that came of it.

The reference calls this impractical and rewards every step alone. In the miniature both are done by the same
loop at the same cost, so that they can be compared: `trajectory` gives all verdicts of a story its reward,
`step` gives each verdict its own. Advantages are against the other trajectories of the same story.

OUT/model      the critic        OUT/log.jsonl   rewards, shares and times
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import fmean, pstdev
from typing import Any, Literal

import torch

from interleave.agents.prompts import load_pack
from interleave.backends.local.processors import load_processor
from interleave.backends.local.silence import quiet
from interleave.backends.protocols import Message
from interleave.backends.registry import load_generator, load_vlm
from interleave.errors import ConfigurationError
from interleave.types import Outcome
from interleave_mini.language.tasks import Task, sample_training_task
from interleave_mini.train.agent_model import check_model_folder
from interleave_mini.train.training_loop import Log, TimedSchedule, learning_rate
from interleave_mini.train.trajectories import (
    JudgedAttempt,
    Player,
    Trajectory,
    TrajectoryReward,
    chosen,
    step_reward,
)

Kind = Literal["trajectory", "step"]
SUITES = ("story", "story", "story", "edit", "plain")
"""A suite that is named thrice comes three times as often."""
LONGEST = 6
"""Stories with more steps would make all others wait."""
CLIP = 1.0
SMALLEST_DEVIATION = 1e-6


@dataclass(frozen=True)
class TrajectoryTraining:
    """The settings of GRPO over trajectories."""

    kind: Kind = "trajectory"
    stories: int = 24
    """Stories a step,"""
    samples: int = 8
    """and trajectories of each."""
    max_attempts: int = 3
    rate: float = 4e-5
    device_batch: int = 128
    reward: TrajectoryReward = field(default_factory=TrajectoryReward)


@dataclass(frozen=True)
class Lesson:
    """A verdict to learn from: more of it, or less."""

    messages: tuple[Message, ...]
    answer: str
    advantage: float


def train_on_trajectories(
    model: Path,
    out: Path,
    minutes: float,
    *,
    settings: TrajectoryTraining = TrajectoryTraining(),
    generator: str = "mini",
    steps: int | None = None,
    device: str | None = None,
    seed: int = 0,
) -> Path:
    """Train a critic until the time is over or so many steps are made; returns the folder of the model."""
    check_model_folder(model)
    if settings.samples < 2:
        raise ConfigurationError("trajectories of a story are compared: take at least 2 samples")
    where = f"&device={device}" if device else ""
    batch = settings.stories * settings.samples
    critic: Any = load_vlm(f"transformers:{model}?dtype=float32&compile=false&batch={batch}{where}", "critic")
    player = Player(critic, load_generator(generator), load_pack("mini"), max_attempts=settings.max_attempts)
    learner = Learner(critic.loaded.decoder, settings)
    schedule, log, rng = TimedSchedule(minutes), Log(out / "log.jsonl"), Random(f"trajectories/{seed}")
    for step in schedule.steps():
        if step == steps:
            break
        played = asyncio.run(
            player.play(_stories(settings.stories, rng), settings.samples, rng.getrandbits(31))
        )
        made = schedule.spent
        learned = critic.loaded.executor.submit(
            learner.learn, lessons(played, settings), learning_rate(settings.rate, schedule.progress)
        ).result()
        log.write(step=step, seconds=schedule.spent, played=made, **figures(played, settings), **learned)
    with quiet():
        learner.model.save_pretrained(out / "model")
        load_processor(model, "qwen3_vl").save_pretrained(out / "model")
    return out / "model"


def _stories(count: int, rng: Random) -> list[Task]:
    found: list[Task] = []
    while len(found) < count:
        task = sample_training_task(rng.choice(SUITES), rng)
        if len(task.steps) <= LONGEST:
            found.append(task)
    return found


# Advantages


def lessons(played: Sequence[Trajectory], settings: TrajectoryTraining) -> list[Lesson]:
    """The verdicts of all trajectories with their advantages; without those that say nothing."""
    whole = settings.kind == "trajectory"
    rewarded = list(_of_trajectories(played, settings.reward) if whole else _of_steps(played))
    groups: dict[Hashable, list[float]] = defaultdict(list)
    for group, _, reward in rewarded:
        groups[group].append(reward)
    made = []
    for group, attempts, reward in rewarded:
        deviation = pstdev(groups[group])
        if deviation > SMALLEST_DEVIATION:
            advantage = (reward - fmean(groups[group])) / deviation
            made += [Lesson(each.messages, each.answer, advantage) for each in attempts]
    return made


Rewarded = tuple[Hashable, Sequence[JudgedAttempt], float]
"""A group that is compared, verdicts of one trajectory, and their reward."""


def _of_trajectories(played: Sequence[Trajectory], reward: TrajectoryReward) -> Iterator[Rewarded]:
    for trajectory in played:
        yield trajectory.story, trajectory.attempts, reward.of(trajectory)


def _of_steps(played: Sequence[Trajectory]) -> Iterator[Rewarded]:
    for trajectory in played:
        for number, attempts in enumerate(trajectory.steps):
            for place, attempt in enumerate(attempts):
                yield (trajectory.story, number, place), [attempt], step_reward(attempts, place)


def figures(played: Sequence[Trajectory], settings: TrajectoryTraining) -> dict[str, float]:
    """What a step of training shows."""
    steps = [attempts for trajectory in played for attempts in trajectory.steps]
    judged = [attempt for attempts in steps for attempt in attempts]
    right = [each for each in judged if each.right]
    wrong = [each for each in judged if not each.right]
    return {
        "reward": fmean(settings.reward.of(each) for each in played),
        "stories": fmean(all(chosen(attempts).right for attempts in each.steps) for each in played),
        "kept": fmean(chosen(attempts).right for attempts in steps),
        "attempts": len(judged) / len(steps),
        "false_alarms": fmean(not each.verdict.accepted for each in right) if right else 0.0,
        "caught": fmean(each.verdict.outcome is Outcome.REJECTED for each in wrong) if wrong else 0.0,
        "verdicts": len(judged),
    }


# Learning


class Learner:
    """Updates the model that the trajectories are judged by, in place."""

    def __init__(self, decoder: Any, settings: TrajectoryTraining) -> None:
        self.decoder, self.model, self.settings = decoder, decoder.model, settings
        self.parameters = [each for each in self.model.parameters() if each.is_floating_point()]
        for parameter in self.parameters:
            parameter.requires_grad_(True)
        self.optimizer = torch.optim.AdamW(
            self.parameters, lr=settings.rate, betas=(0.9, 0.98), weight_decay=0
        )

    def learn(self, some: Sequence[Lesson], rate: float) -> dict[str, float]:
        """One update. The verdicts are the model's own as it is, so that no ratio has to be clipped."""
        if not some:
            return {"lessons": 0}
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.model.train()
        ordered = sorted(some, key=lambda each: len(each.answer))
        tokens = 0
        for start in range(0, len(ordered), self.settings.device_batch):
            log_probs, spoken = self._log_probs(ordered[start : start + self.settings.device_batch])
            advantages = torch.tensor(
                [each.advantage for each in ordered[start : start + self.settings.device_batch]],
                device=log_probs.device,
            )
            (-(log_probs * spoken * advantages[:, None]).sum()).backward()
            tokens += int(spoken.sum())
        for parameter in self.parameters:
            if parameter.grad is not None:
                parameter.grad /= tokens
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, CLIP)
        if torch.isfinite(norm):
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.model.eval()
        return {"lessons": len(some), "norm": float(norm)}

    def _log_probs(self, some: Sequence[Lesson]) -> tuple[torch.Tensor, torch.Tensor]:
        """The logarithm of the probability of every token of the answers, and which of them are there."""
        tokenizer = self.decoder.tokenizer
        inputs = self.decoder.inputs_of([each.messages for each in some])
        answers = tokenizer(
            [f"{each.answer}{tokenizer.eos_token}" for each in some],
            add_special_tokens=False,
            padding=True,
            padding_side="right",
            return_tensors="pt",
        ).to(self.model.device)
        count = answers["input_ids"].shape[1]
        extended = {"input_ids": answers["input_ids"], "attention_mask": answers["attention_mask"]}
        for name in ("mm_token_type_ids", "token_type_ids"):
            if name in inputs:
                extended[name] = torch.zeros_like(answers["input_ids"])
        whole = {
            **inputs,
            **{name: torch.cat([inputs[name], more], dim=1) for name, more in extended.items()},
        }
        logits = self.model(**whole, use_cache=False, logits_to_keep=count + 1).logits[:, :-1]
        log_probs = logits.float().log_softmax(dim=-1)
        chosen_ones = log_probs.gather(2, answers["input_ids"][..., None]).squeeze(2)
        return chosen_ones, answers["attention_mask"].float()
