"""Batches of rows alike in length: every row once, little padding, the same order when asked again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from making import answer, critic_sft_rows, write_rows

from interleave.errors import ConfigurationError
from interleave.train.collator import SftCollator
from interleave.train.models import load_sized_processor, model_source
from interleave.train.recipes import ModelPart, load_recipe
from interleave.train.rows import RowFiles, read_rows
from interleave.train.sft import LengthGroupedSampler, row_lengths

LENGTHS = np.random.default_rng(0).integers(80, 580, size=1000)


def padded(order: list[int], batch: int) -> int:
    batches = [LENGTHS[order[start : start + batch]] for start in range(0, len(order), batch)]
    return sum(int(each.max()) * len(each) for each in batches)


def test_every_row_comes_once_and_few_are_padded() -> None:
    order = list(LengthGroupedSampler(LENGTHS, 16, seed=0))
    assert sorted(order) == list(range(1000))
    assert padded(order, 16) < 1.1 * LENGTHS.sum()
    assert padded(list(range(1000)), 16) > 1.5 * LENGTHS.sum()


def test_the_order_follows_from_seed_and_epoch_alone() -> None:
    def order(seed: int, epoch: int) -> list[int]:
        groups = LengthGroupedSampler(LENGTHS, 16, seed=seed)
        groups.set_epoch(epoch)
        return list(groups)

    assert order(0, 3) == order(0, 3)
    assert order(0, 3) != order(0, 4)
    assert order(0, 3) != order(1, 3)


def test_batches_do_not_come_in_order_of_length() -> None:
    order = list(LengthGroupedSampler(LENGTHS, 16, seed=0))
    means = [float(LENGTHS[order[start : start + 16]].mean()) for start in range(0, 992, 16)]
    assert abs(np.corrcoef(means, range(len(means)))[0, 1]) < 0.4


def test_lengths_are_those_of_the_batch_but_for_the_template(toy: Path, tmp_path: Path) -> None:
    made = critic_sft_rows(3, side=64)
    made[1]["completion"] = answer("drölf " * 50)
    made[2]["prompt"] = [{"role": "user", "content": [{"type": "text", "text": "no image"}]}]
    made[2]["images"] = []
    files = [write_rows(tmp_path / f"{number}.parquet", made) for number in range(2)]
    rows = read_rows(RowFiles(tuple(files)), "critic")
    collator = SftCollator(load_sized_processor(toy, model_source(part := ModelPart(name=str(toy))), part))
    lengths = row_lengths(rows, collator)
    exact = np.array(collator.lengths([rows[index] for index in range(6)]))
    assert (np.abs(exact - lengths) < 20).all()
    assert np.ptp(exact) > 100
    assert row_lengths(rows.select([5, 1]), collator).tolist() == lengths[[5, 1]].tolist()


@pytest.mark.parametrize("setting", ["training.group_by_length", "training.compile"])
def test_what_is_for_sft_is_refused_for_grpo(setting: str) -> None:
    with pytest.raises(ConfigurationError, match=setting):
        load_recipe(None, task="grpo", changes={setting: True})
