"""Replies of a vision-language model to a batch of prompts.

A plain decode step of an 8B model spends nine tenths of its time launching kernels. Models supported by
`qwen3_vl.cuda_graph_decode` are decoded with CUDA graphs. For others on CUDA, the KV cache has a fixed size
and the decode step is compiled. Such caches are reused, because a compiled step is bound to the memory that
it was captured with.
"""

from __future__ import annotations

import copy
import ctypes
import logging
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from interleave import BackendError, ImagePart, Message, Reply, Text
from interleave.local.completions import (
    CompletionRequest,
    downscaled,
    escape_special_tokens,
    make_reply,
    token_budget,
    too_long,
)
from interleave.local.library_errors import is_out_of_memory
from interleave.local.qwen3_vl.cuda_graph_decode import (
    KNOWN_INPUTS,
    CudaGraphDecoder,
    is_greedy,
    supports,
)

log = logging.getLogger(__name__)

CACHE_LENGTH_MULTIPLE = 4096
"""Lengths of static KV caches are multiples of this, so that few lengths, mostly one, are compiled."""
MAX_CACHES = 2
RECOMPILE_LIMIT = 64


@dataclass(frozen=True)
class PromptBatch:
    """Requests as model inputs."""

    requests: Sequence[CompletionRequest]
    inputs: dict[str, Tensor]
    lengths: list[int]
    """Tokens of every prompt."""
    token_budgets: list[int]
    """Token limit of every reply; 0 or less if the prompt fills the context."""


Decoded = tuple[list[list[int]], list[list[float]] | None]
"""The tokens of every reply, and their probabilities."""


class Decoder:
    """Prefill and decoding for one loaded model. Only one thread may use it at a time."""

    def __init__(self, model: Any, processor: Any) -> None:
        self.model = model
        self.processor = processor
        self.tokenizer = getattr(processor, "tokenizer", processor)
        self.special_tokens = [
            str(token)
            for token in self.tokenizer.added_tokens_decoder.values()
            if getattr(token, "special", False)
        ]
        self.eos_ids = _eos_ids(model, self.tokenizer)
        self.context: int | None = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        self._static_caches: dict[tuple[int, int], Any] = {}
        self._graph_decoder = CudaGraphDecoder(model) if supports(model) else None

    @property
    def has_graph_decoder(self) -> bool:
        """Whether greedy requests with a static KV cache are decoded with CUDA graphs."""
        return self._graph_decoder is not None

    def free_memory(self) -> None:
        """Drop all KV caches."""
        self._static_caches = {}
        if self._graph_decoder is not None:
            self._graph_decoder.free_memory()

    def complete(
        self,
        requests: Sequence[CompletionRequest],
        cancelled: Callable[[int], bool] = lambda row: False,
    ) -> list[Reply | BackendError]:
        """Return the replies in order; a cancelled row may end early, and a prompt too long is an error."""
        batch = self._prompt_batch(requests)
        with torch.inference_mode():
            ids, probs = self._graph_decode(batch, cancelled) or self._library_generate(batch, cancelled)
        return [
            make_reply(
                request,
                row_ids,
                probs[row] if probs else None,
                prompt_length=batch.lengths[row],
                token_budget=batch.token_budgets[row],
                eos_ids=self.eos_ids,
                decode=self._decode,
            )
            if batch.token_budgets[row] > 0
            else too_long(batch.lengths[row], self.context)
            for row, (request, row_ids) in enumerate(zip(requests, ids, strict=False))
        ]

    def _decode(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def _prompt_batch(self, requests: Sequence[CompletionRequest]) -> PromptBatch:
        inputs = self._inputs(requests)
        lengths = inputs["attention_mask"].sum(dim=1).tolist()
        budgets = [token_budget(*pair, self.context) for pair in zip(requests, lengths, strict=True)]
        return PromptBatch(requests, inputs, lengths, budgets)

    def _graph_decode(self, batch: PromptBatch, cancelled: Callable[[int], bool]) -> Decoded | None:
        """Decode with CUDA graphs; return None if the tokens may differ from those of `generate`."""
        first = batch.requests[0]
        greedy = first.temperature <= 0 and is_greedy(self.model.generation_config)
        adapted = getattr(self.model, "_hf_peft_config_loaded", False)
        known = first.static and greedy and not adapted and KNOWN_INPUTS.issuperset(batch.inputs)
        if self._graph_decoder is None or not known:
            return None
        try:
            replies = self._graph_decoder.generate(
                batch.inputs,
                [_image_count(request) for request in batch.requests],
                batch.token_budgets,
                cancelled,
                eos_ids=self.eos_ids,
                compiled=first.compiled,
                reuse=first.reuse,
            )
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            log.warning("decoding without CUDA graphs, because a step cannot be captured: %s", error)
            self._graph_decoder = None
            return None
        return [reply.ids for reply in replies], [reply.probs for reply in replies]

    def _library_generate(self, batch: PromptBatch, cancelled: Callable[[int], bool]) -> Decoded:
        """Decode with the library's `generate`."""
        requests = batch.requests
        if requests[0].compiled and self.model.device.type == "cuda":
            prepare_cuda_graphs()
        if requests[0].compiled and len(_padded(requests)) > len(requests):
            return self._library_generate(self._prompt_batch(_padded(requests)), cancelled)
        prompt, tokens = batch.inputs["input_ids"].shape[1], max(1, *batch.token_budgets)
        recorder = _ProbabilityRecorder(prompt) if any(each.probabilities for each in requests) else None
        sampled = [_RowSampler(requests, self.model.device)] if requests[0].temperature > 0 else []
        generated = self.model.generate(
            **batch.inputs,
            generation_config=self._generation_config(requests[0], tokens),
            logits_processor=[*([recorder] if recorder else []), *sampled] or None,
            stopping_criteria=[_RowLimits(prompt, batch.token_budgets, cancelled)],
            **self._static_cache(requests[0], len(requests), prompt + tokens),
        )
        return generated[:, prompt:].tolist(), recorder.probs(generated) if recorder else None

    def inputs_of(self, conversations: Sequence[tuple[Message, ...]]) -> dict[str, Tensor]:
        """Return the model inputs for these messages, padded on the left."""
        return self._inputs([CompletionRequest(messages, 1) for messages in conversations])

    def _inputs(self, requests: Sequence[CompletionRequest]) -> dict[str, Tensor]:
        inputs = self.processor.apply_chat_template(
            [self._conversation(request) for request in requests],
            tokenize=True,
            add_generation_prompt=not requests[0].continues,
            continue_final_message=requests[0].continues,
            return_dict=True,
            return_tensors="pt",
            processor_kwargs={"padding": True, "padding_side": "left"},
        )
        inputs.pop("token_type_ids", None)
        # BatchFeature moves every tensor, but changes the dtype of floating-point ones only
        return dict(inputs.to(self.model.device, dtype=self.model.dtype))

    def _conversation(self, request: CompletionRequest) -> list[dict[str, Any]]:
        return [
            {"role": message.role, "content": [self._part(part, request) for part in message.merged]}
            for message in request.asked
        ] + [
            {"role": "assistant", "content": [{"type": "text", "text": request.begun}]}
            for _ in range(request.continues)
        ]

    def _part(self, part: Any, request: CompletionRequest) -> dict[str, Any]:
        if isinstance(part, Text):
            return {"type": "text", "text": escape_special_tokens(part.text, self.special_tokens)}
        return {"type": "image", "image": downscaled(part.image, request.max_pixels)}

    def _generation_config(self, request: CompletionRequest, tokens: int) -> Any:
        config = copy.deepcopy(self.model.generation_config)
        config.max_new_tokens = tokens
        config.max_length = None
        config.do_sample = False  # `_RowSampler` samples if requested
        config.temperature = config.top_p = config.top_k = config.min_p = None
        config.eos_token_id = sorted(self.eos_ids)
        if config.pad_token_id is None:
            config.pad_token_id = min(self.eos_ids)
        config.disable_compile = not request.compiled
        if request.compiled:
            config.compile_config = _compile_config()
        return config

    def _static_cache(self, request: CompletionRequest, rows: int, length: int) -> dict[str, Any]:
        """Return the argument of `generate` for a KV cache of fixed size, if requested."""
        if not request.static:
            return {}
        from transformers import StaticCache

        length = -(-length // CACHE_LENGTH_MULTIPLE) * CACHE_LENGTH_MULTIPLE
        cache = self._static_caches.pop((rows, length), None)
        if cache is None:
            cache = StaticCache(config=self.model.config.get_text_config(decoder=True), max_cache_len=length)
        else:
            cache.reset()
        self._static_caches[(rows, length)] = cache
        while len(self._static_caches) > MAX_CACHES:
            del self._static_caches[next(iter(self._static_caches))]
        return {"past_key_values": cache}


class _ProbabilityRecorder:
    """A logits processor that only records the probability of each chosen token."""

    def __init__(self, prompt: int) -> None:
        self._prompt = prompt
        self._chosen: list[Tensor] = []
        self._last: Tensor | None = None

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        self._record(input_ids[:, -1])
        self._last = scores.float().softmax(dim=-1)
        return scores

    def probs(self, generated: Tensor) -> list[list[float]]:
        """Return the probabilities of all tokens after the prompt."""
        steps = generated.shape[1] - self._prompt
        if len(self._chosen) < steps:
            self._record(generated[:, self._prompt + len(self._chosen)])
        return [[float(each) for each in row] for row in torch.stack(self._chosen[:steps], dim=1).tolist()]

    def _record(self, ids: Tensor) -> None:
        """Record the last step's probabilities of the chosen tokens."""
        if self._last is not None:
            self._chosen.append(
                self._last.gather(1, ids[:, None].to(self._last.device)).squeeze(1).clamp(max=1.0)
            )
            self._last = None


class _RowSampler:
    """A logits processor that samples one token per row with the row's generator and masks all others.

    So a row with a seed gets the same tokens in any batch, unlike with the library's sampling by the global
    generator. If no row has a seed, all rows are sampled together, which is faster.
    """

    def __init__(self, requests: Sequence[CompletionRequest], device: torch.device) -> None:
        from transformers.generation.logits_process import (
            TemperatureLogitsWarper,
            TopKLogitsWarper,
            TopPLogitsWarper,
        )

        first = requests[0]  # all requests of a batch have the same settings
        self._warpers: list[Any] = [TemperatureLogitsWarper(float(first.temperature))]
        if first.top_k is not None:
            self._warpers.append(TopKLogitsWarper(first.top_k))
        if first.top_p is not None and first.top_p < 1:
            self._warpers.append(TopPLogitsWarper(first.top_p))
        seeded = any(request.seed is not None for request in requests)
        self._generators = [
            _generator(request.seed, device) for request in (requests if seeded else requests[:1])
        ]
        self._seeded = seeded

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        warped = scores.float()
        for warper in self._warpers:
            warped = warper(input_ids, warped)
        probs = warped.softmax(dim=-1)
        if not self._seeded:
            chosen = torch.multinomial(probs, 1, generator=self._generators[0])
        else:
            rows = zip(probs, self._generators, strict=True)
            chosen = torch.stack([torch.multinomial(row, 1, generator=source) for row, source in rows])
        return torch.full_like(scores, -torch.inf).scatter_(1, chosen, 0.0)


def _generator(seed: int | None, device: torch.device) -> torch.Generator:
    generator = torch.Generator(device)
    if seed is None:
        generator.seed()
    else:
        generator.manual_seed(seed)
    return generator


class _RowLimits:
    """A stopping criterion for rows that are cancelled or have used up their token budget."""

    def __init__(self, prompt: int, token_budgets: Sequence[int], cancelled: Callable[[int], bool]) -> None:
        self._prompt = prompt
        self._token_budgets = token_budgets
        self._cancelled = cancelled
        self._state: tuple[bool, ...] = ()
        self._tensor: Tensor | None = None

    def __call__(self, input_ids: Tensor, scores: Any, **_: Any) -> Tensor:
        generated = input_ids.shape[1] - self._prompt
        state = tuple(
            generated >= budget or self._cancelled(row) for row, budget in enumerate(self._token_budgets)
        )
        if self._tensor is None or state != self._state:  # create a tensor only after a change
            self._state, self._tensor = state, torch.tensor(state, device=input_ids.device)
        return self._tensor


def _image_count(request: CompletionRequest) -> int:
    return sum(isinstance(part, ImagePart) for message in request.messages for part in message.parts)


def _padded(requests: Sequence[CompletionRequest]) -> list[CompletionRequest]:
    """Pad a batch to 1, 2, 4, 8… with its last request, so that few sizes are compiled."""
    size = 1 << (len(requests) - 1).bit_length()
    return [*requests, *[requests[-1]] * (size - len(requests))]


def _eos_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    configured = model.generation_config.eos_token_id
    listed = configured if isinstance(configured, list) else [configured]
    found = {int(each) for each in (*listed, tokenizer.eos_token_id) if each is not None}
    if not found:
        raise BackendError("the model's generation_config.json names no end-of-text token (eos_token_id)")
    return frozenset(found)


def prepare_cuda_graphs() -> None:
    """Create, in this thread, the state that torch needs to capture the graphs of a compiled step.

    Torch does that only in the thread that imports the module. Older releases, such as 2.11, also pass the
    two objects to C++ without taking a reference. When that thread ends they are released once too often, and
    the interpreter crashes at shutdown. The missing reference is taken here. If torch takes its own, two
    empty dictionaries live a little longer.
    """
    first = "torch._inductor.cudagraph_trees" not in sys.modules
    import torch._inductor.cudagraph_trees as trees

    if not hasattr(trees.local, "tree_manager_containers"):
        trees.local.tree_manager_containers = {}
        trees.local.tree_manager_locks = defaultdict(threading.Lock)
    elif first:
        for container in (trees.local.tree_manager_containers, trees.local.tree_manager_locks):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(container))


def _compile_config() -> Any:
    import torch._dynamo.config as dynamo
    from transformers import CompileConfig

    if hasattr(dynamo, "recompile_limit"):
        dynamo.recompile_limit = max(dynamo.recompile_limit, RECOMPILE_LIMIT)
    config = CompileConfig(dynamic=False)
    config._compile_all_devices = True  # also on a CPU, if a user requests it
    return config
