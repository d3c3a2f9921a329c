"""How much of an answer is read: bytes by what is asked for, and values before any of them is built.

A second of a server's time must never cost more than that of ours. Reading JSON takes time and memory by the
number of its values, which is bounded from its commas and brackets before the first is made.
"""

from __future__ import annotations

import json
from typing import Any

CHAT_BYTES = 8_000_000
"""An answer in words, with the probabilities of some fifty thousand tokens."""
TOLD_BYTES = 16_000_000
"""What a server tells of its work, such as ComfyUI of all the workflows in its queue."""
PICTURE_BYTES = 64_000_000
"""A base64 PNG of 16 megapixels is at most this large."""
ERROR_BYTES = 1_000_000
"""What is read of an error: its beginning is all that is shown."""
MOST_VALUES = 1_000_000
"""Of one answer; the probabilities of fifty thousand tokens are about half as many."""


class UnreadableAnswer(ValueError):
    """Bytes that are no JSON, or more of it than is read."""

    def __init__(self, problem: str, *, for_good: bool = False) -> None:
        super().__init__(problem)
        self.for_good = for_good
        """Whether the same is to be expected the next time."""


def value_in(body: bytes, *, most: int = MOST_VALUES) -> Any:
    """The JSON value of a body; raises `UnreadableAnswer` for one that is none, or too much to read."""
    if (values := 1 + sum(body.count(mark) for mark in (b",", b"[", b"{"))) > most:
        raise UnreadableAnswer(f"it has about {values:,} values, more than {most:,}", for_good=True)
    try:
        return json.loads(body)
    except RecursionError:
        raise UnreadableAnswer("its values are nested too deeply", for_good=True) from None
    except ValueError:
        raise UnreadableAnswer("it is not JSON") from None
