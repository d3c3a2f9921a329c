"""One decode step of one decoder layer of Qwen3-VL, as arithmetic on its weights and a KV cache of blocks.

The arithmetic is the library's. Unlike the library's, no shape in it depends on how many tokens a row has, so
a CUDA graph of it can be captured once and replayed for every token.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear, silu

RECOMPILE_LIMIT = 64


class LayerWeights(NamedTuple):
    """The weights of one decoder layer."""

    input_norm: Tensor
    query: Tensor
    key: Tensor
    value: Tensor
    query_norm: Tensor
    key_norm: Tensor
    out: Tensor
    post_attention_norm: Tensor
    gate: Tensor
    up: Tensor
    down: Tensor


def linear_modules(layer: Any) -> tuple[Any, ...]:
    """The linear modules of a layer, in the order of `LayerWeights`."""
    attention, mlp = layer.self_attn, layer.mlp
    return (
        attention.q_proj,
        attention.k_proj,
        attention.v_proj,
        attention.o_proj,
        mlp.gate_proj,
        mlp.up_proj,
        mlp.down_proj,
    )


def layer_weights(layer: Any) -> LayerWeights:
    """The weights of one of the library's layers."""
    query, key, value, out, gate, up, down = (module.weight for module in linear_modules(layer))
    attention = layer.self_attn
    return LayerWeights(
        input_norm=layer.input_layernorm.weight,
        query=query,
        key=key,
        value=value,
        query_norm=attention.q_norm.weight,
        key_norm=attention.k_norm.weight,
        out=out,
        post_attention_norm=layer.post_attention_layernorm.weight,
        gate=gate,
        up=up,
        down=down,
    )


def decode_layer(
    hidden: Tensor,
    weights: LayerWeights,
    keys: Tensor,
    values: Tensor,
    cosine: Tensor,
    sine: Tensor,
    cache_position: Tensor,
    mask: Tensor,
    eps: float,
) -> Tensor:
    """One token of every row through one layer; its key and value are written into the KV cache."""
    rows, heads, _, block_size, head_dim = keys.shape
    normed = rms_norm(hidden, weights.input_norm, eps)
    query = rms_norm(linear(normed, weights.query).view(rows, -1, head_dim), weights.query_norm, eps)
    key = rms_norm(linear(normed, weights.key).view(rows, heads, head_dim), weights.key_norm, eps)
    value = linear(normed, weights.value).view(rows, heads, head_dim)
    query, key = apply_rope(query, cosine, sine), apply_rope(key, cosine, sine)
    row = torch.arange(rows, device=cache_position.device)
    keys[row, :, cache_position // block_size, cache_position % block_size] = key
    values[row, :, cache_position // block_size, cache_position % block_size] = value
    grouped = query.view(rows, heads, 1, -1, head_dim)
    scores = torch.matmul(grouped, keys.transpose(-1, -2)).float() * head_dim**-0.5
    scores = scores + mask[:, None, :, None, :]
    exponentials = (scores - scores.amax(dim=(2, 4), keepdim=True)).exp()
    weighted = torch.matmul(exponentials.to(values.dtype), values).float().sum(dim=2)
    attended = weighted / exponentials.sum(dim=(2, 4))[..., None]
    hidden = hidden + linear(attended.view(rows, -1).to(hidden.dtype), weights.out)
    normed = rms_norm(hidden, weights.post_attention_norm, eps)
    gated: Tensor = silu(linear(normed, weights.gate)) * linear(normed, weights.up)
    return hidden + linear(gated, weights.down)


def rms_norm(states: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Root mean square normalization, computed in float32."""
    precise = states.float()
    scaled: Tensor = precise * (precise.pow(2).mean(-1, keepdim=True) + eps).rsqrt()
    return weight * scaled.to(states.dtype)


def apply_rope(states: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotary position embedding of the heads of one token."""
    first, second = states.chunk(2, dim=-1)
    return states * cosine[:, None] + torch.cat((-second, first), dim=-1) * sine[:, None]


def greedy(logits: Tensor) -> tuple[Tensor, Tensor]:
    """The most likely token of every row, and its probability."""
    precise = logits.float()
    highest, token = precise.max(dim=-1)
    return token, (highest - precise.logsumexp(dim=-1)).exp().clamp(max=1.0)


@cache
def compiled_layer() -> Callable[..., Tensor]:
    """`decode_layer`, compiled once for all layers, batches and lengths: minutes less than for each."""
    import torch._dynamo.config as dynamo

    dynamo.recompile_limit = max(dynamo.recompile_limit, RECOMPILE_LIMIT)
    compiled = torch.compile(decode_layer, fullgraph=True)

    def layer(*arguments: Any) -> Tensor:
        hidden, _, keys, values, cosine, sine, cache_position, mask, _ = arguments
        dynamic = [(keys, 2), (values, 2), (mask, 1)]
        if len(hidden) > 1:  # a single row is faster with a compiled function of its own
            by_row = (hidden, keys, values, cosine, sine, cache_position, mask)
            dynamic += [(tensor, 0) for tensor in by_row]
        for tensor, dimension in dynamic:
            torch._dynamo.maybe_mark_dynamic(tensor, dimension)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return compiled(*arguments)

    return layer
