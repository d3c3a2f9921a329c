"""From the judge's records to an outcome. Pure functions: equal records give equal numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal

from interleave import InputError
from interleave.bench.base import Answers, Benchmark, Item, JudgeRecord, Status
from interleave.bench.numbers import Number, Table, interval
from interleave.plugin import Value

Missing = Literal["zero", "drop", "official"]
Records = Mapping[str, Mapping[str, JudgeRecord]]
"""Records by item and key."""


class Measured(Value):
    """A number with its interval and the data behind it."""

    name: str
    id: str
    """`metric@version@judge@prompts@data-revision`. Numbers with different ids are not comparable."""
    value: float | None
    """`None` if no item contributes."""
    low: float | None = None
    high: float | None = None
    items: int
    """Number of contributing items."""
    coverage: float
    """Share of items with a value for every question."""
    digits: int = 2


class Outcome(Value):
    """The result of a judged benchmark."""

    benchmark: str
    missing: Missing
    items: int
    coverage: float
    statuses: dict[str, int]
    """Number of questions by status."""
    numbers: tuple[Measured, ...]
    by_group: dict[str, tuple[Measured, ...]]
    measures: dict[str, dict[str, float | None]]
    """Measures by item, for paired comparisons and the order of the page."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Label:
    """The parts of a number's id after the metric."""

    version: str
    judge: str
    prompts: str
    revision: str

    def id_of(self, metric: str) -> str:
        return "@".join([metric, self.version, self.judge, self.prompts, self.revision])


@dataclass(frozen=True)
class Scorable:
    """Everything numbers are computed from."""

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
            return self.benchmark.measures(item, Answers(records, partial(self._without_a_value, item)))
        # upstream's scripts may treat a failure differently in each measure
        names = self.benchmark.measures(item, Answers(records, partial(self._without_a_value, item)))
        return {name: self._official(name, item, records) for name in names}

    def _without_a_value(self, item: Item, key: str, status: Status) -> Any | None:
        """Return the worst value. Questions that are never asked, as in an import, have none."""
        worst = self.missing == "zero" and key in self.keys[item.id]
        return self.benchmark.worst(key) if worst else None

    def _official(self, measure: str, item: Item, records: Mapping[str, JudgeRecord]) -> float | None:
        def missing(key: str, status: Status) -> Any | None:
            if key not in self.keys[item.id]:
                return None
            match self.benchmark.official(measure, key, status):
                case "zero":
                    return self.benchmark.worst(key)
                case "stop":
                    raise InputError(
                        f"{self.benchmark.name}: upstream's script gives no number while {item.id!r} has "
                        f"no value ({key}: {status}). Judge it again, or use --missing zero or drop"
                    )
            return None

        return self.benchmark.measures(item, Answers(records, missing))[measure]

    @cached_property
    def covered(self) -> set[str]:
        """Items with a value for every question."""
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
    """Compute all numbers of a benchmark with their intervals."""
    if not scorable.items:
        raise InputError(f"{scorable.benchmark.name}: no items to score")
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
    """Compute a number over some of the items."""
    table = scorable.table(items)
    value = number.aggregate(table)
    low, high = interval(table, number)
    contributing = sum(
        any(scorable.item_measures[item.id][name] is not None for name in number.measures) for item in items
    )
    return Measured(
        name=number.name,
        id=label.id_of(number.name),
        value=number.shown(value),
        low=number.shown(low),
        high=number.shown(high),
        items=contributing,
        coverage=_share(scorable, items),
        digits=number.digits,
    )


def _share(scorable: Scorable, items: Sequence[Item]) -> float:
    return round(sum(item.id in scorable.covered for item in items) / len(items), 4)


def item_scores(
    benchmark: Benchmark, numbers: Sequence[Number], group: str, *sides: Mapping[str, float | None]
) -> tuple[float, ...] | None:
    """Score a single item for each of `sides`, by the first number that is defined for all."""
    own = [benchmark.item_score(measures) for measures in sides]
    if None not in own:
        return tuple(score for score in own if score is not None)
    tables = [Table([group], {name: [value] for name, value in each.items()}) for each in sides]
    for number in numbers:
        found = tuple(number.of_a_group.aggregate(table) for table in tables)
        if all(value == value for value in found):
            return found
    return None
