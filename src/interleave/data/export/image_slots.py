"""Text in which only we decide what is a place for a picture.

Typed parts (TRL) carry pictures as parts; the other formats mark them with `<image>` in the text. Whatever a
user or a model has typed must never become such a place, nor a control token of a chat template. A
zero-width space after the `<` breaks the mark, just as the models' own backend does it in use; a reader sees
no difference.
"""

from __future__ import annotations

import re
from functools import lru_cache

from interleave.backends.protocols import Message
from interleave.data.export.rows import Row
from interleave.errors import InputError
from interleave.types import Text

SLOT = "<image>"
_BREAK = "\u200b"
_CONTROL = re.compile(r"<(?=\|\w+\|>)")
_MEDIA = re.compile(r"<(?=(?:image|video|audio)>)", re.IGNORECASE)


@lru_cache(maxsize=1024)
def without_controls(text: str) -> str:
    """The text with no control token of a chat template in it."""
    return _CONTROL.sub(f"<{_BREAK}", text)


@lru_cache(maxsize=1024)
def without_slots(text: str) -> str:
    """The text with neither a control token nor a mark that stands for a picture, film or sound."""
    return _MEDIA.sub(f"<{_BREAK}", without_controls(text))


@lru_cache(maxsize=1024)
def is_escaped(text: str) -> bool:
    """Whether a text has anything in it that would be taken for more than text."""
    return bool(_MEDIA.search(text) or _CONTROL.search(text))


def slotted(message: Message) -> dict[str, str]:
    """A message whose pictures are marks in its text."""
    content = "".join(without_slots(part.text) if isinstance(part, Text) else SLOT for part in message.parts)
    return {"role": message.role, "content": content}


def conversation(row: Row) -> list[dict[str, str]]:
    """The messages of a row, the answer last where there is one; as many marks as pictures, or it raises."""
    messages = [slotted(message) for message in row.prompt]
    if row.completion is not None:
        messages.append({"role": "assistant", "content": without_slots(row.completion)})
    marks = sum(message["content"].count(SLOT) for message in messages)
    if marks != len(row.pictures):
        raise InputError(f"{row.id}: {marks} × {SLOT} in the text, and {len(row.pictures)} pictures")
    return messages
