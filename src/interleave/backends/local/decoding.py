"""Answers of a vision-language model to a batch of questions, decoded together.

A plain step of an 8B model spends nine tenths of its time launching kernels. Models that `stepping` knows are
stepped through by a recorded graph. Of others the keys and values live in a cache of fixed size on CUDA, and
the step that makes a token is compiled; such caches are kept and used again, because a compiled step is
recorded for the memory it has seen.
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
from typing import TYPE_CHECKING, Any

from interleave.backends.local.detokenize import plain, spell
from interleave.backends.local.library_errors import is_out_of_memory
from interleave.backends.protocols import Message, Reply, Token
from interleave.backends.qwen3_vl.cuda_graph_decode import INPUTS, Stepper, can_step, is_neutral
from interleave.errors import BackendError, Failure
from interleave.types import Picture, Text

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

log = logging.getLogger(__name__)

CACHE_STEP = 4096
"""Sizes of fixed caches are multiples of this, so that few of them, mostly one, are ever compiled for."""
CACHES_KEPT = 2
RECOMPILE_LIMIT = 64


@dataclass(frozen=True)
class Question:
    """One call of a model."""

    messages: tuple[Message, ...]
    max_tokens: int
    temperature: float = 0.0
    probabilities: bool = False
    adapter: str | None = None
    max_pixels: int | None = None
    static: bool = False
    """Whether to decode in a cache of fixed size,"""
    compiled: bool = False
    """and with a compiled step."""

    @property
    def together(self) -> tuple[object, ...]:
        """Questions for which this is equal can be answered in one batch."""
        return (self.adapter, self.temperature, self.static, self.compiled)


@dataclass(frozen=True)
class Asked:
    """Questions as a model takes them, how long each is, and how long its answer may be."""

    questions: Sequence[Question]
    inputs: dict[str, Tensor]
    lengths: list[int]
    rooms: list[int]


Choice = tuple[list[list[int]], list[list[float]] | None]
"""The tokens of every answer, and their probabilities."""


class Decoder:
    """Asks one loaded model. Must be used by one thread at a time."""

    def __init__(self, model: Any, processor: Any) -> None:
        self.model = model
        self.processor = processor
        self.tokenizer = getattr(processor, "tokenizer", processor)
        self.special = [
            str(token)
            for token in self.tokenizer.added_tokens_decoder.values()
            if getattr(token, "special", False)
        ]
        self.ends = _end_tokens(model, self.tokenizer)
        self.context: int | None = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        self._caches: dict[tuple[int, int], Any] = {}
        self._stepper = Stepper(model) if can_step(model) else None

    @property
    def can_step(self) -> bool:
        """Whether answers are written by recorded steps, where nothing about a question speaks against it."""
        return self._stepper is not None

    def forget(self) -> None:
        """Give back the memory of keys and values."""
        self._caches = {}
        if self._stepper is not None:
            self._stepper.forget()

    def answer(
        self, questions: Sequence[Question], gone: Callable[[int], bool] = lambda row: False
    ) -> list[Reply | BackendError]:
        """The replies, in order; a row that is `gone` may end early, one that is too long has an error."""
        import torch

        asked = self._asked(questions)
        with torch.inference_mode():
            chosen, chances = self._stepped(asked, gone) or self._generated(asked, gone)
        return [
            self._reply(each, ids, chances[row] if chances else None, asked.lengths[row], asked.rooms[row])
            if asked.rooms[row] > 0
            else self._too_long(asked.lengths[row])
            for row, (each, ids) in enumerate(zip(questions, chosen, strict=False))
        ]

    def _asked(self, questions: Sequence[Question]) -> Asked:
        inputs = self._inputs(questions)
        lengths = inputs["attention_mask"].sum(dim=1).tolist()
        rooms = [self._room_for(each, length) for each, length in zip(questions, lengths, strict=True)]
        return Asked(questions, inputs, lengths, rooms)

    def _stepped(self, asked: Asked, gone: Callable[[int], bool]) -> Choice | None:
        """Tokens written by recorded steps; None where they are not sure to be those of `generate`."""
        first = asked.questions[0]
        greedy = first.temperature <= 0 and is_neutral(self.model.generation_config)
        adapted = getattr(self.model, "_hf_peft_config_loaded", False)
        known = first.static and greedy and not adapted and INPUTS.issuperset(asked.inputs)
        if self._stepper is None or not known:
            return None
        pictures = [_pictures_in(each) for each in asked.questions]
        try:
            written = self._stepper.write(
                asked.inputs, pictures, asked.rooms, gone, ends=self.ends, compiled=first.compiled
            )
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            log.warning("answers are decoded the slow way, because a step cannot be recorded: %s", error)
            self._stepper = None
            return None
        return [each.ids for each in written], [each.chances for each in written]

    def _generated(self, asked: Asked, gone: Callable[[int], bool]) -> Choice:
        rows = asked.questions
        if rows[0].compiled and self.model.device.type == "cuda":
            prepare_cuda_graphs()
        if rows[0].compiled and len(_filled_up(rows)) > len(rows):
            return self._generated(self._asked(_filled_up(rows)), gone)
        prompt, tokens = asked.inputs["input_ids"].shape[1], max(1, *asked.rooms)
        probabilities = _Probabilities(prompt) if any(each.probabilities for each in rows) else None
        written = self.model.generate(
            **asked.inputs,
            generation_config=self._settings(rows[0], tokens),
            logits_processor=[probabilities] if probabilities else None,
            stopping_criteria=[_Stop(prompt, asked.rooms, gone)],
            **self._cache(rows[0], len(rows), prompt + tokens),
        )
        return written[:, prompt:].tolist(), probabilities.of(written) if probabilities else None

    def _inputs(self, questions: Sequence[Question]) -> dict[str, Tensor]:
        conversations = [self._conversation(each) for each in questions]
        made = self.processor.apply_chat_template(
            conversations,
            tokenize=True,
            add_generation_prompt=True,
            return_dict=True,
            return_tensors="pt",
            processor_kwargs={"padding": True, "padding_side": "left"},
        )
        made.pop("token_type_ids", None)
        # BatchFeature moves every tensor, and changes the format of those that are no whole numbers
        return dict(made.to(self.model.device, dtype=self.model.dtype))

    def _conversation(self, question: Question) -> list[dict[str, Any]]:
        return [
            {"role": message.role, "content": [self._part(part, question) for part in message.parts]}
            for message in question.messages
        ]

    def _part(self, part: Any, question: Question) -> dict[str, Any]:
        if isinstance(part, Text):
            return {"type": "text", "text": plain(part.text, self.special)}
        return {"type": "image", "image": within(part.image, question.max_pixels)}

    def _room_for(self, question: Question, length: int) -> int:
        """How many tokens may be written, at most, to a question of this length; it may be none."""
        wanted = question.max_tokens
        return wanted if self.context is None else min(wanted, self.context - length)

    def _too_long(self, length: int) -> BackendError:
        return BackendError(
            f"the question has {length:,} tokens, and the model reads at most {self.context:,}: "
            "shorten it, show fewer pictures, or smaller ones with ?max_pixels=",
            kind=Failure.INVALID,
        )

    def _settings(self, question: Question, tokens: int) -> Any:
        settings = copy.deepcopy(self.model.generation_config)
        settings.max_new_tokens = tokens
        settings.max_length = None
        settings.do_sample = question.temperature > 0
        settings.temperature = question.temperature if settings.do_sample else None
        if not settings.do_sample:
            settings.top_p = settings.top_k = settings.min_p = None
        settings.eos_token_id = sorted(self.ends)
        if settings.pad_token_id is None:
            settings.pad_token_id = min(self.ends)
        settings.disable_compile = not question.compiled
        if question.compiled:
            settings.compile_config = _compile_config()
        return settings

    def _cache(self, question: Question, rows: int, length: int) -> dict[str, Any]:
        if not question.static:
            return {}
        from transformers import StaticCache

        length = -(-length // CACHE_STEP) * CACHE_STEP
        cache = self._caches.pop((rows, length), None)
        if cache is None:
            cache = StaticCache(config=self.model.config.get_text_config(decoder=True), max_cache_len=length)
        else:
            cache.reset()
        self._caches[(rows, length)] = cache
        while len(self._caches) > CACHES_KEPT:
            del self._caches[next(iter(self._caches))]
        return {"past_key_values": cache}

    def _reply(
        self, question: Question, ids: list[int], chances: list[float] | None, prompt: int, room: int
    ) -> Reply:
        end = next((place for place, token in enumerate(ids) if token in self.ends), None)
        ids = ids[: room if end is None else min(end, room)]
        pieces = spell(self.tokenizer, ids)
        tokens = (
            tuple(Token(*pair) for pair in zip(pieces, chances, strict=False))
            if question.probabilities and chances is not None
            else ()
        )
        ended = end is not None and end <= room
        return Reply(
            "".join(pieces),
            "stop" if ended else "length",
            usage={"prompt_tokens": int(prompt), "completion_tokens": len(ids)},
            cost=0.0,
            tokens=tokens,
        )


class _Probabilities:
    """Listens in while tokens are chosen, and keeps the probability of each choice, not of all others."""

    def __init__(self, prompt: int) -> None:
        self._prompt = prompt
        self._chosen: list[Tensor] = []
        self._last: Tensor | None = None

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        self._settle(input_ids[:, -1])
        self._last = scores.float().softmax(dim=-1)
        return scores

    def of(self, written: Tensor) -> list[list[float]]:
        import torch

        steps = written.shape[1] - self._prompt
        if len(self._chosen) < steps:
            self._settle(written[:, self._prompt + len(self._chosen)])
        return [[float(each) for each in row] for row in torch.stack(self._chosen[:steps], dim=1).tolist()]

    def _settle(self, ids: Tensor) -> None:
        if self._last is not None:
            self._chosen.append(
                self._last.gather(1, ids[:, None].to(self._last.device)).squeeze(1).clamp(max=1.0)
            )
            self._last = None


class _Stop:
    """Ends rows that nobody waits for any more, and rows that have reached a limit of their own."""

    def __init__(self, prompt: int, limits: Sequence[int], gone: Callable[[int], bool]) -> None:
        self._prompt = prompt
        self._limits = limits
        self._gone = gone
        self._state: tuple[bool, ...] = ()
        self._answer: Tensor | None = None

    def __call__(self, input_ids: Tensor, scores: Any, **_: Any) -> Tensor:
        import torch

        written = input_ids.shape[1] - self._prompt
        state = tuple(written >= limit or self._gone(row) for row, limit in enumerate(self._limits))
        if self._answer is None or state != self._state:  # a new tensor only when something has changed
            self._state, self._answer = state, torch.tensor(state, device=input_ids.device)
        return self._answer


def within(image: Image, max_pixels: int | None) -> Image:
    """A picture of at most so many pixels."""
    if max_pixels is None or image.width * image.height <= max_pixels:
        return image
    from PIL import Image as pillow

    scale = (max_pixels / (image.width * image.height)) ** 0.5
    size = (max(1, int(image.width * scale)), max(1, int(image.height * scale)))
    return image.resize(size, pillow.Resampling.BICUBIC)


def _pictures_in(question: Question) -> int:
    return sum(isinstance(part, Picture) for message in question.messages for part in message.parts)


def _filled_up(questions: Sequence[Question]) -> list[Question]:
    """A batch of 1, 2, 4, 8…: the last question is asked again, so that few sizes are compiled for."""
    size = 1 << (len(questions) - 1).bit_length()
    return [*questions, *[questions[-1]] * (size - len(questions))]


def _end_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    ends = model.generation_config.eos_token_id
    listed = ends if isinstance(ends, list) else [ends]
    found = {int(each) for each in (*listed, tokenizer.eos_token_id) if each is not None}
    if not found:
        raise BackendError("the model's generation_config.json names no end-of-text token (eos_token_id)")
    return frozenset(found)


def prepare_cuda_graphs() -> None:
    """Set up, in this thread, what torch needs to record the graphs of a compiled step.

    Torch does that only in the thread that imports the module. Older releases (2.11 is one) then also hand
    the two objects to C++ without a reference: when that thread ends they are released once too often, and
    the interpreter crashes while it shuts down. The reference that is missing is taken here; where torch
    has its own, two empty dictionaries live a little longer.
    """
    first = "torch._inductor.cudagraph_trees" not in sys.modules
    import torch._inductor.cudagraph_trees as trees

    if not hasattr(trees.local, "tree_manager_containers"):
        trees.local.tree_manager_containers = {}
        trees.local.tree_manager_locks = defaultdict(threading.Lock)
    elif first:
        for handed_over in (trees.local.tree_manager_containers, trees.local.tree_manager_locks):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(handed_over))


def _compile_config() -> Any:
    import torch._dynamo.config as dynamo
    from transformers import CompileConfig

    if hasattr(dynamo, "recompile_limit"):
        dynamo.recompile_limit = max(dynamo.recompile_limit, RECOMPILE_LIMIT)
    config = CompileConfig(dynamic=False)
    config._compile_all_devices = True  # where a user asks for it, also on a CPU
    return config
