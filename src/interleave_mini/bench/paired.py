"""Two systems on the same tasks: the mean difference with a 95 % interval, which the tasks' own spread,
shared by both, does not widen."""

from __future__ import annotations

from collections.abc import Mapping

from interleave.types import Value

_RESAMPLES = 10_000


class Difference(Value):
    """Ours less theirs."""

    mean: float
    low: float
    high: float
    items: int
    """Over how many shared tasks."""

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0 or self.high < 0


def difference(ours: Mapping[str, float], theirs: Mapping[str, float]) -> Difference | None:
    """The bootstrap over the tasks both have; None where they share none."""
    import numpy as np

    shared = [identity for identity in ours if identity in theirs]
    if not shared:
        return None
    count = len(shared)
    gaps = np.array([ours[identity] - theirs[identity] for identity in shared])
    different, counts = np.unique(gaps, return_counts=True)
    mean = float(gaps.mean())
    if len(different) == 1:  # the rule of three: what has not been seen in n cases is rarer than 3 in n
        low, high = max(-1.0, mean - 3 / count), min(1.0, mean + 3 / count)
    else:
        drawn = np.random.default_rng(0).multinomial(count, counts / count, size=_RESAMPLES)
        low, high = (float(value) for value in np.quantile(drawn @ different / count, (0.025, 0.975)))
    return Difference(mean=round(mean, 4), low=round(low, 4), high=round(high, 4), items=count)
