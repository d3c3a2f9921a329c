"""False alarms and misses of a critic at every threshold, and the threshold for a target rate.

An image is accepted if its confidence is at least the threshold. A false alarm is a right image that is
rejected; a miss is a wrong image that is accepted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from interleave import InputError
from interleave.bench.statistics import Rate, bootstrap
from interleave.plugin import Value

if TYPE_CHECKING:
    import numpy as np

    from interleave.bench.statistics import Array

    Mask = np.ndarray[Any, np.dtype[np.bool_]]

SHOWN = 20
"""Rows of the table of thresholds."""
Wanted = Literal["false_alarms", "misses"]


class OperatingPoint(Value):
    """Error rates at a threshold; `None` is the critic's own verdict."""

    threshold: float | None
    false_alarms: Rate
    misses: Rate


class Threshold(Value):
    """The threshold for a target rate."""

    wanted: Wanted
    rate: float
    point: OperatingPoint
    low: float
    """The 95 % bootstrap interval of the threshold."""
    high: float
    held_out: OperatingPoint | None
    """The same choice made on one half of the labels and measured on the other half."""


def point_at(threshold: float, confidences: Sequence[float], right: Sequence[bool]) -> OperatingPoint:
    """Return false alarms and misses at a threshold."""
    return point_of([each >= threshold for each in confidences], right, threshold)


def point_of(
    accepted: Sequence[bool], right: Sequence[bool], threshold: float | None = None
) -> OperatingPoint:
    """Return false alarms and misses of verdicts."""
    pairs = list(zip(accepted, right, strict=True))
    good = sum(right)
    alarms = sum(is_right and not accepts for accepts, is_right in pairs)
    misses = sum(accepts and not is_right for accepts, is_right in pairs)
    return OperatingPoint(
        threshold=threshold,
        false_alarms=Rate.counted(alarms, good),
        misses=Rate.counted(misses, len(pairs) - good),
    )


def operating_points(confidences: Sequence[float], right: Sequence[bool]) -> list[OperatingPoint]:
    """Return the points of a table, from accepting everything, spaced evenly over the images."""
    import numpy as np

    below, above = _cuts(np.asarray(confidences, dtype=float))
    places = sorted({round(place * (len(above) - 1) / (SHOWN - 1)) for place in range(SHOWN)})
    return [point_at(_between(below[place], above[place]), confidences, right) for place in places]


def threshold_for(
    wanted: Wanted, rate: float, confidences: Sequence[float], right: Sequence[bool], first: Sequence[bool]
) -> Threshold:
    """Return the strictest threshold within a false-alarm rate, or the mildest within a miss rate.

    `first` marks the labels of the half on which the threshold for `held_out` is chosen.
    """
    import numpy as np

    refuse_one_sided(right)
    chosen = _between(*_choose(wanted, rate, confidences, right))
    known, truth = np.asarray(confidences, dtype=float), np.asarray(right, dtype=bool)
    low, high = bootstrap(lambda rows: sum(_choose(wanted, rate, known[rows], truth[rows])) / 2, len(known))
    return Threshold(
        wanted=wanted,
        rate=rate,
        point=point_at(chosen, confidences, right),
        low=low,
        high=high,
        held_out=_held_out(wanted, rate, confidences, right, first),
    )


def refuse_one_sided(right: Sequence[bool]) -> None:
    """Raise `InputError` if all labels are equal."""
    if all(right) or not any(right):
        said = "right" if right and right[0] else "wrong"
        raise InputError(f"all labels say {said}: calibration needs labels of right and of wrong images")


def _held_out(
    wanted: Wanted, rate: float, confidences: Sequence[float], right: Sequence[bool], first: Sequence[bool]
) -> OperatingPoint | None:
    halves = [
        [pair for pair, side in zip(zip(confidences, right, strict=True), first, strict=True) if side is half]
        for half in (True, False)
    ]
    if any(len({is_right for _, is_right in half}) < 2 for half in halves):
        return None
    (fitted, fitted_right), (measured, measured_right) = (zip(*half, strict=True) for half in halves)
    return point_at(_between(*_choose(wanted, rate, fitted, fitted_right)), measured, measured_right)


def _choose(
    wanted: Wanted, rate: float, confidences: Sequence[float] | Array, right: Sequence[bool] | Mask
) -> tuple[float, float]:
    """Return the two neighbouring confidences that enclose the threshold."""
    import numpy as np

    known, truth = np.asarray(confidences, dtype=float), np.asarray(right, dtype=bool)
    below, above = _cuts(known)
    good, bad = np.sort(known[truth]), np.sort(known[~truth])
    alarms = np.searchsorted(good, above, side="left") / max(len(good), 1)
    misses = 1 - np.searchsorted(bad, above, side="left") / max(len(bad), 1)
    if wanted == "false_alarms":  # the first cut accepts everything, so it is always within the rate
        place = np.flatnonzero(alarms <= rate)[-1]
    else:
        place = np.append(np.flatnonzero(misses <= rate), len(above) - 1)[0]
    return float(below[place]), float(above[place])


def _cuts(confidences: Array) -> tuple[Array, Array]:
    """Return the ends of every gap that may hold a threshold. The first threshold is 0."""
    import numpy as np

    different = np.unique(confidences)
    above = different if different[-1] >= 1 else np.append(different, 1.0)
    return np.concatenate(([0.0], above[:-1])), np.concatenate(([0.0], above[1:]))


def _between(low: float, high: float) -> float:
    """Return the shortest decimal number in (`low`, `high`]."""
    middle = (low + high) / 2
    return next((cut for digits in range(1, 17) if low < (cut := round(middle, digits)) <= high), high)
