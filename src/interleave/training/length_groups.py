"""Batches of rows that are about as long as each other, so that little of a batch is padding.

How long a row is is read off its table: its words are counted by the tokenizer, all in one go, and its
pictures are taken to be as long as those of the row that has most. Only that row is decoded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from interleave.training.collator import SftCollator

Measure = Callable[[Any], "NDArray[np.int64]"]
"""How long each of an Arrow array of parts of messages is."""
BATCHES_SORTED_TOGETHER = 16
"""More would save little padding, and make batches more alike from epoch to epoch."""
TEXTS_AT_ONCE = 10_000


class LengthGroups:
    """A sampler: rows in a new order every epoch, those of a batch alike in length.

    An epoch's order follows from the seed and its number alone: a training that goes on finds its place.
    """

    def __init__(self, lengths: NDArray[np.int64], batch: int, *, seed: int) -> None:
        self.lengths = lengths
        self.batch = batch
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch comes next; the trainer does."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[int]:
        return iter(self._order(np.random.default_rng((self.seed, self.epoch))))

    def _order(self, chance: np.random.Generator) -> list[int]:
        rows = chance.permutation(len(self.lengths))
        together = self.batch * BATCHES_SORTED_TOGETHER
        stretches = (rows[start : start + together] for start in range(0, len(rows), together))
        batches = [
            ordered[start : start + self.batch]
            for ordered in map(self._by_length, stretches)
            for start in range(0, len(ordered), self.batch)
        ]
        rest = [batches.pop()] if len(rows) % self.batch else []  # else the others would be cut elsewhere
        shuffled = [batches[number] for number in chance.permutation(len(batches))]
        return [int(row) for each in [*shuffled, *rest] for row in each]

    def _by_length(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return rows[np.argsort(self.lengths[rows], kind="stable")]


def row_lengths(rows: Any, collator: SftCollator) -> NDArray[np.int64]:
    """About how many tokens every row of a dataset has."""
    lengths = _measured(rows, partial(_words, tokenizer=collator.tokenizer))
    pictures = _measured(rows, _pictures)
    most = int(pictures.argmax())
    if pictures[most]:
        seen = collator.lengths([rows[most]])[0] - lengths[most]
        lengths += pictures * seen // pictures[most]
    return lengths


def _measured(rows: Any, measure: Measure) -> NDArray[np.int64]:
    """What the parts of every row's messages come to."""
    lengths = np.zeros(rows.data.num_rows, np.int64)
    for name in ("prompt", "completion"):
        lengths += np.concatenate([_sums(chunk, measure) for chunk in rows.data.column(name).chunks])
    chosen = rows._indices  # of rows that are a part of their table; taking them out would copy every one
    return lengths if chosen is None else lengths[chosen.column(0).to_numpy()]


def _sums(messages: Any, measure: Measure) -> NDArray[np.int64]:
    import pyarrow.compute as arrow

    contents = arrow.struct_field(messages.values, "content")
    return _by_list(_by_list(measure(contents.values), contents), messages)


def _by_list(sizes: NDArray[np.int64], lists: Any) -> NDArray[np.int64]:
    before = np.concatenate([[0], np.cumsum(sizes)])
    ends: NDArray[np.int64] = before[lists.offsets.to_numpy()]
    return np.diff(ends)


def _words(parts: Any, tokenizer: Any) -> NDArray[np.int64]:
    import pyarrow.compute as arrow

    texts = arrow.fill_null(arrow.struct_field(parts, "text"), "").to_pylist()
    counted: list[int] = []
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        some = texts[start : start + TEXTS_AT_ONCE]
        found = tokenizer(some, add_special_tokens=False, return_attention_mask=False)["input_ids"]
        counted.extend(map(len, found))
    # Its threads do not survive a fork: processes that make batches have one each, and need not say so.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    return np.array(counted, np.int64)


def _pictures(parts: Any) -> NDArray[np.int64]:
    import pyarrow.compute as arrow

    there = arrow.fill_null(arrow.equal(arrow.struct_field(parts, "type"), "image"), False)
    numbers: NDArray[np.int64] = there.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers
