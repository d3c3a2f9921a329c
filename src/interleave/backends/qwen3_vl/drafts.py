"""Drafts: tokens that a reply may go on with, guessed from where its last tokens stood before.

Replies repeat the question and themselves, a refined prompt most of all. What followed the last tokens there
is a draft, and one decode step checks all of it: it computes the token after each place of the draft, and
keeps the draft as far as it is what would have been decoded anyway, and one token more. So the tokens are the
same, in fewer steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

LONGEST_MATCH = 3
"""Tokens that are looked for; shorter matches are guesses that seldom hold."""


class Drafts:
    """A text, and what followed each of its short runs of tokens when it last occurred."""

    def __init__(self, ids: Iterable[int]) -> None:
        self.ids: list[int] = []
        self._after: dict[tuple[int, ...], int] = {}
        """Runs of tokens, and the place after them."""
        self.extend(ids)

    def extend(self, ids: Iterable[int]) -> None:
        """Add tokens to the text."""
        for token in ids:
            for size in range(1, min(LONGEST_MATCH, len(self.ids)) + 1):
                self._after[tuple(self.ids[-size:])] = len(self.ids)
            self.ids.append(token)

    def guess(self, length: int) -> list[int]:
        """At most so many tokens that followed the longest run of last tokens where it occurred before."""
        for size in range(min(LONGEST_MATCH, len(self.ids)), 0, -1):
            place = self._after.get(tuple(self.ids[-size:]))
            if place is not None:
                return self.ids[place : place + length]
        return []


def kept_of(draft: Sequence[int], decoded: Sequence[int]) -> int:
    """How many tokens of a draft are those that were decoded at their places."""
    kept = 0
    while kept < len(draft) and draft[kept] == decoded[kept]:
        kept += 1
    return kept


@dataclass(frozen=True)
class DraftState:
    """The last token of a row with a draft after it. A captured step reads and writes these same tensors."""

    inputs: Tensor
    """The tokens, then the place of the first in the KV cache, then its rope position."""
    ids: Tensor
    """The tokens that follow each of them,"""
    probs: Tensor
    """and their probabilities."""

    @staticmethod
    def zeros(length: int, device: Any) -> DraftState:
        whole = {"dtype": torch.long, "device": device}
        return DraftState(
            torch.zeros(length + 2, **whole),
            torch.zeros(length, **whole),
            torch.zeros(length, device=device),
        )

    @property
    def tokens(self) -> Tensor:
        return self.inputs[:-2]

    @property
    def cache_position(self) -> Tensor:
        return self.inputs[-2:-1]

    @property
    def rope_position(self) -> Tensor:
        return self.inputs[-1:]

    def counters(self) -> tuple[Tensor, ...]:
        """A step moves nothing on: the host does."""
        return (self.inputs,)

    def reset(self) -> None:
        """Nothing is counted."""

    def write(self, tokens: Sequence[int], cache_position: int, rope_position: int) -> None:
        padding = [0] * (len(self.ids) - len(tokens))
        self.inputs.copy_(torch.tensor([*tokens, *padding, cache_position, rope_position]))

    def read(self) -> tuple[list[int], list[float]]:
        return self.ids.tolist(), self.probs.tolist()
