"""The rules that give every attempt its part: which steps are dropped, and who of the rest teaches what.

A step whose scores fall shows refinements that made things worse, and one that never gets good shows none
that helped: both teach a critic the wrong thing. Of the rest, a step whose scores vary has something to be
found out by trying, which is what reinforcement learning does; one that does not vary is an example to copy.
But a step that was accepted at once does not vary either, and refusals come from steps that were drawn again:
so, unless told, no more than the upper half of those that vary goes to RL, and copying sees refusals too.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from interleave.data.select.steps import Figures, ScoredStep
from interleave.errors import ConfigurationError
from interleave.types import Value

SFT, RL, DROPPED = "sft", "rl", "dropped"
FALLING = "falling scores"
LOW = "persistently low"
FALLING_SHARE = 0.25
"""At most this share of the steps that were drawn more than once is dropped for falling, unless told."""
LOW_SHARE = 0.1
"""At most this share of the steps is dropped for never being good, unless told."""
GOOD = 8.0
"""A step that reaches this is never called low, unless told."""
SFT_TO_RL = 2.0


class Thresholds(Value):
    """Where the rules draw their lines; None: that rule drops nothing."""

    max_fall: float | None
    """A step is dropped when its last score is further than this below its best one before."""
    min_best: float | None
    """A step is dropped when not one of its attempts reaches this."""
    spares_accepted: bool = False
    """Whether a step that ends accepted stays all the same: where `min_best` is not a user's word."""
    variance: float
    """A step whose scores vary more than this goes to RL."""


@dataclass(frozen=True)
class Wishes:
    """What a user says about the thresholds; what is left open comes from the data."""

    max_fall: float | None = None
    min_best: float | None = None
    variance: float | None = None
    sft_to_rl: float | None = None
    """None: as near to `SFT_TO_RL` as leaves half of the steps that vary to SFT."""
    filtered: bool = True

    def __post_init__(self) -> None:
        if self.sft_to_rl is not None and not (math.isfinite(self.sft_to_rl) and self.sft_to_rl > 0):
            raise ConfigurationError(f"the ratio of SFT to RL rows must be above 0, not {self.sft_to_rl:g}")


def thresholds_for(steps: Sequence[ScoredStep], wishes: Wishes) -> Thresholds:
    """The thresholds, those not given taken from the steps; the order of the steps does not matter."""
    known = [step.figures for step in steps if step.figures is not None and step.usable]
    max_fall = min_best = None
    if wishes.filtered:
        max_fall = _given(wishes.max_fall, lambda: _fall_of(steps))
        bests = [each.best for each in known]
        min_best = _given(wishes.min_best, lambda: min(quantile(bests, LOW_SHARE), GOOD))
    spares = wishes.filtered and wishes.min_best is None
    line = Thresholds(max_fall=max_fall, min_best=min_best, spares_accepted=spares, variance=0.0)
    kept = [step for step in steps if why_dropped(step, line) is None]
    variance = _given(wishes.variance, lambda: variance_for(kept, wishes.sft_to_rl))
    return line.model_copy(update={"variance": variance})


def why_dropped(step: ScoredStep, thresholds: Thresholds) -> str | None:
    """The reason why a step is dropped, or None when it stays."""
    if step.figures is None:
        return None  # its attempts have reasons of their own
    if thresholds.max_fall is not None and step.figures.fall > thresholds.max_fall:
        return FALLING
    spared = thresholds.spares_accepted and step.attempts[-1].accepted
    if thresholds.min_best is not None and step.figures.best < thresholds.min_best and not spared:
        return LOW
    return None


def part_of(figures: Figures, thresholds: Thresholds) -> str:
    """The part of a step that stays."""
    return RL if figures.variance > thresholds.variance else SFT


def quantile(values: Iterable[float], share: float) -> float:
    """One of the values, below which lies at most this share of them; 0 where there are none."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0


def variance_for(steps: Iterable[ScoredStep], sft_to_rl: float | None = None) -> float:
    """The variance above which steps go to RL, so that the rows come as near to the ratio as they can.

    It is never below 0: where nothing varies there is nothing to explore, whatever the ratio. Where no ratio
    is given it is never below the median of the steps that vary either.
    """
    usable = [(step.figures.variance, step.usable) for step in steps if step.figures and step.usable]
    if sft_to_rl is not None:
        return _line_for_ratio(usable, sft_to_rl)
    varying = [variance for variance, _ in usable if variance > 0]
    half = statistics.median_low(varying) if varying else 0.0
    return max(half, _line_for_ratio(usable, SFT_TO_RL))


def _line_for_ratio(usable: Iterable[tuple[float, int]], sft_to_rl: float) -> float:
    """The same for the ratio alone, from the variance and the number of rows of every step."""
    rows: Counter[float] = Counter()
    for variance, number in usable:
        rows[variance] += number
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
