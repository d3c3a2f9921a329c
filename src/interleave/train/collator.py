"""Collates rows into batches for supervised fine-tuning; the loss covers the answer, the question is masked.

TRL renders the chat template and calls the processor twice for every row. `FastCollator` renders, tokenizes
and packs a whole batch in one pass, with the same result. TRL's collator handles the rest: models of another
family, images that must be scaled, templates whose answer does not begin where the question ends.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader
from trl.trainer.sft_trainer import DataCollatorForVisionLanguageModeling

from interleave import InputError
from interleave.local.qwen3_vl.uint8_pixels import PatchLayout, layout_of
from interleave.train.recipes import TrainingPart

COLUMNS = ("prompt", "completion", "images")
IGNORED = -100
"""Label of a token without loss."""


class SftCollator:
    """The fast collator if it applies, else TRL's; never truncates a row, can pad to fewer shapes."""

    def __init__(self, processor: Any, *, max_length: int | None = None, pad_to: int = 1) -> None:
        self.fast = FastCollator.for_processor(processor)
        self.trl = DataCollatorForVisionLanguageModeling(processor, completion_only_loss=True)
        self.max_length = max_length
        self.pad_to = pad_to
        self.tokenizer = processor.tokenizer
        self.pad_id = int(processor.tokenizer.pad_token_id)

    def __call__(self, rows: Sequence[dict[str, Any]]) -> Any:
        batch = self._batch(rows)
        self._refuse_long(batch, rows)
        return self._padded(batch)

    def lengths(self, rows: Sequence[dict[str, Any]]) -> list[int]:
        """Return the number of tokens of each row."""
        lengths = self.fast.lengths(rows) if self.fast else None
        if lengths is not None:
            return lengths
        return [int(length) for length in self._batch(rows)["attention_mask"].sum(dim=1)]

    def _batch(self, rows: Sequence[dict[str, Any]]) -> Any:
        batch = self.fast.collate(rows) if self.fast else None
        if batch is not None:
            return batch
        return self.trl([{name: row[name] for name in COLUMNS} for row in rows])

    def _refuse_long(self, batch: Any, rows: Sequence[dict[str, Any]]) -> None:
        if self.max_length is None:
            return
        for row, length in zip(rows, batch["attention_mask"].sum(dim=1).tolist(), strict=True):
            if length > self.max_length:
                raise InputError(
                    f"row {row.get('id')!r} has {length:,} tokens, more than the {self.max_length:,} of "
                    "training.max_length: raise it, lower model.max_pixels, or skip such rows with "
                    "--skip-bad instead of --trust-data"
                )

    def _padded(self, batch: Any) -> Any:
        width = batch["input_ids"].shape[1]
        more = -width % self.pad_to
        if not more:
            return batch
        fills = {"input_ids": self.pad_id, "attention_mask": 0, "labels": IGNORED, "mm_token_type_ids": 0}
        for name, fill in fills.items():
            if name in batch:
                batch[name] = torch.nn.functional.pad(batch[name], (0, more), value=fill)
        return batch


def too_long(rows: Any, bad: Container[int], collator: SftCollator, training: TrainingPart) -> dict[int, str]:
    """Find rows with more tokens than allowed before the first step; rows in `bad` are skipped."""
    most = training.max_length
    if most is None:
        return {}
    good = [index for index in range(len(rows)) if index not in bad]
    batches = DataLoader(
        rows.select(good),
        batch_size=training.device_batch,
        collate_fn=collator.lengths,
        num_workers=training.workers,
    )
    lengths = (length for batch in batches for length in batch)
    return {
        index: f"it has {length:,} tokens, more than the {most:,} of training.max_length (raise it, or lower "
        "model.max_pixels)"
        for index, length in zip(good, lengths, strict=True)
        if length > most
    }


class FastCollator:
    """Builds the same batches as TRL from rows with a question, an answer and images, many times faster."""

    def __init__(self, processor: Any, layout: PatchLayout) -> None:
        self.processor = processor
        self.tokenizer = processor.tokenizer
        self.layout = layout
        self.token = str(processor.image_token)
        self.token_id = int(processor.image_token_id)

    @classmethod
    def for_processor(cls, processor: Any) -> FastCollator | None:
        """Return a collator if the processor returns uint8 pixels, else None."""
        layout = layout_of(processor)
        fast = getattr(getattr(processor, "tokenizer", None), "is_fast", False)
        return cls(processor, layout) if layout is not None and fast else None

    def collate(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
        """Return the batch; None if a row needs TRL's collator."""
        if not all(self._is_supported(row) for row in rows):
            return None
        texts = self._texts(rows)
        if texts is None:
            return None
        batch = {name: torch.from_numpy(values) for name, values in self._tokens(*texts, rows).items()}
        images = [image for row in rows for image in row["images"]]
        if images:
            batch["pixel_values"], batch["image_grid_thw"] = self.layout.pack(images)
        return batch

    def lengths(self, rows: Sequence[Mapping[str, Any]]) -> list[int] | None:
        """Return the number of tokens of each row; None if a row needs TRL's collator."""
        if not all(self._is_supported(row) for row in rows):
            return None
        texts = self._texts(rows)
        if texts is None:
            return None
        tokens = self._tokens(*texts, rows)
        return [int(length) for length in tokens["attention_mask"].sum(axis=1)]

    def _is_supported(self, row: Mapping[str, Any]) -> bool:
        places = [part for message in row["prompt"] for part in message["content"] if part["type"] == "image"]
        return (
            row["prompt"][-1]["role"] == "user"
            and len(places) == len(row["images"])
            and all(image.mode == "RGB" and self.layout.fits(image.size) for image in row["images"])
        )

    def _texts(self, rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str]] | None:
        """Return questions and answers as the chat template renders them."""
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
            self._with_images(ids, row["images"]) for ids, row in zip(found[: len(rows)], rows, strict=True)
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

    def _with_images(self, ids: Sequence[int], images: Sequence[Any]) -> Any:
        """Return the tokens of a question, each placeholder repeated once per merged patch of its image."""
        tokens = np.asarray(ids, dtype=np.int64)
        if not images:
            return tokens
        side = self.layout.patch_size * self.layout.merge_size
        repeats = np.ones(len(tokens), dtype=np.int64)
        repeats[tokens == self.token_id] = [
            (image.width // side) * (image.height // side) for image in images
        ]
        return np.repeat(tokens, repeats)
