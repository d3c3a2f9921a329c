"""Rows → a batch for supervised fine-tuning: the answer is learned, the question only read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from interleave.errors import InputError

IGNORED = -100
"""The label of a token that is not learned."""


class SftCollator:
    """TRL's own collator, which here never cuts a row and can pad to fewer shapes."""

    def __init__(self, processor: Any, *, max_length: int | None = None, pad_to: int = 1) -> None:
        from trl.trainer.sft_trainer import DataCollatorForVisionLanguageModeling

        self.inner = DataCollatorForVisionLanguageModeling(processor, completion_only_loss=True)
        self.max_length = max_length
        self.pad_to = pad_to
        self.pad_id = int(processor.tokenizer.pad_token_id)

    def __call__(self, rows: Sequence[dict[str, Any]]) -> Any:
        kept = [{name: row[name] for name in ("prompt", "completion", "images")} for row in rows]
        batch = self.inner(kept)
        self._refuse_long(batch, rows)
        return self._padded(batch)

    def _refuse_long(self, batch: Any, rows: Sequence[dict[str, Any]]) -> None:
        if self.max_length is None:
            return
        for row, length in zip(rows, batch["attention_mask"].sum(dim=1).tolist(), strict=True):
            if length > self.max_length:
                raise InputError(
                    f"row {row.get('id')!r} has {length:,} tokens, more than the {self.max_length:,} of "
                    "training.max_length: raise it, set model.max_pixels lower, or leave the row out"
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
