"""Rows → a batch for supervised fine-tuning: the answer is learned, the question only read."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from interleave.errors import InputError
from interleave.training.fast_collator import IGNORED, QuickBatches
from interleave.training.recipes import TrainingPart

__all__ = ["IGNORED", "SftCollator", "too_long"]

COLUMNS = ("prompt", "completion", "images")


class SftCollator:
    """TRL's own collator, or its quick double; here it never cuts a row and can pad to fewer shapes."""

    def __init__(self, processor: Any, *, max_length: int | None = None, pad_to: int = 1) -> None:
        from trl.trainer.sft_trainer import DataCollatorForVisionLanguageModeling

        self.quick = QuickBatches.of(processor)
        self.inner = DataCollatorForVisionLanguageModeling(processor, completion_only_loss=True)
        self.max_length = max_length
        self.pad_to = pad_to
        self.tokenizer = processor.tokenizer
        self.pad_id = int(processor.tokenizer.pad_token_id)

    def __call__(self, rows: Sequence[dict[str, Any]]) -> Any:
        batch = self._batch(rows)
        self._refuse_long(batch, rows)
        return self._padded(batch)

    def lengths(self, rows: Sequence[dict[str, Any]]) -> list[int]:
        """How many tokens each row has."""
        quick = self.quick.lengths(rows) if self.quick else None
        if quick is not None:
            return quick
        return [int(length) for length in self._batch(rows)["attention_mask"].sum(dim=1)]

    def _batch(self, rows: Sequence[dict[str, Any]]) -> Any:
        quick = self.quick.make(rows) if self.quick else None
        if quick is not None:
            return quick
        return self.inner([{name: row[name] for name in COLUMNS} for row in rows])

    def _refuse_long(self, batch: Any, rows: Sequence[dict[str, Any]]) -> None:
        if self.max_length is None:
            return
        for row, length in zip(rows, batch["attention_mask"].sum(dim=1).tolist(), strict=True):
            if length > self.max_length:
                raise InputError(
                    f"row {row.get('id')!r} has {length:,} tokens, more than the {self.max_length:,} of "
                    "training.max_length: raise it, set model.max_pixels lower, or leave such rows out with "
                    "--skip-bad in place of --trust-data"
                )

    def _padded(self, batch: Any) -> Any:
        import torch

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
    """Rows with more tokens than are allowed, found before the first step; bad ones are passed over."""
    from torch.utils.data import DataLoader

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
        index: f"it has {length:,} tokens, more than the {most:,} of training.max_length (raise it, or set "
        "model.max_pixels lower)"
        for index, length in zip(good, lengths, strict=True)
        if length > most
    }
