"""Source images: the memory cost of decoding, read from the header, and decoding within the budget.

The factors are Pillow's measured memory use for the costliest image of each format: with transparency, EXIF
rotation, progressive scans, 16 bits per channel. Only the first frame of an animation is decoded.
"""

from __future__ import annotations

import asyncio
import re
import struct
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from interleave import InputError
from interleave.plugin import images
from interleave.service.http.memory import MemoryLease
from interleave.service.http.refusals import Refusal

if TYPE_CHECKING:
    from PIL.Image import Image

RAW_BYTES = 3
"""Bytes per pixel in the server: plain RGB."""
WORKER_BYTES = 4
"""Bytes per pixel in a worker: Pillow's RGB takes four."""
T = TypeVar("T")


class _Cost(NamedTuple):
    bytes_a_pixel: float
    copies: int
    """Copies of the encoded file made while decoding."""


_COSTS = {"PNG": _Cost(20.5, 3), "JPEG": _Cost(16.5, 3), "WEBP": _Cost(29.0, 1)}
_MAGIC = re.compile(rb"(?P<PNG>\x89PNG\r\n\x1a\n)|(?P<JPEG>\xff\xd8\xff)|(?P<WEBP>RIFF.{4}WEBP)", re.DOTALL)
_MARKER = re.compile(rb"\xff[^\x00\x01\xd0-\xd8\xff]")
_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
_MAX_SEGMENTS = 100_000


@dataclass(frozen=True)
class RawImage:
    """A source image as plain RGB bytes: decoded once by the server, sent unchanged to a worker."""

    width: int
    height: int
    data: bytes


@dataclass(frozen=True)
class EncodedImage:
    """An image as received, and the name of its parameter."""

    data: bytes
    name: str
    transparent_mask: bool = False
    """Whether it is a mask whose transparent pixels mark the area to redraw, as in OpenAI's API."""

    @property
    def pixels(self) -> int:
        """Upper bound of the decoded pixels; larger images are refused by their header."""
        magic = _MAGIC.match(self.data)
        if magic is None:
            return 0  # refused by its first bytes
        size = _SIZES[str(magic.lastgroup)](self.data)
        return images.MAX_PIXELS if size is None else min(size[0] * size[1], images.MAX_PIXELS)

    @property
    def working_bytes(self) -> int:
        """Memory for decoding, in addition to the file."""
        magic = _MAGIC.match(self.data)
        if magic is None:
            return 0
        cost = _COSTS[str(magic.lastgroup)]
        return int(cost.bytes_a_pixel * self.pixels) + cost.copies * len(self.data)


def decoding_bytes(images: Sequence[EncodedImage]) -> int:
    """Return the memory for decoding these images in sequence and keeping all, here or in a worker."""
    kept, most = 0, 0
    for image in images:
        most = max(most, kept + image.working_bytes)
        kept += RAW_BYTES * image.pixels
    return max(most, WORKER_BYTES * sum(image.pixels for image in images))


def _png_size(data: bytes) -> tuple[int, int] | None:
    if len(data) < 24 or data[12:16] != b"IHDR":
        return None
    width, height = struct.unpack_from(">II", data, 16)
    return width, height


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    """Return the largest size in the frame headers: decoders differ in which header they use."""
    sizes, at = [], 2
    for _ in range(_MAX_SEGMENTS):
        found = _MARKER.search(data, at)
        if not found or found.group()[1] in (0xD9, 0xDA):
            break
        at = found.end() + int.from_bytes(data[found.end() : found.end() + 2])
        if found.group()[1] in _FRAMES and len(data) >= found.end() + 7:
            height, width = struct.unpack_from(">HH", data, found.end() + 3)
            sizes.append((width, height))
    return max(sizes, key=lambda size: size[0] * size[1], default=None)


def _webp_size(data: bytes) -> tuple[int, int] | None:
    kind, head = data[12:16], data[20:30]
    if len(head) < 10:
        return None
    if kind == b"VP8X":
        return 1 + int.from_bytes(head[4:7], "little"), 1 + int.from_bytes(head[7:10], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(head[1:5], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", head, 6)
        return width & 0x3FFF, height & 0x3FFF
    return None


_SIZES = {"PNG": _png_size, "JPEG": _jpeg_size, "WEBP": _webp_size}


class Decoder:
    """Image decoder of a server; it decodes one image at a time for all requests."""

    def __init__(self) -> None:
        self._one_at_a_time = asyncio.Lock()

    async def decode(
        self, images: Sequence[EncodedImage], lease: MemoryLease, ends_at: float
    ) -> tuple[RawImage, ...]:
        """Reserve memory and decode. The lease then holds the memory of the decoded images."""
        await lease.reserve(decoding_bytes(images), ends_at)
        decoded = []
        for image in images:
            async with self._one_at_a_time:
                decoded.append(await finish_despite_cancel(asyncio.to_thread(_decode, image)))
        lease.keep(sum(len(image.data) for image in decoded))
        return tuple(decoded)


async def finish_despite_cancel(work: Awaitable[T]) -> T:
    """Await a thread even if cancelled: it cannot be stopped, and uses its memory until it ends."""
    working = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait({working})
        raise


def _mask_of_transparency(image: Image) -> Image:
    mask = images.transparency_as_mask(image)
    if mask.getextrema()[0] == (0, 0):
        raise InputError("the mask has no transparent pixels: make the area to redraw transparent")
    return mask


def _decode(encoded: EncodedImage) -> RawImage:
    try:
        if encoded.transparent_mask:
            image = images.decode_image(encoded.data, name=encoded.name, convert=_mask_of_transparency)
        else:
            image = images.decode_image(encoded.data, name=encoded.name)
    except InputError as error:
        raise Refusal(str(error), parameter=encoded.name) from None
    return RawImage(image.width, image.height, image.tobytes())
