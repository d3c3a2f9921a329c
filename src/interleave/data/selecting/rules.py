"""The rules that give every attempt its part: which steps are dropped, and who of the rest teaches what.

A step whose scores fall shows refinements that made things worse, and one that never gets good shows none
that helped: both teach a critic the wrong thing. Of the rest, a step whose scores vary has something to be
found out by trying, which is what reinforcement learning does; one that does not vary is an example to copy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from interleave.data.selecting.steps import Figures, ScoredStep
from interleave.types import Value

SFT, RL, DROPPED = "sft", "rl", "dropped"
FALLING = "falling scores"
LOW = "persistently low"
FALLING_SHARE = 0.25
"""At most this share of the steps that were drawn more than once is dropped for falling, unless told."""
LOW_SHARE = 0.1
"""At most this share of the steps is dropped for never being good, unless told."""
SFT_TO_RL = 2.0


class Thresholds(Value):
    """Where the rules draw their lines; None: that rule drops nothing."""

    max_fall: float | None
    """A step is dropped when its last score is further than this below its best one before."""
    min_best: float | None
    """A step is dropped when not one of its attempts reaches this."""
    variance: float
    """A step whose scores vary more than this goes to RL."""


@dataclass(frozen=True)
class Wishes:
    """What a user says about the thresholds; what is left open comes from the data."""

    max_fall: float | None = None
    min_best: float | None = None
    variance: float | None = None
    sft_to_rl: float = SFT_TO_RL
    filtered: bool = True


def thresholds_for(steps: Sequence[ScoredStep], wishes: Wishes) -> Thresholds:
    """The thresholds, those not given taken from the steps; the order of the steps does not matter."""
    known = [step.figures for step in steps if step.figures is not None and step.usable]
    max_fall = min_best = None
    if wishes.filtered:
        max_fall = _given(wishes.max_fall, lambda: _fall_of(steps))
        min_best = _given(wishes.min_best, lambda: quantile([each.best for each in known], LOW_SHARE))
    line = Thresholds(max_fall=max_fall, min_best=min_best, variance=0.0)
    kept = [step for step in steps if step.figures is not None and why_dropped(step.figures, line) is None]
    variance = _given(wishes.variance, lambda: variance_for(kept, wishes.sft_to_rl))
    return line.model_copy(update={"variance": variance})


def why_dropped(figures: Figures, thresholds: Thresholds) -> str | None:
    """The reason why a step is dropped, or None when it stays."""
    if thresholds.max_fall is not None and figures.fall > thresholds.max_fall:
        return FALLING
    if thresholds.min_best is not None and figures.best < thresholds.min_best:
        return LOW
    return None


def part_of(figures: Figures, thresholds: Thresholds) -> str:
    """The part of a step that stays."""
    return RL if figures.variance > thresholds.variance else SFT


def quantile(values: Iterable[float], share: float) -> float:
    """One of the values, below which lies at most this share of them; 0 where there are none."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0


def variance_for(steps: Iterable[ScoredStep], sft_to_rl: float) -> float:
    """The variance above which steps go to RL, so that the rows come as near to this ratio as they can.

    It is never below 0: where nothing varies there is nothing to explore, whatever the ratio.
    """
    rows: Counter[float] = Counter()
    for step in steps:
        if step.figures is not None:
            rows[step.figures.variance] += step.usable
    wanted = rows.total() / (1 + sft_to_rl)
    to_rl, best, line = 0, wanted, max(rows, default=0.0)
    for variance in sorted(rows, reverse=True):
        if abs(to_rl - wanted) < best:
            best, line = abs(to_rl - wanted), variance
        to_rl += rows[variance]
    return line


def _fall_of(steps: Sequence[ScoredStep]) -> float:
    """Drop the worst quarter of the steps that were tried again, as far as they fall at all."""
    tried_again = [step.figures.fall for step in steps if step.figures is not None and len(step.attempts) > 1]
    return quantile(tried_again, 1 - FALLING_SHARE)


def _given(wish: float | None, from_data: Callable[[], float]) -> float:
    return from_data() if wish is None else wish
