"""Answers of given lengths whatever the model says: it decodes that many tokens, and others replace them.

A model with random weights may leave the text it was made to say. A step would then take as long as that
happens to take, and draw nothing. What is timed, the decoding, is the product's.
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
"""The length of an answer by its place in its batch."""


class Script:
    """What is put in the place of answers, and how often the model would have said it itself."""

    def __init__(self, model: Path, tokens: int) -> None:
        """`model` is a folder with the tokenizer of a model that was made to refuse in `tokens` tokens."""
        self._tokenizer = PreTrainedTokenizerFast.from_pretrained(model)
        self._most = tokens
        self._kinds = count()
        self.written = 0
        self.as_said = 0
        """Answers whose tokens the model chose itself, but for the one word of many."""

    def ids(self, length: int) -> list[int]:
        """An answer of so many tokens with its end; no two of them alike, up to the number of kinds."""
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
        """Each answer that is drawn by its probabilities has its scripted length and text."""
        generate = CudaGraphDecoder.generate

        def scripted(
            decoder: Any, inputs: Any, images: Any, budgets: Sequence[int], *rest: Any, **options: Any
        ) -> list[Generated]:
            if options.get("choice") is None:  # the scorer's, which are read as they are
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
