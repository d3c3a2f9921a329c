"""Agreement of raters: Krippendorff's alpha with its interval."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping

from interleave.bench.labels import Kind, Label, Preferred, Subject
from interleave.bench.statistics import Coincidences, Metric, bootstrap
from interleave.plugin import Value

METRICS: Mapping[Kind, Metric] = {
    Kind.ACCEPT: "nominal",
    Kind.BETTER: "nominal",
    Kind.SCORE: "interval",
    Kind.WRONG_STEP: "nominal",
}


class Agreement(Value):
    """Alpha with its 95 % bootstrap interval over units; `None` if undefined."""

    alpha: float | None
    low: float | None
    high: float | None
    units: int
    """Units with at least two ratings."""
    raters: int


def label_agreement(labels: Iterable[Label], kind: Kind) -> Agreement:
    """Return the raters' agreement on these labels. Each rater's last label of a subject counts."""
    ratings: dict[Hashable, dict[str, Hashable]] = {}
    for label in labels:
        if label.kind is kind:
            unit, value = _unit_and_value(label)
            ratings.setdefault(unit, {})[label.rater] = value
    shared = [list(each.values()) for each in ratings.values() if len(each) > 1]
    raters = {rater for each in ratings.values() if len(each) > 1 for rater in each}
    found = Coincidences(shared, METRICS[kind])
    alpha = found.alpha()
    low, high = (alpha, alpha) if math.isnan(alpha) else bootstrap(found.alpha, len(shared))
    return Agreement(
        alpha=_known(alpha), low=_known(low), high=_known(high), units=len(shared), raters=len(raters)
    )


def _unit_and_value(label: Label) -> tuple[Hashable, Hashable]:
    """Return the rated unit and the rating. A pair is the same unit in either order."""
    if label.other is None:
        return label.subject, label.value
    pair = sorted((label.subject, label.other), key=Subject.model_dump_json)
    swapped = {Preferred.FIRST: Preferred.SECOND, Preferred.SECOND: Preferred.FIRST}
    value = Preferred(str(label.value))
    return tuple(pair), value if pair[0] == label.subject else swapped.get(value, value)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 4)
