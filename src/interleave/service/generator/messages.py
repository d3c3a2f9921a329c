"""The values of the generator server: drawings asked for, images drawn, and jobs."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from interleave import GeneratorCapabilities
from interleave.plugin import backends, images
from interleave.service.http.decoding import EncodedImage, RawImage

if TYPE_CHECKING:
    from PIL.Image import Image

MEDIA_TYPES = {"png": "image/png", "jpeg": "image/jpeg", "webp": "image/webp"}
DEFAULT_QUALITY = 95
"""The quality of JPEG and WebP, when the client names none."""
PNG_LEVEL = 3
"""A third of the time of Pillow's default of 6 for a photograph, and no larger."""


@dataclass(frozen=True)
class OutputFormat:
    """The file format that a client wants."""

    format: str = "png"
    quality: int | None = None

    def encode(self, image: Image) -> bytes:
        buffer = io.BytesIO()
        if self.format == "png":
            images.as_rgb(image).save(buffer, "PNG", compress_level=PNG_LEVEL)
        else:
            quality = DEFAULT_QUALITY if self.quality is None else self.quality
            images.as_rgb(image).save(buffer, self.format.upper(), quality=quality)
        return buffer.getvalue()


@dataclass(frozen=True)
class Drawing:
    """One image that a client asks for."""

    prompt: str
    seed: int
    sources: tuple[RawImage, ...] = ()
    output: OutputFormat = OutputFormat()
    mask: RawImage | None = None
    settings: backends.ImageSettings = backends.NO_SETTINGS

    @property
    def images(self) -> tuple[RawImage, ...]:
        """What is sent to a worker: the sources, then the mask."""
        return self.sources if self.mask is None else (*self.sources, self.mask)


@dataclass(frozen=True)
class DrawnImage:
    """One image, encoded as the client asked, and the worker that drew it."""

    data: bytes
    width: int
    height: int
    seed: int
    worker: int
    device: str | None
    seconds: float


@dataclass(frozen=True)
class ServiceFacts:
    """What the generator can do, as its worker reported after loading it."""

    capabilities: GeneratorCapabilities
    settings: dict[str, Any] = field(default_factory=dict)
    """What it draws with: steps, guidance, size… A request may name these values, and others where the
    capabilities list them as `request_settings`."""
    ignored: frozenset[str] = frozenset()
    """Parameters that clients may send without effect; every response names those it dropped."""


@dataclass(frozen=True)
class Job:
    """What a request asks for, parsed and checked; its source images are still to be decoded."""

    drawings: list[Drawing]
    answer: Callable[[list[DrawnImage]], dict[str, Any]]
    """Makes the body of the response in the format of the API; bytes in it are sent as base64."""
    dropped: list[str]
    """Parameters that were ignored, as the operator configured."""
    sources: tuple[EncodedImage, ...] = ()
    """The source images of every drawing."""
    mask: EncodedImage | None = None
    events: Callable[[list[DrawnImage]], list[dict[str, Any]]] | None = None
    """Makes the events of a streamed response, where the client asks for one."""
