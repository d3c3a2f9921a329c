"""Shared by the measurements of an attempt: size, device, clock and results file."""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from random_models import Size

STEPS = 4
PROMPT = "the frog has grown hind legs; keep the pond, the light and the style as they are"
GB = 1e9
PLAN = (
    "<think>One step.</think><answer>{'execution_plan': [{'step_number': 1, "
    "'instruction': 'A pond lies still', 'prompt': 'a green pond, watercolour'}]}</answer>"
)
"""Reply of the planner."""


@dataclass
class Bench:
    """Settings of a measurement, and its results."""

    options: argparse.Namespace
    size: Size
    device: torch.device
    dtype: torch.dtype
    tokens: int
    rows: list[dict[str, Any]] = field(default_factory=list)
    within: float | None = None
    """Limit of device memory in gigabytes; None: all."""

    def note(self, what: str, **figures: Any) -> None:
        rounded = {
            key: round(value, 4) if isinstance(value, float) else value for key, value in figures.items()
        }
        row = {"what": what, **rounded}
        self.rows.append(row)
        print(json.dumps(row), flush=True)
        if self.options.results:
            _append(self.options.results, row)

    def image(self, seed: int = 0) -> Image.Image:
        generator = torch.Generator().manual_seed(seed)
        coarse = torch.randint(0, 256, (16, 16, 3), generator=generator, dtype=torch.uint8)
        return Image.fromarray(coarse.numpy()).resize((self.size.side, self.size.side))

    def settle(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def seconds(self, work: Callable[[], object]) -> float:
        self.settle()
        started = time.perf_counter()
        work()
        self.settle()
        return time.perf_counter() - started

    def memory(self) -> float:
        """Return the peak gigabytes since the last call, and reset the peak."""
        if self.device.type != "cuda":
            return 0.0
        most = self.peak_memory()
        torch.cuda.reset_peak_memory_stats()
        return most

    def peak_memory(self) -> float:
        """Return the peak gigabytes without resetting it."""
        return torch.cuda.max_memory_reserved() / GB if self.device.type == "cuda" else 0.0

    def held_memory(self) -> float:
        """Return the gigabytes held by tensors of this process."""
        return torch.cuda.memory_allocated() / GB if self.device.type == "cuda" else 0.0

    def card_memory(self) -> float:
        """Return the used gigabytes of the device, by all processes."""
        if self.device.type != "cuda":
            return 0.0
        free, whole = torch.cuda.mem_get_info()
        return (whole - free) / GB

    def free(self) -> None:
        """Return unused cached memory to the device."""
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()


def _append(path: Path, row: dict[str, Any]) -> None:
    rows = json.loads(path.read_text()) if path.exists() else []
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([*rows, row], indent=1) + "\n")
