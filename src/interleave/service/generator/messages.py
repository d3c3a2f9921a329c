"""Data types of the generator server: generation tasks, generated images and jobs."""

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
"""Default quality of JPEG and WebP."""
PNG_LEVEL = 3
"""Level 3 takes a third of the time of Pillow's default 6 for a photograph, at the same file size."""


@dataclass(frozen=True)
class OutputFormat:
    """Requested file format."""

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
class GenerationTask:
    """One image to generate."""

    prompt: str
    seed: int
    sources: tuple[RawImage, ...] = ()
    output: OutputFormat = OutputFormat()
    mask: RawImage | None = None
    settings: backends.ImageSettings = backends.NO_SETTINGS

    @property
    def images(self) -> tuple[RawImage, ...]:
        """Images sent to a worker: the sources, then the mask."""
        return self.sources if self.mask is None else (*self.sources, self.mask)


@dataclass(frozen=True)
class GeneratedImage:
    """One generated image in the requested format, and the worker that drew it."""

    data: bytes
    width: int
    height: int
    seed: int
    worker: int
    device: str | None
    seconds: float


@dataclass(frozen=True)
class GeneratorInfo:
    """Capabilities and settings of the generator, as its worker reported after loading it."""

    capabilities: GeneratorCapabilities
    settings: dict[str, Any] = field(default_factory=dict)
    """Values it draws with: steps, guidance, size. A request may repeat them; it may change only those
    that the capabilities list as `request_settings`."""
    ignored: frozenset[str] = frozenset()
    """Parameters that are accepted and ignored; each response lists those it dropped."""


@dataclass(frozen=True)
class Job:
    """A parsed and checked request; its source images are not decoded yet."""

    tasks: list[GenerationTask]
    answer: Callable[[list[GeneratedImage]], dict[str, Any]]
    """Builds the response body in the format of the API; bytes in it are sent as base64."""
    dropped: list[str]
    """Ignored parameters, as the operator configured."""
    sources: tuple[EncodedImage, ...] = ()
    """Source images shared by all tasks."""
    mask: EncodedImage | None = None
    events: Callable[[list[GeneratedImage]], list[dict[str, Any]]] | None = None
    """Builds the events of a streamed response, if the client requested one."""
