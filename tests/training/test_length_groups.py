"""Batches of rows alike in length: every row once, little padding, the same order when asked again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from making import answer, critic_sft_rows, write_rows

from interleave.errors import ConfigurationError
from interleave.training.length_groups import LETTERS_OF_A_PICTURE, LengthGroups, row_lengths
from interleave.training.recipes import load_recipe
from interleave.training.rows import RowFiles, read_rows

LENGTHS = np.random.default_rng(0).integers(80, 580, size=1000)


def padded(order: list[int], batch: int) -> int:
    batches = [LENGTHS[order[start : start + batch]] for start in range(0, len(order), batch)]
    return sum(int(each.max()) * len(each) for each in batches)


def test_every_row_comes_once_and_few_are_padded() -> None:
    order = list(LengthGroups(LENGTHS, 16, seed=0))
    assert sorted(order) == list(range(1000))
    assert padded(order, 16) < 1.1 * LENGTHS.sum()
    assert padded(list(range(1000)), 16) > 1.5 * LENGTHS.sum()


def test_the_order_follows_from_seed_and_epoch_alone() -> None:
    def order(seed: int, epoch: int) -> list[int]:
        groups = LengthGroups(LENGTHS, 16, seed=seed)
        groups.set_epoch(epoch)
        return list(groups)

    assert order(0, 3) == order(0, 3)
    assert order(0, 3) != order(0, 4)
    assert order(0, 3) != order(1, 3)


def test_batches_do_not_come_in_order_of_length() -> None:
    order = list(LengthGroups(LENGTHS, 16, seed=0))
    means = [float(LENGTHS[order[start : start + 16]].mean()) for start in range(0, 992, 16)]
    assert abs(np.corrcoef(means, range(len(means)))[0, 1]) < 0.4


def expected(row: dict[str, Any]) -> int:
    parts = [
        part for name in ("prompt", "completion") for message in row[name] for part in message["content"]
    ]
    return sum(LETTERS_OF_A_PICTURE if part["type"] == "image" else len(part["text"]) for part in parts)


def test_lengths_are_read_off_the_table(tmp_path: Path) -> None:
    made = critic_sft_rows(3, side=64)
    made[1]["completion"] = answer("drölf " * 50)
    made[2]["prompt"] = [{"role": "user", "content": [{"type": "text", "text": "no picture"}]}]
    files = [write_rows(tmp_path / f"{number}.parquet", made) for number in range(2)]
    rows = read_rows(RowFiles(tuple(files)), "critic")
    lengths = [expected(row) for row in made]
    assert row_lengths(rows).tolist() == lengths * 2
    assert row_lengths(rows.select([5, 1])).tolist() == [lengths[2], lengths[1]]


@pytest.mark.parametrize("setting", ["training.group_by_length", "training.compile"])
def test_what_is_for_sft_is_refused_for_grpo(setting: str) -> None:
    with pytest.raises(ConfigurationError, match=setting):
        load_recipe(None, task="grpo", changes={setting: True})
