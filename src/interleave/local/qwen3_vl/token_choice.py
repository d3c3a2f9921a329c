"""Choice of the next token from the logits of every row: the most likely one, or a sampled one.

Nothing here depends on the host, so both are part of a captured decode step. Randomness is passed in as one
number between 0 and 1 per token, so the tokens depend only on those numbers and the logits.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

TILE = 128
"""Tile size for sums of probabilities: first a tile is found, then the token in it."""
BELOW_ONE = 1 - 1e-12


def greedy(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return the most likely token of every row, and its probability."""
    precise = logits.float()
    highest, token = precise.max(dim=-1)
    return token, (highest - precise.logsumexp(dim=-1)).exp().clamp(max=1.0)


@dataclass(frozen=True, eq=False)
class RandomChoice:
    """Sampling of tokens by their probabilities."""

    temperature: float
    suppressed: Tensor
    """Tokens that are never sampled."""

    def __call__(self, logits: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
        """Return one token per row and its probability; `uniform` has one number in [0, 1) per row."""
        scaled = (logits.float() / self.temperature).index_fill(-1, self.suppressed, -torch.inf)
        probs = scaled.softmax(dim=-1)
        token = inverse_cdf(probs, uniform)
        return token, probs.gather(1, token[:, None]).squeeze(1)


def inverse_cdf(probs: Tensor, uniform: Tensor) -> Tensor:
    """Return, for every row, the token at which the running sum of probabilities exceeds its number."""
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
    """Return the index at which a running sum first exceeds its target, always with a nonzero addend."""
    target = torch.minimum(target, reached[:, -1:] * BELOW_ONE)  # rounding must not pass the end
    return (reached <= target).sum(dim=-1, keepdim=True)
