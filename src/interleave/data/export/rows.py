"""A training row before it is encoded for a trainer, and its messages as text with image marks.

TRL's messages carry images as typed parts; the other formats mark them with `<image>` in the text. Text typed
by a user or a model must never be read as such a mark, nor as a control token of a chat template. A
zero-width space after the `<` breaks the mark, as the models' own backend does in use; a reader sees no
difference.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from interleave.backends.protocols import Message
from interleave.data.export.images import ImageRef
from interleave.errors import InputError
from interleave.types import Picture, Text

Kind = Literal["planner_sft", "critic_sft", "critic_rl", "agent_sft"]
PLANNER_SFT: Kind = "planner_sft"
CRITIC_SFT: Kind = "critic_sft"
CRITIC_RL: Kind = "critic_rl"
AGENT_SFT: Kind = "agent_sft"
"""One agent for both jobs: the rows of `planner_sft` and `critic_sft` together."""
KINDS = (PLANNER_SFT, CRITIC_SFT, CRITIC_RL, AGENT_SFT)
SFT_KINDS = (PLANNER_SFT, CRITIC_SFT, AGENT_SFT)
TRAIN, VALIDATION = "train", "validation"
IMAGE_MARK = "<image>"
_BREAK = "\u200b"
_CONTROL = re.compile(r"<(?=\|\w+\|>)")
_MEDIA = re.compile(r"<(?=(?:image|video|audio)>)", re.IGNORECASE)


@dataclass(frozen=True)
class Baseline:
    """What a reward needs of an attempt: where a redraw starts, and the scores to beat."""

    planned_prompt: str
    used_prompt: str
    """The prompt that drew the picture under review."""
    before: ImageRef
    after: ImageRef
    sources: tuple[ImageRef, ...]
    """The pictures the step was drawn from; empty means text-to-image."""
    success: bool
    semantics: float
    quality: float


@dataclass(frozen=True)
class TrainingRow:
    """One example: the messages, and the completion (SFT) or the baseline (RL)."""

    id: str
    kind: Kind
    prompt: tuple[Message, ...]
    pictures: tuple[ImageRef, ...]
    """One for each picture of the prompt, in order."""
    completion: str | None = None
    baseline: Baseline | None = None
    split: str = TRAIN

    def __post_init__(self) -> None:
        slots = sum(isinstance(part, Picture) for message in self.prompt for part in message.parts)
        if slots != len(self.pictures):
            raise ValueError(f"{self.id}: {slots} places for pictures, and {len(self.pictures)} pictures")


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
    """Whether a text contains a control token or a mark."""
    return bool(_MEDIA.search(text) or _CONTROL.search(text))


def with_image_marks(message: Message) -> dict[str, str]:
    """A message with its pictures as marks in the text."""
    content = "".join(
        escape_marks(part.text) if isinstance(part, Text) else IMAGE_MARK for part in message.parts
    )
    return {"role": message.role, "content": content}


def conversation(row: TrainingRow) -> list[dict[str, str]]:
    """The messages of a row, with the completion if there is one; raises unless marks match pictures."""
    messages = [with_image_marks(message) for message in row.prompt]
    if row.completion is not None:
        messages.append({"role": "assistant", "content": escape_marks(row.completion)})
    marks = sum(message["content"].count(IMAGE_MARK) for message in messages)
    if marks != len(row.pictures):
        raise InputError(f"{row.id}: {marks} × {IMAGE_MARK} in the text, and {len(row.pictures)} pictures")
    return messages
