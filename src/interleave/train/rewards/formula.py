"""The arithmetic of GRPO: combines the parts of a reward, and turns the rewards of a group into advantages.

Normalised, the default:  0.5·format + 0.5·(0.2·accuracy + 0.6·semantics + 0.2·quality)
with accuracy 0 or 1, and semantics = ((new − old)/10 + 1)/2, 0 to 1, 0.5 for no change; quality likewise.

Plain, as the paper prints it:  0.5·format + 0.5·(α·accuracy + (1 − α)·step)
with accuracy −1 or 0, and step the difference of the scores in points.

`false_alarm` is subtracted from accuracy when the critic refuses a right image. It has hardly any effect if
advantages are divided by their deviation within a group (`Scale`): readable replies about a right image have
one of two rewards.

A group is all replies to one prompt. Failed samples are excluded. Sums are exact (`math.fsum`), so that a
sample's advantage equals, to the last digit, its advantage in a group without the failed ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from interleave import Scores
from interleave.plugin import Value

NO_CHANGE = 0.5
POINTS = 10.0
LEAST_VALID_SAMPLES = 2
"""Minimum number of valid samples in a group: with fewer there is nothing to compare."""
EPSILON = 1e-4
"""Added to the standard deviation, as in TRL."""
Scale = Literal["group", "none"]


class Weights(Value):
    """Weights of the reward and its inputs."""

    form: Literal["normalised", "plain"] = "normalised"
    format: float = Field(default=0.5, ge=0, le=1)
    """Weight of the format; the rest is for the content."""
    accuracy: float = Field(default=0.2, ge=0)
    semantics: float = Field(default=0.6, ge=0)
    quality: float = Field(default=0.2, ge=0)
    false_alarm: float = Field(default=0.0, ge=0)
    """Additional cost of refusing a right image, in units of accuracy."""
    alpha: float = Field(default=0.2, ge=0, le=1)
    """Share of accuracy in the plain form."""
    accepted_failures: Literal["no_change", "redraw"] = "no_change"
    """Reward for accepting a wrong image: no change, as in a run; or, as in the reference's code, its prompt
    is drawn and scored although no run would draw it."""


class Parts(Value):
    """Parts of one reply's reward; their ranges depend on the form."""

    format: float
    accuracy: float
    semantics: float
    quality: float


def change(new: Scores | None, old: Scores, weights: Weights) -> tuple[float, float]:
    """Return the change in semantics and quality; no change if `new` is None."""
    if weights.form == "plain":
        return (0.0, 0.0) if new is None else (new.semantics - old.semantics, new.quality - old.quality)
    if new is None:
        return NO_CHANGE, NO_CHANGE
    return _normalised(new.semantics - old.semantics), _normalised(new.quality - old.quality)


def accuracy(judged: bool | None, success: bool, weights: Weights) -> float:
    """Return the accuracy of a judgement against its label; an unreadable one is wrong."""
    wrong = float(judged is not success)
    if success and judged is False:
        wrong += weights.false_alarm
    return -wrong if weights.form == "plain" else 1 - wrong


def total(parts: Parts, weights: Weights) -> float:
    """Return the reward; raises `ValueError` if it is not finite."""
    if weights.form == "plain":
        reward = plain(parts.format, parts.accuracy, step(parts, weights), weights)
    else:
        content = (
            weights.accuracy * parts.accuracy
            + weights.semantics * parts.semantics
            + weights.quality * parts.quality
        )
        reward = weights.format * parts.format + (1 - weights.format) * content
    if not math.isfinite(reward):
        raise ValueError(f"the reward of {parts} is not a number")
    return reward


def plain(format: float, accuracy: float, step: float, weights: Weights) -> float:
    """Compute the paper's formula."""
    content = weights.alpha * accuracy + (1 - weights.alpha) * step
    return weights.format * format + (1 - weights.format) * content


def step(parts: Parts, weights: Weights) -> float:
    """Return the weighted mean of the differences in semantics and quality."""
    both = weights.semantics + weights.quality
    if both == 0:
        return 0.0
    return (weights.semantics * parts.semantics + weights.quality * parts.quality) / both


def _normalised(difference: float) -> float:
    return (difference / POINTS + 1) / 2


def group_advantages(rewards: Sequence[float | None], scale: Scale = "group") -> list[float | None]:
    """Return the advantages of one group; None for masked samples, and for all of a skipped group."""
    valid = [reward for reward in rewards if reward is not None]
    if len(valid) < LEAST_VALID_SAMPLES:
        return [None] * len(rewards)
    if min(valid) == max(valid):  # rounding would make equal samples differ
        return [None if reward is None else 0.0 for reward in rewards]
    mean = math.fsum(valid) / len(valid)
    deviation = math.sqrt(math.fsum((reward - mean) ** 2 for reward in valid) / (len(valid) - 1))
    divisor = deviation + EPSILON if scale == "group" else 1.0
    return [None if reward is None else (reward - mean) / divisor for reward in rewards]


def batch_advantages(
    rewards: Sequence[float | None], group: int, scale: Scale = "group"
) -> list[float | None]:
    """Compute the advantages of a batch of consecutive groups."""
    if len(rewards) % group:
        raise ValueError(f"{len(rewards)} rewards are not whole groups of {group}")
    starts = range(0, len(rewards), group)
    return [each for start in starts for each in group_advantages(rewards[start : start + group], scale)]


def equal_groups(rewards: Sequence[float | None], group: int) -> int:
    """Count the groups with enough valid samples, all with the same reward: their advantages are zero."""
    groups = (rewards[start : start + group] for start in range(0, len(rewards), group))
    valid = ([reward for reward in each if reward is not None] for each in groups)
    return sum(len(each) >= LEAST_VALID_SAMPLES and min(each) == max(each) for each in valid)


def skipped_groups(rewards: Sequence[float | None], group: int) -> int:
    """Count the groups with too few valid samples."""
    groups = (rewards[start : start + group] for start in range(0, len(rewards), group))
    return sum(sum(reward is not None for reward in each) < LEAST_VALID_SAMPLES for each in groups)
