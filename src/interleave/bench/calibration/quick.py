"""From which probability on a critic may accept an image at once, without its reasoning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from interleave.bench.statistics import Rate
from interleave.plugin import Value

LOWEST = 0.5


@dataclass(frozen=True)
class QuicklyJudged:
    """An attempt: its label, the verdict with reasoning, and the probability before it."""

    right: bool
    accepted: bool
    probability: float
    is_fitted: bool
    """Whether it is in the half on which the threshold for `held_out` is chosen."""


class QuickRates(Value):
    """What quick verdicts save and cost at a threshold."""

    threshold: float
    saved: Rate
    """Share of all images that are accepted at once."""
    misses: Rate
    """Share of wrong images that are accepted, at once or after reasoning."""
    misses_with_reasoning: Rate
    """The same if every image is judged with reasoning."""


class QuickThreshold(Value):
    """The mildest threshold at which no wrong image is accepted that reasoning rejects."""

    point: QuickRates
    held_out: QuickRates | None
    """The same choice made on one half of the labels and measured on the other."""


def quick_threshold(judged: Sequence[QuicklyJudged]) -> QuickThreshold | None:
    """Return the threshold; `None` if no probability was asked for, or none separates right from wrong."""
    threshold = _mildest(judged)
    if threshold is None:
        return None
    fitted, others = ([each for each in judged if each.is_fitted is half] for half in (True, False))
    halved = _mildest(fitted) if others else None
    return QuickThreshold(
        point=_rates(threshold, judged), held_out=None if halved is None else _rates(halved, others)
    )


def _mildest(judged: Sequence[QuicklyJudged]) -> float | None:
    costly = [each.probability for each in judged if not each.right and not each.accepted]
    above = max(costly, default=0.0)
    if not judged or above >= 1:
        return None
    return max(LOWEST, math.nextafter(above, 1))


def _rates(threshold: float, judged: Sequence[QuicklyJudged]) -> QuickRates:
    at_once = [each.probability >= threshold for each in judged]
    wrong = [each.accepted or quick for each, quick in zip(judged, at_once, strict=True) if not each.right]
    reasoned = [each.accepted for each in judged if not each.right]
    return QuickRates(
        threshold=threshold,
        saved=Rate.counted(sum(at_once), len(judged)),
        misses=Rate.counted(sum(wrong), len(wrong)),
        misses_with_reasoning=Rate.counted(sum(reasoned), len(reasoned)),
    )
