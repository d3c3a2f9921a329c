"""From records to numbers: means, groups, intervals, comparisons."""

from __future__ import annotations

import math
import random

import pytest

from interleave.bench.base import Item, JudgeRecord
from interleave.bench.benchmarks.ueval import UEval
from interleave.bench.numbers import Number, Table, group_mean, interval, item_mean, mean_of, paired
from interleave.bench.scoring import Label, Scorable, outcome_of
from work import at_most_calls

LABEL = Label("1", "judge", "p", "r")


def test_means_over_items_and_groups() -> None:
    table = Table(["a", "a", "a", "b"], {"x": [1.0, 0.0, None, 1.0]})
    assert item_mean("m", "x").aggregate(table) == pytest.approx(2 / 3)
    assert group_mean("m", "x").aggregate(table) == pytest.approx(0.75)
    assert group_mean("m", "x", weights={"a": 0.8, "b": 0.2}).aggregate(table) == pytest.approx(0.6)
    assert math.isnan(group_mean("m", "x", weights={"a": 0.5, "c": 0.5}).aggregate(table))
    both = mean_of("m", item_mean("m", "x"), group_mean("m", "x"))
    assert both.aggregate(table) == pytest.approx((2 / 3 + 0.75) / 2)


def test_an_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    draw = random.Random(7)
    held = 0
    for _ in range(60):
        table = Table(["a"] * 80, {"x": [float(draw.random() < 0.3) for _ in range(80)]})
        low, high = interval(table, item_mean("m", "x"))
        held += low <= 0.3 <= high
    assert 50 <= held <= 60


def test_equal_values_are_not_certain() -> None:
    low, high = interval(Table(["a"] * 10, {"x": [1.0] * 10}), item_mean("m", "x"))
    assert (low, high) == (0.7, 1.0)
    marks = interval(Table(["a"] * 10, {"x": [4.0] * 10}), item_mean("m", "x"))
    assert all(math.isnan(bound) for bound in marks)
    zeros = Table(["a"] * 10, {"x": [0.0] * 10})
    assert interval(zeros, item_mean("m", "x")) == (0.0, 0.3)
    assert all(math.isnan(bound) for bound in interval(zeros, item_mean("m", "x", most=10)))  # marks
    same = {str(number): {"x": 1.0} for number in range(10)}
    none = {str(number): {"x": 0.0} for number in range(10)}
    gap = paired(item_mean("m", "x"), dict.fromkeys(same, "a"), same, none)
    assert (gap.value, gap.low, gap.high) == (1.0, 0.7, 1.0)


def test_a_paired_difference_is_surer_than_its_sides() -> None:
    draw = random.Random(3)
    hard = [draw.random() for _ in range(200)]
    groups = {str(number): "a" for number in range(200)}
    theirs = {str(number): {"x": value} for number, value in enumerate(hard)}
    ours = {str(number): {"x": value + 0.05 + draw.gauss(0, 0.02)} for number, value in enumerate(hard)}
    gap = paired(item_mean("m", "x"), groups, ours, theirs)
    assert gap.value == pytest.approx(0.05, abs=0.01)
    assert gap.is_clear and gap.items == 200
    assert paired(item_mean("m", "x"), groups, ours, {}).value is None


def records_of(count: int) -> Scorable:
    """So many records: a hundred items at most, every question answered."""
    items = [
        Item(
            str(number),
            ("space", "art")[number % 2],
            ("?",),
            {"text": ("c",) * (count // 200), "image": ("c",) * (count // 200)},
        )
        for number in range(100)
    ]
    benchmark = UEval()
    keys = {item.id: benchmark.keys(item, None) for item in items}
    records = {
        item.id: {
            key: JudgeRecord(item=item.id, key=key, output="o", status="ok", value=(len(key) + place) % 3 > 0)
            for place, key in enumerate(keys[item.id])
        }
        for item in items
    }
    return Scorable(benchmark, items, keys, records)


def test_ten_thousand_records_take_little_work() -> None:
    scorable = records_of(10_000)
    with at_most_calls(400_000):
        outcome_of(scorable, LABEL)


def test_a_number_says_what_it_is() -> None:
    outcome = outcome_of(records_of(200), LABEL)
    assert outcome.numbers[0].id == "macro_avg@1@judge@p@r"
    assert outcome.coverage == 1.0
    assert set(outcome.by_group) == {"space", "art"}
    assert isinstance(UEval().numbers()[0], Number)
