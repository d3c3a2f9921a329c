"""False alarms against misses: what a critic does at every threshold, and the threshold for a wanted rate.

An image is accepted where its confidence is at least the threshold. A false alarm is a right image that is
refused, a miss a wrong one that is accepted.
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
    """What happens at a threshold; None: the critic's own word."""

    threshold: float | None
    false_alarms: Rate
    misses: Rate


class Threshold(Value):
    """The threshold for a wanted rate."""

    wanted: Wanted
    rate: float
    point: OperatingPoint
    low: float
    """The 95 % bootstrap interval of the threshold."""
    high: float
    held_out: OperatingPoint | None
    """A threshold chosen in the same way on a half of the labels, measured on the other half."""


def point_at(threshold: float, confidences: Sequence[float], right: Sequence[bool]) -> OperatingPoint:
    """False alarms and misses at a threshold."""
    return point_of([each >= threshold for each in confidences], right, threshold)


def point_of(
    accepted: Sequence[bool], right: Sequence[bool], threshold: float | None = None
) -> OperatingPoint:
    """False alarms and misses of verdicts."""
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
    """The points of a table, from accepting everything on; evenly spread over the images."""
    import numpy as np

    below, above = _cuts(np.asarray(confidences, dtype=float))
    places = sorted({round(place * (len(above) - 1) / (SHOWN - 1)) for place in range(SHOWN)})
    return [point_at(_between(below[place], above[place]), confidences, right) for place in places]


def threshold_for(
    wanted: Wanted, rate: float, confidences: Sequence[float], right: Sequence[bool], first: Sequence[bool]
) -> Threshold:
    """The strictest threshold within a rate of false alarms, or the mildest within a rate of misses.

    `first` says which labels are of the half that the threshold is chosen on for `held_out`.
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
    """Refuse labels that are all alike: nothing can be told from them."""
    if all(right) or not any(right):
        said = "right" if right and right[0] else "wrong"
        raise InputError(f"all labels say {said}: a critic is calibrated with right and wrong images")


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
    """Two neighbouring confidences with the threshold between them."""
    import numpy as np

    known, truth = np.asarray(confidences, dtype=float), np.asarray(right, dtype=bool)
    below, above = _cuts(known)
    good, bad = np.sort(known[truth]), np.sort(known[~truth])
    alarms = np.searchsorted(good, above, side="left") / max(len(good), 1)
    misses = 1 - np.searchsorted(bad, above, side="left") / max(len(bad), 1)
    if wanted == "false_alarms":  # the first cut accepts everything, and is always within the rate
        place = np.flatnonzero(alarms <= rate)[-1]
    else:
        place = np.append(np.flatnonzero(misses <= rate), len(above) - 1)[0]
    return float(below[place]), float(above[place])


def _cuts(confidences: Array) -> tuple[Array, Array]:
    """The ends of every gap that a threshold may lie in; the first threshold is 0."""
    import numpy as np

    different = np.unique(confidences)
    above = different if different[-1] >= 1 else np.append(different, 1.0)
    return np.concatenate(([0.0], above[:-1])), np.concatenate(([0.0], above[1:]))


def _between(low: float, high: float) -> float:
    """The shortest decimal number above one and not above the other."""
    middle = (low + high) / 2
    return next((cut for digits in range(1, 17) if low < (cut := round(middle, digits)) <= high), high)
