"""Triton kernels for the decode of a single reply: six per layer, between which there is hardly anything.

With one row every product reads a whole matrix for one vector. The kernels of BLAS read it at two thirds of
the memory's speed, and norms, rope, softmax and residuals between the products take a dozen launches more.
Here a product normalizes its input and adds the residual itself, and attention is split over the tokens.
"""

from __future__ import annotations

from typing import Any

import torch
import triton  # type: ignore[import-untyped]
import triton.language as tl  # type: ignore[import-untyped]
from torch import Tensor

from interleave.backends.qwen3_vl.decoder_layer import LayerWeights

ROWS, COLUMNS = 4, 1024
"""Of a matrix, that a program multiplies at a time."""
TOKENS = 64
"""That a program attends to."""


@triton.jit
def _normalized(x, norm, columns, scale, width: tl.constexpr):  # type: ignore[no-untyped-def]
    """Some columns of the input of a product, rounded as the library rounds them."""
    inside = columns < width
    states = tl.load(x + columns, mask=inside, other=0.0)
    weights = tl.load(norm + columns, mask=inside, other=0.0)
    rounded = (states.to(tl.float32) * scale).to(states.dtype)
    return (rounded.to(tl.float32) * weights.to(tl.float32)).to(states.dtype).to(tl.float32)


@triton.jit
def _norm_scale(x, eps, width: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, width, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        states = tl.load(x + columns, mask=columns < width, other=0.0).to(tl.float32)
        squares += states * states
    return 1.0 / tl.sqrt(tl.sum(squares) / width + eps)


@triton.jit
def _norm_product(  # type: ignore[no-untyped-def]
    x, norm, first, second, third, out, eps, ends_first: tl.constexpr, ends_second: tl.constexpr,
    height: tl.constexpr, width: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The normalized input times up to three matrices, one result after another."""
    start = tl.program_id(0) * ROWS
    offset = tl.where(start >= ends_second, ends_second, tl.where(start >= ends_first, ends_first, 0))
    matrix = first
    if start >= ends_second:
        matrix = third
    elif start >= ends_first:
        matrix = second
    rows = start + tl.arange(0, ROWS)
    scale = _norm_scale(x, eps, width, COLUMNS)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for begin in range(0, width, COLUMNS):
        columns = begin + tl.arange(0, COLUMNS)
        inside = (rows < height)[:, None] & (columns < width)[None, :]
        weights = tl.load(
            matrix + (rows - offset)[:, None].to(tl.int64) * width + columns[None, :], mask=inside, other=0.0
        )
        total += weights.to(tl.float32) * _normalized(x, norm, columns, scale, width)[None, :]
    tl.store(out + rows, tl.sum(total, 1).to(out.dtype.element_ty), mask=rows < height)


@triton.jit
def _gated_product(  # type: ignore[no-untyped-def]
    x, norm, gate, up, out, eps, height: tl.constexpr, width: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """silu(gate · x) times (up · x), of the normalized input."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    scale = _norm_scale(x, eps, width, COLUMNS)
    gates = tl.zeros([ROWS, COLUMNS], tl.float32)
    ups = tl.zeros([ROWS, COLUMNS], tl.float32)
    for begin in range(0, width, COLUMNS):
        columns = begin + tl.arange(0, COLUMNS)
        inside = (rows < height)[:, None] & (columns < width)[None, :]
        places = rows[:, None].to(tl.int64) * width + columns[None, :]
        states = _normalized(x, norm, columns, scale, width)[None, :]
        gates += tl.load(gate + places, mask=inside, other=0.0).to(tl.float32) * states
        ups += tl.load(up + places, mask=inside, other=0.0).to(tl.float32) * states
    gated = tl.sum(gates, 1)
    tl.store(
        out + rows,
        (gated / (1.0 + tl.exp(-gated)) * tl.sum(ups, 1)).to(out.dtype.element_ty),
        mask=rows < height,
    )


@triton.jit
def _added_product(  # type: ignore[no-untyped-def]
    x, matrix, residual, out, height: tl.constexpr, width: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The residual plus the product of a matrix and the input."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for begin in range(0, width, COLUMNS):
        columns = begin + tl.arange(0, COLUMNS)
        inside = (rows < height)[:, None] & (columns < width)[None, :]
        weights = tl.load(
            matrix + rows[:, None].to(tl.int64) * width + columns[None, :], mask=inside, other=0.0
        )
        states = tl.load(x + columns, mask=columns < width, other=0.0)
        total += weights.to(tl.float32) * states.to(tl.float32)[None, :]
    before = tl.load(residual + rows, mask=rows < height, other=0.0).to(tl.float32)
    tl.store(out + rows, (before + tl.sum(total, 1)).to(out.dtype.element_ty), mask=rows < height)


@triton.jit
def _turned(states, norm, cosine, sine, eps, HALF: tl.constexpr):  # type: ignore[no-untyped-def]
    """Both halves of a head, normalized and with its rotary position."""
    low = tl.arange(0, HALF)
    high = HALF + low
    kind = states.dtype.element_ty
    one, two = tl.load(states + low).to(tl.float32), tl.load(states + high).to(tl.float32)
    scale = 1.0 / tl.sqrt((tl.sum(one * one) + tl.sum(two * two)) / (2 * HALF) + eps)
    one = ((one * scale).to(kind).to(tl.float32) * tl.load(norm + low).to(tl.float32)).to(kind).to(tl.float32)
    two = (
        ((two * scale).to(kind).to(tl.float32) * tl.load(norm + high).to(tl.float32)).to(kind).to(tl.float32)
    )
    first = one * tl.load(cosine + low).to(tl.float32) - two * tl.load(sine + low).to(tl.float32)
    second = two * tl.load(cosine + high).to(tl.float32) + one * tl.load(sine + high).to(tl.float32)
    return first.to(kind).to(tl.float32), second.to(kind).to(tl.float32)


@triton.jit
def _attend(  # type: ignore[no-untyped-def]
    states, query_norm, key_norm, cosine, sine, keys, values, position, parts, peaks, sums, eps, capacity,
    splits, HEADS: tl.constexpr, GROUP: tl.constexpr, HALF: tl.constexpr, TOKENS: tl.constexpr,
):  # fmt: skip
    """What the query heads of one group make of some of the tokens; the new token is stored on the way."""
    head, split = tl.program_id(0), tl.program_id(1)
    width: tl.constexpr = 2 * HALF
    now = tl.load(position)
    tokens = split * TOKENS + tl.arange(0, TOKENS)
    low = tl.arange(0, HALF)
    new_key = states + (HEADS * GROUP + head) * width
    key_one, key_two = _turned(new_key, key_norm, cosine, sine, eps, HALF)
    new_value = states + (HEADS * GROUP + HEADS + head) * width
    value_one = tl.load(new_value + low).to(tl.float32)
    value_two = tl.load(new_value + HALF + low).to(tl.float32)
    base = head.to(tl.int64) * capacity * width
    places = base + tokens[:, None] * width + low[None, :]
    before, is_new = (tokens < now)[:, None], (tokens == now)[:, None]
    kind = keys.dtype.element_ty
    old_one = tl.load(keys + places, mask=before, other=0.0).to(tl.float32)
    old_two = tl.load(keys + places + HALF, mask=before, other=0.0).to(tl.float32)
    one = tl.where(is_new, key_one[None, :], old_one)
    two = tl.where(is_new, key_two[None, :], old_two)
    seen_one = tl.load(values + places, mask=before, other=0.0).to(tl.float32)
    seen_two = tl.load(values + places + HALF, mask=before, other=0.0).to(tl.float32)
    seen_one = tl.where(is_new, value_one[None, :], seen_one)
    seen_two = tl.where(is_new, value_two[None, :], seen_two)
    tl.store(keys + places, one.to(kind), mask=is_new)
    tl.store(keys + places + HALF, two.to(kind), mask=is_new)
    tl.store(values + places, seen_one.to(kind), mask=is_new)
    tl.store(values + places + HALF, seen_two.to(kind), mask=is_new)
    for member in tl.static_range(GROUP):
        query = head * GROUP + member
        query_one, query_two = _turned(states + query * width, query_norm, cosine, sine, eps, HALF)
        scores = tl.sum(one * query_one[None, :], 1) + tl.sum(two * query_two[None, :], 1)
        scores = tl.where(tokens <= now, scores / tl.sqrt(width * 1.0), -1e30)
        peak = tl.max(scores, 0)
        shares = tl.where(tokens <= now, tl.exp(scores - peak), 0.0)
        slot = query * splits + split
        tl.store(peaks + slot, peak)
        tl.store(sums + slot, tl.sum(shares, 0))
        tl.store(parts + slot * width + low, tl.sum(shares[:, None] * seen_one, 0))
        tl.store(parts + slot * width + HALF + low, tl.sum(shares[:, None] * seen_two, 0))


@triton.jit
def _joined(  # type: ignore[no-untyped-def]
    parts, peaks, sums, out, splits, PADDED: tl.constexpr, WIDTH: tl.constexpr
):
    """The parts of one head's attention, put together."""
    query = tl.program_id(0)
    numbers = tl.arange(0, PADDED)
    inside = numbers < splits
    slots = query * splits + numbers
    peak = tl.load(peaks + slots, mask=inside, other=-1e30)
    share = tl.exp(peak - tl.max(peak, 0))
    total = tl.sum(share * tl.load(sums + slots, mask=inside, other=0.0), 0)
    columns = tl.arange(0, WIDTH)
    places = slots[:, None] * WIDTH + columns[None, :]
    found = tl.load(parts + places, mask=inside[:, None], other=0.0)
    tl.store(
        out + query * WIDTH + columns, (tl.sum(found * share[:, None], 0) / total).to(out.dtype.element_ty)
    )


def supports(weights: LayerWeights, head_dim: int) -> bool:
    """Whether the kernels can compute a layer: heads of a power of two, no block of rows in two matrices."""
    heights = (len(weights.query), len(weights.key), len(weights.value))
    return head_dim & (head_dim - 1) == 0 and all(height % ROWS == 0 for height in heights)


class SingleRow:
    """The buffers between the kernels: made anew for every token, so that a captured graph has its own."""

    def __init__(self, weights: LayerWeights, keys: Tensor) -> None:
        _, self.heads, blocks, block_size, self.width = keys.shape
        self.capacity = blocks * block_size
        self.splits = -(-self.capacity // TOKENS)
        self.queries = len(weights.query) // self.width
        self.group = self.queries // self.heads
        like: dict[str, Any] = {"device": keys.device, "dtype": keys.dtype}
        precise: dict[str, Any] = {"device": keys.device, "dtype": torch.float32}
        self.states = torch.empty(len(weights.query) + 2 * len(weights.key), **like)
        self.attended = torch.empty(len(weights.query), **like)
        self.gated = torch.empty(len(weights.gate), **like)
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
        mask: Tensor,
        eps: float,
    ) -> Tensor:
        """As `decode_layer`; the mask is not needed."""
        size = hidden.shape[-1]
        first = len(weights.query)
        second = first + len(weights.key)
        height = second + len(weights.value)
        _norm_product[_programs(height)](
            hidden, weights.input_norm, weights.query, weights.key, weights.value, self.states,
            eps, first, second, height, size, ROWS, COLUMNS,
        )  # fmt: skip
        _attend[self.heads, self.splits](
            self.states, weights.query_norm, weights.key_norm, cosine, sine, keys, values, cache_position,
            self.parts, self.peaks, self.sums, eps, self.capacity, self.splits,
            self.heads, self.group, self.width // 2, TOKENS,
        )  # fmt: skip
        padded = triton.next_power_of_2(self.splits)
        _joined[(self.queries,)](
            self.parts, self.peaks, self.sums, self.attended, self.splits, padded, self.width
        )
        between = torch.empty_like(hidden)
        _added_product[_programs(size)](
            self.attended, weights.out, hidden, between, size, first, ROWS, COLUMNS
        )
        inner = len(weights.gate)
        _gated_product[_programs(inner)](
            between, weights.post_attention_norm, weights.gate, weights.up, self.gated, eps, inner, size,
            ROWS, COLUMNS,
        )  # fmt: skip
        after = torch.empty_like(hidden)
        _added_product[_programs(size)](self.gated, weights.down, between, after, size, inner, ROWS, COLUMNS)
        return after

    def logits(self, hidden: Tensor, norm: Tensor, head: Tensor, eps: float) -> Tensor:
        """What the output layer makes of the normalized states."""
        height, width = head.shape
        out = torch.empty(1, height, device=hidden.device, dtype=hidden.dtype)
        _norm_product[_programs(height)](
            hidden, norm, head, head, head, out, eps, height, height, height, width, ROWS, COLUMNS
        )
        return out


def _programs(height: int) -> tuple[int]:
    return (triton.cdiv(height, ROWS),)
