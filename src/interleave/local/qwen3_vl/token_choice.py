"""Which token follows, from the logits of every row: the most likely one, or one drawn by its probability.

Nothing here depends on the host, so both are part of a captured decode step. Randomness comes from outside as
one number between 0 and 1 for each token: what is drawn follows from those numbers and the logits alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

TILE = 128
"""Probabilities are summed in tiles of this many: first a tile is found, then the token in it."""
BELOW_ONE = 1 - 1e-12


def greedy(logits: Tensor) -> tuple[Tensor, Tensor]:
    """The most likely token of every row, and its probability."""
    precise = logits.float()
    highest, token = precise.max(dim=-1)
    return token, (highest - precise.logsumexp(dim=-1)).exp().clamp(max=1.0)


@dataclass(frozen=True, eq=False)
class RandomChoice:
    """Draws tokens by their probabilities."""

    temperature: float
    suppressed: Tensor
    """Tokens that are never drawn."""

    def __call__(self, logits: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
        """One token for every row, and its probability; `uniform` has a number in [0, 1) for each row."""
        scaled = (logits.float() / self.temperature).index_fill(-1, self.suppressed, -torch.inf)
        probs = scaled.softmax(dim=-1)
        token = inverse_cdf(probs, uniform)
        return token, probs.gather(1, token[:, None]).squeeze(1)


def inverse_cdf(probs: Tensor, uniform: Tensor) -> Tensor:
    """The token of every row at which the running sum of its probabilities exceeds a number in [0, 1)."""
    rows, count = probs.shape
    tiles = torch.nn.functional.pad(probs, (0, -count % TILE)).view(rows, -1, TILE).double()
    reached = tiles.sum(dim=-1).cumsum(dim=-1)
    target = uniform.double()[:, None] * reached[:, -1:]
    tile = _first_above(reached, target)
    before = torch.where(tile > 0, reached.gather(1, (tile - 1).clamp(min=0)), 0.0)
    inside = tiles.gather(1, tile[:, :, None].expand(-1, -1, TILE)).squeeze(1).cumsum(dim=-1)
    place = _first_above(inside, (target - before).clamp(min=0))
    return (tile * TILE + place).squeeze(1)


def _first_above(reached: Tensor, target: Tensor) -> Tensor:
    """Where a running sum first exceeds its target: always at something that adds to it."""
    target = torch.minimum(target, reached[:, -1:] * BELOW_ONE)  # rounding must not lead past the end
    return (reached <= target).sum(dim=-1, keepdim=True)
