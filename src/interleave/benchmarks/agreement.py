"""How well a critic agrees with people: correlations, and accuracies over pairs. Pure functions on numpy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

DIGITS = 9
"""Values that agree to so many digits are equal: means of roots differ by float noise alone."""
MOST = 1 - 1e-7
"""What a correlation of one counts as, whose z is infinite."""


def ranks(values: Sequence[float] | Array, *, digits: int | None = DIGITS) -> Array:
    """Ranks from one, ties with the mean of theirs; with `digits` None only identical floats are tied."""
    import numpy as np

    given = np.asarray(values, dtype=np.float64)
    if digits is not None:
        given = np.round(given, digits)
    _, places, counts = np.unique(given, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    means: Array = (last - counts + 1 + last) / 2
    return means[places]


def spearman(
    ours: Sequence[float] | Array, theirs: Sequence[float] | Array, *, digits: int | None = DIGITS
) -> float:
    """The rank correlation; NaN where either side has fewer than two different values."""
    import numpy as np

    a, b = ranks(ours, digits=digits), ranks(theirs, digits=digits)
    if len(a) != len(b):
        raise ValueError(f"{len(a)} values cannot be correlated with {len(b)}")
    if len(a) < 2:
        return float("nan")
    a, b = a - a.mean(), b - b.mean()
    spread = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / spread if spread else float("nan")


def fisher_mean(correlations: Iterable[float]) -> float:
    """The mean of correlations through Fisher's z: tanh of the mean of atanh; NaN is left out."""
    z = [math.atanh(max(-MOST, min(MOST, each))) for each in correlations if each == each]
    return math.tanh(sum(z) / len(z)) if z else float("nan")


def tanh_mean(correlations: Iterable[float]) -> float:
    """Tanh of the mean of the raw correlations, which some publish as a Fisher mean: it is lower."""
    there = [each for each in correlations if each == each]
    return math.tanh(sum(there) / len(there)) if there else float("nan")


def pair_accuracy(better: Sequence[float], worse: Sequence[float]) -> float:
    """The share of pairs whose better side has the higher score; a tie is wrong, NaN without pairs."""
    pairs = list(zip(better, worse, strict=True))
    return sum(a > b for a, b in pairs) / len(pairs) if pairs else float("nan")


@dataclass(frozen=True)
class TieAccuracy:
    """Accuracy on pairs of which people may call some a tie."""

    with_ties: float
    """Over all pairs; a difference of scores of at most `epsilon` is a tie."""
    without_ties: float
    """Over the pairs that people did not call a tie, by the sign of the difference alone."""
    epsilon: float


def tie_accuracy(
    humans: Sequence[float],
    first: Sequence[float],
    second: Sequence[float],
    *,
    epsilon: float | None = None,
) -> TieAccuracy:
    """Accuracy with and without ties.

    `humans` is positive where people prefer the first, negative where the second, zero for a tie. Without an
    `epsilon` the one with the highest accuracy on these same labels is taken, as the field does: say so
    beside the number.
    """
    import numpy as np

    label = np.sign(np.asarray(humans, dtype=np.float64))
    gaps = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    if len(label) != len(gaps):
        raise ValueError(f"{len(label)} labels cannot be compared with {len(gaps)} pairs")
    gaps = np.round(gaps, DIGITS)
    if not len(gaps):
        return TieAccuracy(float("nan"), float("nan"), 0.0 if epsilon is None else epsilon)

    def accuracy(limit: float) -> float:
        said = np.where(np.abs(gaps) <= limit, 0.0, np.sign(gaps))
        return float((said == label).mean())

    if epsilon is None:
        tried = [0.0, *np.unique(np.abs(gaps)).tolist()]
        epsilon = max(tried, key=accuracy)  # the smallest of the best: it calls the fewest pairs a tie
    clear = label != 0
    without = float((np.sign(gaps[clear]) == label[clear]).mean()) if clear.any() else float("nan")
    return TieAccuracy(accuracy(epsilon), without, epsilon)
