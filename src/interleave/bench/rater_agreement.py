"""How far raters agree: Krippendorff's alpha (K. Krippendorff, Content Analysis, chapter 12).

Alpha is 1 minus the disagreement within units over the disagreement between any two ratings: 1 is full
agreement, 0 what chance gives. Raters may have rated different units; units with one rating do not count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from interleave.bench.labels import Kind, Label, Preferred, Subject
from interleave.plugin import Value

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

Metric = Literal["nominal", "interval"]
METRICS: Mapping[Kind, Metric] = {
    Kind.ACCEPT: "nominal",
    Kind.BETTER: "nominal",
    Kind.SCORE: "interval",
    Kind.WRONG_STEP: "nominal",
}
RESAMPLES = 1000


class Agreement(Value):
    """Alpha with its 95 % bootstrap interval over units; None where it is not defined."""

    alpha: float | None
    low: float | None
    high: float | None
    units: int
    """Units with at least two ratings."""
    raters: int


def krippendorff_alpha(units: Iterable[Sequence[Hashable]], metric: Metric = "nominal") -> float:
    """Alpha of the ratings of each unit, without the missing ones; NaN where no two ratings differ.

    Where all ratings are equal chance would agree as well, and alpha is not defined.
    """
    tables = _Coincidences(units, metric)
    return float(tables.alpha([range(len(tables.observed))])[0])


def label_agreement(labels: Iterable[Label], kind: Kind) -> Agreement:
    """How far the raters of these labels agree; of several labels of a rater the last counts."""
    ratings: dict[Hashable, dict[str, Hashable]] = {}
    for label in labels:
        if label.kind is kind:
            unit, value = _unit_and_value(label)
            ratings.setdefault(unit, {})[label.rater] = value
    shared = [list(each.values()) for each in ratings.values() if len(each) > 1]
    raters = {rater for each in ratings.values() if len(each) > 1 for rater in each}
    tables = _Coincidences(shared, METRICS[kind])
    alpha = float(tables.alpha([range(len(shared))])[0])
    low, high = tables.interval() if not math.isnan(alpha) else (alpha, alpha)
    return Agreement(
        alpha=_known(alpha), low=_known(low), high=_known(high), units=len(shared), raters=len(raters)
    )


def _unit_and_value(label: Label) -> tuple[Hashable, Hashable]:
    """What was rated, and the rating; a pair is the same unit whichever of the two came first."""
    if label.other is None:
        return label.subject, label.value
    pair = sorted((label.subject, label.other), key=Subject.model_dump_json)
    swapped = {Preferred.FIRST: Preferred.SECOND, Preferred.SECOND: Preferred.FIRST}
    value = Preferred(str(label.value))
    return tuple(pair), value if pair[0] == label.subject else swapped.get(value, value)


class _Coincidences:
    """For each unit its disagreement and how often it has each value: sums of these give alpha."""

    def __init__(self, units: Iterable[Sequence[Hashable]], metric: Metric) -> None:
        import numpy as np

        paired = [unit for unit in units if len(unit) > 1]
        values = list({value: None for unit in paired for value in unit})
        place = {value: index for index, value in enumerate(values)}
        self.distances = _distances(values, metric)
        self.counts = np.zeros((len(paired), len(values)))
        for row, unit in enumerate(paired):
            for value in unit:
                self.counts[row, place[value]] += 1
        weights = 1 / (self.counts.sum(axis=1) - 1)
        self.observed = np.einsum("uv,vw,uw->u", self.counts, self.distances, self.counts) * weights

    def alpha(self, samples: Iterable[Sequence[int] | range]) -> Array:
        """Alpha of each sample of units."""
        import numpy as np

        return np.asarray([self._alpha(np.asarray(sample, dtype=np.int64)) for sample in samples])

    def interval(self, seed: int = 0) -> tuple[float, float]:
        import numpy as np

        size = len(self.observed)
        drawn = np.random.default_rng(seed).integers(0, size, (RESAMPLES, size))
        alphas = self.alpha(list(drawn))
        alphas = alphas[~np.isnan(alphas)]
        low, high = np.quantile(alphas, (0.025, 0.975)) if len(alphas) else (math.nan, math.nan)
        return float(low), float(high)

    def _alpha(self, sample: np.ndarray[Any, np.dtype[np.int64]]) -> float:
        totals = self.counts[sample].sum(axis=0)
        ratings = float(totals.sum())
        expected = float(totals @ self.distances @ totals)
        if not expected:
            return math.nan
        return 1 - (ratings - 1) * float(self.observed[sample].sum()) / expected


def _distances(values: Sequence[Hashable], metric: Metric) -> Array:
    import numpy as np

    difference: Callable[[Any, Any], float] = (
        (lambda a, b: float(a != b)) if metric == "nominal" else (lambda a, b: float(a - b) ** 2)
    )
    return np.array([[difference(a, b) for b in values] for a in values]).reshape(len(values), len(values))


def _known(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 4)
