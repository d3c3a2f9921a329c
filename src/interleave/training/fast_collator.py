"""Batches for supervised fine-tuning as TRL would make them, many times as fast.

TRL fills in the chat template and calls the processor row by row and twice over. Here a batch is rendered,
tokenised and cut in one go each. What TRL would refuse or treat in a way of its own is left to it: a model of
another family, a picture that must be scaled, a template whose answer does not begin where its question ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from interleave.backends.qwen3_vl.uint8_pixels import PatchLayout, layout_of

IGNORED = -100
"""The label of a token that is not learned."""


class QuickBatches:
    """Rows with a question, an answer and pictures → tensors."""

    def __init__(self, processor: Any, layout: PatchLayout) -> None:
        self.processor = processor
        self.tokenizer = processor.tokenizer
        self.layout = layout
        self.token = str(processor.image_token)
        self.token_id = int(processor.image_token_id)

    @classmethod
    def of(cls, processor: Any) -> QuickBatches | None:
        """For a processor that returns uint8 pixels; None for any other."""
        layout = layout_of(processor)
        fast = getattr(getattr(processor, "tokenizer", None), "is_fast", False)
        return cls(processor, layout) if layout is not None and fast else None

    def make(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
        """The batch; None where it is not as plain as it must be here."""
        import torch

        if not all(self._is_plain(row) for row in rows):
            return None
        texts = self._texts(rows)
        if texts is None:
            return None
        batch = {name: torch.from_numpy(values) for name, values in self._tokens(*texts, rows).items()}
        pictures = [picture for row in rows for picture in row["images"]]
        if pictures:
            batch["pixel_values"], batch["image_grid_thw"] = self.layout.pack(pictures)
        return batch

    def lengths(self, rows: Sequence[Mapping[str, Any]]) -> list[int] | None:
        """How many tokens each row has, its pictures uncut."""
        if not all(self._is_plain(row) for row in rows):
            return None
        texts = self._texts(rows)
        if texts is None:
            return None
        tokens = self._tokens(*texts, rows)
        return [int(length) for length in tokens["attention_mask"].sum(axis=1)]

    def _is_plain(self, row: Mapping[str, Any]) -> bool:
        places = [part for message in row["prompt"] for part in message["content"] if part["type"] == "image"]
        return (
            row["prompt"][-1]["role"] == "user"
            and len(places) == len(row["images"])
            and all(picture.mode == "RGB" and self.layout.fits(picture.size) for picture in row["images"])
        )

    def _texts(self, rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str]] | None:
        """Questions and answers as the chat template writes them."""
        render = self.processor.apply_chat_template
        questions = render([row["prompt"] for row in rows], tokenize=False, add_generation_prompt=True)
        wholes = render([[*row["prompt"], *row["completion"]] for row in rows], tokenize=False)
        answers = []
        for row, question, whole in zip(rows, questions, wholes, strict=True):
            answer = whole[len(question) :]
            marks = (question.count(self.token), answer.count(self.token))
            if not whole.startswith(question) or marks != (len(row["images"]), 0):
                return None
            answers.append(answer)
        return questions, answers

    def _tokens(
        self, questions: list[str], answers: list[str], rows: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        found = self.tokenizer(
            [*questions, *answers], add_special_tokens=False, padding=False, return_attention_mask=False
        )["input_ids"]
        asked = [
            self._with_pictures(ids, row["images"]) for ids, row in zip(found[: len(rows)], rows, strict=True)
        ]
        said = [np.asarray(ids, dtype=np.int64) for ids in found[len(rows) :]]
        shape = (len(rows), max(len(ask) + len(say) for ask, say in zip(asked, said, strict=True)))
        ids = np.full(shape, self.tokenizer.pad_token_id, dtype=np.int64)
        labels = np.full(shape, IGNORED, dtype=np.int64)
        mask, kinds = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        for number, (ask, say) in enumerate(zip(asked, said, strict=True)):
            middle, end = len(ask), len(ask) + len(say)
            ids[number, :middle], ids[number, middle:end] = ask, say
            labels[number, middle:end] = say
            mask[number, :end] = 1
            kinds[number, :middle] = ask == self.token_id
        return {"input_ids": ids, "attention_mask": mask, "mm_token_type_ids": kinds, "labels": labels}

    def _with_pictures(self, ids: Sequence[int], pictures: Sequence[Any]) -> Any:
        """The tokens of a question, the one that stands for a picture repeated as often as it has places."""
        tokens = np.asarray(ids, dtype=np.int64)
        if not pictures:
            return tokens
        side = self.layout.patch_size * self.layout.merge_size
        repeats = np.ones(len(tokens), dtype=np.int64)
        repeats[tokens == self.token_id] = [
            (picture.width // side) * (picture.height // side) for picture in pictures
        ]
        return np.repeat(tokens, repeats)
