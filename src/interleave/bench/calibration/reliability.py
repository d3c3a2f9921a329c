"""Reliability: of the pictures that a critic gives a probability, how many are right?

Bins have equal mass: each holds about as many pictures, so that none is empty however extreme a critic is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from interleave.bench.intervals import wilson
from interleave.plugin import Value

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

BINS = 10
SURE = 1e-6
"""Probabilities are kept this far from 0 and 1 where a logarithm is taken."""


class Bin(Value):
    """Pictures with about the same confidence."""

    count: int
    confidence: float
    """The mean."""
    right: float
    """The share that is right, with its 95 % interval."""
    low: float
    high: float


class Errors(Value):
    """How far confidences are from the truth; 0 is best."""

    calibration: float
    """Expected calibration error: the mean distance of confidence and share over the bins."""
    brier: float
    """The mean square of the distance of each confidence from what is true."""
    log_loss: float
    count: int


def reliability(confidences: Sequence[float], right: Sequence[bool], bins: int = BINS) -> list[Bin]:
    """The bins, from the lowest confidence; equal confidences are never in two of them."""
    import numpy as np

    order = np.argsort(np.asarray(confidences, dtype=float), kind="stable")
    known, truth = np.asarray(confidences, dtype=float)[order], np.asarray(right, dtype=float)[order]
    made, start = [], 0
    for number in range(1, bins + 1):
        end = round(len(known) * number / bins)
        if end <= start:
            continue
        end = int(np.searchsorted(known, known[end - 1], side="right"))
        made.append(_bin(known[start:end], truth[start:end]))
        start = end
    return made


def _bin(confidences: Array, right: Array) -> Bin:
    share = float(right.mean())
    low, high = wilson(share, len(right))
    return Bin(count=len(right), confidence=float(confidences.mean()), right=share, low=low, high=high)


def errors_of(confidences: Sequence[float], right: Sequence[bool], bins: int = BINS) -> Errors:
    """Calibration error, Brier score and log loss."""
    import numpy as np

    known, truth = np.asarray(confidences, dtype=float), np.asarray(right, dtype=float)
    sure = np.clip(known, SURE, 1 - SURE)
    found = reliability(confidences, right, bins)
    return Errors(
        calibration=sum(each.count * abs(each.confidence - each.right) for each in found) / len(known),
        brier=float(((known - truth) ** 2).mean()),
        log_loss=float(-(truth * np.log(sure) + (1 - truth) * np.log(1 - sure)).mean()),
        count=len(known),
    )
