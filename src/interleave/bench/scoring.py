"""From the judge's records to an outcome. Pure functions: the same records, the same numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from interleave import InputError
from interleave.bench.base import Answers, Benchmark, Item, JudgeRecord, Status
from interleave.bench.numbers import Number, Table, interval
from interleave.plugin import Value

Missing = Literal["zero", "drop", "official"]
Records = Mapping[str, Mapping[str, JudgeRecord]]
"""By item and key."""


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
