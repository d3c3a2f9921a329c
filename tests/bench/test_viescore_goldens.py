"""VIEScore's published correlations, recomputed from the ratings and scores that its authors stored."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import goldens
from interleave.bench.base import Dataset
from interleave.bench.benchmarks.viescore import MEASURES, VIEScore, model_correlations
from interleave.bench.numbers import Table
from interleave.bench.records import by_item
from interleave.bench.scoring import Scorable

NOTEBOOK = {
    "gemini_0shot": (0.3322, 0.2675, 0.3048),
    "gpt4o_0shot": (0.4459, 0.3399, 0.4035),
    "gpt4o_1shot": (0.4309, 0.1167, 0.3771),
    "gpt4v_0shot": (0.3668, 0.3095, 0.3266),
}
"""SC, PQ and O as the notebook averages them."""
FISHER = {"gpt4o_0shot": (0.536, 0.383, 0.472)}


@pytest.fixture(scope="module")
def stored() -> Mapping[str, Any]:
    return goldens.viescore()


@pytest.fixture(scope="module")
def folder(stored: Mapping[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("viescore")
    goldens.write_ratings(stored, made)
    return made


@pytest.fixture(scope="module")
def dataset(folder: Path) -> Dataset:
    return VIEScore().read(folder)


@pytest.fixture(scope="module")
def tables(
    stored: Mapping[str, Any], dataset: Dataset, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Table]:
    made = {}
    for judge in NOTEBOOK:
        said = tmp_path_factory.mktemp(judge)
        goldens.write_scores(stored, judge, said)
        records = by_item(VIEScore().import_judgements(dataset, said))
        keys = {item.id: ("sc", "pq") for item in dataset.items}
        made[judge] = Scorable(VIEScore(), dataset.items, keys, records, "drop").table()
    return made


def test_all_of_imagenhub_is_there(dataset: Dataset) -> None:
    assert len(dataset.items) == 4801
    assert len({item.group for item in dataset.items}) == 29
    assert dataset.notes[0] == "4,801 images of 29 models, each with 3 raters"
    assert "can only be imported" in dataset.notes[1]


def test_means_and_deviations_are_those_of_the_notebook(
    stored: Mapping[str, Any], tables: dict[str, Table]
) -> None:
    table, equal = tables["gemini_0shot"], 0
    for place, name in enumerate(table.names):
        for measure in MEASURES:
            column = table.columns[measure][table.groups == place]
            column = column[~np.isnan(column)]
            for ours, theirs in zip(
                (column.mean(), column.std()), stored["notebook"][name][measure], strict=False
            ):
                assert f"{ours:.4f}" == f"{theirs:.4f}", (name, measure)
                equal += 1
    assert equal == 174


def test_correlations_are_those_of_the_notebook(stored: Mapping[str, Any], tables: dict[str, Table]) -> None:
    table = tables["gemini_0shot"]
    for measure, most in (("SC", 1e-4), ("PQ", 1e-4), ("O", 0.003)):
        found = model_correlations(table, measure)
        assert len(found) == 29
        for name, ours in found.items():
            assert ours == pytest.approx(stored["notebook"][name][measure][2], abs=most), (name, measure)


@pytest.mark.parametrize("judge", list(NOTEBOOK))
def test_final_correlations(judge: str, tables: dict[str, Table]) -> None:
    numbers = {number.name: number.aggregate(tables[judge]) for number in VIEScore().numbers()}
    for measure, expected, most in zip(MEASURES, NOTEBOOK[judge], (1e-4, 1e-4, 0.003), strict=True):
        assert numbers[f"{measure}_spearman_notebook"] == pytest.approx(expected, abs=most)
        assert numbers[f"{measure}_spearman"] > expected
    for measure, expected in zip(MEASURES, FISHER.get(judge, ()), strict=False):
        assert numbers[f"{measure}_spearman"] == pytest.approx(expected, abs=6e-4)
