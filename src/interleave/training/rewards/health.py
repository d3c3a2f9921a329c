"""Whether rewards can be trusted: what may be learned from a step, and when failures end the training.

Only a reply that refuses a wrong picture has something drawn, so only such replies can fail. Leaving out the
failed ones alone would keep every reply that accepted the wrong picture and few that refused it, and teach to
accept (survivors' bias). Failures are therefore measured against what was to be drawn: above a limit a group
is left out whole, above another the whole step, and when that goes on, training stops.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

from interleave.errors import BackendError

MOST_FAILURES = 0.10
MOST_OF_A_GROUP = 0.25
STEPS_RUNNING = 3
WINDOW = 20


class RewardUnhealthy(BackendError):
    """Rewards failed too often; what was learned so far is saved, and the same command goes on."""


@dataclass(frozen=True)
class Limits:
    """How many failures are borne, as shares of what was to be drawn."""

    step: float = MOST_FAILURES
    """Above it nothing is learned from the step; a single failure is borne in any step."""
    group: float = MOST_OF_A_GROUP
    """Above it nothing is learned from the group."""
    running: int = STEPS_RUNNING
    """So many steps above the limit, one after the other, stop the training."""
    window: int = WINDOW
    """Over so many steps together, the same share stops it as well."""


@dataclass(frozen=True)
class Screened:
    """The rewards of a step that may be learned from."""

    totals: tuple[float | None, ...]
    failed: int
    needed: int
    """How many were to be drawn."""
    discarded_groups: int = 0
    """Groups left out whole for their failures."""
    discarded: bool = False
    """Whether all of the step is left out."""

    @property
    def share(self) -> float:
        """The share of failures among all that was to be drawn."""
        return self.failed / self.needed if self.needed else 0.0


def screened(
    totals: Sequence[float | None],
    drawn: Sequence[bool],
    groups: Sequence[Hashable],
    limits: Limits = Limits(),
) -> Screened:
    """A step's rewards without groups, or without all, where too much failed.

    `drawn` says which rewards come from a picture drawn again; those without a reward were to be drawn too.
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


def is_too_much(failed: int, needed: int, limits: Limits = Limits()) -> bool:
    """Whether so many failures spoil a step; one alone may be bad luck."""
    return failed > 1 and failed > limits.step * needed


def filled(
    totals: Sequence[float | None], kept: Sequence[float | None], groups: Sequence[Hashable]
) -> list[float]:
    """The rewards for a trainer that cannot leave any out: the mean of its group in place of each.

    A failed sample then has no advantage, and none of a discarded group has; a group without any is all 0.
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
    """Counts failures step by step."""

    def __init__(self, limits: Limits = Limits()) -> None:
        self.limits = limits
        self.bad_steps = 0
        """How many steps in a row were discarded, up to now."""
        self.recent: deque[tuple[int, int]] = deque(maxlen=limits.window)
        """Failed and needed, of the last steps."""
        self.causes: Counter[str] = Counter()

    def note(self, step: Screened, causes: Iterable[str] = ()) -> None:
        """Take note of a step."""
        self.bad_steps = self.bad_steps + 1 if step.discarded else 0
        self.recent.append((step.failed, step.needed))
        self.causes.update(causes)
        if not any(failed for failed, _ in self.recent):
            self.causes.clear()

    @property
    def lately(self) -> float:
        """The share of failures over the last steps together."""
        needed = sum(needed for _, needed in self.recent)
        return sum(failed for failed, _ in self.recent) / needed if needed else 0.0

    @property
    def unhealthy(self) -> bool:
        full = len(self.recent) == self.limits.window
        return self.bad_steps >= self.limits.running or (full and self.lately > self.limits.step)

    def complaint(self, *, saved: str = "The state is saved") -> RewardUnhealthy:
        """What to tell the user."""
        common = self.causes.most_common(1)
        why = f" Most often: {common[0][0]}." if common else ""
        many = self.bad_steps >= self.limits.running
        when = f"in {self.bad_steps} steps running" if many else f"over the last {len(self.recent)} steps"
        return RewardUnhealthy(
            f"reward_unhealthy: more than {self.limits.step:.0%} of the redraws failed {when}.{why} "
            f"{saved}: mend the generator or the scorer, then give the same command"
        )
