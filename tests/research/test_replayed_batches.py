"""Batches that are seen again while new ones are made: how often, which ones, and what ends them."""

from __future__ import annotations

from collections.abc import Iterator
from queue import Queue
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("diffusers")

from held import wait_until
from miniature.train.vision_pretrain import Batch, ReplayedBatches


def batch(number: int) -> Batch:
    ids = np.array([[number]])
    return Batch("look", ids, ids, ids, np.zeros((3, 1, 1)), np.zeros((0, 10)))


class Made:
    """A loader that makes a batch when it is told to."""

    def __init__(self) -> None:
        self.told: Queue[Exception | None] = Queue()
        self.count = 0

    def __iter__(self) -> Iterator[Batch]:
        while True:
            if error := self.told.get():
                raise error
            yield batch(self.count)

    def one_more(self, batches: ReplayedBatches) -> None:
        """Returns when it is ready to be taken."""
        before = batches.ready.qsize()
        self.count += 1
        self.told.put(None)
        wait_until(lambda: batches.ready.qsize() > before)


def number(some: Batch) -> int:
    return int(some.ids[0, 0])


def started(**settings: Any) -> tuple[Made, ReplayedBatches]:
    made = Made()
    return made, ReplayedBatches(iter(made), "cpu", **settings)


def test_an_earlier_batch_comes_again_so_many_times_while_no_new_one_is_ready() -> None:
    made, batches = started(replays=2)
    made.one_more(batches)
    assert [number(next(batches)) for _ in range(3)] == [1, 1, 1]
    made.one_more(batches)
    assert number(next(batches)) == 2, "waits for a new one after so many"


def test_a_new_batch_that_is_ready_goes_before_any_other() -> None:
    made, batches = started(replays=9)
    for _ in range(3):
        made.one_more(batches)
    assert [number(next(batches)) for _ in range(3)] == [1, 2, 3]
    assert {number(next(batches)) for _ in range(9)} <= {1, 2, 3}


def test_without_replays_every_batch_is_new() -> None:
    batches = ReplayedBatches(map(batch, range(20)), "cpu", replays=0)
    assert [number(next(batches)) for _ in range(20)] == list(range(20))


def test_only_so_many_batches_are_kept() -> None:
    batches = ReplayedBatches(map(batch, range(30)), "cpu", replays=0, kept=4)
    for _ in range(30):
        next(batches)
    assert len(batches.earlier) == 4
    assert max(map(number, batches.earlier)) > 3, "newer ones replace older ones"


def test_an_examination_never_sees_a_batch_again() -> None:
    made, batches = started(replays=9)
    made.one_more(batches)
    next(batches)
    made.one_more(batches)
    assert number(batches.new()) == 2
    assert list(map(number, batches.earlier)) == [1], "nor does training see what was examined"


def test_an_error_while_a_batch_is_made_is_raised_where_one_is_waited_for() -> None:
    made, batches = started(replays=1)
    made.one_more(batches)
    next(batches)
    made.told.put(ValueError("no such thing"))
    with pytest.raises(ValueError, match="no such thing"):
        for _ in range(3):
            next(batches)


def test_a_loader_that_ends_ends_them() -> None:
    batches = ReplayedBatches(map(batch, range(2)), "cpu", replays=0)
    assert [number(batches.new()) for _ in range(2)] == [0, 1]
    with pytest.raises(StopIteration):
        batches.new()
