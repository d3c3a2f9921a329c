"""The optimizer of these small models: Muon for the matrices, AdamW for everything else.

Muon makes every matrix update orthogonal and learns clearly more than AdamW in the same time. The torch
implementation handles one matrix after another, which costs a small model more than its backward pass. Here
all matrices of a shape are orthogonalised together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

MOMENTUM = 0.95
NEWTON_SCHULZ = (3.4445, -4.775, 2.0315)
NEWTON_SCHULZ_STEPS = 5
INPUTS_AND_OUTPUTS = ("embed", "lm_head", "proj_out")
"""Name parts of matrices that Muon is not made for."""
LIKE_ADAMW = 0.2
"""Root mean square of an AdamW update relative to the rate; Muon updates are scaled to it."""


class MuonAndAdamW:
    """Two optimizers with one learning rate."""

    def __init__(self, model: Any, others: Iterable[Any], rate: float, weight_decay: float) -> None:
        groups: dict[tuple[Any, ...], list[Any]] = {}
        rest = list(others)
        for name, parameter in model.named_parameters():
            if parameter.ndim == 2 and not any(word in name for word in INPUTS_AND_OUTPUTS):
                groups.setdefault((*parameter.shape, "visual" in name), []).append(parameter)
            else:
                rest.append(parameter)
        self.weight_decay = weight_decay
        self.rest = torch.optim.AdamW(
            rest, lr=rate, betas=(0.9, 0.98), weight_decay=weight_decay, fused=rest[0].is_cuda
        )
        self.groups = list(groups.values())
        self.momenta = [torch.zeros_like(torch.stack(list(group))) for group in self.groups]

    def step(self, rate: float) -> None:
        for settings in self.rest.param_groups:
            settings["lr"] = rate
        self.rest.step()
        with torch.no_grad():
            for group, momentum in zip(self.groups, self.momenta, strict=True):
                if group[0].grad is not None:  # a batch without images does not change the vision tower
                    self._update(group, momentum, rate)

    def _update(self, group: list[Any], momentum: torch.Tensor, rate: float) -> None:
        gradients = torch.stack([parameter.grad for parameter in group])
        momentum.lerp_(gradients, 1 - MOMENTUM)
        update = orthogonal(gradients.lerp(momentum, MOMENTUM))
        scale = LIKE_ADAMW * max(update.shape[-2:]) ** 0.5
        torch._foreach_mul_(group, 1 - rate * self.weight_decay)
        torch._foreach_add_(group, list(update.to(momentum.dtype).unbind()), alpha=-rate * scale)

    def state_dict(self) -> dict[str, Any]:
        return {"rest": self.rest.state_dict(), "momenta": self.momenta}

    def load_state_dict(self, kept: dict[str, Any]) -> None:
        self.rest.load_state_dict(kept["rest"])
        for momentum, before in zip(self.momenta, kept["momenta"], strict=True):
            momentum.copy_(before)

    def zero_grad(self) -> None:
        self.rest.zero_grad(set_to_none=True)
        for group in self.groups:
            for parameter in group:
                parameter.grad = None


def orthogonal(matrices: torch.Tensor) -> torch.Tensor:
    """Return nearly orthogonal matrices with the same singular vectors, by Newton-Schulz iteration."""
    a, b, c = NEWTON_SCHULZ
    found = matrices.bfloat16() if matrices.is_cuda else matrices.float()  # a CPU has no fast bfloat16
    is_tall = found.shape[-2] > found.shape[-1]
    if is_tall:
        found = found.mT
    found = found / (found.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(NEWTON_SCHULZ_STEPS):
        square = found @ found.mT
        found = a * found + (b * square + c * square @ square) @ found
    return found.mT if is_tall else found
