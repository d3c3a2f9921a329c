"""Compares the kernels for a single row with `decode_layer`, in Triton's interpreter: no GPU is needed."""

from __future__ import annotations

import torch

from interleave.local.float8_kernels import round_rows
from interleave.local.fp8 import FLOAT8, LEAST_SCALE, to_float8
from interleave.local.qwen3_vl import single_row_kernels as kernels
from interleave.local.qwen3_vl.decoder_layer import Float8Weights, LayerWeights, decode_layer, rms_norm

HIDDEN, INNER, HEADS, GROUP, WIDTH, CAPACITY, EPS = 64, 96, 2, 4, 32, 256, 1e-6


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float16) * 0.1


def weights() -> LayerWeights:
    queries, keys = HEADS * GROUP * WIDTH, HEADS * WIDTH
    return LayerWeights(
        input_norm=1 + numbers(HIDDEN),
        query=numbers(queries, HIDDEN),
        key=numbers(keys, HIDDEN),
        value=numbers(keys, HIDDEN),
        query_norm=1 + numbers(WIDTH),
        key_norm=1 + numbers(WIDTH),
        out=numbers(HIDDEN, queries),
        post_attention_norm=1 + numbers(HIDDEN),
        gate=numbers(INNER, HIDDEN),
        up=numbers(INNER, HIDDEN),
        down=numbers(HIDDEN, INNER),
    )


def in_float8(layer: LayerWeights) -> LayerWeights:
    rounded = {name: each for name, each in layer._asdict().items() if each.ndim == 2}
    return layer._replace(**{name: Float8Weights(*_flat(each)) for name, each in rounded.items()})


def _flat(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    rows, scale = to_float8(matrix)
    return rows, scale.flatten()


def exactly(layer: LayerWeights) -> LayerWeights:
    """The same weights in half precision, which the kernels multiply without rounding the states."""
    return LayerWeights(
        *(
            (each.weight.float() * each.scale[:, None]).half() if isinstance(each, Float8Weights) else each
            for each in layer
        )
    )


def main() -> None:
    torch.manual_seed(0)
    layer = weights()
    compare(layer, layer)
    compare(in_float8(layer), exactly(in_float8(layer)))
    check_rounding()


def check_rounding() -> None:
    """Of numbers that float8 holds: the interpreter rounds others wrongly where that carries."""
    rows = torch.cat([numbers(3, 100), 1e3 * numbers(1, 100), torch.zeros(1, 100)]).float()
    rounded, scale = to_float8(rows)
    found, found_scale = round_rows(rounded.float() * scale, FLOAT8, LEAST_SCALE)
    torch.testing.assert_close(found_scale, scale, rtol=1e-6, atol=0)
    assert torch.equal(found.float(), rounded.float())


def compare(layer: LayerWeights, plain_layer: LayerWeights) -> None:
    head = numbers(128, HIDDEN)
    cache = [numbers(1, HEADS, 1, CAPACITY, WIDTH) for _ in range(2)]
    assert kernels.supports(layer, head, cache[0])
    assert not kernels.supports(layer, head.float(), cache[0].float())
    for place in (0, 5, 63, 64, CAPACITY - 1):
        states, cosine, sine = 10 * numbers(1, HIDDEN), numbers(1, WIDTH), numbers(1, WIDTH)
        plain, single = ([each.clone() for each in cache] for _ in range(2))
        at = torch.tensor([place])
        mask = torch.zeros(1, CAPACITY).masked_fill(torch.arange(CAPACITY) > at, -torch.inf)
        expected = decode_layer(states, plain_layer, *plain, cosine, sine, at, mask.view(1, 1, CAPACITY), EPS)
        row = kernels.SingleRow(layer, single[0])
        found = row.layer(states, layer, *single, cosine, sine, at, None, EPS)
        torch.testing.assert_close(found, expected, atol=4e-3, rtol=4e-3)
        for stored, wanted in zip(single, plain, strict=True):
            torch.testing.assert_close(stored, wanted, atol=2e-3, rtol=2e-3)
        logits = row.logits(found, layer.input_norm, head, EPS)
        wanted = torch.nn.functional.linear(rms_norm(found, layer.input_norm, EPS), head)
        torch.testing.assert_close(logits, wanted, atol=4e-3, rtol=4e-3)


if __name__ == "__main__":
    main()
