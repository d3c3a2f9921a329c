"""Measures the largest matrix products of an image at sustained speed, on a warm device."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from gpu_bench import Bench
from gpu_limits import WORDS
from random_models import REAL

from interleave.local.fp8 import to_float8

SUSTAINED_SECONDS = 0.5
"""Long enough for a GPU to become warm, which takes more than a few milliseconds."""
TOGETHER = 4


def measure_products(bench: Bench) -> None:
    """Measure the two products of a single block, in teraflops."""
    inner = bench.size.drawer["num_attention_heads"] * bench.size.drawer["attention_head_dim"]
    rows = TOGETHER * (2 * (bench.size.side // 16) ** 2 + WORDS)
    for name, (width, height) in {"in": (inner, 9 * inner), "out": (4 * inner, inner)}.items():
        states = torch.randn(rows, width, device=bench.device, dtype=bench.dtype)
        weight = torch.randn(height, width, device=bench.device, dtype=bench.dtype)
        work = 2.0 * rows * width * height / 1e12
        figures = {"bf16": work / _sustained(bench, partial(torch.mm, states, weight.t()))}
        if bench.device.type == "cuda":
            (eight, scale), (weights, scales) = to_float8(states), to_float8(weight)
            multiply = partial(
                torch._scaled_mm,
                eight,
                weights.t(),
                scale_a=scale,
                scale_b=scales.view(1, -1),
                out_dtype=torch.bfloat16,
            )
            for kind, fast in (("float8", True), ("float8_exact_sums", False)):
                figures[kind] = work / _sustained(bench, partial(multiply, use_fast_accum=fast))
        bench.note("product", which=name, **figures)


def _sustained(bench: Bench, work: Callable[[], object]) -> float:
    """Return the seconds of one call, after many."""
    bench.seconds(work)
    times = max(2, int(SUSTAINED_SECONDS / bench.seconds(work) / 2)) if bench.size is REAL else 2

    def many() -> None:
        for _ in range(times):
            work()

    bench.seconds(many)
    return bench.seconds(many) / times
