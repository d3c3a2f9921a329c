"""Greedy decode of Qwen3-VL, one CUDA graph replayed per token.

`generate` decides about each token in Python, and a decode step of an 8B model is some two thousand kernels
launched one by one: twenty times what reading the weights takes. Here a step is one CUDA graph, from the last
token to the next one with its probability, and the host reads the tokens only every few steps.

Rows of the KV cache are not padded, so prompts of all lengths share a graph. Keys and values lie in blocks
that are attended to in parallel, and the query heads of a group read them once. Without CUDA the same step
runs uncaptured.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from interleave.backends.local.library_errors import is_out_of_memory
from interleave.backends.qwen3_vl.decoder_layer import (
    compiled_layer,
    decode_layer,
    greedy,
    layer_weights,
    linear_modules,
    rms_norm,
)
from interleave.backends.qwen3_vl.prefill import KvCache, prefill

log = logging.getLogger(__name__)

SYNC_EVERY = 8
"""Decode steps between two reads of the tokens by the host."""
BLOCK_SIZE = 256
"""Tokens in a block of the KV cache."""
BLOCK_MULTIPLE = 4
"""A KV cache has a multiple of this many blocks per row, so that few graphs are captured."""
KNOWN_INPUTS = {"input_ids", "attention_mask", "mm_token_type_ids", "pixel_values", "image_grid_thw"}
NEUTRAL_SETTINGS: dict[str, tuple[object, ...]] = {
    "repetition_penalty": (None, 1.0),
    "no_repeat_ngram_size": (None, 0),
    "min_length": (None, 0),
    "min_new_tokens": (None, 0),
    "bad_words_ids": (None,),
    "sequence_bias": (None,),
    "suppress_tokens": (None,),
    "begin_suppress_tokens": (None,),
    "forced_bos_token_id": (None,),
    "forced_eos_token_id": (None,),
    "guidance_scale": (None, 1.0),
    "num_beams": (None, 1),
}
"""Generation settings that change which token is chosen, and the values under which they change nothing."""


@dataclass(frozen=True)
class Generated:
    """The tokens of one reply, and the probability of each."""

    ids: list[int]
    probs: list[float]


@dataclass(frozen=True)
class DecodeState:
    """Where the rows of a batch are. A captured step reads and writes these same tensors."""

    token: Tensor
    cache_position: Tensor
    """Where the token's key and value go in the KV cache."""
    rope_position: Tensor
    """Differs from `cache_position` after a picture."""
    step: Tensor
    """Steps since the host last read the tokens."""
    ids: Tensor
    """The tokens of those steps,"""
    probs: Tensor
    """and their probabilities."""

    @staticmethod
    def zeros(rows: int, device: Any) -> DecodeState:
        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.long, device=device)

        probs = torch.zeros((SYNC_EVERY, rows), device=device)
        return DecodeState(zeros(rows), zeros(rows), zeros(rows), zeros(1), zeros(SYNC_EVERY, rows), probs)

    def counters(self) -> tuple[Tensor, ...]:
        """The tensors that a step reads and then moves on."""
        return self.token, self.cache_position, self.rope_position, self.step


def supports(model: Any) -> bool:
    """Whether a model is a Qwen3-VL of the library, with no part replaced."""
    try:
        from torch.nn import Linear
        from transformers.models.qwen3_vl import modeling_qwen3_vl as library
    except ImportError:
        return False
    if type(model) is not library.Qwen3VLForConditionalGeneration:
        return False
    text = model.model.language_model
    linear = [model.lm_head, *(module for layer in text.layers for module in linear_modules(layer))]
    unchanged = all(type(module) is Linear and module.bias is None for module in linear)
    default_rope = text.rotary_emb.rope_type == "default"
    return unchanged and default_rope and text.config.hidden_act == "silu"


def can_capture(device: torch.device) -> bool:
    """Whether a device has CUDA graphs."""
    return str(device.type) == "cuda"


def is_greedy(settings: Any) -> bool:
    """Whether a model's generation settings leave the most likely token as the one that is chosen."""
    return all(getattr(settings, name, None) in values for name, values in NEUTRAL_SETTINGS.items())


class CudaGraphDecoder:
    """Prefills and decodes batches of prompts for one model. Must be used by one thread at a time."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.text = model.model.language_model
        self.config = self.text.config
        self.layers = [layer_weights(layer) for layer in self.text.layers]
        self._kv_memory: KvCache = []
        """Flat keys and values of every layer; the KV caches of all batch shapes are views of them."""
        self._states: dict[int, DecodeState] = {}
        self._steps: dict[tuple[int, int, bool], Callable[[], None]] = {}
        """By rows, blocks, and whether compiled."""
        self._pool: Any = None
        """The memory pool that all graphs of this model share."""
        self._capture_stream: Any = None

    def free_memory(self) -> None:
        """Drop the KV cache and all graphs."""
        self._kv_memory, self._states, self._steps, self._pool = [], {}, {}, None

    def generate(
        self,
        inputs: dict[str, Tensor],
        pictures: Sequence[int],
        token_budgets: Sequence[int],
        cancelled: Callable[[int], bool],
        *,
        eos_ids: frozenset[int],
        compiled: bool,
    ) -> list[Generated]:
        """Replies to left-padded prompts; `pictures` says how many each of them shows.

        Tokens after one of `eos_ids` or beyond a row's token budget are meaningless.
        """
        lengths = inputs["attention_mask"].sum(dim=1).tolist()
        rows = 1 << (len(lengths) - 1).bit_length()  # 1, 2, 4, 8…: the surplus rows are never read
        blocks = _blocks_for(max(lengths) + SYNC_EVERY)
        state = self._states.setdefault(rows, DecodeState.zeros(rows, inputs["input_ids"].device))
        replies = [Generated([], []) for _ in lengths]
        _append(replies, *self._prefill(inputs, pictures, lengths, self._kv_cache(rows, blocks), state))
        step = self._decode_step(rows, blocks, compiled)
        longest = max(lengths)
        while not all(
            len(reply.ids) >= budget or cancelled(row) or not eos_ids.isdisjoint(reply.ids)
            for row, (reply, budget) in enumerate(zip(replies, token_budgets, strict=True))
        ):
            if longest + SYNC_EVERY > blocks * BLOCK_SIZE:
                blocks = self._grow_kv_cache(rows, blocks)
                step = self._decode_step(rows, blocks, compiled)
            state.step.zero_()
            for _ in range(SYNC_EVERY):
                step()
            longest += SYNC_EVERY
            _append(replies, state.ids, state.probs)
        return replies

    def _prefill(
        self,
        inputs: dict[str, Tensor],
        pictures: Sequence[int],
        lengths: list[int],
        kv_cache: KvCache,
        state: DecodeState,
    ) -> tuple[Tensor, Tensor]:
        """Prefill the prompts and set the state; returns every reply's first token and its probability."""
        filled = prefill(self.model, inputs, pictures, lengths, kv_cache)
        length = torch.tensor(lengths, device=state.cache_position.device)
        starts = (filled.tokens, length, length + filled.rope_delta)
        for counter, start in zip(state.counters(), starts, strict=False):
            counter.zero_()
            counter[: len(start)] = start
        return filled.tokens[None], filled.probs[None]

    def _kv_cache(self, rows: int, blocks: int) -> KvCache:
        """The KV cache for a batch of this shape."""
        shape = self._kv_shape(rows, blocks)
        size = shape.numel()
        if not self._kv_memory or self._kv_memory[0][0].numel() < size:
            self._kv_memory, self._steps, self._pool = [], {}, None  # graphs are bound to the old memory
            like = {"dtype": self.model.dtype, "device": self.model.device}
            self._kv_memory = [(torch.zeros(size, **like), torch.zeros(size, **like)) for _ in self.layers]
        return [(keys[:size].view(shape), values[:size].view(shape)) for keys, values in self._kv_memory]

    def _kv_shape(self, rows: int, blocks: int) -> torch.Size:
        return torch.Size((rows, self.config.num_key_value_heads, blocks, BLOCK_SIZE, self.config.head_dim))

    def _grow_kv_cache(self, rows: int, blocks: int) -> int:
        """Lengthen the KV cache in the middle of a batch; returns its new number of blocks."""
        more = blocks + BLOCK_MULTIPLE
        before, after = self._kv_shape(rows, blocks), self._kv_shape(rows, more)
        if self._kv_memory[0][0].numel() < after.numel():
            self._steps, self._pool = {}, None
        for layer, (keys, values) in enumerate(self._kv_memory):  # one by one: two whole caches would not fit
            self._kv_memory[layer] = (_lengthened(keys, before, after), _lengthened(values, before, after))
        return more

    def _decode_step(self, rows: int, blocks: int, compiled: bool) -> Callable[[], None]:
        """A function that decodes one token of every row."""
        step = self._steps.get((rows, blocks, compiled))
        if step is None:
            step = self._steps[rows, blocks, compiled] = self._build_step(rows, blocks, compiled)
        return step

    def _build_step(self, rows: int, blocks: int, compiled: bool) -> Callable[[], None]:
        state, kv_cache = self._states[rows], self._kv_cache(rows, blocks)
        layer = compiled_layer() if compiled else decode_layer

        def step() -> None:
            self._decode_token(state, kv_cache, layer)

        if not can_capture(state.token.device):
            return step
        try:
            return self._capture(step, state)
        except Exception as error:
            if not compiled or is_out_of_memory(error):
                raise
            log.warning(
                "the decode step cannot be compiled, and is captured uncompiled: %s", str(error)[:500]
            )
            return self._decode_step(rows, blocks, False)

    def _capture(self, step: Callable[[], None], state: DecodeState) -> Callable[[], None]:
        """Capture a step as a CUDA graph; returns its replay, with the state as it was before."""
        before = [counter.clone() for counter in state.counters()]
        self._capture_stream = self._capture_stream or torch.cuda.Stream(self.model.device)
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        try:
            state.step.zero_()
            self._capture_stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._capture_stream):
                step()  # what a first run sets up must not be captured
                step()
            torch.cuda.current_stream().wait_stream(self._capture_stream)
            with torch.cuda.graph(
                graph, pool=self._pool, stream=self._capture_stream, capture_error_mode="thread_local"
            ):
                step()
        finally:
            for counter, value in zip(state.counters(), before, strict=True):
                counter.copy_(value)
        replay: Callable[[], None] = graph.replay
        return replay

    def _decode_token(self, state: DecodeState, kv_cache: KvCache, layer: Callable[..., Tensor]) -> None:
        """Decode one token of every row, on the device, without a synchronization."""
        text = self.text
        hidden = torch.nn.functional.embedding(state.token, text.embed_tokens.weight)
        cosine, sine = text.rotary_emb(hidden, state.rope_position[None, :, None].expand(3, -1, -1))
        rows, blocks = len(hidden), kv_cache[0][0].shape[2]
        positions = torch.arange(blocks * BLOCK_SIZE, device=hidden.device)
        mask = torch.zeros(rows, len(positions), device=hidden.device)
        mask = mask.masked_fill(positions > state.cache_position[:, None], -torch.inf)
        mask = mask.view(rows, blocks, BLOCK_SIZE)
        eps = self.config.rms_norm_eps
        for weights, (keys, values) in zip(self.layers, kv_cache, strict=True):
            hidden = layer(
                hidden, weights, keys, values, cosine[:, 0], sine[:, 0], state.cache_position, mask, eps
            )
        hidden = rms_norm(hidden, text.norm.weight, eps)
        token, prob = greedy(torch.nn.functional.linear(hidden, self.model.lm_head.weight))
        state.ids.index_copy_(0, state.step, token[None])
        state.probs.index_copy_(0, state.step, prob[None])
        state.token.copy_(token)
        state.cache_position.add_(1)
        state.rope_position.add_(1)
        state.step.add_(1)


def _lengthened(memory: Tensor, before: torch.Size, after: torch.Size) -> Tensor:
    """Memory of a KV cache of one shape, laid out for a longer one; new memory where it is too small."""
    held = memory[: before.numel()].view(before)
    if memory.numel() < after.numel():
        memory = memory.new_zeros(after.numel())
    else:
        held = held.clone()
    memory[: after.numel()].view(after)[:, :, : before[2]].copy_(held)
    return memory


def _blocks_for(tokens: int) -> int:
    blocks = -(-tokens // BLOCK_SIZE)
    return -(-blocks // BLOCK_MULTIPLE) * BLOCK_MULTIPLE


def _append(replies: list[Generated], ids: Tensor, probs: Tensor) -> None:
    """Read the tokens of the last steps from the device and add them to the replies."""
    for reply, row_ids, row_probs in zip(replies, ids.t().tolist(), probs.t().tolist(), strict=False):
        reply.ids.extend(row_ids)
        reply.probs.extend(row_probs)
