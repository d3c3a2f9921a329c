"""Decoding for Qwen3-VL: one CUDA graph, replayed per token.

`generate` runs Python code for each token, and a decode step of an 8B model launches about two thousand
kernels one by one, which takes twenty times as long as reading the weights. Here a step is one CUDA graph,
from the last token to the next one with its probability, and the host reads the tokens only every few steps.

Rows of the KV cache are not padded, so prompts of all lengths share a graph. Keys and values are stored in
blocks that are attended to in parallel, and the query heads of a group read them once. Without CUDA the same
step runs uncaptured.
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from interleave.local.fp8 import Float8Linear
from interleave.local.library_errors import is_out_of_memory
from interleave.local.qwen3_vl.decoder_layer import (
    LayerWeights,
    LoraWeights,
    compiled_layer,
    decode_layer,
    layer_weights,
    linear_modules,
    rms_norm,
    update_adapters,
)
from interleave.local.qwen3_vl.kept_prefixes import KeptPrefixes
from interleave.local.qwen3_vl.prefill import KvCache, prefill
from interleave.local.qwen3_vl.token_choice import RandomChoice, greedy

log = logging.getLogger(__name__)

SYNC_EVERY = 8
"""Decode steps between two reads by the host."""
BLOCK_SIZE = 256
"""Tokens in a block of the KV cache."""
BLOCK_MULTIPLE = 4
"""Blocks per row of a KV cache are a multiple of this, so that few graphs are captured."""
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
"""Generation settings that change the choice of tokens, with their neutral values."""


@dataclass(frozen=True)
class Generated:
    """The tokens of one reply, and the probability of each."""

    ids: list[int]
    probs: list[float]


@dataclass(frozen=True)
class DecodeState:
    """The decoding state of a batch. A captured step reads and writes these same tensors."""

    token: Tensor
    cache_position: Tensor
    """The position of the token's key and value in the KV cache."""
    rope_position: Tensor
    """Differs from `cache_position` after an image."""
    step: Tensor
    """Steps since the host last read the tokens."""
    ids: Tensor
    """The tokens of those steps."""
    probs: Tensor
    """The probabilities of those tokens."""
    uniform: Tensor
    """A random number for each of them, if they are sampled."""

    @staticmethod
    def zeros(rows: int, device: Any) -> DecodeState:
        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.long, device=device)

        probs, uniform = (torch.zeros((SYNC_EVERY, rows), device=device) for _ in range(2))
        ids = zeros(SYNC_EVERY, rows)
        return DecodeState(zeros(rows), zeros(rows), zeros(rows), zeros(1), ids, probs, uniform)

    def counters(self) -> tuple[Tensor, ...]:
        """Return the tensors that a step reads and then advances."""
        return self.token, self.cache_position, self.rope_position, self.step


def supports(model: Any) -> bool:
    """Return whether a model is the library's Qwen3-VL, with no part replaced."""
    try:
        from torch.nn import Linear
        from transformers.models.qwen3_vl import modeling_qwen3_vl as library
    except ImportError:
        return False
    if type(model) is not library.Qwen3VLForConditionalGeneration:
        return False
    text = model.model.language_model
    linear = [model.lm_head, *(module for layer in text.layers for module in linear_modules(layer))]
    kinds = (Linear, Float8Linear)
    unchanged = all(type(module) in kinds and module.bias is None for module in map(_base, linear))
    default_rope = text.rotary_emb.rope_type == "default"
    return unchanged and default_rope and text.config.hidden_act == "silu"


def _base(module: Any) -> Any:
    """Return a linear module without its LoRA adapter, if that is its only wrapper."""
    kind = type(module)
    if (kind.__module__, kind.__name__) != ("peft.tuners.lora.layer", "Linear"):  # peft may not be installed
        return module
    variants = module.lora_variant or any(module.lora_bias.values()) or module.merged
    return module if variants or len(module.active_adapters) != 1 else module.base_layer


def can_capture(device: torch.device) -> bool:
    """Return whether a device supports CUDA graphs."""
    return str(device.type) == "cuda"


def single_row_kernels(weights: LayerWeights, head: Tensor, keys: Tensor) -> Any | None:
    """Return the kernel class for a single row; None without Triton, or for an unsupported model."""
    if len(keys) > 1 or importlib.util.find_spec("triton") is None:
        return None
    from interleave.local.qwen3_vl import single_row_kernels as kernels

    return kernels.SingleRow if kernels.supports(weights, head, keys) else None


def is_greedy(settings: Any) -> bool:
    """Return whether a model's generation settings choose the most likely token."""
    return all(getattr(settings, name, None) in values for name, values in NEUTRAL_SETTINGS.items())


class CudaGraphDecoder:
    """Prefill and decoding of prompt batches for one model. Only one thread may use it at a time."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.text = model.model.language_model
        self.config = self.text.config
        self.layers = [layer_weights(layer) for layer in self.text.layers]
        self.adapted = any(isinstance(each, LoraWeights) for layer in self.layers for each in layer)
        self._kv_memory: KvCache = []
        """Flat keys and values of every layer; the KV caches of all batch shapes are views of them."""
        self._states: dict[int, DecodeState] = {}
        self._steps: dict[tuple[int, int, bool, RandomChoice | None], Callable[[], None]] = {}
        """Decode steps by rows, blocks, compilation and token choice."""
        self._pool: Any = None
        """The memory pool that all graphs of this model share."""
        self._capture_stream: Any = None
        self._kept = KeptPrefixes(model.device)
        self._kernels_work = True
        """False once the kernels for a single row have failed."""

    def free_memory(self) -> None:
        """Drop the KV cache, all graphs, and the cached prefixes."""
        self._kept.clear()
        self._kv_memory, self._states, self._steps, self._pool = [], {}, {}, None

    def update_adapters(self) -> None:
        """Read the adapters again; other weights are read in place."""
        for layer, weights in zip(self.text.layers, self.layers, strict=True):
            update_adapters(layer, weights)

    def generate(
        self,
        inputs: dict[str, Tensor],
        images: Sequence[int],
        token_budgets: Sequence[int],
        cancelled: Callable[[int], bool],
        *,
        eos_ids: frozenset[int],
        compiled: bool,
        choice: RandomChoice | None = None,
        copies: int = 1,
        reuse: bool = False,
        ended: Callable[[int, list[int]], None] | None = None,
    ) -> list[Generated]:
        """Decode replies to left-padded prompts; `images` has the number of images per prompt.

        Each prompt has `copies` consecutive replies and as many token budgets. Without a `choice` the most
        likely token is chosen; a `choice` samples with torch's random generator for the CPU. Tokens after one
        of `eos_ids` or beyond a row's token budget are meaningless. With `reuse`, prompt prefixes are cached
        and reused. `ended` is called with the row and the tokens of each reply as soon as it ends, while
        others are still decoded.
        """
        prompts = inputs["attention_mask"].sum(dim=1).tolist()
        lengths = [length for length in prompts for _ in range(copies)]
        rows = 1 << (len(lengths) - 1).bit_length()  # 1, 2, 4, 8…; surplus rows are never read
        blocks = _blocks_for(max(lengths) + SYNC_EVERY)
        state = self._states.setdefault(rows, DecodeState.zeros(rows, inputs["input_ids"].device))
        replies = [Generated([], []) for _ in lengths]
        _append(
            replies,
            *self._prefill(
                inputs,
                images,
                prompts,
                self._kv_cache(rows, blocks),
                state,
                choice,
                copies,
                self._kept if reuse else None,
            ),
        )
        step = self._decode_step(rows, blocks, compiled, choice)
        longest = max(lengths)

        def is_over(row: int) -> bool:
            ids = replies[row].ids
            over = len(ids) >= token_budgets[row] or cancelled(row) or not eos_ids.isdisjoint(ids)
            if over and ended is not None:
                ended(row, ids)
            return over

        going = list(range(len(replies)))
        while going := [row for row in going if not is_over(row)]:
            if longest + SYNC_EVERY > blocks * BLOCK_SIZE:
                blocks = self._grow_kv_cache(rows, blocks)
                step = self._decode_step(rows, blocks, compiled, choice)
            state.step.zero_()
            if choice is not None:
                _draw_uniform(state.uniform, len(replies))
            for _ in range(SYNC_EVERY):
                step()
            longest += SYNC_EVERY
            _append(replies, state.ids, state.probs)
        return replies

    def _prefill(
        self,
        inputs: dict[str, Tensor],
        images: Sequence[int],
        lengths: list[int],
        kv_cache: KvCache,
        state: DecodeState,
        choice: RandomChoice | None,
        copies: int,
        kept: KeptPrefixes | None,
    ) -> tuple[Tensor, Tensor]:
        """Prefill the prompts and set the state; return every reply's first token and its probability."""
        # Adapters may be in float32 and matrices in half precision: autocast combines them.
        half = self.adapted and self.model.dtype is torch.bfloat16
        with torch.autocast(self.model.device.type, dtype=torch.bfloat16, enabled=half):
            filled = prefill(self.model, inputs, images, lengths, kv_cache, copies, kept)
        logits = filled.logits.repeat_interleave(copies, dim=0)
        if choice is not None:
            _draw_uniform(state.uniform[:1], len(logits))
        tokens, probs = _choose(choice, logits, state.uniform[0, : len(logits)])
        length = torch.tensor(lengths, device=state.cache_position.device)
        places = (length.repeat_interleave(copies), (length + filled.rope_delta).repeat_interleave(copies))
        for counter, start in zip(state.counters(), (tokens, *places), strict=False):
            counter.zero_()
            counter[: len(start)] = start
        return tokens[None], probs[None]

    def _kv_cache(self, rows: int, blocks: int) -> KvCache:
        """Return the KV cache for a batch of this shape."""
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
        """Lengthen the KV cache in the middle of a batch; return its new number of blocks."""
        more = blocks + BLOCK_MULTIPLE
        before, after = self._kv_shape(rows, blocks), self._kv_shape(rows, more)
        if self._kv_memory[0][0].numel() < after.numel():
            self._steps, self._pool = {}, None
        for layer, (keys, values) in enumerate(self._kv_memory):  # one by one: two whole caches would not fit
            self._kv_memory[layer] = (_lengthened(keys, before, after), _lengthened(values, before, after))
        return more

    def _decode_step(
        self, rows: int, blocks: int, compiled: bool, choice: RandomChoice | None
    ) -> Callable[[], None]:
        """Return a function that decodes one token of every row."""
        key = (rows, blocks, compiled, choice)
        step = self._steps.get(key)
        if step is None:
            step = self._steps[key] = self._build_step(*key)
        return step

    def _build_step(
        self, rows: int, blocks: int, compiled: bool, choice: RandomChoice | None
    ) -> Callable[[], None]:
        state, kv_cache = self._states[rows], self._kv_cache(rows, blocks)
        layer = compiled_layer() if compiled else decode_layer
        on_gpu = can_capture(state.token.device)
        kernels = (
            single_row_kernels(self.layers[0], self.model.lm_head.weight, kv_cache[0][0])
            if on_gpu and compiled and self._kernels_work
            else None
        )

        def step() -> None:
            self._decode_token(state, kv_cache, layer, choice, kernels)

        if not on_gpu:
            return step
        try:
            return self._capture(step, state)
        except Exception as error:
            if not compiled or is_out_of_memory(error):
                raise
            if kernels is not None:
                log.warning("decoding single replies without their kernels: %s", str(error)[:500])
                self._kernels_work = False
                return self._build_step(rows, blocks, compiled, choice)
            log.warning("the decode step cannot be compiled, capturing it uncompiled: %s", str(error)[:500])
            return self._decode_step(rows, blocks, False, choice)

    def _capture(self, step: Callable[[], None], state: DecodeState) -> Callable[[], None]:
        """Capture a step as a CUDA graph and restore the state; return its replay."""
        before = [counter.clone() for counter in state.counters()]
        self._capture_stream = self._capture_stream or torch.cuda.Stream(self.model.device)
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        try:
            state.step.zero_()
            self._capture_stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._capture_stream):
                step()  # the setup of a first run must not be captured
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

    def _decode_token(
        self,
        state: DecodeState,
        kv_cache: KvCache,
        layer: Callable[..., Tensor],
        choice: RandomChoice | None,
        kernels: Any | None = None,
    ) -> None:
        """Decode one token of every row, on the device, without a synchronization.

        `kernels` is the class of the single-row kernels, if they replace `layer`.
        """
        text = self.text
        single = None if kernels is None else kernels(self.layers[0], kv_cache[0][0])
        hidden = torch.nn.functional.embedding(state.token, text.embed_tokens.weight)
        cosine, sine = text.rotary_emb(hidden, state.rope_position[None, :, None].expand(3, -1, -1))
        mask = None if single else _mask(state.cache_position, kv_cache[0][0].shape[2])
        eps, head = self.config.rms_norm_eps, self.model.lm_head.weight
        for weights, (keys, values) in zip(self.layers, kv_cache, strict=True):
            hidden = (single.layer if single else layer)(
                hidden, weights, keys, values, cosine[:, 0], sine[:, 0], state.cache_position, mask, eps
            )
        if single:
            logits = single.logits(hidden, text.norm.weight, head, eps)
        else:
            logits = torch.nn.functional.linear(rms_norm(hidden, text.norm.weight, eps), head)
        token, prob = _choose(choice, logits, state.uniform.index_select(0, state.step)[0])
        state.ids.index_copy_(0, state.step, token[None])
        state.probs.index_copy_(0, state.step, prob[None])
        state.token.copy_(token)
        state.cache_position.add_(1)
        state.rope_position.add_(1)
        state.step.add_(1)


def _mask(cache_position: Tensor, blocks: int) -> Tensor:
    """Return the attention mask added to the scores: a row's tokens after its last one are masked."""
    positions = torch.arange(blocks * BLOCK_SIZE, device=cache_position.device)
    mask = torch.zeros(len(cache_position), len(positions), device=cache_position.device)
    mask = mask.masked_fill(positions > cache_position[:, None], -torch.inf)
    return mask.view(-1, blocks, BLOCK_SIZE)


def _choose(choice: RandomChoice | None, logits: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    return greedy(logits) if choice is None else choice(logits, uniform)


def _draw_uniform(place: Tensor, rows: int) -> None:
    """Fill in random numbers for `rows` rows, from the host, so that surplus rows do not change them."""
    place[:, :rows] = torch.rand((len(place), rows)).to(place.device)


def _lengthened(memory: Tensor, before: torch.Size, after: torch.Size) -> Tensor:
    """Lay out the memory of a KV cache for a longer shape; allocate new memory if it is too small."""
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
