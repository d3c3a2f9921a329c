"""A moving average of weights, which draws better than any single moment of training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Average:
    """Follows the parameters of some modules; young averages follow faster."""

    def __init__(self, *modules: Any, decay: float = 0.999) -> None:
        import torch

        self.torch = torch
        self.parameters = [parameter for module in modules for parameter in module.parameters()]
        self.mean = [parameter.detach().clone().float() for parameter in self.parameters]
        self.decay = decay
        self.updates = 0

    def update(self) -> None:
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        with self.torch.no_grad():
            self.torch._foreach_lerp_(self.mean, [p.detach().float() for p in self.parameters], 1 - decay)

    def swap(self) -> None:
        """Exchange the weights and their average: once to evaluate or save, once more to go on."""
        with self.torch.no_grad():
            for parameter, mean in zip(self.parameters, self.mean, strict=True):
                now = parameter.detach().clone().float()
                parameter.copy_(mean)
                mean.copy_(now)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Within it the modules have the averaged weights."""
        self.swap()
        try:
            yield
        finally:
            self.swap()
