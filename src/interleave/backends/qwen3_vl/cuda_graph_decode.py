"""Greedy answers of the Qwen3-VL models, written by a step that is recorded once and played for every token.

`generate` decides about each token in Python, and a step of an 8B model is some two thousand kernels that are
launched one by one: twenty times what the weights take to be read. Here a step is one CUDA graph, from the
token before to the next one with its probability, and nobody looks at what is written but every few tokens.

Rows stand in the cache from its beginning, each as long as it is: there is no padding, so a question of
another length needs no other graph. Keys and values lie in pieces, which are attended to side by side, and
the heads that share them read them once. Off CUDA the same step runs without being recorded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from interleave.backends.local.library_errors import is_out_of_memory
from interleave.backends.qwen3_vl.decoder_layer import (
    compiled_layer,
    likeliest,
    linear_parts,
    normed,
    through_layer,
    weights_of,
)
from interleave.backends.qwen3_vl.prefill import Cache, read_questions

if TYPE_CHECKING:
    import torch
    from torch import Tensor

log = logging.getLogger(__name__)

LOOK_EVERY = 8
"""Tokens between two looks at what has been written."""
PIECE = 256
"""Tokens of a piece of the cache."""
PIECES_STEP = 4
"""Caches have a multiple of so many pieces, so that few graphs are recorded."""
INPUTS = {"input_ids", "attention_mask", "mm_token_type_ids", "pixel_values", "image_grid_thw"}
NEUTRAL: dict[str, tuple[object, ...]] = {
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
"""Settings of a model that change which token is chosen, and their values that change nothing."""


@dataclass(frozen=True)
class Written:
    """What has been written to one question, with the probability of every token."""

    ids: list[int]
    chances: list[float]


@dataclass(frozen=True)
class Marks:
    """Where the rows of a batch stand; a recorded step reads and changes these very tensors."""

    token: Tensor
    place: Tensor
    """in the cache, where the token belongs,"""
    position: Tensor
    """and for the rotation: pictures count otherwise."""
    count: Tensor
    """How many tokens have been written since the last look,"""
    ids: Tensor
    """which they were,"""
    chances: Tensor
    """and how likely."""

    @staticmethod
    def of(rows: int, device: Any) -> Marks:
        import torch

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.long, device=device)

        chances = torch.zeros((LOOK_EVERY, rows), device=device)
        return Marks(zeros(rows), zeros(rows), zeros(rows), zeros(1), zeros(LOOK_EVERY, rows), chances)

    def moving(self) -> tuple[Tensor, ...]:
        return self.token, self.place, self.position, self.count


def can_step(model: Any) -> bool:
    """Whether a model is of the one kind that is known here, with nothing about it changed."""
    try:
        from torch.nn import Linear
        from transformers.models.qwen3_vl import modeling_qwen3_vl as library
    except ImportError:
        return False
    if type(model) is not library.Qwen3VLForConditionalGeneration:
        return False
    text = model.model.language_model
    linear = [model.lm_head, *(part for layer in text.layers for part in linear_parts(layer))]
    plain = all(type(part) is Linear and part.bias is None for part in linear)
    rotation = text.rotary_emb.rope_type == "default"
    return plain and rotation and text.config.hidden_act == "silu"


def can_record(device: torch.device) -> bool:
    return str(device.type) == "cuda"


def is_neutral(settings: Any) -> bool:
    """Whether the likeliest token is the one that is chosen, as far as a model's settings go."""
    return all(getattr(settings, name, None) in values for name, values in NEUTRAL.items())


class Stepper:
    """Writes the answers of one model. Must be used by one thread at a time."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.text = model.model.language_model
        self.config = self.text.config
        self.layers = [weights_of(layer) for layer in self.text.layers]
        self._memory: Cache = []
        """Of every layer two blocks, from which batches of all shapes are cut."""
        self._marks: dict[int, Marks] = {}
        self._steps: dict[tuple[int, int, bool], Callable[[], None]] = {}
        self._pool: Any = None
        """Memory that all graphs of this model use, one after another."""
        self._side: Any = None
        """The stream they are recorded on."""

    def forget(self) -> None:
        """Give all memory back."""
        self._memory, self._marks, self._steps, self._pool = [], {}, {}, None

    def write(
        self,
        inputs: dict[str, Tensor],
        pictures: Sequence[int],
        rooms: Sequence[int],
        gone: Callable[[int], bool],
        *,
        ends: frozenset[int],
        compiled: bool,
    ) -> list[Written]:
        """Answer a batch of questions, padded on the left, that show so many pictures each.

        What comes after one of the `ends`, or beyond the room for an answer, means nothing.
        """
        lengths = inputs["attention_mask"].sum(dim=1).tolist()
        rows = 1 << (len(lengths) - 1).bit_length()  # 1, 2, 4, 8…: rows beyond the questions are never read
        pieces = _pieces_for(max(lengths) + LOOK_EVERY)
        marks = self._marks.setdefault(rows, Marks.of(rows, inputs["input_ids"].device))
        answers = [Written([], []) for _ in lengths]
        _note(answers, *self._read(inputs, pictures, lengths, self._cache(rows, pieces), marks))
        step = self._step(rows, pieces, compiled)
        longest = max(lengths)
        while not all(
            len(each.ids) >= room or gone(row) or not ends.isdisjoint(each.ids)
            for row, (each, room) in enumerate(zip(answers, rooms, strict=True))
        ):
            if longest + LOOK_EVERY > pieces * PIECE:
                pieces = self._grow(rows, pieces)
                step = self._step(rows, pieces, compiled)
            marks.count.zero_()
            for _ in range(LOOK_EVERY):
                step()
            longest += LOOK_EVERY
            _note(answers, marks.ids, marks.chances)
        return answers

    def _read(
        self,
        inputs: dict[str, Tensor],
        pictures: Sequence[int],
        lengths: list[int],
        cache: Cache,
        marks: Marks,
    ) -> tuple[Tensor, Tensor]:
        """Read the questions into the cache; returns the first token of every answer and its likelihood."""
        import torch

        read = read_questions(self.model, inputs, pictures, lengths, cache)
        count = torch.tensor(lengths, device=marks.place.device)
        for mark, values in zip(marks.moving(), (read.tokens, count, count + read.ahead), strict=False):
            mark.zero_()
            mark[: len(values)] = values
        return read.tokens[None], read.chances[None]

    def _cache(self, rows: int, pieces: int) -> Cache:
        """Keys and values of every layer for a batch of this shape: rows × heads × pieces × tokens × head."""
        import torch

        shape = self._shape(rows, pieces)
        size = shape.numel()
        if not self._memory or self._memory[0][0].numel() < size:
            self._memory, self._steps, self._pool = [], {}, None  # graphs are of the memory they have seen
            like = {"dtype": self.model.dtype, "device": self.model.device}
            self._memory = [(torch.zeros(size, **like), torch.zeros(size, **like)) for _ in self.layers]
        return [(keys[:size].view(shape), values[:size].view(shape)) for keys, values in self._memory]

    def _shape(self, rows: int, pieces: int) -> torch.Size:
        import torch

        return torch.Size((rows, self.config.num_key_value_heads, pieces, PIECE, self.config.head_dim))

    def _grow(self, rows: int, pieces: int) -> int:
        """Make room for longer answers, in the middle of them; returns how many pieces there are then."""
        more = pieces + PIECES_STEP
        before, after = self._shape(rows, pieces), self._shape(rows, more)
        if self._memory[0][0].numel() < after.numel():
            self._steps, self._pool = {}, None
        for number, (keys, values) in enumerate(self._memory):  # one by one: two of all would not fit
            self._memory[number] = (_enlarged(keys, before, after), _enlarged(values, before, after))
        return more

    def _step(self, rows: int, pieces: int, compiled: bool) -> Callable[[], None]:
        """A function that writes one token to every row."""
        known = self._steps.get((rows, pieces, compiled))
        if known is None:
            known = self._steps[rows, pieces, compiled] = self._prepare(rows, pieces, compiled)
        return known

    def _prepare(self, rows: int, pieces: int, compiled: bool) -> Callable[[], None]:
        marks, cache = self._marks[rows], self._cache(rows, pieces)
        layer = compiled_layer() if compiled else through_layer

        def step() -> None:
            self._advance(marks, cache, layer)

        if not can_record(marks.token.device):
            return step
        try:
            return self._recorded(step, marks)
        except Exception as error:
            if not compiled or is_out_of_memory(error):
                raise
            log.warning("the step cannot be compiled, and is recorded as it is: %s", str(error)[:500])
            return self._step(rows, pieces, False)

    def _recorded(self, step: Callable[[], None], marks: Marks) -> Callable[[], None]:
        import torch

        before = [each.clone() for each in marks.moving()]
        self._side = self._side or torch.cuda.Stream(self.model.device)
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        try:
            marks.count.zero_()
            self._side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._side):
                step()  # what a first time sets up must not be recorded
                step()
            torch.cuda.current_stream().wait_stream(self._side)
            with torch.cuda.graph(
                graph, pool=self._pool, stream=self._side, capture_error_mode="thread_local"
            ):
                step()
        finally:
            for mark, value in zip(marks.moving(), before, strict=True):
                mark.copy_(value)
        played: Callable[[], None] = graph.replay
        return played

    def _advance(self, marks: Marks, cache: Cache, layer: Callable[..., Tensor]) -> None:
        """One token: everything in here happens on the device, and nothing waits for it."""
        import torch

        text = self.text
        hidden = torch.nn.functional.embedding(marks.token, text.embed_tokens.weight)
        cosine, sine = text.rotary_emb(hidden, marks.position[None, :, None].expand(3, -1, -1))
        pieces = cache[0][0].shape[2]
        places = torch.arange(pieces * PIECE, device=hidden.device)
        hides = torch.zeros(len(hidden), len(places), device=hidden.device)
        hides = hides.masked_fill(places > marks.place[:, None], -torch.inf).view(len(hidden), pieces, PIECE)
        eps = self.config.rms_norm_eps
        for weights, (keys, values) in zip(self.layers, cache, strict=True):
            hidden = layer(hidden, weights, keys, values, cosine[:, 0], sine[:, 0], marks.place, hides, eps)
        logits = torch.nn.functional.linear(normed(hidden, text.norm.weight, eps), self.model.lm_head.weight)
        token, chance = likeliest(logits)
        marks.ids.index_copy_(0, marks.count, token[None])
        marks.chances.index_copy_(0, marks.count, chance[None])
        marks.token.copy_(token)
        marks.place.add_(1)
        marks.position.add_(1)
        marks.count.add_(1)


def _enlarged(block: Tensor, before: torch.Size, after: torch.Size) -> Tensor:
    """A block cut for one shape, cut for a longer one; a new block where it is too small for that."""
    held = block[: before.numel()].view(before)
    if block.numel() < after.numel():
        block = block.new_zeros(after.numel())
    else:
        held = held.clone()
    block[: after.numel()].view(after)[:, :, : before[2]].copy_(held)
    return block


def _pieces_for(tokens: int) -> int:
    pieces = -(-tokens // PIECE)
    return -(-pieces // PIECES_STEP) * PIECES_STEP


def _note(answers: list[Written], ids: Tensor, chances: Tensor) -> None:
    """Look at what has been written."""
    for written, row, likely in zip(answers, ids.t().tolist(), chances.t().tolist(), strict=False):
        written.ids.extend(row)
        written.chances.extend(likely)
