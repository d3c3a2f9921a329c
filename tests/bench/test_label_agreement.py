"""Krippendorff's alpha gives the published figures, and labels of raters become its units."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pytest

from interleave.bench.labels import Kind, Label
from interleave.bench.rater_agreement import label_agreement
from interleave.bench.statistics import Coincidences, Metric


def units_of(*raters: str) -> list[list[int]]:
    """The ratings of each unit, from one line of ratings per rater; a dot is a missing one."""
    columns = zip(*(line.split() for line in raters), strict=True)
    return [[int(each) for each in column if each != "."] for column in columns]


BOOK = units_of(  # K. Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), section C
    "1 2 3 3 2 1 4 1 2 . . .",
    "1 2 3 3 2 2 4 1 2 5 . 3",
    ". 3 3 3 2 3 4 2 2 5 1 .",
    "1 2 3 3 2 4 4 1 2 5 1 .",
)
BINARY = units_of("0 1 0 0 0 0 0 0 1 0", "1 1 1 0 0 1 0 0 0 0")  # the same, section A
NAMES = units_of("1 1 2 2 4 3 3 3 5 4 4 1", "1 2 2 2 2 3 3 3 5 4 4 4")  # the same, section B
ENCYCLOPEDIA = units_of(  # the worked example of Wikipedia's article
    ". . . . . 3 4 1 2 1 1 3 3 . 3",
    "1 . 2 1 3 3 4 3 . . . . . . .",
    ". . 2 1 3 4 4 . 2 1 1 3 3 . 4",
)


@pytest.mark.parametrize(
    ("units", "metric", "alpha"),
    [
        (BINARY, "nominal", 0.095),
        (NAMES, "nominal", 0.692),
        (BOOK, "nominal", 0.743),
        (BOOK, "interval", 0.849),
        (ENCYCLOPEDIA, "nominal", 0.691),
        (ENCYCLOPEDIA, "interval", 0.811),
    ],
)
def test_alpha_is_that_of_published_examples(units: list[list[int]], metric: Metric, alpha: float) -> None:
    assert Coincidences(units, metric).alpha() == pytest.approx(alpha, abs=5e-4)


def test_alpha_of_full_agreement_is_one_and_of_one_value_is_undefined() -> None:
    assert Coincidences([[1, 1], [2, 2, 2]]).alpha() == 1
    assert math.isnan(Coincidences([[1, 1], [1, 1]]).alpha())
    assert math.isnan(Coincidences([[1], []]).alpha())
    assert math.isnan(Coincidences([], "interval").alpha())


def label(rater: str, value: Any, step: int = 1, **fields: Any) -> Label:
    given = {"kind": "accept", "run": "r", "step": step, "attempt": 1, "at": datetime(2026, 1, 1, tzinfo=UTC)}
    return Label.model_validate({**given, "rater": rater, "value": value, **fields})


def test_labels_of_a_subject_are_a_unit_and_the_last_of_a_rater_counts() -> None:
    labels = [
        *(label("ann", value, step) for step, value in enumerate([False, True, True, False], start=1)),
        *(label("ben", value, step) for step, value in enumerate([True, True, True, False], start=1)),
        label("ben", False, 1),  # Ben changes his mind
        label("cat", True, 9),  # nobody else rated it
        label("ann", 3, kind="score"),
    ]
    found = label_agreement(labels, Kind.ACCEPT)
    assert (found.alpha, found.units, found.raters) == (1.0, 4, 2)
    assert found.low is not None and found.low <= 1.0
    assert label_agreement(labels, Kind.SCORE).alpha is None


def test_a_pair_is_the_same_whichever_of_the_two_was_shown_first() -> None:
    def pair(rater: str, first: int, second: int, value: str, step: int) -> Label:
        other = {"run": "r", "step": step, "attempt": second}
        return label(rater, value, step, kind="better", attempt=first, other=other)

    labels = [
        pair("ann", 1, 2, "first", 1),
        pair("ben", 2, 1, "second", 1),
        pair("ann", 1, 2, "second", 2),
        pair("ben", 2, 1, "first", 2),
        pair("ann", 1, 2, "same", 3),
        pair("ben", 2, 1, "same", 3),
    ]
    assert label_agreement(labels, Kind.BETTER).alpha == 1


def test_scores_agree_more_the_closer_they_are() -> None:
    def agreement(second: list[float]) -> float:
        first = [2.0, 5.0, 9.0, 7.0]
        labels = [label("ann", value, step, kind="score") for step, value in enumerate(first, start=1)]
        labels += [label("ben", value, step, kind="score") for step, value in enumerate(second, start=1)]
        alpha = label_agreement(labels, Kind.SCORE).alpha
        assert alpha is not None
        return alpha

    assert agreement([2, 5, 9, 6]) > agreement([2, 5, 9, 1]) > agreement([9, 2, 5, 1])
