"""UEval's leaderboard: its average is the mean of the eight tasks."""

from __future__ import annotations

import csv

import pytest

import goldens
from interleave.bench.benchmarks.ueval import CLOSED, OPEN, UEval
from interleave.bench.numbers import Table

ROWS = list(csv.DictReader((goldens.FOLDER / "ueval.csv").read_text().splitlines()))


@pytest.mark.parametrize("row", ROWS, ids=[row["Model"] for row in ROWS])
def test_the_average_is_the_mean_of_eight_tasks(row: dict[str, str]) -> None:
    rates = [float(row[task.capitalize()]) / 100 for task in (*CLOSED, *OPEN)]
    table = Table([*CLOSED, *OPEN], {"text": rates, "image": rates})
    macro = UEval().numbers()[0]
    assert macro.aggregate(table) * macro.scale == pytest.approx(float(row["Avg"]), abs=0.1)


def test_there_are_ten_rows() -> None:
    assert len(ROWS) == 10
