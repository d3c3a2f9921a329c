"""Numbers, aggregated from the measures of all items, with their intervals.

A measure is one item's contribution. Intervals come from a bootstrap over items: all questions about an item
are resampled together, because their errors are correlated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from interleave.bench.statistics import middle_or_rule_of_three, resamples
from interleave.plugin import Value

if TYPE_CHECKING:
    from interleave.bench.statistics import Array, Places


class Table:
    """The measures of all items, one column each. NaN marks an item without a contribution."""

    def __init__(self, groups: Sequence[str], columns: Mapping[str, Sequence[float | None]]) -> None:
        import numpy as np

        self.names = list(dict.fromkeys(groups))
        places = {name: place for place, name in enumerate(self.names)}
        self.groups = np.array([places[group] for group in groups], dtype=np.int64)
        self.columns: dict[str, Array] = {
            name: np.array([np.nan if value is None else value for value in values], dtype=np.float64)
            for name, values in columns.items()
        }

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def has_fractions(self) -> bool:
        """Whether every value is from 0 to 1."""
        import numpy as np

        return all(
            bool(np.all((column[~np.isnan(column)] >= 0) & (column[~np.isnan(column)] <= 1)))
            for column in self.columns.values()
        )

    def taking(self, rows: Places) -> Table:
        """Return a table of these rows, which may repeat."""
        chosen = Table.__new__(Table)
        chosen.names = self.names
        chosen.groups = self.groups[rows]
        chosen.columns = {name: column[rows] for name, column in self.columns.items()}
        return chosen

    def mean(self, measure: str) -> float:
        """Return the mean over the items that have the measure."""
        import numpy as np

        column = self.columns[measure]
        there = ~np.isnan(column)
        return float(column[there].mean()) if there.any() else float("nan")

    def group_means(self, measure: str) -> dict[str, float]:
        """Return the mean of each group; NaN for a group without the measure."""
        import numpy as np

        column = self.columns[measure]
        there = ~np.isnan(column)
        counts = np.bincount(self.groups[there], minlength=len(self.names))
        sums = np.bincount(self.groups[there], weights=column[there], minlength=len(self.names))
        with np.errstate(invalid="ignore"):
            means = sums / counts
        return dict(zip(self.names, means.tolist(), strict=True))


Aggregate = Callable[[Table], float]


@dataclass(frozen=True)
class Number:
    """A reported number, and how it is aggregated from a table."""

    name: str
    aggregate: Aggregate
    scale: float = 1.0
    """Factor from the aggregate to the reported value: 100 for a percentage."""
    digits: int = 2
    measures: tuple[str, ...] = ()
    """The measures it is aggregated from."""
    within: Aggregate | None = None
    """The aggregate for a single group, if `aggregate` needs all groups."""
    most: float = 1.0
    """The greatest value of a measure: 10 for marks from 0 to 10."""

    @property
    def of_a_group(self) -> Number:
        return self if self.within is None else replace(self, aggregate=self.within)

    def shown(self, value: float) -> float | None:
        """Convert an aggregate to the reported value; `None` for NaN."""
        return None if value != value else round(value * self.scale, 6)


def item_mean(name: str, measure: str, *, scale: float = 1.0, digits: int = 2, most: float = 1.0) -> Number:
    """Define the mean over items."""
    return Number(name, lambda table: table.mean(measure), scale, digits, (measure,), most=most)


def group_mean(
    name: str,
    measure: str,
    *,
    weights: Mapping[str, float] | None = None,
    scale: float = 1.0,
    digits: int = 2,
    most: float = 1.0,
) -> Number:
    """Define the mean of group means, plain or weighted; NaN if a weighted group is missing."""

    def aggregate(table: Table) -> float:
        means = table.group_means(measure)
        if weights is None:
            there = [mean for mean in means.values() if mean == mean]
            return sum(there) / len(there) if there else float("nan")
        return sum(weight * means.get(group, float("nan")) for group, weight in weights.items())

    return Number(name, aggregate, scale, digits, (measure,), lambda table: table.mean(measure), most)


def mean_of(name: str, *parts: Number, scale: float | None = None, digits: int | None = None) -> Number:
    """Define the plain mean of other numbers before scaling."""
    return Number(
        name,
        lambda table: sum(part.aggregate(table) for part in parts) / len(parts),
        parts[0].scale if scale is None else scale,
        parts[0].digits if digits is None else digits,
        tuple(dict.fromkeys(measure for part in parts for measure in part.measures)),
    )


def interval(table: Table, number: Number) -> tuple[float, float]:
    """Return the 95 % bootstrap interval over items, resampled within groups."""
    if len(table) < 2:
        return float("nan"), float("nan")
    values = [number.aggregate(table.taking(rows)) for rows in resamples(table.groups)]
    fractions = number.most == 1 and table.has_fractions  # marks of 0 are no fractions
    return middle_or_rule_of_three(values, len(table), least=0.0 if fractions else None)


class Gap(Value):
    """The difference of two systems on their common items."""

    name: str
    value: float | None
    low: float | None
    high: float | None
    items: int
    digits: int = 2

    @property
    def is_clear(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def paired(
    number: Number, groups: Mapping[str, str], ours: Mapping[str, Any], theirs: Mapping[str, Any]
) -> Gap:
    """Return the difference of a number between two systems, with an interval from paired resampling.

    `groups` maps items to groups; `ours` and `theirs` map items to measures.
    """
    shared = [identity for identity in groups if identity in ours and identity in theirs]
    if not shared:
        return Gap(name=number.name, value=None, low=None, high=None, items=0, digits=number.digits)
    names = list(ours[shared[0]])
    order = [groups[identity] for identity in shared]
    pairs = {name: [(ours[identity][name], theirs[identity][name]) for identity in shared] for name in names}
    tables = [  # an item without a value on one side is left out of both
        Table(order, {name: [None if None in pair else pair[side] for pair in pairs[name]] for name in names})
        for side in (0, 1)
    ]
    gaps = [
        number.aggregate(tables[0].taking(rows)) - number.aggregate(tables[1].taking(rows))
        for rows in resamples(tables[0].groups)
    ]
    fractions = number.most == 1 and all(table.has_fractions for table in tables)
    low, high = middle_or_rule_of_three(gaps, len(shared), least=-1.0 if fractions else None)
    there_in = [[None not in pair for pair in pairs[name]] for name in number.measures]
    value = number.aggregate(tables[0]) - number.aggregate(tables[1])
    return Gap(
        name=number.name,
        value=number.shown(value),
        low=number.shown(low),
        high=number.shown(high),
        items=sum(map(any, zip(*there_in, strict=True))),
        digits=number.digits,
    )
