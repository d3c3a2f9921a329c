"""The choice of a token from logits: the likeliest, or one drawn by the seed of its row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from interleave.local.completions import CompletionRequest
from interleave_mini.runtime.sessions import Floats, Integers


class TokenChooser:
    """Chooses the next token of each row of a batch, whose requests are decoded alike."""

    def __init__(self, requests: Sequence[CompletionRequest]) -> None:
        first = requests[0]
        self._temperature, self._top_k, self._top_p = first.temperature, first.top_k, first.top_p
        self._random = [np.random.RandomState(_seed(request.seed)) for request in requests]

    def choose(self, logits: Floats, rows: Sequence[int]) -> tuple[Integers, Floats]:
        """Return the token of each row and its probability before temperature; `rows` are their requests."""
        if self._temperature > 0:
            chosen = np.array(
                [self._draw(each, row) for each, row in zip(logits, rows, strict=True)], np.int64
            )
        else:
            chosen = logits.argmax(axis=1)
        probabilities = softmax(logits)[np.arange(len(chosen)), chosen]
        return chosen, probabilities.clip(max=1.0)

    def _draw(self, logits: Floats, row: int) -> int:
        """Draw as `torch.multinomial` does, so that a seed gives the same tokens."""
        warped = logits / np.float32(self._temperature)
        if self._top_k is not None and self._top_k < len(warped):
            warped[warped < np.partition(warped, -self._top_k)[-self._top_k]] = -np.inf
        if self._top_p is not None and self._top_p < 1:
            order = np.argsort(warped, kind="stable")
            unlikely = np.cumsum(softmax(warped[order])) <= 1 - self._top_p
            unlikely[-1] = False
            warped[order[unlikely]] = -np.inf
        race = softmax(warped) / _exponentials(self._random[row], len(warped))
        return int(race.argmax())


def softmax(logits: Floats) -> Floats:
    """Return probabilities along the last axis."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True), np.float32)


def random_words(random: np.random.RandomState, count: int) -> NDArray[np.uint32]:
    """Return the next numbers of the Mersenne Twister, which torch uses too."""
    return np.frombuffer(random.bytes(4 * count), "<u4")


def _exponentials(random: np.random.RandomState, count: int) -> Floats:
    words = random_words(random, 2 * count).astype(np.uint64)
    uniform = (words[::2] << np.uint64(32) | words[1::2]) & np.uint64(2**53 - 1)
    numbers: NDArray[np.float32] = (-np.log1p(-(uniform * 2.0**-53))).astype(np.float32)
    return numbers


def _seed(seed: int | None) -> int | None:
    return None if seed is None else seed % 2**32
