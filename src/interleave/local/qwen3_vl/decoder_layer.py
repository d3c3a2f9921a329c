"""One decode step of one decoder layer of Qwen3-VL, as arithmetic on its weights and a KV cache of blocks.

The arithmetic is the library's, but no shape depends on the number of tokens in a row. So a CUDA graph is
captured once and replayed for every token.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import linear, silu

from interleave.local.fp8 import Float8Linear, float8_product

RECOMPILE_LIMIT = 64


class LoraWeights(NamedTuple):
    """A weight matrix and a LoRA adapter, which is added to the output, never to the matrix."""

    weight: Tensor
    down: Tensor
    up: Tensor
    scale: float


class Float8Weights(NamedTuple):
    """A weight matrix in float8, and the scales of its rows."""

    weight: Tensor
    scale: Tensor


Projection: TypeAlias = "Tensor | LoraWeights | Float8Weights"


class LayerWeights(NamedTuple):
    """The weights of one decoder layer."""

    input_norm: Tensor
    query: Projection
    key: Projection
    value: Projection
    query_norm: Tensor
    key_norm: Tensor
    out: Projection
    post_attention_norm: Tensor
    gate: Projection
    up: Projection
    down: Projection


def linear_modules(layer: Any) -> tuple[Any, ...]:
    """Return the linear modules of a layer, in the order of `LayerWeights`."""
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
    """Return the weights of a layer of the library."""
    query, key, value, out, gate, up, down = map(projection, linear_modules(layer))
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


def projection(module: Any) -> Projection:
    """Return the weights of a linear module; an adapter's weights are copied in the dtype of the matrix."""
    if isinstance(module, Float8Linear):
        return Float8Weights(module.weight, module.scale.flatten())
    if not hasattr(module, "base_layer"):
        return module.weight
    (name,) = module.active_adapters
    weight = module.base_layer.weight
    down, up = (part[name].weight.detach().to(weight.dtype, copy=True) for part in _adapter(module))
    return LoraWeights(weight, down, up, float(module.scaling[name]))


def update_adapters(layer: Any, weights: LayerWeights) -> None:
    """Copy a layer's adapters again, into the tensors that a captured step reads."""
    names = ("query", "key", "value", "out", "gate", "up", "down")
    for name, module in zip(names, linear_modules(layer), strict=True):
        held = getattr(weights, name)
        if isinstance(held, LoraWeights):
            (adapter,) = module.active_adapters
            for mine, part in zip((held.down, held.up), _adapter(module), strict=True):
                mine.copy_(part[adapter].weight.detach())


def _adapter(module: Any) -> tuple[Any, Any]:
    return module.lora_A, module.lora_B


def project(states: Tensor, weights: Projection) -> Tensor:
    """Multiply states by a weight matrix and its adapter, if any."""
    if isinstance(weights, Tensor):
        return linear(states, weights)
    if isinstance(weights, Float8Weights):
        return float8_product(states, weights.weight, weights.scale)
    adapted = linear(linear(states, weights.down), weights.up) * weights.scale
    return linear(states, weights.weight) + adapted


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
    """Pass one token of every row through one layer; write its key and value into the KV cache."""
    rows, heads, _, block_size, head_dim = keys.shape
    normed = rms_norm(hidden, weights.input_norm, eps)
    query = rms_norm(project(normed, weights.query).view(rows, -1, head_dim), weights.query_norm, eps)
    key = rms_norm(project(normed, weights.key).view(rows, heads, head_dim), weights.key_norm, eps)
    value = project(normed, weights.value).view(rows, heads, head_dim)
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
    hidden = hidden + project(attended.view(rows, -1).to(hidden.dtype), weights.out)
    normed = rms_norm(hidden, weights.post_attention_norm, eps)
    gated: Tensor = silu(project(normed, weights.gate)) * project(normed, weights.up)
    return hidden + project(gated, weights.down)


def rms_norm(states: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Apply root mean square normalization, computed in float32."""
    precise = states.float()
    scaled: Tensor = precise * (precise.pow(2).mean(-1, keepdim=True) + eps).rsqrt()
    return weight * scaled.to(states.dtype)


def apply_rope(states: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Apply the rotary position embedding to the heads of one token."""
    first, second = states.chunk(2, dim=-1)
    return states * cosine[:, None] + torch.cat((-second, first), dim=-1) * sine[:, None]


@cache
def compiled_layer() -> Callable[..., Tensor]:
    """Return `decode_layer` compiled once for all layers, batches and lengths, which saves minutes."""
    import torch._dynamo.config as dynamo

    dynamo.recompile_limit = max(dynamo.recompile_limit, RECOMPILE_LIMIT)
    compiled = torch.compile(decode_layer, fullgraph=True)

    def layer(*arguments: Any) -> Tensor:
        hidden, _, keys, values, cosine, sine, cache_position, mask, _ = arguments
        dynamic = [(keys, 2), (values, 2), (mask, 1)]
        if len(hidden) > 1:  # a single row is faster with a separately compiled function
            by_row = (hidden, keys, values, cosine, sine, cache_position, mask)
            dynamic += [(tensor, 0) for tensor in by_row]
        for tensor, dimension in dynamic:
            torch._dynamo.maybe_mark_dynamic(tensor, dimension)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return compiled(*arguments)

    return layer
