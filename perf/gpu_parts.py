"""Breaks down the time of an image and of a verdict. The device is synchronized after each part."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from gpu_bench import PROMPT, Bench

from interleave.agents.critic import critic_input, critic_messages
from interleave.agents.prompts import load_pack
from interleave.backends.protocols import ImageRequest, Sampling
from interleave.local.diffusers_generator import DiffusersGenerator
from interleave.local.transformers_vlm import TransformersVlm

Parts = dict[str, tuple[Any, str]]
"""Object and method name of each part, by name."""


def measure_drawing(bench: Bench, generator: DiffusersGenerator, together: int, remark: str) -> None:
    """Measure the time per image in a batch."""
    pipeline = generator.pipeline
    parts: Parts = {
        "prompt": (pipeline.text_encoder, "forward"),
        "sources": (pipeline, "prepare_image_latents"),
        "denoising": (pipeline.transformer, "forward"),
        "picture": (pipeline.vae, "decode"),
    }

    requests = [ImageRequest(PROMPT, seed, (bench.image(seed),)) for seed in range(together)]

    async def draw() -> None:
        await asyncio.gather(*(generator.generate(request) for request in requests))

    whole, spent = _spent(bench, lambda: asyncio.run(draw()), parts)
    _note(bench, "drawing", together, whole, spent, remark=remark)


def measure_judging(bench: Bench, critic: TransformersVlm, together: int) -> None:
    """Measure the time per verdict in a batch."""
    decoder = critic.loaded.decoder
    parts: Parts = {
        "preparing": (decoder, "_inputs"),
        "looking": (decoder.model.model, "get_image_features"),
        "reading": (decoder._graph_decoder, "_prefill"),
    }
    questions = [
        critic_messages(
            critic_input(PROMPT, PROMPT, (bench.image(number),), bench.image(-1 - number)),
            load_pack("default"),
        )
        for number in range(together)
    ]

    async def judge() -> None:
        sampling = Sampling(max_tokens=2 * bench.tokens)
        await asyncio.gather(*(critic.complete(each, sampling) for each in questions))

    whole, spent = _spent(bench, lambda: asyncio.run(judge()), parts)
    spent["reading"] -= spent["looking"]
    writing = whole - sum(spent.values())
    _note(
        bench, "judging", together, whole, spent, milliseconds_per_token=1000 * writing / (bench.tokens - 1)
    )


KERNELS = {
    "products": ("gemm", "nvjet", "cutlass", "xmma", "scaled_mm"),
    "attention": ("attention", "fmha", "flash", "sdpa"),
    "convolutions": ("conv", "implicit", "winograd"),
    "copies": ("memcpy", "memset"),
}
"""Words in kernel names, by kind; all others are element-wise."""


def measure_kernels(bench: Bench, generator: DiffusersGenerator, together: int, remark: str) -> None:
    """Measure device seconds per image in a batch, by kind of kernel."""
    requests = [ImageRequest(PROMPT, seed, (bench.image(3000 + seed),)) for seed in range(together)]

    async def draw() -> None:
        await asyncio.gather(*(generator.generate(request) for request in requests))

    asyncio.run(draw())
    generator.pipeline.kept_latents.clear()
    whole = bench.seconds(lambda: asyncio.run(draw()))
    generator.pipeline.kept_latents.clear()
    kinds = torch.profiler.ProfilerActivity
    device = kinds.CUDA if bench.device.type == "cuda" else kinds.CPU
    with torch.profiler.profile(activities=[device]) as profile:
        asyncio.run(draw())
        bench.settle()
    spent: dict[str, float] = defaultdict(float)
    names: dict[str, float] = defaultdict(float)
    for event in profile.events():
        if event.device_type.name == bench.device.type.upper():
            spent[_kind(event.name)] += event.device_time / 1e6 / together
            names[event.name[:60]] += event.device_time / 1e6 / together
    top = sorted(names.items(), key=lambda pair: -pair[1])[:12]
    idle = whole / together - sum(spent.values())
    bench.note(
        "kernels",
        together=together,
        each=whole / together,
        idle=idle,
        **spent,
        remark=remark,
        top=[[name, round(seconds, 4)] for name, seconds in top],
    )


def _kind(kernel: str) -> str:
    low = kernel.lower()
    found = (kind for kind, words in KERNELS.items() if any(word in low for word in words))
    return next(found, "elementwise")


def _note(bench: Bench, what: str, together: int, whole: float, spent: dict[str, float], **more: Any) -> None:
    each = {name: seconds / together for name, seconds in spent.items()}
    rest = (whole - sum(spent.values())) / together
    bench.note(what, together=together, each=whole / together, **each, rest=rest, **more)


def _spent(bench: Bench, work: Callable[[], None], parts: Parts) -> tuple[float, dict[str, float]]:
    """Return the seconds of the work and of its parts, after a warm-up."""
    work()
    spent: dict[str, float] = defaultdict(float)
    with ExitStack() as watched:
        for name, (owner, method) in parts.items():
            watched.enter_context(_timed(bench, owner, method, name, spent))
        return bench.seconds(work), spent


@contextmanager
def _timed(bench: Bench, owner: Any, method: str, name: str, spent: dict[str, float]) -> Iterator[None]:
    original, own = getattr(owner, method), method in vars(owner)

    def timed(*arguments: Any, **options: Any) -> Any:
        bench.settle()
        started = time.perf_counter()
        made = original(*arguments, **options)
        bench.settle()
        spent[name] += time.perf_counter() - started
        return made

    setattr(owner, method, timed)
    try:
        yield
    finally:
        if own:
            setattr(owner, method, original)
        else:
            delattr(owner, method)
