"""Means with 95 % confidence intervals."""

from __future__ import annotations

from collections.abc import Sequence

from interleave.bench.statistics import wilson
from interleave.plugin import Value

_RESAMPLES = 2000


class Estimate(Value):
    """A mean of fractions, with its 95 % confidence interval."""

    mean: float
    low: float
    high: float


def estimate(values: Sequence[float]) -> Estimate:
    """Wilson's interval for binary values and where all values are equal; else the bootstrap."""
    if not values:
        return Estimate(mean=0.0, low=0.0, high=1.0)
    mean = sum(values) / len(values)
    if set(values) <= {0.0, 1.0} or len(set(values)) == 1:
        low, high = wilson(mean, len(values))
    else:
        low, high = _bootstrap(values)
    return Estimate(mean=round(mean, 4), low=round(low, 4), high=round(high, 4))


def _bootstrap(values: Sequence[float]) -> tuple[float, float]:
    """Quantiles of resampled means. Few distinct values occur, so their counts are resampled."""
    import numpy as np

    different, counts = np.unique(np.asarray(values, dtype=float), return_counts=True)
    drawn = np.random.default_rng(0).multinomial(len(values), counts / len(values), size=_RESAMPLES)
    low, high = np.quantile(drawn @ different / len(values), (0.025, 0.975))
    return float(low), float(high)
