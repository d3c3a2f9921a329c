"""Limits of a device: minimum seconds of the parts of an attempt, from its measured speeds."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from typing import Any

import torch
from gpu_bench import GB, STEPS, Bench
from random_models import REAL

from interleave.local.fp8 import Float8Linear, supports_float8, to_float8


@dataclass(frozen=True)
class Ceilings:
    bytes_per_second: float
    operations_per_second: float
    float8_per_second: float | None
    """Operations on float8 numbers; None if the device does not support them."""


def measure_ceilings(bench: Bench) -> Ceilings:
    """Measure the speed of a copy and of a large matrix product, best of several."""
    real = bench.size is REAL
    block = torch.zeros(2**31 if real else 2**22, dtype=torch.uint8, device=bench.device)
    other = torch.empty_like(block)
    copying = min(bench.seconds(lambda: other.copy_(block)) for _ in range(6))
    side = 8192 if real else 256
    left = torch.randn(side, side, dtype=bench.dtype, device=bench.device)

    def multiply() -> None:
        for _ in range(10):
            torch.mm(left, left)

    multiplying = min(bench.seconds(multiply) for _ in range(4)) / 10
    found = Ceilings(2 * block.numel() / copying, 2 * side**3 / multiplying, _float8_speed(bench, left))
    bench.note(
        "ceilings",
        device=torch.cuda.get_device_name() if bench.device.type == "cuda" else platform.machine(),
        terabytes_per_second=found.bytes_per_second / 1e12,
        teraflops=found.operations_per_second / 1e12,
        float8_teraflops=found.float8_per_second and found.float8_per_second / 1e12,
        python=platform.python_version(),
        date=str(date.today()),
        **{name: version(name) for name in ("torch", "transformers", "diffusers")},
    )
    return found


def _float8_speed(bench: Bench, matrix: torch.Tensor) -> float | None:
    if bench.device.type != "cuda" or not supports_float8(bench.device):
        return None
    layer = Float8Linear(*to_float8(matrix), None)
    rows, scale = to_float8(matrix)

    def multiply() -> None:
        for _ in range(10):
            torch._scaled_mm(
                rows,
                layer.weight.t(),
                scale_a=scale,
                scale_b=layer.scale,
                out_dtype=torch.bfloat16,
                use_fast_accum=True,
            )

    return 20 * float(len(matrix)) ** 3 / min(bench.seconds(multiply) for _ in range(4))


@dataclass(frozen=True)
class Limits:
    """Minimum seconds of the parts of an attempt."""

    draw: float
    read: float
    weights: float
    """Reading all weights for the tokens of one verdict, independent of the batch size."""
    context: float
    """Reading the keys and values of one verdict."""

    def alone(self) -> float:
        return self.draw + self.read + self.weights + self.context

    def together(self, trajectories: int) -> float:
        """Return the seconds per attempt: arithmetic and memory traffic can overlap."""
        if trajectories == 1:
            return self.alone()
        return max(self.draw + self.read, self.weights / trajectories + self.context)


WORDS = 512
"""Tokens of a klein prompt, with padding."""


@dataclass(frozen=True)
class ImageWork:
    """Operations for an image, by kind."""

    products: float
    """Products with the weights of the blocks."""
    attention: float
    prompt: float

    def seconds(self, ceilings: Ceilings, *, float8: bool) -> float:
        fast = ceilings.float8_per_second if float8 else None
        usual = ceilings.operations_per_second
        return self.products / (fast or usual) + (self.attention + self.prompt) / usual


def image_work(bench: Bench, klein: Any, *, kv: bool) -> ImageWork:
    """Count the operations of an image with one source; `kv`: only the first step computes the source."""
    size = bench.size
    canvas = (size.side // 16) ** 2
    both = [(name, each.numel()) for name, each in klein.transformer.named_parameters() if "blocks." in name]
    single = sum(count for name, count in both if name.startswith("single"))
    of_words = sum(count for name, count in both if "context" in name or "add" in name)
    of_image = sum(count for _, count in both) - single - of_words
    blocks = size.drawer["num_layers"] + size.drawer["num_single_layers"]
    inner = size.drawer["num_attention_heads"] * size.drawer["attention_head_dim"]
    products = attention = 0.0
    for step in range(STEPS):
        image = canvas if kv and step else 2 * canvas  # the drawn image and its source
        products += 2 * (single * (WORDS + image) + of_words * WORDS + of_image * image)
        attention += 4 * (WORDS + image) * (WORDS + 2 * canvas) * inner * blocks
    layers = klein.text_encoder.model.layers.parameters()
    return ImageWork(products, attention, 2 * WORDS * sum(each.numel() for each in layers))


def limits_of(
    bench: Bench,
    ceilings: Ceilings,
    critic: Any,
    work: ImageWork,
    question: int,
    *,
    float8: bool = False,
) -> Limits:
    """Compute limits from the weights; `question` is the critic's prompt in tokens, `float8` its dtype."""
    size, text = bench.size, bench.size.text
    canvas = (size.side // 16) ** 2
    layers = critic.model.language_model.layers
    per_token = sum(each.numel() for each in layers.parameters())
    products = 2 * per_token * question
    attending = 2 * question**2 * text["hidden_size"] * text["num_hidden_layers"]
    tower = sum(each.numel() for each in critic.model.visual.blocks.parameters())
    looking = 2 * (2 * tower * canvas + 4 * canvas**2 * size.vision["hidden_size"] * size.vision["depth"])
    wide = bench.dtype.itemsize
    weights = (1 if float8 else wide) * per_token + wide * critic.lm_head.weight.numel()
    usual = ceilings.operations_per_second
    fast = ceilings.float8_per_second or usual if float8 else usual
    kept = 2 * wide * text["num_key_value_heads"] * text["head_dim"] * text["num_hidden_layers"]
    found = Limits(
        draw=work.seconds(ceilings, float8=False),
        read=products / fast + (attending + looking) / usual,
        weights=bench.tokens * weights / ceilings.bytes_per_second,
        context=bench.tokens * kept * (question + bench.tokens / 2) / ceilings.bytes_per_second,
    )
    bench.note(
        "limits",
        draw=found.draw,
        read=found.read,
        weights=found.weights,
        context=found.context,
        question_tokens=question,
        weights_gigabytes=weights / GB,
        critic_in_float8=float8,
        draw_teraflop=(work.products + work.attention + work.prompt) / 1e12,
        attention_teraflop=work.attention / 1e12,
    )
    return found
