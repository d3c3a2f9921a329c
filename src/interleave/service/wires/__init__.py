"""The wires the generator server speaks: what a request means on each, and how answers and refusals look."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from interleave.service.messages import Drawing, DrawnPicture
from interleave.service.picture_memory import EncodedPicture


@dataclass(frozen=True)
class Job:
    """What a request asks for, read and checked; its source pictures are still to be decoded."""

    drawings: list[Drawing]
    answer: Callable[[list[DrawnPicture]], dict[str, Any]]
    """The body of the answer, in the words of the wire; bytes in it are sent as base64."""
    dropped: list[str]
    """Parameters that were ignored, as the operator wished."""
    sources: tuple[EncodedPicture, ...] = ()
    """What every drawing starts from."""
