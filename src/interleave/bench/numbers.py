"""From the judge's records to numbers with intervals. Pure functions: the same records, the same numbers.

A measure is what one item contributes; a number is made of the measures of all items. Intervals are those of
the bootstrap over items: all questions about an item stay together, because they err together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from interleave import InputError
from interleave.bench.base import Answers, Benchmark, Item, JudgeRecord, Status
from interleave.plugin import Value

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

Missing = Literal["zero", "drop", "official"]
RESAMPLES = 1000
Records = Mapping[str, Mapping[str, JudgeRecord]]
"""By item and key."""


class Table:
    """The measures of all items: a column each, with NaN where an item contributes nothing."""

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

    def taking(self, rows: Array) -> Table:
        """The same table with these rows, some perhaps several times."""
        chosen = Table.__new__(Table)
        chosen.names = self.names
        chosen.groups = self.groups[rows]
        chosen.columns = {name: column[rows] for name, column in self.columns.items()}
        return chosen

    def mean(self, measure: str) -> float:
        """Over all items that have the measure."""
        import numpy as np

        column = self.columns[measure]
        there = ~np.isnan(column)
        return float(column[there].mean()) if there.any() else float("nan")

    def group_means(self, measure: str) -> dict[str, float]:
        """Over the items of each group; NaN for a group that has none with the measure."""
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
    """A number to report, and how it is made of a table."""

    name: str
    aggregate: Aggregate
    scale: float = 1.0
    """What the aggregate is multiplied by to be shown: 100 for a percentage."""
    digits: int = 2
    measures: tuple[str, ...] = ()
    """Those it is made of."""
    within: Aggregate | None = None
    """What is shown of one group, where the aggregate itself needs them all."""

    @property
    def of_a_group(self) -> Number:
        return self if self.within is None else replace(self, aggregate=self.within)


def item_mean(name: str, measure: str, *, scale: float = 1.0, digits: int = 2) -> Number:
    """The mean over items."""
    return Number(name, lambda table: table.mean(measure), scale, digits, (measure,))


def group_mean(
    name: str,
    measure: str,
    *,
    weights: Mapping[str, float] | None = None,
    scale: float = 1.0,
    digits: int = 2,
) -> Number:
    """The mean of the groups' means, plain or weighted; NaN where a weighted group is missing."""

    def aggregate(table: Table) -> float:
        means = table.group_means(measure)
        if weights is None:
            there = [mean for mean in means.values() if mean == mean]
            return sum(there) / len(there) if there else float("nan")
        return sum(weight * means.get(group, float("nan")) for group, weight in weights.items())

    return Number(name, aggregate, scale, digits, (measure,), lambda table: table.mean(measure))


def mean_of(name: str, *parts: Number, scale: float | None = None, digits: int | None = None) -> Number:
    """The plain mean of other numbers, before they are scaled."""
    return Number(
        name,
        lambda table: sum(part.aggregate(table) for part in parts) / len(parts),
        parts[0].scale if scale is None else scale,
        parts[0].digits if digits is None else digits,
        tuple(dict.fromkeys(measure for part in parts for measure in part.measures)),
    )


def one_group(name: str, group: str, part: Number) -> Number:
    """A number of one group alone."""

    def aggregate(table: Table) -> float:
        if group not in table.names:
            return float("nan")
        return part.aggregate(table.taking((table.groups == table.names.index(group)).nonzero()[0]))

    return Number(name, aggregate, part.scale, part.digits, part.measures)


def item_scores(
    benchmark: Benchmark, numbers: Sequence[Number], group: str, *sides: Mapping[str, float | None]
) -> tuple[float, ...] | None:
    """How good an item is by itself, for each of these measures of it: by the first number that all have."""
    own = [benchmark.item_score(measures) for measures in sides]
    if None not in own:
        return tuple(score for score in own if score is not None)
    tables = [Table([group], {name: [value] for name, value in each.items()}) for each in sides]
    for number in numbers:
        found = tuple(number.of_a_group.aggregate(table) for table in tables)
        if all(value == value for value in found):
            return found
    return None


class Measured(Value):
    """A number, how sure it is, and what it was made of."""

    name: str
    id: str
    """`metric@version@judge@prompts@data-revision`: two numbers with different ids are not the same thing."""
    value: float | None
    """None where nothing is left to compute it from."""
    low: float | None = None
    high: float | None = None
    items: int
    """How many items contributed."""
    coverage: float
    """The share of items of which every question has a value."""
    digits: int = 2


class Outcome(Value):
    """What a judged benchmark came to."""

    benchmark: str
    missing: Missing
    items: int
    coverage: float
    statuses: dict[str, int]
    """How many questions ended how."""
    numbers: tuple[Measured, ...]
    by_group: dict[str, tuple[Measured, ...]]
    measures: dict[str, dict[str, float | None]]
    """By item: what paired comparisons and the worst-first page are made from."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Label:
    """What a number's name says beside the metric."""

    version: str
    judge: str
    prompts: str
    revision: str

    def id_of(self, metric: str) -> str:
        return "@".join([metric, self.version, self.judge, self.prompts, self.revision])


@dataclass(frozen=True)
class Scorable:
    """Everything numbers are made from."""

    benchmark: Benchmark
    items: Sequence[Item]
    keys: Mapping[str, Sequence[str]]
    """The questions that each item should have a value for."""
    records: Records
    missing: Missing = "zero"

    @cached_property
    def item_measures(self) -> dict[str, dict[str, float | None]]:
        return {item.id: dict(self._measures(item)) for item in self.items}

    def _measures(self, item: Item) -> Mapping[str, float | None]:
        records = self.records.get(item.id, {})
        if self.missing != "official":
            return self.benchmark.measures(item, Answers(records, self._without_a_value))
        # upstream's scripts may treat a failure differently in each measure
        names = self.benchmark.measures(item, Answers(records, self._without_a_value))
        return {name: self._official(name, item, records) for name in names}

    def _without_a_value(self, key: str, status: Status) -> Any | None:
        return self.benchmark.worst(key) if self.missing == "zero" else None

    def _official(self, measure: str, item: Item, records: Mapping[str, JudgeRecord]) -> float | None:
        def missing(key: str, status: Status) -> Any | None:
            match self.benchmark.official(measure, key, status):
                case "zero":
                    return self.benchmark.worst(key)
                case "stop":
                    raise InputError(
                        f"{self.benchmark.name}: upstream's script gives no number while {item.id!r} has "
                        f"none ({key}: {status}). Judge it again, or choose --missing zero or drop"
                    )
            return None

        return self.benchmark.measures(item, Answers(records, missing))[measure]

    @cached_property
    def covered(self) -> set[str]:
        """The items of which every question has a value."""
        return {
            item.id
            for item in self.items
            if all(
                (record := self.records.get(item.id, {}).get(key)) is not None and record.status == "ok"
                for key in self.keys[item.id]
            )
        }

    @cached_property
    def statuses(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for item in self.items:
            for key in self.keys[item.id]:
                record = self.records.get(item.id, {}).get(key)
                status = record.status if record is not None else "not asked"
                found[status] = found.get(status, 0) + 1
        return found

    def table(self, items: Sequence[Item] | None = None) -> Table:
        chosen = self.items if items is None else items
        names = list(self.item_measures[chosen[0].id]) if chosen else []
        return Table(
            [item.group for item in chosen],
            {name: [self.item_measures[item.id][name] for item in chosen] for name in names},
        )


def outcome_of(scorable: Scorable, label: Label, *, notes: Sequence[str] = ()) -> Outcome:
    """All numbers of a benchmark with their intervals."""
    if not scorable.items:
        raise InputError(f"{scorable.benchmark.name}: there are no items to score")
    groups: dict[str, list[Item]] = {}
    for item in scorable.items:
        groups.setdefault(item.group, []).append(item)
    numbers = list(scorable.benchmark.numbers())
    return Outcome(
        benchmark=scorable.benchmark.name,
        missing=scorable.missing,
        items=len(scorable.items),
        coverage=_share(scorable, scorable.items),
        statuses=scorable.statuses,
        numbers=tuple(measured(number, scorable, scorable.items, label) for number in numbers),
        by_group={
            name: tuple(measured(number.of_a_group, scorable, members, label) for number in numbers[:1])
            for name, members in groups.items()
            if len(groups) > 1
        },
        measures=scorable.item_measures,
        notes=tuple(notes),
    )


def measured(number: Number, scorable: Scorable, items: Sequence[Item], label: Label) -> Measured:
    """A number over some of the items."""
    table = scorable.table(items)
    value = number.aggregate(table)
    low, high = interval(table, number.aggregate)
    contributing = sum(
        any(scorable.item_measures[item.id][name] is not None for name in number.measures) for item in items
    )
    return Measured(
        name=number.name,
        id=label.id_of(number.name),
        value=_shown(value, number),
        low=_shown(low, number),
        high=_shown(high, number),
        items=contributing,
        coverage=_share(scorable, items),
        digits=number.digits,
    )


def _share(scorable: Scorable, items: Sequence[Item]) -> float:
    return round(sum(item.id in scorable.covered for item in items) / len(items), 4)


def _shown(value: float, number: Number) -> float | None:
    return None if value != value else round(value * number.scale, 6)


def interval(table: Table, aggregate: Aggregate, *, seed: int = 0) -> tuple[float, float]:
    """The 95 % interval of the bootstrap over items, drawn within their groups: groups are not a sample."""
    if len(table) < 2:
        return float("nan"), float("nan")
    values = [aggregate(table.taking(rows)) for rows in _resamples(table, seed)]
    return _bounds(values, len(table), least=0.0 if table.has_fractions else None)


def _bounds(values: Sequence[float], items: int, *, least: float | None) -> tuple[float, float]:
    """The middle 95 % of resampled values.

    Where all agree, the rule of three: what was not seen in n items is rarer than 3 in n. That holds for
    fractions, from `least` to 1; for other values nothing is known.
    """
    import numpy as np

    there = [value for value in values if value == value]
    if not there:
        return float("nan"), float("nan")
    if max(there) - min(there) > 1e-12:
        low, high = np.quantile(there, (0.025, 0.975))
        return float(low), float(high)
    if least is None:
        return float("nan"), float("nan")
    return max(least, there[0] - 3 / items), min(1.0, there[0] + 3 / items)


def _resamples(table: Table, seed: int) -> list[Array]:
    import numpy as np

    random = np.random.default_rng(seed)
    members = [np.flatnonzero(table.groups == place) for place in range(len(table.names))]
    return [
        np.concatenate([rows[random.integers(len(rows), size=len(rows))] for rows in members if len(rows)])
        for _ in range(RESAMPLES)
    ]


class Gap(Value):
    """One system less another, on the items both have."""

    name: str
    value: float | None
    low: float | None
    high: float | None
    items: int
    digits: int = 2

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def paired(
    number: Number, groups: Mapping[str, str], ours: Mapping[str, Any], theirs: Mapping[str, Any]
) -> Gap:
    """The difference of a number between two systems, with the interval of resampling the same items in both.

    `groups` has the group of every item; `ours` and `theirs` the measures by item.
    """
    shared = [identity for identity in groups if identity in ours and identity in theirs]
    if not shared:
        return Gap(name=number.name, value=None, low=None, high=None, items=0, digits=number.digits)
    names = list(ours[shared[0]])
    order = [groups[identity] for identity in shared]
    pairs = {name: [(ours[identity][name], theirs[identity][name]) for identity in shared] for name in names}
    tables = [  # an item that one side has no value for is left out of both
        Table(order, {name: [None if None in pair else pair[side] for pair in pairs[name]] for name in names})
        for side in (0, 1)
    ]
    gaps = [
        number.aggregate(tables[0].taking(rows)) - number.aggregate(tables[1].taking(rows))
        for rows in _resamples(tables[0], 0)
    ]
    fractions = all(table.has_fractions for table in tables)
    low, high = _bounds(gaps, len(shared), least=-1.0 if fractions else None)
    there_in = [[None not in pair for pair in pairs[name]] for name in number.measures]
    value = number.aggregate(tables[0]) - number.aggregate(tables[1])
    return Gap(
        name=number.name,
        value=_shown(value, number),
        low=_shown(low, number),
        high=_shown(high, number),
        items=sum(map(any, zip(*there_in, strict=True))),
        digits=number.digits,
    )
