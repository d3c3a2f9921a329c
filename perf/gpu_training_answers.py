"""Forces answers of given lengths: the model decodes that many tokens, and scripted ones replace them.

A model with random weights may deviate from the text it was built to produce. A step would then have an
arbitrary length and draw nothing. The timed part, the decoding, is the product's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from gpu_training_rows import KINDS
from random_models import refusals
from transformers import PreTrainedTokenizerFast

from interleave.local.qwen3_vl.cuda_graph_decode import CudaGraphDecoder, Generated

Lengths = Callable[[int], int]
"""Function from the position of an answer in its batch to its length."""


class Script:
    """Scripted answers, and how often the model would have generated them itself."""

    def __init__(self, model: Path, tokens: int) -> None:
        """`model` is a folder with the tokenizer of a model built to refuse in `tokens` tokens."""
        self._tokenizer = PreTrainedTokenizerFast.from_pretrained(model)
        self._most = tokens
        self._kinds = count()
        self.written = 0
        self.as_said = 0
        """Number of answers whose tokens the model chose itself, except the one varying word."""

    def ids(self, length: int) -> list[int]:
        """Return an answer of `length` tokens including its end; all differ, up to the number of kinds."""
        kind = next(self._kinds) % KINDS
        pieces = [piece if isinstance(piece, str) else piece[kind] for piece in refusals(length, KINDS)]
        found = [self._tokenizer.encode(piece, add_special_tokens=False) for piece in pieces]
        ids = [*(token for tokens in found for token in tokens), self._tokenizer.eos_token_id]
        if len(ids) != length:
            raise ValueError(f"an answer has {len(ids)} tokens, not {length}")
        return ids

    def note(self, scripted: Sequence[int], said: Sequence[int]) -> None:
        self.written += 1
        different = sum(one != other for one, other in zip(scripted, said, strict=False))
        self.as_said += different <= 1

    @contextmanager
    def spoken(self, lengths: Lengths | None = None) -> Iterator[None]:
        """Give each sampled answer its scripted length and text."""
        generate = CudaGraphDecoder.generate

        def scripted(
            decoder: Any, inputs: Any, images: Any, budgets: Sequence[int], *rest: Any, **options: Any
        ) -> list[Generated]:
            if options.get("choice") is None:  # the scorer's answers stay unchanged
                return generate(decoder, inputs, images, budgets, *rest, **options)
            texts = [self.ids(lengths(place) if lengths else self._most) for place in range(len(budgets))]
            ended = options.pop("ended", None)
            told = None if ended is None else lambda row, ids: ended(row, texts[row])
            options |= {"eos_ids": frozenset(), "ended": told}
            made = generate(decoder, inputs, images, [len(text) for text in texts], *rest, **options)
            for text, reply in zip(texts, made, strict=True):
                self.note(text, reply.ids)
            return [
                Generated(text, reply.probs[: len(text)]) for text, reply in zip(texts, made, strict=True)
            ]

        CudaGraphDecoder.generate = scripted  # type: ignore[method-assign]
        try:
            yield
        finally:
            CudaGraphDecoder.generate = generate  # type: ignore[method-assign]
