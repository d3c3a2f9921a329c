"""From rewards to advantages, with failed samples left out as if they had never been drawn.

A group is all replies to one prompt. Its sums are exact (`math.fsum`), so that a sample's advantage is, to
the last digit, the one it would have had in a group without the failed ones, whatever their number or place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

FEWEST = 2
"""A group with fewer valid samples teaches nothing: there is nobody to compare with."""
STABILISER = 1e-4
"""Added to the spread, as TRL does."""

Scale = Literal["group", "none"]


def group_advantages(rewards: Sequence[float | None], scale: Scale = "group") -> list[float | None]:
    """The advantage of each sample of one group; None for a masked one, and for all of a skipped group."""
    valid = [reward for reward in rewards if reward is not None]
    if len(valid) < FEWEST:
        return [None] * len(rewards)
    if min(valid) == max(valid):  # else rounding would tell equal samples apart
        return [None if reward is None else 0.0 for reward in rewards]
    mean = math.fsum(valid) / len(valid)
    spread = math.sqrt(math.fsum((reward - mean) ** 2 for reward in valid) / (len(valid) - 1))
    divisor = spread + STABILISER if scale == "group" else 1.0
    return [None if reward is None else (reward - mean) / divisor for reward in rewards]


def batch_advantages(
    rewards: Sequence[float | None], group: int, scale: Scale = "group"
) -> list[float | None]:
    """The advantages of a batch of groups that follow each other."""
    if len(rewards) % group:
        raise ValueError(f"{len(rewards)} rewards are not whole groups of {group}")
    starts = range(0, len(rewards), group)
    return [each for start in starts for each in group_advantages(rewards[start : start + group], scale)]


def equal_groups(rewards: Sequence[float | None], group: int) -> int:
    """How many groups have two valid samples or more, all with the same reward: they teach nothing."""
    groups = (rewards[start : start + group] for start in range(0, len(rewards), group))
    valid = ([reward for reward in each if reward is not None] for each in groups)
    return sum(len(each) >= FEWEST and min(each) == max(each) for each in valid)


def skipped_groups(rewards: Sequence[float | None], group: int) -> int:
    """How many groups have too few valid samples."""
    groups = (rewards[start : start + group] for start in range(0, len(rewards), group))
    return sum(sum(reward is not None for reward in each) < FEWEST for each in groups)
