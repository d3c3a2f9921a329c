"""Scaling: probabilities moved towards the truth, by one number (temperature) or two (Platt).

Both act on the log odds, and neither changes their order: a threshold on scaled probabilities is one on the
critic's own. They are fitted on a half of the labels and measured on the other.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from interleave.bench.calibration.reliability import SURE
from interleave.plugin import Value

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

Method = Literal["temperature", "platt"]
NEWTON_STEPS = 50
RIDGE = 1e-3
"""Keeps the slope finite where the labels can be separated."""


class Scaling(Value):
    """Probability = sigmoid(slope · log odds + intercept)."""

    method: Method
    slope: float
    intercept: float = 0.0

    @property
    def temperature(self) -> float:
        return 1 / self.slope if self.slope > 0 else math.inf

    def apply(self, confidences: Sequence[float]) -> list[float]:
        import numpy as np

        odds = self.slope * _log_odds(confidences) + self.intercept
        return [float(each) for each in 1 / (1 + np.exp(-np.clip(odds, -700, 700)))]


def fit_temperature(confidences: Sequence[float], right: Sequence[bool]) -> Scaling:
    """One number; above 1 where the critic is too sure."""
    (slope,) = _logistic([_log_odds(confidences)], [float(each) for each in right], (1.0,))
    return Scaling(method="temperature", slope=max(slope, 0.0))


def fit_platt(confidences: Sequence[float], right: Sequence[bool]) -> Scaling:
    """Two numbers, with Platt's targets, which keep few labels from being believed without doubt."""
    import numpy as np

    good, bad = sum(right), len(right) - sum(right)
    targets = [(good + 1) / (good + 2) if each else 1 / (bad + 2) for each in right]
    odds = _log_odds(confidences)
    slope, intercept = _logistic([odds, np.ones_like(odds)], targets, (1.0, 0.0))
    if slope < 0:  # its confidence says nothing, or the contrary: only the mean is kept
        share = (good + 1) / (good + bad + 2)
        slope, intercept = 0.0, math.log(share / (1 - share))
    return Scaling(method="platt", slope=slope, intercept=intercept)


FITS: Mapping[Method, Callable[[Sequence[float], Sequence[bool]], Scaling]] = {
    "temperature": fit_temperature,
    "platt": fit_platt,
}


def in_first_half(run: str) -> bool:
    """Whether the labels of a run are fitted on; all attempts of a run are on the same side."""
    return hashlib.sha256(run.encode("utf-8", "surrogatepass")).digest()[0] < 128


def _log_odds(confidences: Sequence[float]) -> Array:
    import numpy as np

    known = np.clip(np.asarray(confidences, dtype=float), SURE, 1 - SURE)
    return np.asarray(np.log(known / (1 - known)))


def _logistic(features: list[Array], targets: Sequence[float], start: tuple[float, ...]) -> tuple[float, ...]:
    """Weights of a logistic regression by Newton's method, held near where they start by a small ridge."""
    import numpy as np

    rows, wanted, first = np.stack(features, axis=1), np.asarray(targets), np.asarray(start)
    ridge = RIDGE * np.eye(len(start))

    def loss(weights: Array) -> float:
        odds, away = rows @ weights, weights - first
        return float((np.logaddexp(0, odds) - wanted * odds).sum() + away @ ridge @ away / 2)

    weights = first.copy()
    for _ in range(NEWTON_STEPS):
        shares = 1 / (1 + np.exp(-np.clip(rows @ weights, -700, 700)))
        gradient = rows.T @ (shares - wanted) + ridge @ (weights - first)
        hessian = rows.T @ (rows * (shares * (1 - shares))[:, None]) + ridge
        step = np.linalg.solve(hessian, gradient)
        while loss(weights - step) > loss(weights) and np.abs(step).max() > 1e-12:
            step = step / 2
        weights = weights - step
        if np.abs(step).max() < 1e-10:
            break
    return tuple(float(each) for each in weights)
