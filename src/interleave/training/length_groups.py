"""Batches of rows that are about as long as each other, so that little of a batch is padding.

How long a row is is estimated from its table: letters of its texts, and a constant for every picture. That
puts rows in order well enough, and takes no tokenizer and no decoding.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

BATCHES_SORTED_TOGETHER = 16
"""More would save little padding, and make batches more alike from epoch to epoch."""
LETTERS_OF_A_PICTURE = 200
"""As many as its tokens would spell: 64, of about three letters each."""


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


def row_lengths(rows: Any) -> NDArray[np.int64]:
    """About how long every row of a dataset is, in letters."""
    columns = (rows.data.column(name) for name in ("prompt", "completion"))
    lengths: NDArray[np.int64] = reduce(np.add, map(_column_lengths, columns))
    chosen = rows._indices  # of rows that are a part of their table; taking them out would copy every one
    return lengths if chosen is None else lengths[chosen.column(0).to_numpy()]


def _column_lengths(messages: Any) -> NDArray[np.int64]:
    """Of a column of lists of messages; each is a list of parts."""
    chunks = [_chunk_lengths(chunk) for chunk in messages.chunks]
    return np.concatenate([np.zeros(0, np.int64), *chunks])


def _chunk_lengths(rows: Any) -> NDArray[np.int64]:
    import pyarrow.compute as arrow

    contents = arrow.struct_field(rows.values, "content")
    parts = contents.values
    letters = arrow.fill_null(arrow.utf8_length(arrow.struct_field(parts, "text")), 0)
    pictures = arrow.fill_null(arrow.equal(arrow.struct_field(parts, "type"), "image"), False)
    sizes = letters.to_numpy(zero_copy_only=False).astype(np.int64)
    sizes += LETTERS_OF_A_PICTURE * pictures.to_numpy(zero_copy_only=False).astype(np.int64)
    return _sums(_sums(sizes, contents), rows)


def _sums(sizes: NDArray[np.int64], lists: Any) -> NDArray[np.int64]:
    """What the items of each list come to."""
    before = np.concatenate([[0], np.cumsum(sizes)])
    ends: NDArray[np.int64] = before[lists.offsets.to_numpy()]
    return np.diff(ends)
