"""How much of a response is read: its bytes, by what was asked for, and the values of its JSON.

A response that is cheap to send must not be expensive to read. Parsing JSON takes time and memory in
proportion to the number of its values, so these are estimated from its commas and brackets first.
"""

from __future__ import annotations

import json
from typing import Any

CHAT_BYTES = 8_000_000
"""A chat completion with the log-probabilities of about fifty thousand tokens."""
STATUS_BYTES = 16_000_000
"""The state of a server, such as all workflows in the queue of ComfyUI."""
PICTURE_BYTES = 64_000_000
"""A base64 PNG of 16 megapixels is at most this large."""
ERROR_BYTES = 1_000_000
"""Of an error, only the beginning is shown."""
MAX_JSON_VALUES = 1_000_000
"""In one response; the log-probabilities of fifty thousand tokens have about half as many."""


class UnreadableJson(ValueError):
    """A body that is not JSON, or has too many values."""

    def __init__(self, problem: str, *, permanent: bool = False) -> None:
        super().__init__(problem)
        self.permanent = permanent
        """Whether a retry would probably fail in the same way."""


def parse_json(body: bytes, *, max_values: int = MAX_JSON_VALUES) -> Any:
    """The JSON value of a body; raises `UnreadableJson` if it is not JSON or has too many values."""
    if (values := 1 + sum(body.count(mark) for mark in (b",", b"[", b"{"))) > max_values:
        raise UnreadableJson(f"it has about {values:,} values, more than {max_values:,}", permanent=True)
    try:
        return json.loads(body)
    except RecursionError:
        raise UnreadableJson("its values are nested too deeply", permanent=True) from None
    except ValueError:
        raise UnreadableJson("it is not JSON") from None
