"""Training rows before they are encoded for a trainer: messages with image marks, and lengths in tokens.

TRL's messages carry images as typed parts; the other formats mark them with `<image>` in the text. Text
written by a user or a model must never be parsed as such a mark, nor as a control token of a chat template. A
zero-width space after the `<` breaks the mark, as in the models' backend. It is invisible to readers.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal

from interleave import ConfigurationError, ImagePart, InputError, Message, Text
from interleave.train.data.export.images import ImageRef

Kind = Literal["planner_sft", "critic_sft", "critic_rl", "agent_sft"]
PLANNER_SFT: Kind = "planner_sft"
CRITIC_SFT: Kind = "critic_sft"
CRITIC_RL: Kind = "critic_rl"
AGENT_SFT: Kind = "agent_sft"
"""Rows of one agent for both roles: those of `planner_sft` and `critic_sft` together."""
KINDS = (PLANNER_SFT, CRITIC_SFT, CRITIC_RL, AGENT_SFT)
SFT_KINDS = (PLANNER_SFT, CRITIC_SFT, AGENT_SFT)
TRAIN, VALIDATION = "train", "validation"
IMAGE_MARK = "<image>"
_BREAK = "\u200b"
_CONTROL = re.compile(r"<(?=\|\w+\|>)")
_MEDIA = re.compile(r"<(?=(?:image|video|audio)>)", re.IGNORECASE)
IMAGE_PATCH = 32
"""Pixels per token side: Qwen3-VL has patches of 16 × 16, merged 2 × 2."""
BYTES_PER_TOKEN = 4
"""Roughly, for English text."""


@dataclass(frozen=True)
class Baseline:
    """Inputs of the reward for an attempt: the sources of a redraw, and the scores to beat."""

    planned_prompt: str
    used_prompt: str
    """Prompt of the image under review."""
    before: ImageRef
    after: ImageRef
    sources: tuple[ImageRef, ...]
    """Source images of the step; empty means text-to-image."""
    success: bool
    semantics: float
    quality: float

    def columns(self, image: Callable[[ImageRef], Any]) -> dict[str, Any]:
        """Return the columns that a reward reads, with images encoded by `image`."""
        return {
            "planned_prompt": self.planned_prompt,
            "used_prompt": self.used_prompt,
            "sources": [image(ref) for ref in self.sources],
            "success": self.success,
            "semantics": self.semantics,
            "quality": self.quality,
        }


@dataclass(frozen=True)
class TrainingRow:
    """One example: the messages, and the completion (SFT) or the baseline (RL)."""

    id: str
    kind: Kind
    prompt: tuple[Message, ...]
    images: tuple[ImageRef, ...]
    """Images of the prompt, in order."""
    completion: str | None = None
    baseline: Baseline | None = None
    split: str = TRAIN

    def __post_init__(self) -> None:
        slots = sum(isinstance(part, ImagePart) for message in self.prompt for part in message.parts)
        if slots != len(self.images):
            raise ValueError(f"{self.id}: {slots} image placeholders, but {len(self.images)} images")


@lru_cache(maxsize=1024)
def escape_control_tokens(text: str) -> str:
    """Break the control tokens of chat templates."""
    return _CONTROL.sub(f"<{_BREAK}", text)


@lru_cache(maxsize=1024)
def escape_marks(text: str) -> str:
    """Break control tokens and the marks of images, videos and sounds."""
    return _MEDIA.sub(f"<{_BREAK}", escape_control_tokens(text))


@lru_cache(maxsize=1024)
def needs_escaping(text: str) -> bool:
    """Return whether a text contains a control token or a mark."""
    return bool(_MEDIA.search(text) or _CONTROL.search(text))


def with_image_marks(message: Message) -> dict[str, str]:
    """Return a message with its images as marks in the text."""
    content = "".join(
        escape_marks(part.text) if isinstance(part, Text) else IMAGE_MARK for part in message.parts
    )
    return {"role": message.role, "content": content}


def conversation(row: TrainingRow) -> list[dict[str, str]]:
    """Return the messages of a row, with the completion if there is one; raises unless marks match images."""
    messages = [with_image_marks(message) for message in row.prompt]
    if row.completion is not None:
        messages.append({"role": "assistant", "content": escape_marks(row.completion)})
    marks = sum(message["content"].count(IMAGE_MARK) for message in messages)
    if marks != len(row.images):
        raise InputError(f"{row.id}: {marks} × {IMAGE_MARK} in the text, but {len(row.images)} images")
    return messages


def length_of(row: TrainingRow, tokenizer: str | None) -> int:
    """Count the tokens of a row's texts and images, without a chat template."""
    texts = [part.text for message in row.prompt for part in message.parts if isinstance(part, Text)]
    images = sum(image_tokens(ref.size) for ref in row.images)
    return images + sum(text_tokens(text, tokenizer) for text in (*texts, row.completion or ""))


def image_tokens(size: tuple[int, int]) -> int:
    return max(1, round(size[0] / IMAGE_PATCH)) * max(1, round(size[1] / IMAGE_PATCH))


def text_tokens(text: str, tokenizer: str | None) -> int:
    if tokenizer is None:
        return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)
    return _count_tokens(text, tokenizer)


@lru_cache(maxsize=256)
def _count_tokens(text: str, tokenizer: str) -> int:
    """Count tokens, cached: the texts of the prompt pack are in every row."""
    return len(load_tokenizer(tokenizer).encode(text, add_special_tokens=False))


@cache
def load_tokenizer(folder: str) -> Any:
    """Load the tokenizer in a local folder."""
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ConfigurationError(
            f"--tokenizer {folder!r}: cannot load a tokenizer ({reason}). Give the folder of a model"
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
        """Return the minimum, median, 99th percentile, maximum and total."""
        ordered = sorted(self.values)
        return {
            "shortest": ordered[0],
            "median": ordered[len(ordered) // 2],
            "99 %": ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)],
            "longest": ordered[-1],
            "total": sum(ordered),
        }


def checked_tokenizer(tokenizer: Path | None) -> str | None:
    """Load the tokenizer once to check it, and return its folder as text."""
    if tokenizer is None:
        return None
    load_tokenizer(str(tokenizer))
    return str(tokenizer)
