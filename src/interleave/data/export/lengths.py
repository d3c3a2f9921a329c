"""How long rows are in tokens: counted by a tokenizer, or estimated and called so."""

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
"""Qwen3-VL takes one token for a square of so many pixels a side: 16 a patch, 2 × 2 patches merged."""
BYTES_PER_TOKEN = 4
"""Of English text, about."""


def length_of(row: TrainingRow, tokenizer: str | None) -> int:
    """The tokens of a row's texts and pictures, without those of a chat template."""
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
    """The words of a prompt pack are in every row: count them once."""
    return len(load_tokenizer(tokenizer).encode(text, add_special_tokens=False))


@cache
def load_tokenizer(folder: str) -> Any:
    """The tokenizer in a folder of this machine."""
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
        """Shortest, median, 99th of a hundred, longest, and all together."""
        ordered = sorted(self.values)
        return {
            "shortest": ordered[0],
            "median": ordered[len(ordered) // 2],
            "99 %": ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)],
            "longest": ordered[-1],
            "total": sum(ordered),
        }


def checked_tokenizer(tokenizer: Path | None) -> str | None:
    """The tokenizer's folder as workers take it, loaded once to see that it is one."""
    if tokenizer is None:
        return None
    load_tokenizer(str(tokenizer))
    return str(tokenizer)
