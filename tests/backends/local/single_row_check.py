"""Compares the kernels for a single row with `decode_layer`, in Triton's interpreter: no GPU is needed."""

from __future__ import annotations

import torch

from interleave.backends.qwen3_vl import single_row_kernels as kernels
from interleave.backends.qwen3_vl.decoder_layer import LayerWeights, decode_layer, draft_layer, rms_norm

HIDDEN, INNER, HEADS, GROUP, WIDTH, CAPACITY, EPS = 64, 96, 2, 4, 32, 256, 1e-6
DRAFT = 4


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


def main() -> None:
    torch.manual_seed(0)
    layer, head = weights(), numbers(128, HIDDEN)
    cache = [numbers(1, HEADS, 1, CAPACITY, WIDTH) for _ in range(2)]
    assert kernels.supports(layer, head, cache[0], DRAFT)
    assert not kernels.supports(layer, head.float(), cache[0].float())
    for place in (5, 62, 127, CAPACITY - DRAFT):
        states, cosine, sine = 10 * numbers(DRAFT, HIDDEN), numbers(DRAFT, WIDTH), numbers(DRAFT, WIDTH)
        plain, single, drafted, checked = ([each.clone() for each in cache] for _ in range(4))
        by_kernel = []
        for token in range(DRAFT):
            at = torch.tensor([place + token])
            one = (states[token : token + 1], cosine[token : token + 1], sine[token : token + 1])
            mask = torch.zeros(1, CAPACITY).masked_fill(torch.arange(CAPACITY) > at, -torch.inf)
            expected = decode_layer(one[0], layer, *plain, *one[1:], at, mask.view(1, 1, CAPACITY), EPS)
            row = kernels.SingleRow(layer, single[0])
            by_kernel.append(row.layer(one[0], layer, *single, *one[1:], at, None, EPS))
            torch.testing.assert_close(by_kernel[-1], expected, atol=4e-3, rtol=4e-3)
        at = torch.tensor([place])
        several = kernels.SingleRow(layer, drafted[0], DRAFT)
        together = several.layer(states, layer, *drafted, cosine, sine, at, None, EPS)
        assert torch.equal(together, torch.cat(by_kernel)), "a draft changes the digits of a token"
        for one_by_one, at_once in zip(single, drafted, strict=True):
            assert torch.equal(one_by_one, at_once)
        expected = draft_layer(states, layer, *checked, cosine, sine, at, None, EPS)
        torch.testing.assert_close(together, expected, atol=4e-3, rtol=4e-3)
        logits = several.logits(together, layer.input_norm, head, EPS)
        expected = torch.nn.functional.linear(rms_norm(together, layer.input_norm, EPS), head)
        torch.testing.assert_close(logits, expected, atol=4e-3, rtol=4e-3)


if __name__ == "__main__":
    main()
