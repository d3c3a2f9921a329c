"""How well a critic agrees with people: correlations, and accuracies over pairs. Pure functions on numpy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]
    Places = np.ndarray[Any, np.dtype[np.int64]]

DIGITS = 9
"""Values that agree to so many digits are equal: means of roots differ by float noise alone."""
MOST = 1 - 1e-7
"""What a correlation of one counts as, whose z is infinite."""


def ranks(
    values: Sequence[float] | Array, groups: Places | None = None, *, digits: int | None = DIGITS
) -> Array:
    """Ranks from one, within each group where there are any; ties have the mean of theirs.

    With `digits` None only identical floats are tied.
    """
    import numpy as np

    given = np.asarray(values, dtype=np.float64)
    if digits is not None:
        given = np.round(given, digits)
    places = np.zeros(len(given), dtype=np.int64) if groups is None else groups
    order = np.lexsort((given, places))
    given, places = given[order], places[order]
    new_group = np.diff(places, prepend=-1) != 0
    first = np.flatnonzero(new_group | (np.diff(given, prepend=np.nan) != 0))
    counts = np.diff(first, append=len(given))
    begin = np.maximum.accumulate(np.where(new_group, np.arange(len(given)), 0))  # of each row's group
    found = np.empty(len(given))
    found[order] = np.repeat(first + (counts - 1) / 2, counts) - begin + 1
    return found


def spearman(
    ours: Sequence[float] | Array, theirs: Sequence[float] | Array, *, digits: int | None = DIGITS
) -> float:
    """The rank correlation; NaN where either side has fewer than two different values."""
    import numpy as np

    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} values cannot be correlated with {len(theirs)}")
    return float(group_spearman(ours, theirs, np.zeros(len(ours), dtype=np.int64), 1, digits=digits)[0])


def group_spearman(
    ours: Sequence[float] | Array,
    theirs: Sequence[float] | Array,
    groups: Places,
    count: int,
    *,
    digits: int | None = DIGITS,
) -> Array:
    """The rank correlation within each of `count` groups, all at once: a bootstrap asks for many."""
    import numpy as np

    members = np.bincount(groups, minlength=count)

    def centred(values: Sequence[float] | Array) -> Array:
        found = ranks(values, groups, digits=digits)
        found -= ((members + 1) / 2)[groups]  # the mean of ranks, ties or not
        return found

    a, b = centred(ours), centred(theirs)
    products, ours_squared, theirs_squared = (
        np.bincount(groups, weights=each, minlength=count) for each in (a * b, a * a, b * b)
    )
    spread = np.sqrt(ours_squared * theirs_squared)
    found: Array = np.divide(products, spread, out=np.full(count, np.nan), where=spread > 0)
    return found


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
