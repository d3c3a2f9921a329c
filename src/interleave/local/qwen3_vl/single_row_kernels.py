"""Triton kernels to decode a single reply: six per layer, each of which prefetches its weights.

With one row every product reads a whole matrix for one vector, so a token takes as long as reading all
weights. Library kernels start when the previous one has ended, and memory idles in between. Here a kernel
loads its part of the weights as soon as there is room, and only then waits for the previous kernel's vector
(programmatic dependent launch, Hopper and newer). Norms, residuals and the rotary position are part of the
products, and attention is split over the tokens.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra.cuda import (
    gdc_launch_dependents,
    gdc_wait,
)

from interleave.local.qwen3_vl.decoder_layer import Float8Weights, LayerWeights, LoraWeights

TOKENS = 64
"""Tokens that a program attends to."""
LEAST_SIDE = 16
"""Minimum rows of a matrix product: the queries of a group are padded to this."""
HALF_PRECISION = (torch.bfloat16, torch.float16)
HOPPER = (9, 0)

Shape = tuple[int, int]
"""Rows of a matrix that a program multiplies, and its warps."""
SHAPES: dict[str, Shape] = {"qkv": (4, 8), "out": (4, 8), "gated": (2, 8), "down": (2, 8), "head": (4, 8)}
FLOAT8_SHAPES: dict[str, Shape] = {
    "qkv": (8, 8),
    "out": (8, 8),
    "gated": (4, 4),
    "down": (2, 4),
    "head": (8, 4),
}
"""The same for matrices in float8; the head stays in half precision."""


@triton.jit
def _before_input(AHEAD: tl.constexpr):
    """Let the next kernel load its weights, and wait for the output of the previous kernel."""
    if AHEAD:
        gdc_launch_dependents()
        gdc_wait()


@triton.jit
def _tile(matrix, start, width: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Load some rows of a matrix, padded with zeros to a power of two."""
    columns = tl.arange(0, COLUMNS)
    places = tl.arange(0, ROWS)[:, None] * width + columns[None, :]
    begin = matrix + start.to(tl.int64) * width
    if width == COLUMNS:
        return tl.load(begin + places, eviction_policy="evict_first")
    return tl.load(begin + places, mask=(columns < width)[None, :], other=0.0, eviction_policy="evict_first")


@triton.jit
def _unscaled(total, scales, start, ROWS: tl.constexpr, SCALED: tl.constexpr):
    """Multiply sums over matrix rows by the rows' scales if the matrix is in float8."""
    if SCALED:
        total *= tl.load(scales + start + tl.arange(0, ROWS))
    return total


@triton.jit
def _normalized(x, scales, eps, width: tl.constexpr, COLUMNS: tl.constexpr):
    """Return the normalized input of a product, with the library's rounding."""
    columns = tl.arange(0, COLUMNS)
    states = tl.load(x + columns, mask=columns < width, other=0.0)
    precise = states.to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(precise * precise) / width + eps)
    rounded = (precise * scale).to(states.dtype).to(tl.float32)
    return (rounded * scales.to(tl.float32)).to(states.dtype).to(tl.float32)


@triton.jit
def _norm_product(
    x, norm, first, second, third, first_scale, second_scale, third_scale, out, eps,
    ends_first: tl.constexpr, ends_second: tl.constexpr, width: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, AHEAD: tl.constexpr, SCALED: tl.constexpr,
):  # fmt: skip
    """Multiply the normalized input by up to three matrices, with the results in sequence."""
    start = tl.program_id(0) * ROWS
    matrix, scale, row = first, first_scale, start
    if start >= ends_second:
        matrix, scale, row = third, third_scale, start - ends_second
    elif start >= ends_first:
        matrix, scale, row = second, second_scale, start - ends_first
    weights = _tile(matrix, row, width, ROWS, COLUMNS)
    columns = tl.arange(0, COLUMNS)
    scales = tl.load(norm + columns, mask=columns < width, other=0.0)
    _before_input(AHEAD)
    states = _normalized(x, scales, eps, width, COLUMNS)
    total = _unscaled(tl.sum(weights.to(tl.float32) * states[None, :], 1), scale, row, ROWS, SCALED)
    tl.store(out + start + tl.arange(0, ROWS), total.to(out.dtype.element_ty))


@triton.jit
def _gated_product(
    x, norm, gate, up, gate_scale, up_scale, out, eps, width: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, AHEAD: tl.constexpr, SCALED: tl.constexpr,
):  # fmt: skip
    """Compute silu(gate · x) times (up · x) of the normalized input."""
    start = tl.program_id(0) * ROWS
    gates = _tile(gate, start, width, ROWS, COLUMNS)
    ups = _tile(up, start, width, ROWS, COLUMNS)
    columns = tl.arange(0, COLUMNS)
    scales = tl.load(norm + columns, mask=columns < width, other=0.0)
    _before_input(AHEAD)
    states = _normalized(x, scales, eps, width, COLUMNS)
    kind = out.dtype.element_ty
    gated = tl.sum(gates.to(tl.float32) * states[None, :], 1)
    raised = tl.sum(ups.to(tl.float32) * states[None, :], 1)
    gated = _unscaled(gated, gate_scale, start, ROWS, SCALED).to(kind).to(tl.float32)
    raised = _unscaled(raised, up_scale, start, ROWS, SCALED).to(kind).to(tl.float32)
    activated = (gated / (1.0 + tl.exp(-gated))).to(kind).to(tl.float32)
    tl.store(out + start + tl.arange(0, ROWS), (activated * raised).to(kind))


@triton.jit
def _added_product(
    x, matrix, scale, residual, out, width: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, AHEAD: tl.constexpr, SCALED: tl.constexpr,
):  # fmt: skip
    """Add the product of a matrix and the input to the residual."""
    start = tl.program_id(0) * ROWS
    weights = _tile(matrix, start, width, ROWS, COLUMNS)
    _before_input(AHEAD)
    columns = tl.arange(0, COLUMNS)
    states = tl.load(x + columns, mask=columns < width, other=0.0).to(tl.float32)
    kind = out.dtype.element_ty
    rows = start + tl.arange(0, ROWS)
    before = tl.load(residual + rows).to(tl.float32)
    product = tl.sum(weights.to(tl.float32) * states[None, :], 1)
    product = _unscaled(product, scale, start, ROWS, SCALED).to(kind).to(tl.float32)
    tl.store(out + rows, (before + product).to(kind))


@triton.jit
def _turned(one, two, norm, cosine, sine, eps, HALF: tl.constexpr):
    """Return both halves of some heads, normalized and with their rotary position."""
    low = tl.arange(0, HALF)
    kind = one.dtype
    first, second = one.to(tl.float32), two.to(tl.float32)
    squares = tl.sum(first * first, 1) + tl.sum(second * second, 1)
    scale = (1.0 / tl.sqrt(squares / (2 * HALF) + eps))[:, None]
    norm_one = tl.load(norm + low).to(tl.float32)[None, :]
    norm_two = tl.load(norm + HALF + low).to(tl.float32)[None, :]
    first = ((first * scale).to(kind).to(tl.float32) * norm_one).to(kind).to(tl.float32)
    second = ((second * scale).to(kind).to(tl.float32) * norm_two).to(kind).to(tl.float32)
    cosine_one = tl.load(cosine + low).to(tl.float32)[None, :]
    cosine_two = tl.load(cosine + HALF + low).to(tl.float32)[None, :]
    sine_one = tl.load(sine + low).to(tl.float32)[None, :]
    sine_two = tl.load(sine + HALF + low).to(tl.float32)[None, :]
    return (
        (first * cosine_one - second * sine_one).to(kind),
        (second * cosine_two + first * sine_two).to(kind),
    )


@triton.jit
def _attend(
    states, query_norm, key_norm, cosine, sine, keys, values, position, parts, peaks, sums, eps, capacity,
    splits, HEADS: tl.constexpr, GROUP: tl.constexpr, QUERIES: tl.constexpr, HALF: tl.constexpr,
    TOKENS: tl.constexpr, AHEAD: tl.constexpr,
):  # fmt: skip
    """Attend with the query heads of one group to some of the tokens, and store the new token."""
    head, split = tl.program_id(0), tl.program_id(1)
    width: tl.constexpr = 2 * HALF
    now = tl.load(position)
    tokens = split * TOKENS + tl.arange(0, TOKENS)
    low, all_columns = tl.arange(0, HALF), tl.arange(0, width)
    base = head.to(tl.int64) * capacity * width
    halves = tokens[:, None] * width + low[None, :]
    wholes = tokens[:, None] * width + all_columns[None, :]
    before, is_new = (tokens < now)[:, None], (tokens == now)[:, None]
    one = tl.load(keys + base + halves, mask=before, other=0.0)
    two = tl.load(keys + base + halves + HALF, mask=before, other=0.0)
    seen = tl.load(values + base + wholes, mask=before, other=0.0)
    _before_input(AHEAD)
    if split * TOKENS <= now:
        none = tl.arange(0, 1)[:, None]
        new = states + (HEADS * GROUP + head) * width
        new_one, new_two = _turned(
            tl.load(new + none + low[None, :]), tl.load(new + none + HALF + low[None, :]),
            key_norm, cosine, sine, eps, HALF,
        )  # fmt: skip
        new_value = tl.load(states + (HEADS * GROUP + HEADS + head) * width + none + all_columns[None, :])
        one, two = tl.where(is_new, new_one, one), tl.where(is_new, new_two, two)
        seen = tl.where(is_new, new_value, seen)
        tl.store(keys + base + halves, one, mask=is_new)
        tl.store(keys + base + halves + HALF, two, mask=is_new)
        tl.store(values + base + wholes, seen, mask=is_new)
        members = tl.arange(0, QUERIES)
        real = (members < GROUP)[:, None]
        asked = states + (head * GROUP + members)[:, None] * width + low[None, :]
        query_one, query_two = _turned(
            tl.load(asked, mask=real, other=0.0), tl.load(asked + HALF, mask=real, other=0.0),
            query_norm, cosine, sine, eps, HALF,
        )  # fmt: skip
        scores = tl.dot(query_one, tl.trans(one)) + tl.dot(query_two, tl.trans(two))
        scores = tl.where((tokens <= now)[None, :], scores * (width**-0.5), -1e30)
        peak = tl.max(scores, 1)
        shares = tl.exp(scores - peak[:, None])
        slots = (head * GROUP + members) * splits + split
        tl.store(peaks + slots, peak, mask=members < GROUP)
        tl.store(sums + slots, tl.sum(shares, 1), mask=members < GROUP)
        found = tl.dot(shares.to(seen.dtype), seen)
        tl.store(parts + slots[:, None] * width + all_columns[None, :], found, mask=real)


@triton.jit
def _joined(
    parts, peaks, sums, position, out, splits,
    PADDED: tl.constexpr, WIDTH: tl.constexpr, TOKENS: tl.constexpr, AHEAD: tl.constexpr,
):  # fmt: skip
    """Combine the parts of one head's attention."""
    query = tl.program_id(0)
    numbers = tl.arange(0, PADDED)
    attended = numbers * TOKENS <= tl.load(position)
    slots = query * splits + numbers
    columns = tl.arange(0, WIDTH)
    places = slots[:, None] * WIDTH + columns[None, :]
    _before_input(AHEAD)
    peak = tl.load(peaks + slots, mask=attended, other=-1e30)
    share = tl.exp(peak - tl.max(peak, 0))
    total = tl.sum(share * tl.load(sums + slots, mask=attended, other=0.0), 0)
    found = tl.load(parts + places, mask=attended[:, None], other=0.0)
    tl.store(
        out + query * WIDTH + columns, (tl.sum(found * share[:, None], 0) / total).to(out.dtype.element_ty)
    )


def supports(weights: LayerWeights, head: Tensor, keys: Tensor) -> bool:
    """Return whether the kernels support a layer of this shape: half precision or float8, no adapter."""
    if any(isinstance(each, LoraWeights) for each in weights) or keys.dtype not in HALF_PRECISION:
        return False
    kv_heads, head_dim = keys.shape[1], keys.shape[-1]
    heights = {
        "qkv": [_height(weights.query), _height(weights.key), _height(weights.value)],
        "out": [_height(weights.out)],
        "gated": [_height(weights.gate)],
        "down": [_height(weights.down)],
        "head": [len(head)],
    }
    shapes = _shapes(weights)
    whole = all(height % shapes[name][0] == 0 for name, each in heights.items() for height in each)
    group = _height(weights.query) // head_dim // kv_heads
    power_of_two = head_dim >= 2 * LEAST_SIDE and head_dim & (head_dim - 1) == 0
    return whole and power_of_two and group <= LEAST_SIDE


def _shapes(weights: LayerWeights) -> dict[str, Shape]:
    return FLOAT8_SHAPES if isinstance(weights.query, Float8Weights) else SHAPES


def _matrix(weights: Any) -> Tensor:
    """Return the matrix of a projection."""
    return weights.weight if isinstance(weights, Float8Weights) else weights


def _scale(weights: Any) -> Tensor:
    """Return the scales of its rows; without scales the matrix itself, as an unused placeholder."""
    return weights.scale if isinstance(weights, Float8Weights) else weights


def _height(weights: Any) -> int:
    return len(_matrix(weights))


class SingleRow:
    """The buffers between the kernels. They are created for every token, so that each graph has its own."""

    def __init__(self, weights: LayerWeights, keys: Tensor) -> None:
        _, self.heads, blocks, block_size, self.width = keys.shape
        self.capacity = blocks * block_size
        self.splits = -(-self.capacity // TOKENS)
        self.queries = _height(weights.query) // self.width
        self.shapes = _shapes(weights)
        self.group = self.queries // self.heads
        self.ahead = keys.is_cuda and torch.cuda.get_device_capability(keys.device) >= HOPPER
        like: dict[str, Any] = {"device": keys.device, "dtype": keys.dtype}
        precise: dict[str, Any] = {"device": keys.device, "dtype": torch.float32}
        self.states = torch.empty(_height(weights.query) + 2 * _height(weights.key), **like)
        self.attended = torch.empty(_height(weights.query), **like)
        self.gated = torch.empty(_height(weights.gate), **like)
        self.parts = torch.empty(self.queries, self.splits, self.width, **precise)
        self.peaks = torch.empty(self.queries, self.splits, **precise)
        self.sums = torch.empty(self.queries, self.splits, **precise)

    def layer(
        self,
        hidden: Tensor,
        weights: LayerWeights,
        keys: Tensor,
        values: Tensor,
        cosine: Tensor,
        sine: Tensor,
        cache_position: Tensor,
        mask: Tensor | None,
        eps: float,
    ) -> Tensor:
        """Run `decode_layer` for one row, which needs no mask."""
        self._norm_product(
            "qkv", hidden, weights.input_norm, (weights.query, weights.key, weights.value), self.states, eps
        )
        self._attend(weights, keys, values, cosine, sine, cache_position, eps)
        between = self._added_product("out", self.attended, weights.out, hidden)
        self._gated_product(between, weights, eps)
        return self._added_product("down", self.gated, weights.down, between)

    def logits(self, hidden: Tensor, norm: Tensor, head: Tensor, eps: float) -> Tensor:
        """Return the logits of the normalized states."""
        out = torch.empty(1, len(head), device=hidden.device, dtype=hidden.dtype)
        self._norm_product("head", hidden, norm, (head, head[:0], head[:0]), out, eps)
        return out

    def _norm_product(
        self, name: str, x: Tensor, norm: Tensor, projections: tuple[Any, Any, Any], out: Tensor, eps: float
    ) -> None:
        matrices = [_matrix(each) for each in projections]
        ends = (len(matrices[0]), len(matrices[0]) + len(matrices[1]))
        programs, settings = self._launch(name, projections[0], out.numel())
        scales = map(_scale, projections)
        _norm_product[programs](x, norm, *matrices, *scales, out, eps, *ends, **settings)

    def _gated_product(self, x: Tensor, weights: LayerWeights, eps: float) -> None:
        gate, up = weights.gate, weights.up
        programs, settings = self._launch("gated", gate, self.gated.numel())
        _gated_product[programs](
            x, weights.post_attention_norm, _matrix(gate), _matrix(up), _scale(gate), _scale(up),
            self.gated, eps, **settings,
        )  # fmt: skip

    def _added_product(self, name: str, x: Tensor, projection: Any, residual: Tensor) -> Tensor:
        out = torch.empty_like(residual)
        programs, settings = self._launch(name, projection, residual.numel())
        _added_product[programs](x, _matrix(projection), _scale(projection), residual, out, **settings)
        return out

    def _attend(
        self,
        weights: LayerWeights,
        keys: Tensor,
        values: Tensor,
        cosine: Tensor,
        sine: Tensor,
        position: Tensor,
        eps: float,
    ) -> None:
        _attend[self.heads, self.splits](
            self.states, weights.query_norm, weights.key_norm, cosine, sine, keys, values, position,
            self.parts, self.peaks, self.sums, eps, self.capacity, self.splits,
            HEADS=self.heads, GROUP=self.group, QUERIES=LEAST_SIDE, HALF=self.width // 2, TOKENS=TOKENS,
            AHEAD=self.ahead, num_warps=4, **self._pdl(),
        )  # fmt: skip
        padded = triton.next_power_of_2(self.splits)
        _joined[(self.queries,)](
            self.parts, self.peaks, self.sums, position, self.attended, self.splits,
            PADDED=padded, WIDTH=self.width, TOKENS=TOKENS, AHEAD=self.ahead, num_warps=4, **self._pdl(),
        )  # fmt: skip

    def _launch(self, name: str, projection: Any, height: int) -> tuple[tuple[int], dict[str, Any]]:
        """Return the launch grid and the options of a product."""
        rows, warps = self.shapes[name]
        width = _matrix(projection).shape[1]
        settings = {
            "width": width,
            "ROWS": rows,
            "COLUMNS": triton.next_power_of_2(width),
            "AHEAD": self.ahead,
            "SCALED": isinstance(projection, Float8Weights),
        }
        return (height // rows,), {**settings, "num_warps": warps, **self._pdl()}

    def _pdl(self) -> dict[str, bool]:
        return {"launch_pdl": True} if self.ahead else {}
