"""Training against the clock: a share of the planned time decides the learning rate and the end."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WARM_UP = 0.02
FLOOR = 0.02


class Clock:
    """Counts the time spent on a stage, in this session and before it."""

    def __init__(self, minutes: float, *, spent: float = 0.0, stop_after: float | None = None) -> None:
        self.planned = minutes * 60
        self.before = spent
        self.stop_after = None if stop_after is None else stop_after * 60
        self.started = time.monotonic()

    @property
    def now(self) -> float:
        """Seconds of this session."""
        return time.monotonic() - self.started

    @property
    def spent(self) -> float:
        return self.before + self.now

    @property
    def share(self) -> float:
        """How much of the planned time is over."""
        return min(1.0, self.spent / self.planned) if self.planned else 1.0

    @property
    def is_over(self) -> bool:
        return self.share >= 1

    def steps(self) -> Iterator[int]:
        """Steps until the planned time, or that of this session, is over; at least one."""
        step = 0
        while True:
            yield step
            step += 1
            if self.is_over or (self.stop_after is not None and self.now >= self.stop_after):
                return


def learning_rate(highest: float, share: float) -> float:
    """A short rise, then a cosine down to almost nothing."""
    if share < WARM_UP:
        return highest * max(share, 1e-3) / WARM_UP
    fall = 0.5 * (1 + math.cos(math.pi * (share - WARM_UP) / (1 - WARM_UP)))
    return highest * (FLOOR + (1 - FLOOR) * fall)


class Log:
    """Facts about a training, one JSON object a line, and on the terminal."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)

    def write(self, **facts: Any) -> None:
        rounded = {
            key: round(value, 5) if isinstance(value, float) else value for key, value in facts.items()
        }
        with self.path.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(rounded) + "\n")
        print("  ".join(f"{key} {value}" for key, value in rounded.items()), flush=True)
