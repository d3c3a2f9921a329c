"""Shared parts of the training loops: a wall-clock schedule, an average of the weights, a log."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

WARM_UP = 0.02
FLOOR = 0.02


class TimedSchedule:
    """Time spent on a stage, in this session and earlier ones; `progress` determines rate and end."""

    def __init__(self, minutes: float, *, spent: float = 0.0, stop_after: float | None = None) -> None:
        self.planned = minutes * 60
        self.before = spent
        self.stop_after = None if stop_after is None else stop_after * 60
        self.started = time.monotonic()

    @property
    def now(self) -> float:
        """Seconds since this session began."""
        return time.monotonic() - self.started

    @property
    def spent(self) -> float:
        return self.before + self.now

    @property
    def progress(self) -> float:
        """Share of the planned time that is spent, 0 to 1."""
        return min(1.0, self.spent / self.planned) if self.planned else 1.0

    @property
    def is_over(self) -> bool:
        return self.progress >= 1

    def steps(self) -> Iterator[int]:
        """Yield step numbers until the planned time, or that of this session, is over; at least one."""
        step = 0
        while True:
            yield step
            step += 1
            if self.is_over or (self.stop_after is not None and self.now >= self.stop_after):
                return


def learning_rate(highest: float, progress: float) -> float:
    """Return the rate: a short linear warm-up, then a cosine decay to almost zero."""
    if progress < WARM_UP:
        return highest * max(progress, 1e-3) / WARM_UP
    fall = 0.5 * (1 + math.cos(math.pi * (progress - WARM_UP) / (1 - WARM_UP)))
    return highest * (FLOOR + (1 - FLOOR) * fall)


class WeightAverage:
    """An exponential moving average of the parameters of some modules, with a faster decay at the start.

    It draws better than the weights of a single step.
    """

    def __init__(self, *modules: Any, decay: float = 0.999) -> None:
        self.parameters = [parameter for module in modules for parameter in module.parameters()]
        self.mean = [parameter.detach().clone().float() for parameter in self.parameters]
        self.decay = decay
        self.updates = 0

    def update(self) -> None:
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        with torch.no_grad():
            torch._foreach_lerp_(self.mean, [p.detach().float() for p in self.parameters], 1 - decay)

    def swap(self) -> None:
        """Swap the weights and their average: once to evaluate or save, again to continue."""
        with torch.no_grad():
            for parameter, mean in zip(self.parameters, self.mean, strict=True):
                now = parameter.detach().clone().float()
                parameter.copy_(mean)
                mean.copy_(now)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Use the averaged weights in the modules within the block."""
        self.swap()
        try:
            yield
        finally:
            self.swap()


class Log:
    """The log of a training: one JSON object per line, also shown on the terminal."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)

    def write(self, **values: Any) -> None:
        rounded = {
            key: round(value, 5) if isinstance(value, float) else value for key, value in values.items()
        }
        with self.path.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(rounded) + "\n")
        print("  ".join(f"{key} {value}" for key, value in rounded.items()), flush=True)
