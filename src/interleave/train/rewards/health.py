"""Handles failed rewards: which samples of a step to learn from, and when failures stop the training.

Only a reply that rejects a wrong image needs a redraw, so only such replies can fail. Masking only the failed
ones would keep every reply that accepted the wrong image and few that rejected it, and teach the critic to
accept (survivorship bias). Failures are therefore measured against the redraws needed. Above one limit the
whole group is discarded, above another the whole step. If failures persist, training stops.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

from interleave import BackendError

MOST_FAILURES = 0.10
MOST_GROUP_FAILURES = 0.25
MOST_UNHEALTHY_STEPS = 3
WINDOW = 20


class RewardUnhealthy(BackendError):
    """Rewards failed too often; the state is saved, and the same command resumes."""


@dataclass(frozen=True)
class FailureLimits:
    """Tolerated failures, as shares of the redraws needed."""

    step: float = MOST_FAILURES
    """Limit above which the step is discarded; a single failure is always tolerated."""
    group: float = MOST_GROUP_FAILURES
    """Limit above which the group is discarded."""
    running: int = MOST_UNHEALTHY_STEPS
    """Number of consecutive steps above the limit that stops the training."""
    window: int = WINDOW
    """Number of steps over which the same total share stops it as well."""


@dataclass(frozen=True)
class Screened:
    """The rewards of a step that remain after screening."""

    totals: tuple[float | None, ...]
    failed: int
    needed: int
    """Number of redraws needed."""
    discarded_groups: int = 0
    """Number of groups discarded because of their failures."""
    discarded: bool = False
    """Whether the whole step is discarded."""

    @property
    def share(self) -> float:
        """Failed share of the redraws needed."""
        return self.failed / self.needed if self.needed else 0.0


def screened(
    totals: Sequence[float | None],
    drawn: Sequence[bool],
    groups: Sequence[Hashable],
    limits: FailureLimits = FailureLimits(),
) -> Screened:
    """Mask groups with too many failures, or all rewards of the step.

    `drawn` marks the rewards that come from a redraw; samples without a reward needed one too.
    """
    failed: Counter[Hashable] = Counter()
    needed: Counter[Hashable] = Counter()
    for total, was_drawn, group in zip(totals, drawn, groups, strict=True):
        failed[group] += total is None
        needed[group] += total is None or was_drawn
    bad = {group for group, times in failed.items() if times > limits.group * needed[group]}
    kept = tuple(None if group in bad else total for total, group in zip(totals, groups, strict=True))
    step = Screened(kept, failed.total(), needed.total(), len(bad))
    if is_too_much(step.failed, step.needed, limits):
        return replace(step, totals=(None,) * len(kept), discarded=True)
    return step


def is_too_much(failed: int, needed: int, limits: FailureLimits = FailureLimits()) -> bool:
    """Return whether a step with this many failures is discarded; a single one is always tolerated."""
    return failed > 1 and failed > limits.step * needed


def filled_with_group_mean(
    totals: Sequence[float | None], kept: Sequence[float | None], groups: Sequence[Hashable]
) -> list[float]:
    """Replace masked rewards by the mean of their group, for a trainer that cannot mask samples.

    A masked sample then has advantage zero, and so has every sample of a discarded group. A group without a
    valid reward gets 0 throughout.
    """
    valid: dict[Hashable, list[float]] = {}
    for total, group in zip(totals, groups, strict=True):
        if total is not None:
            valid.setdefault(group, []).append(total)
    means = {group: math.fsum(each) / len(each) for group, each in valid.items()}
    return [
        means.get(group, 0.0) if total is None else total for total, group in zip(kept, groups, strict=True)
    ]


class Health:
    """Counts failures over the steps of a training."""

    def __init__(self, limits: FailureLimits = FailureLimits()) -> None:
        self.limits = limits
        self.bad_steps = 0
        """Number of consecutive discarded steps up to now."""
        self.recent: deque[tuple[int, int]] = deque(maxlen=limits.window)
        """Failed and needed redraws of the last steps."""
        self.causes: Counter[str] = Counter()

    def note(self, step: Screened, causes: Iterable[str] = ()) -> None:
        """Count a step."""
        self.bad_steps = self.bad_steps + 1 if step.discarded else 0
        self.recent.append((step.failed, step.needed))
        self.causes.update(causes)
        if not any(failed for failed, _ in self.recent):
            self.causes.clear()

    @property
    def lately(self) -> float:
        """Share of failures over all recent steps."""
        needed = sum(needed for _, needed in self.recent)
        return sum(failed for failed, _ in self.recent) / needed if needed else 0.0

    @property
    def unhealthy(self) -> bool:
        full = len(self.recent) == self.limits.window
        return self.bad_steps >= self.limits.running or (full and self.lately > self.limits.step)

    def complaint(self, *, saved: str = "The state is saved") -> RewardUnhealthy:
        """Build the error that ends the training."""
        common = self.causes.most_common(1)
        why = f" Most often: {common[0][0]}." if common else ""
        many = self.bad_steps >= self.limits.running
        when = f"in {self.bad_steps} consecutive steps" if many else f"over the last {len(self.recent)} steps"
        return RewardUnhealthy(
            f"reward_unhealthy: more than {self.limits.step:.0%} of the redraws failed {when}.{why} "
            f"{saved}: fix the generator or the scorer, then run the same command again"
        )
