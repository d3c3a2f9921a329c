"""What travels through the generator server: pictures to draw, pictures drawn, and reasons for refusing."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from interleave.backends.protocols import GeneratorCapabilities
from interleave.errors import InterleaveError
from interleave.pictures import as_rgb

if TYPE_CHECKING:
    from PIL.Image import Image

    from interleave.service.decoding import EncodedPicture

MEDIA_TYPES = {"png": "image/png", "jpeg": "image/jpeg", "webp": "image/webp"}
DEFAULT_QUALITY = 95
"""Of JPEG and WebP pictures, when the client names none."""
PNG_LEVEL = 3
"""A third of the time that Pillow's default of 6 takes for a photograph, and no larger."""


@dataclass(frozen=True)
class RawPicture:
    """A source picture as plain RGB bytes: checked and decoded once, sent to a worker as it is."""

    width: int
    height: int
    data: bytes


@dataclass(frozen=True)
class Output:
    """How a client wants its picture written."""

    format: str = "png"
    quality: int | None = None

    def encode(self, image: Image) -> bytes:
        buffer = io.BytesIO()
        if self.format == "png":
            as_rgb(image).save(buffer, "PNG", compress_level=PNG_LEVEL)
        else:
            quality = DEFAULT_QUALITY if self.quality is None else self.quality
            as_rgb(image).save(buffer, self.format.upper(), quality=quality)
        return buffer.getvalue()


@dataclass(frozen=True)
class Drawing:
    """One picture that a client asks for."""

    prompt: str
    seed: int
    sources: tuple[RawPicture, ...] = ()
    output: Output = Output()


@dataclass(frozen=True)
class DrawnPicture:
    """One picture, written as the client asked, and who drew it."""

    data: bytes
    width: int
    height: int
    seed: int
    worker: int
    device: str | None
    seconds: float


@dataclass(frozen=True)
class ServiceFacts:
    """What the generator behind the server can do, as its worker told when it had loaded it."""

    capabilities: GeneratorCapabilities
    settings: dict[str, Any] = field(default_factory=dict)
    """What it draws with: steps, guidance, size… A client may name these values, and no others."""
    ignored: frozenset[str] = frozenset()
    """Parameters that the operator lets clients send in vain; every answer names those it dropped."""


class Refusal(InterleaveError):
    """A request that gets no picture, with the HTTP status that says why."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 422,
        parameter: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.parameter = parameter
        self.retry_after = retry_after
        """Seconds after which the same request may be answered, where we know."""


class ClientGone(Exception):
    """The client hung up before its picture was there."""


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
