"""How much memory it takes to decode a picture, by its header alone.

The factors are what Pillow was measured to take for the costliest picture of each format: transparent, turned
by EXIF, progressive, with 16 bits a channel. Of an animation only the first frame is decoded.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from interleave.pictures import MAX_PIXELS

RAW_BYTES = 3
"""A pixel of a decoded picture, as the server keeps it."""
WORKER_BYTES = 4
"""A pixel in a worker, as Pillow keeps it."""


class _Cost(NamedTuple):
    bytes_a_pixel: float
    copies: int
    """How many copies of the file are made meanwhile."""


_COSTS = {"PNG": _Cost(20.5, 3), "JPEG": _Cost(16.5, 3), "WEBP": _Cost(29.0, 1)}
_MAGIC = re.compile(rb"(?P<PNG>\x89PNG\r\n\x1a\n)|(?P<JPEG>\xff\xd8\xff)|(?P<WEBP>RIFF.{4}WEBP)", re.DOTALL)
_MARKER = re.compile(rb"\xff[^\x00\x01\xd0-\xd8\xff]")
_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
_MAX_SEGMENTS = 100_000


@dataclass(frozen=True)
class EncodedPicture:
    """A picture as it was sent, and the name of the parameter it came in."""

    data: bytes
    name: str

    @property
    def pixels(self) -> int:
        """How many pixels are decoded at most; what is larger is refused by its header."""
        magic = _MAGIC.match(self.data)
        if magic is None:
            return 0  # refused by its first bytes
        size = _SIZES[str(magic.lastgroup)](self.data)
        return MAX_PIXELS if size is None else min(size[0] * size[1], MAX_PIXELS)

    @property
    def working_bytes(self) -> int:
        """What decoding it takes, beyond the file itself."""
        magic = _MAGIC.match(self.data)
        if magic is None:
            return 0
        cost = _COSTS[str(magic.lastgroup)]
        return int(cost.bytes_a_pixel * self.pixels) + cost.copies * len(self.data)


def decoding_bytes(pictures: Sequence[EncodedPicture]) -> int:
    """What it takes to decode these pictures one after another and keep them all, here or in a worker."""
    kept, most = 0, 0
    for picture in pictures:
        most = max(most, kept + picture.working_bytes)
        kept += RAW_BYTES * picture.pixels
    return max(most, WORKER_BYTES * sum(picture.pixels for picture in pictures))


def _png_size(data: bytes) -> tuple[int, int] | None:
    if len(data) < 24 or data[12:16] != b"IHDR":
        return None
    width, height = struct.unpack_from(">II", data, 16)
    return width, height


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    """The largest frame before the pixels: a decoder may take any of them for the true one."""
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
