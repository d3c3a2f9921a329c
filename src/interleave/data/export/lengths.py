"""Row lengths in tokens: counted by a tokenizer, or estimated."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from interleave.data.export.rows import TrainingRow
from interleave.errors import ConfigurationError
from interleave.types import Text

PICTURE_PATCH = 32
"""Qwen3-VL has one token per 32 × 32 pixels: patches of 16 × 16, merged 2 × 2."""
BYTES_PER_TOKEN = 4
"""Roughly, for English text."""


def length_of(row: TrainingRow, tokenizer: str | None) -> int:
    """The tokens of a row's texts and pictures, without a chat template."""
    texts = [part.text for message in row.prompt for part in message.parts if isinstance(part, Text)]
    pictures = sum(picture_tokens(ref.size) for ref in row.pictures)
    return pictures + sum(text_tokens(text, tokenizer) for text in (*texts, row.completion or ""))


def picture_tokens(size: tuple[int, int]) -> int:
    return max(1, round(size[0] / PICTURE_PATCH)) * max(1, round(size[1] / PICTURE_PATCH))


def text_tokens(text: str, tokenizer: str | None) -> int:
    if tokenizer is None:
        return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)
    return _count_tokens(text, tokenizer)


@lru_cache(maxsize=256)
def _count_tokens(text: str, tokenizer: str) -> int:
    """Cached: the texts of the prompt pack are in every row."""
    return len(load_tokenizer(tokenizer).encode(text, add_special_tokens=False))


@cache
def load_tokenizer(folder: str) -> Any:
    """The tokenizer in a local folder."""
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ConfigurationError(
            f"--tokenizer {folder!r}: no tokenizer can be loaded from there ({reason}): "
            "give the folder of a model"
        ) from None


@dataclass
class Lengths:
    """The lengths of many rows."""

    values: array[int] = field(default_factory=lambda: array("L"))
    longest: int = 0
    longest_row: str = ""

    def add(self, length: int, row: str) -> None:
        self.values.append(length)
        if length > self.longest:
            self.longest, self.longest_row = length, row

    def extend(self, other: Lengths) -> None:
        self.values.extend(other.values)
        if other.longest > self.longest:
            self.longest, self.longest_row = other.longest, other.longest_row

    def summary(self) -> dict[str, int]:
        """Shortest, median, 99th percentile, longest, and total."""
        ordered = sorted(self.values)
        return {
            "shortest": ordered[0],
            "median": ordered[len(ordered) // 2],
            "99 %": ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)],
            "longest": ordered[-1],
            "total": sum(ordered),
        }


def checked_tokenizer(tokenizer: Path | None) -> str | None:
    """The tokenizer's folder as text, loaded once to check it."""
    if tokenizer is None:
        return None
    load_tokenizer(str(tokenizer))
    return str(tokenizer)
