"""One token through one layer of a Qwen3-VL model, as arithmetic on its weights and a cache cut into pieces.

It is the library's own arithmetic; what differs is that nothing of it depends on the length of a row, so that
it can be recorded once and played for every token.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

RECOMPILE_LIMIT = 64


class Layer(NamedTuple):
    """The weights of one layer."""

    before_attention: Tensor
    query: Tensor
    key: Tensor
    value: Tensor
    query_norm: Tensor
    key_norm: Tensor
    out: Tensor
    before_mlp: Tensor
    gate: Tensor
    up: Tensor
    down: Tensor


def linear_parts(layer: Any) -> tuple[Any, ...]:
    """The matrices of a layer, in the order of `Layer`."""
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


def weights_of(layer: Any) -> Layer:
    """The weights of a layer of the library."""
    query, key, value, out, gate, up, down = (part.weight for part in linear_parts(layer))
    attention = layer.self_attn
    return Layer(
        before_attention=layer.input_layernorm.weight,
        query=query,
        key=key,
        value=value,
        query_norm=attention.q_norm.weight,
        key_norm=attention.k_norm.weight,
        out=out,
        before_mlp=layer.post_attention_layernorm.weight,
        gate=gate,
        up=up,
        down=down,
    )


def through_layer(
    hidden: Tensor,
    weights: Layer,
    keys: Tensor,
    values: Tensor,
    cosine: Tensor,
    sine: Tensor,
    place: Tensor,
    hides: Tensor,
    eps: float,
) -> Tensor:
    """One token of every row through one layer; its key and value are put into the cache."""
    import torch
    from torch.nn.functional import linear, silu

    rows, heads, _, piece, head = keys.shape
    seen = normed(hidden, weights.before_attention, eps)
    query = normed(linear(seen, weights.query).view(rows, -1, head), weights.query_norm, eps)
    key = normed(linear(seen, weights.key).view(rows, heads, head), weights.key_norm, eps)
    value = linear(seen, weights.value).view(rows, heads, head)
    query, key = turned(query, cosine, sine), turned(key, cosine, sine)
    row = torch.arange(rows, device=place.device)
    keys[row, :, place // piece, place % piece] = key
    values[row, :, place // piece, place % piece] = value
    grouped = query.view(rows, heads, 1, -1, head)
    scores = torch.matmul(grouped, keys.transpose(-1, -2)).float() * head**-0.5
    scores = scores + hides[:, None, :, None, :]
    shares = (scores - scores.amax(dim=(2, 4), keepdim=True)).exp()
    parts = torch.matmul(shares.to(values.dtype), values).float().sum(dim=2)
    attended = parts / shares.sum(dim=(2, 4))[..., None]
    hidden = hidden + linear(attended.view(rows, -1).to(hidden.dtype), weights.out)
    seen = normed(hidden, weights.before_mlp, eps)
    mixed: Tensor = silu(linear(seen, weights.gate)) * linear(seen, weights.up)
    return hidden + linear(mixed, weights.down)


def normed(states: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Divided by the root of the mean square."""
    precise = states.float()
    scaled: Tensor = precise * (precise.pow(2).mean(-1, keepdim=True) + eps).rsqrt()
    return weight * scaled.to(states.dtype)


def turned(states: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Heads, rotated by their positions."""
    import torch

    first, second = states.chunk(2, dim=-1)
    return states * cosine[:, None] + torch.cat((-second, first), dim=-1) * sine[:, None]


def likeliest(logits: Tensor) -> tuple[Tensor, Tensor]:
    """The token that is chosen, and its probability."""
    precise = logits.float()
    highest, token = precise.max(dim=-1)
    return token, (highest - precise.logsumexp(dim=-1)).exp().clamp(max=1.0)


@cache
def compiled_layer() -> Callable[..., Tensor]:
    """One compiled function for all layers, batches and lengths: minutes less than compiling each."""
    import torch
    import torch._dynamo.config as dynamo

    dynamo.recompile_limit = max(dynamo.recompile_limit, RECOMPILE_LIMIT)
    compiled = torch.compile(through_layer, fullgraph=True)

    def layer(*given: Any) -> Tensor:
        hidden, _, keys, values, cosine, sine, place, hides, _ = given
        varying = [(keys, 2), (values, 2), (hides, 1)]
        if len(hidden) > 1:  # one row is compiled for by itself, and is faster so
            varying += [(each, 0) for each in (hidden, keys, values, cosine, sine, place, hides)]
        for tensor, dimension in varying:
            torch._dynamo.maybe_mark_dynamic(tensor, dimension)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return compiled(*given)

    return layer
