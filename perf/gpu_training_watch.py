"""Times every step of a trainer with the device synchronized, and profiles one of them."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from gpu_bench import Bench
from transformers import TrainerCallback

KINDS = {
    "products of matrices": ("gemm", "nvjet", "cutlass", "cublas", "sm90_xmma", "splitk", "gemv"),
    "attention": ("flash", "fmha", "attention", "cudnn_generated"),
    "optimizer": ("multi_tensor", "foreach", "adam"),
    "copies": ("memcpy", "memset", "copy_kernel", "direct_copy", "catarray"),
    "compiled element-wise": ("triton",),
    "element-wise and norms": ("elementwise", "reduce", "norm", "softmax", "index", "vectorized", "unrolled"),
}


class Watch(TrainerCallback):  # type: ignore[misc]
    """Timer of one training."""

    def __init__(self, bench: Bench, *, profile_last: bool = False) -> None:
        self.bench = bench
        self.steps: list[float] = []
        self.profile: dict[str, float] = {}
        """Shares of the device's time in the last step, by kind of kernel; `idle` is a share of the step."""
        self.trainer: Any = None
        self.begin: Callable[[int], None] = lambda number: None
        """Callback before each step with its number, from 0 on."""
        self.logged: Callable[[], None] = lambda: None
        """Callback after the line of a step is in the log."""
        self._profile_last = profile_last
        self._profiler: Any = None
        self._began = 0.0

    @contextmanager
    def watching(self, module: Any, name: str) -> Iterator[None]:
        """Add this callback to the product's trainer."""
        original = getattr(module, name)

        def with_watch(trainer: Any, *arguments: Any) -> None:
            original(trainer, *arguments)
            trainer.add_callback(self)
            self.trainer = trainer

        setattr(module, name, with_watch)
        try:
            yield
        finally:
            setattr(module, name, original)

    def on_step_begin(self, args: Any, state: Any, control: Any, **known: Any) -> None:
        self.begin(state.global_step)
        last = state.global_step + 1 == state.max_steps
        if self._profile_last and last and self.bench.device.type == "cuda":
            self._profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
            self._profiler.start()
        self.bench.settle()
        self._began = time.perf_counter()

    def on_step_end(self, args: Any, state: Any, control: Any, **known: Any) -> None:
        self.bench.settle()
        self.steps.append(time.perf_counter() - self._began)
        peak = self.bench.peak_memory()
        # in case the rest is interrupted
        print(f"  step {state.global_step}: {self.steps[-1]:.3f} s, {peak:.1f} GB", flush=True)
        if self._profiler is not None:
            self._profiler.stop()
            self.profile = _shares(self._profiler, self.steps[-1])
            self._profiler = None

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **known: Any) -> None:
        if logs and "loss" in logs:
            self.logged()


def _shares(profiler: Any, whole: float) -> dict[str, float]:
    spent: dict[str, float] = defaultdict(float)
    unknown: dict[str, float] = defaultdict(float)
    for event in profiler.key_averages():
        seconds = event.self_device_time_total / 1e6
        name = event.key.lower()
        kind = next((kind for kind, words in KINDS.items() if any(word in name for word in words)), None)
        spent[kind or "other"] += seconds
        if kind is None:
            unknown[event.key[:60]] += seconds
    for name, seconds in sorted(unknown.items(), key=lambda pair: -pair[1])[:4]:
        print(f"  other: {name} {seconds:.3f} s", flush=True)
    spent["idle"] = max(0.0, whole - sum(spent.values()))
    return {kind: round(seconds / whole, 3) for kind, seconds in sorted(spent.items(), key=lambda p: -p[1])}
