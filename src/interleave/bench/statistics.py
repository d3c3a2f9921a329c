"""Statistics: intervals, correlations, accuracy with ties, rater agreement, reliability, scaling.

Pure functions on numpy. scipy and krippendorff give the same figures, but a bootstrap with them takes ten
times as long, because they rank and count again for every resample.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from interleave.plugin import Value

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]
    Places = np.ndarray[Any, np.dtype[np.int64]]

RESAMPLES = 1000
Z = 1.959964
"""The 95 % quantile of the normal distribution, two-sided."""


# intervals of 95 %


class Estimate(Value):
    """A mean with its interval."""

    mean: float
    low: float
    high: float


class Rate(Value):
    """A share with its interval."""

    share: float
    low: float
    high: float
    of: int

    @classmethod
    def counted(cls, hits: int, of: int) -> Rate:
        share = hits / of if of else 0.0
        low, high = wilson(share, of)
        return cls(share=share, low=low, high=high, of=of)


def wilson(share: float, count: int) -> tuple[float, float]:
    """Return Wilson's interval of the share `hits` of `count`; (0, 1) if `count` is 0."""
    if not count:
        return 0.0, 1.0
    square = Z**2 / count
    middle = (share + square / 2) / (1 + square)
    half = Z / (1 + square) * math.sqrt(share * (1 - share) / count + square / (4 * count))
    return max(0.0, middle - half), min(1.0, middle + half)


def resamples(groups: Places, times: int = 1) -> Iterator[Places]:
    """Yield row indices drawn with replacement within each group, because groups are not a sample."""
    import numpy as np

    random = np.random.default_rng(0)
    members = [np.flatnonzero(groups == place) for place in np.unique(groups)]
    for _ in range(times * RESAMPLES):
        yield np.concatenate([rows[random.integers(len(rows), size=len(rows))] for rows in members])


def bootstrap(statistic: Callable[[Places], float], size: int, times: int = 1) -> tuple[float, float]:
    """Return the interval of a statistic over resampled rows."""
    import numpy as np

    return middle([statistic(rows) for rows in resamples(np.zeros(size, dtype=np.int64), times)])


def middle(values: Sequence[float]) -> tuple[float, float]:
    """Return the central 95 % of resampled values, ignoring NaN; NaN if none is left."""
    import numpy as np

    there = [value for value in values if value == value]
    low, high = np.quantile(there, (0.025, 0.975)) if there else (math.nan, math.nan)
    return float(low), float(high)


def middle_or_rule_of_three(
    values: Sequence[float], items: int, *, least: float | None
) -> tuple[float, float]:
    """Return the central 95 % of resampled values.

    If all values agree, apply the rule of three: an event not seen in n items is rarer than 3 in n. It holds
    for fractions from `least` to 1; the interval of other values is NaN.
    """
    there = [value for value in values if value == value]
    if not there or max(there) - min(there) > 1e-12:
        return middle(there)
    if least is None:
        return math.nan, math.nan
    return max(least, there[0] - 3 / items), min(1.0, there[0] + 3 / items)


def cluster_mean(values: Iterable[tuple[str, float]]) -> Estimate:
    """Return the mean over clusters, which are resampled whole because values in one are not independent.

    If each cluster is all 0 or all 1, use Wilson's interval for that many clusters, which is never empty.
    """
    import numpy as np

    clusters: dict[str, list[float]] = {}
    for cluster, value in values:
        clusters.setdefault(cluster, []).append(value)
    means = np.array([sum(each) / len(each) for each in clusters.values()])
    mean = float(means.mean())
    if set(means.tolist()) <= {0.0, 1.0}:
        low, high = wilson(mean, len(means))
    else:
        low, high = bootstrap(lambda rows: float(means[rows].mean()), len(means), times=2)
    return Estimate(mean=round(mean, 4), low=round(low, 4), high=round(high, 4))


# correlations

DIGITS = 9
"""Digits to which values must agree to be equal: means of roots differ by floating-point noise."""
MAX_R = 1 - 1e-7
"""Stands in for a correlation of 1, whose z is infinite."""


def ranks(values: Sequence[float] | Array, groups: Places | None = None) -> Array:
    """Return ranks from 1, optionally within groups. Ties share their mean rank."""
    import numpy as np

    given = np.round(np.asarray(values, dtype=np.float64), DIGITS)
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


def spearman(ours: Sequence[float] | Array, theirs: Sequence[float] | Array) -> float:
    """Return the rank correlation; NaN if either side has fewer than two different values."""
    import numpy as np

    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} values cannot be correlated with {len(theirs)}")
    return float(group_spearman(ours, theirs, np.zeros(len(ours), dtype=np.int64), 1)[0])


def group_spearman(
    ours: Sequence[float] | Array, theirs: Sequence[float] | Array, groups: Places, count: int
) -> Array:
    """Return the rank correlation within each of `count` groups, vectorized for bootstraps."""
    import numpy as np

    centre = ((np.bincount(groups, minlength=count) + 1) / 2)[groups]  # the mean rank, with or without ties
    a, b = ranks(ours, groups) - centre, ranks(theirs, groups) - centre
    products, ours_squared, theirs_squared = (
        np.bincount(groups, weights=each, minlength=count) for each in (a * b, a * a, b * b)
    )
    spread = np.sqrt(ours_squared * theirs_squared)
    found: Array = np.divide(products, spread, out=np.full(count, np.nan), where=spread > 0)
    return found


def fisher_mean(correlations: Iterable[float]) -> float:
    """Return the mean of correlations through Fisher's z, tanh of the mean of atanh, ignoring NaN."""
    return tanh_mean(math.atanh(max(-MAX_R, min(MAX_R, each))) for each in correlations if each == each)


def tanh_mean(correlations: Iterable[float]) -> float:
    """Return tanh of the mean of raw correlations. Some publish it as a Fisher mean; it is lower."""
    there = [each for each in correlations if each == each]
    return math.tanh(sum(there) / len(there)) if there else math.nan


# accuracy on pairs compared by people


@dataclass(frozen=True)
class TieAccuracy:
    """Accuracy on pairs, some of which people call a tie."""

    with_ties: float
    """Over all pairs. A score difference of at most `epsilon` is a tie."""
    without_ties: float
    """Over the pairs that people did not call a tie, by the sign of the difference alone."""
    epsilon: float


def tie_accuracy(
    humans: Sequence[float], first: Sequence[float], second: Sequence[float], *, epsilon: float | None = None
) -> TieAccuracy:
    """Return the accuracy with and without ties.

    `humans` is positive if people prefer the first, negative for the second, zero for a tie. Without an
    `epsilon`, use the one with the highest accuracy on these labels, as the field does. Report that with the
    number.
    """
    import numpy as np

    label = np.sign(np.asarray(humans, dtype=np.float64))
    gaps = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    if len(label) != len(gaps):
        raise ValueError(f"{len(label)} labels cannot be compared with {len(gaps)} pairs")
    gaps = np.round(gaps, DIGITS)
    tuned, best = tuned_ties(label, gaps)
    clear = label != 0
    without = float((np.sign(gaps[clear]) == label[clear]).mean()) if clear.any() else math.nan
    if epsilon is None or not len(gaps):
        return TieAccuracy(tuned, without, best if epsilon is None else epsilon)
    said = np.where(np.abs(gaps) <= epsilon, 0.0, np.sign(gaps))
    return TieAccuracy(float((said == label).mean()), without, epsilon)


def tuned_ties(labels: Array, gaps: Array) -> tuple[float, float]:
    """Return the highest accuracy of any epsilon on these labels, and the smallest such epsilon.

    The smallest calls the fewest pairs a tie. One pass, because a bootstrap calls it a thousand times.
    """
    import numpy as np

    if not len(labels):
        return math.nan, 0.0
    gaps = np.round(gaps, DIGITS)
    order = np.argsort(np.abs(gaps), kind="stable")
    sizes, signs, wanted = np.abs(gaps)[order], np.sign(gaps)[order], np.sign(labels)[order]
    as_ties = np.concatenate([[0], np.cumsum(wanted == 0)])
    as_signs = np.concatenate([[0], np.cumsum(signs == wanted)])
    epsilons = np.unique(np.concatenate([[0.0], sizes]))
    called = np.searchsorted(sizes, epsilons, side="right")
    right = as_ties[called] + as_signs[-1] - as_signs[called]
    best = int(np.argmax(right))
    return float(right[best]) / len(labels), float(epsilons[best])


# rater agreement

Metric = Literal["nominal", "interval"]


class Coincidences:
    """The inputs of Krippendorff's alpha: each unit's disagreement, and the count of each value.

    Alpha is 1 minus the disagreement within units over the disagreement between any two ratings. 1 is full
    agreement, 0 is chance (K. Krippendorff, Content Analysis, chapter 12). Raters may rate different units.
    Units with one rating do not count.
    """

    def __init__(self, units: Iterable[Sequence[Hashable]], metric: Metric = "nominal") -> None:
        import numpy as np

        paired = [unit for unit in units if len(unit) > 1]
        rated: list[Any] = [value for unit in paired for value in unit]
        values, places = np.unique(rated, return_inverse=True)
        across, down = values[None, :], values[:, None]
        self.distances = (down != across).astype(float) if metric == "nominal" else (down - across) ** 2
        self.counts = np.zeros((len(paired), len(values)))
        rows = np.array([row for row, unit in enumerate(paired) for _ in unit], dtype=np.int64)
        np.add.at(self.counts, (rows, places), 1)
        weights = 1 / (self.counts.sum(axis=1) - 1)
        self.observed = np.einsum("uv,vw,uw->u", self.counts, self.distances, self.counts) * weights

    def alpha(self, units: Places | slice = slice(None)) -> float:
        """Return alpha of these units; NaN if all ratings are equal, because chance would agree as well."""
        totals = self.counts[units].sum(axis=0)
        expected = float(totals @ self.distances @ totals)
        if not expected:
            return math.nan
        return 1 - (float(totals.sum()) - 1) * float(self.observed[units].sum()) / expected


# reliability: the share of right images by the critic's probability

BINS = 10
PROBABILITY_MARGIN = 1e-6
"""Minimum distance of probabilities from 0 and 1 before taking a logarithm."""


class Bin(Value):
    """Images with similar confidence."""

    count: int
    confidence: float
    """Mean confidence."""
    right: float
    """Share of right images, with its 95 % interval."""
    low: float
    high: float


class Errors(Value):
    """Distances of confidences from the truth; 0 is best."""

    calibration: float
    """Expected calibration error: mean distance of confidence and share over the bins."""
    brier: float
    """Mean squared distance of each confidence from the truth."""
    log_loss: float
    count: int


def reliability(confidences: Sequence[float], right: Sequence[bool], bins: int = BINS) -> list[Bin]:
    """Split images into bins of about equal size, by ascending confidence, so that none is empty.

    Equal confidences are never split.
    """
    import numpy as np

    order = np.argsort(np.asarray(confidences, dtype=float), kind="stable")
    known, truth = np.asarray(confidences, dtype=float)[order], np.asarray(right, dtype=float)[order]
    made, start = [], 0
    for number in range(1, bins + 1):
        end = round(len(known) * number / bins)
        if end <= start:
            continue
        end = int(np.searchsorted(known, known[end - 1], side="right"))
        share = float(truth[start:end].mean())
        low, high = wilson(share, end - start)
        mean = float(known[start:end].mean())
        made.append(Bin(count=end - start, confidence=mean, right=share, low=low, high=high))
        start = end
    return made


def area_under_curve(confidences: Sequence[float], right: Sequence[bool]) -> float:
    """Return the probability that a right image has a higher confidence than a wrong one; ties count half."""
    import numpy as np

    known, truth = np.asarray(confidences, dtype=float), np.asarray(right, dtype=bool)
    bad = np.sort(known[~truth])
    below = np.searchsorted(bad, known[truth], side="left") + np.searchsorted(bad, known[truth], side="right")
    return float(below.sum() / (2 * len(bad) * truth.sum()))


def errors_of(confidences: Sequence[float], right: Sequence[bool], bins: int = BINS) -> Errors:
    """Return calibration error, Brier score and log loss."""
    import numpy as np

    known, truth = np.asarray(confidences, dtype=float), np.asarray(right, dtype=float)
    sure = np.clip(known, PROBABILITY_MARGIN, 1 - PROBABILITY_MARGIN)
    found = reliability(confidences, right, bins)
    return Errors(
        calibration=sum(each.count * abs(each.confidence - each.right) for each in found) / len(known),
        brier=float(((known - truth) ** 2).mean()),
        log_loss=float(-(truth * np.log(sure) + (1 - truth) * np.log(1 - sure)).mean()),
        count=len(known),
    )


# scaling: fit probabilities to the truth with one parameter (temperature) or two (Platt)

Method = Literal["temperature", "platt"]
NEWTON_STEPS = 50
RIDGE = 1e-3
"""Keeps the slope finite if the labels are separable."""


class Scaling(Value):
    """Probability = sigmoid(slope · log odds + intercept). It preserves the order."""

    method: Method
    slope: float
    intercept: float = 0.0

    @property
    def temperature(self) -> float:
        return 1 / self.slope if self.slope > 0 else math.inf

    def apply(self, confidences: Sequence[float]) -> list[float]:
        found: list[float] = _sigmoid(self.slope * _log_odds(confidences) + self.intercept).tolist()
        return found


def fit_temperature(confidences: Sequence[float], right: Sequence[bool]) -> Scaling:
    """Fit one parameter; above 1 if the critic is overconfident."""
    (slope,) = _logistic([_log_odds(confidences)], [float(each) for each in right], (1.0,))
    return Scaling(method="temperature", slope=max(slope, 0.0))


def fit_platt(confidences: Sequence[float], right: Sequence[bool]) -> Scaling:
    """Fit two parameters with Platt's targets, which keep few labels from giving certainty."""
    import numpy as np

    good, bad = sum(right), len(right) - sum(right)
    targets = [(good + 1) / (good + 2) if each else 1 / (bad + 2) for each in right]
    odds = _log_odds(confidences)
    slope, intercept = _logistic([odds, np.ones_like(odds)], targets, (1.0, 0.0))
    if slope < 0:  # the confidence is uninformative or inverted: keep only the mean
        share = (good + 1) / (good + bad + 2)
        slope, intercept = 0.0, math.log(share / (1 - share))
    return Scaling(method="platt", slope=slope, intercept=intercept)


FITS: Mapping[Method, Callable[[Sequence[float], Sequence[bool]], Scaling]] = {
    "temperature": fit_temperature,
    "platt": fit_platt,
}


def _log_odds(confidences: Sequence[float]) -> Array:
    import numpy as np

    known = np.clip(np.asarray(confidences, dtype=float), PROBABILITY_MARGIN, 1 - PROBABILITY_MARGIN)
    return np.asarray(np.log(known / (1 - known)))


def _sigmoid(odds: Array) -> Array:
    import numpy as np

    return np.asarray(1 / (1 + np.exp(-np.clip(odds, -700, 700))))


def _logistic(features: list[Array], targets: Sequence[float], start: tuple[float, ...]) -> tuple[float, ...]:
    """Return the weights of a logistic regression by Newton's method, with a small ridge around `start`."""
    import numpy as np

    rows, wanted, first = np.stack(features, axis=1), np.asarray(targets), np.asarray(start)

    def loss(weights: Array) -> float:
        odds, away = rows @ weights, weights - first
        return float((np.logaddexp(0, odds) - wanted * odds).sum() + RIDGE * away @ away / 2)

    weights = first.copy()
    for _ in range(NEWTON_STEPS):
        shares = _sigmoid(rows @ weights)
        gradient = rows.T @ (shares - wanted) + RIDGE * (weights - first)
        hessian = rows.T @ (rows * (shares * (1 - shares))[:, None]) + RIDGE * np.eye(len(start))
        step = np.linalg.solve(hessian, gradient)
        while loss(weights - step) > loss(weights) and np.abs(step).max() > 1e-12:
            step = step / 2
        weights = weights - step
        if np.abs(step).max() < 1e-10:
            break
    return tuple(float(each) for each in weights)
