"""Caches decoded images in memory shared by all processes of a training.

Decoding is most of the work of a row with images, and every epoch needs the same ones. The first process to
decode an image stores its pixels here under a digest of its file. Data-loader processes, forked after the
memory was opened, can read them immediately. When the memory is full, no more images are cached.
"""

from __future__ import annotations

import hashlib
import mmap
import multiprocessing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from interleave.local.qwen3_vl.uint8_pixels import keep_pixels, pixels_of

if TYPE_CHECKING:
    from PIL.Image import Image

TYPICAL_BYTES = 100_000
"""Image size that the index is dimensioned for: a quarter of its rows would be in use."""
FREE, DIGEST, PLACE = 0, slice(0, 2), slice(2, 5)
COLUMNS = 6
READY = 5


class SharedImages:
    """A heap of pixels and an index into it, both in shared memory; nothing is ever evicted."""

    def __init__(self, megabytes: int) -> None:
        self._heap = np.frombuffer(mmap.mmap(-1, max(1, megabytes) * 1_000_000), dtype=np.uint8)
        places = 1 << (4 * len(self._heap) // TYPICAL_BYTES + 16).bit_length()
        self._index = np.frombuffer(mmap.mmap(-1, places * COLUMNS * 8), dtype=np.int64)
        self._index = self._index.reshape(places, COLUMNS)
        """digest (2), first byte, width, height, ready"""
        fork = multiprocessing.get_context("fork")
        self._used: Any = fork.Value("q", 0)
        self._entries: Any = fork.Value("q", 0)

    def __len__(self) -> int:
        return int(self._entries.value)

    def get(self, key: bytes, decode: Callable[[], Image]) -> Image:
        """Return the cached image of a key, or decode it and cache it if there is room."""
        digest = np.frombuffer(hashlib.blake2b(key, digest_size=16).digest(), dtype=np.int64)
        row, there = self._find(digest)
        if there:
            return self._image(row)
        image = decode()
        if image.mode == "RGB":
            self._put(digest, image)
        return image

    def _find(self, digest: Any) -> tuple[int, bool]:
        """Return the index row of a digest, or the free row for it, and whether it was found."""
        row = int(digest[0]) % len(self._index)
        while self._index[row, READY]:
            if (self._index[row, DIGEST] == digest).all():
                return row, True
            row = (row + 1) % len(self._index)
        return row, False

    def _put(self, digest: Any, image: Image) -> None:
        pixels = pixels_of(image).reshape(-1)
        with self._used.get_lock():
            row, there = self._find(digest)
            start = int(self._used.value)
            full = start + len(pixels) > len(self._heap) or 2 * len(self) >= len(self._index)
            if there or full:
                return
            self._heap[start : start + len(pixels)] = pixels
            self._index[row, DIGEST] = digest
            self._index[row, PLACE] = start, image.width, image.height
            self._index[row, READY] = 1  # last: other processes read without the lock
            self._used.value = start + len(pixels)
            self._entries.value += 1

    def _image(self, row: int) -> Image:
        from PIL import Image

        start, width, height = (int(value) for value in self._index[row, PLACE])
        pixels = self._heap[start : start + width * height * 3].reshape(height, width, 3)
        return keep_pixels(Image.frombytes("RGB", (width, height), pixels), pixels)


_shared: SharedImages | None = None


def share_images(megabytes: int) -> None:
    """Open the shared memory, before any process is forked; 0 turns it off."""
    global _shared
    _shared = SharedImages(megabytes) if megabytes and _can_share() else None


def shared_image(key: bytes, decode: Callable[[], Image]) -> Image:
    """Return an image by its key (bytes or file name), from the shared memory if it is open."""
    return decode() if _shared is None else _shared.get(key, decode)


def _can_share() -> bool:
    return "fork" in multiprocessing.get_all_start_methods()
