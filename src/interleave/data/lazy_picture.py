"""A picture that stays in its file until somebody looks at its pixels.

The functions that build what a model sees take pictures. Rows that name their pictures instead of holding
them are built by the same functions from these, a million of them without one being decoded.
"""

from __future__ import annotations

import os
import struct
from functools import cached_property
from pathlib import Path
from typing import Any

from PIL import Image

from interleave.errors import MissingPicture
from interleave.runs.store import PictureStore

_HEADER = struct.Struct(">8s4x4sII")


class StoredPicture(Image.Image):
    """A picture of a run folder, read when its size or its pixels are first asked for."""

    def __init__(self, store: PictureStore, name: str) -> None:
        super().__init__()
        self._mode = "RGB"
        self.store = store
        self.name = name

    @cached_property
    def path(self) -> Path:
        return self.store.path(self.name)

    @property
    def size(self) -> tuple[int, int]:
        if self._size == (0, 0):
            self._size = _size_in_header(self.path)
        return self._size

    def load(self) -> Any:
        """Bring in the pixels; raises `MissingPicture` when the file is not there as it was stored."""
        if self._im is None:
            picture = self.store.get(self.name)
            self._im, self._size = picture.im, picture.size
        return super().load()


def _size_in_header(path: Path) -> tuple[int, int]:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # half the cost of open(), a million times
        try:
            _, chunk, width, height = _HEADER.unpack(os.read(file, _HEADER.size))
        finally:
            os.close(file)
    except OSError:
        raise MissingPicture(path, "is missing") from None
    except struct.error:
        raise MissingPicture(path, "has been altered") from None
    if chunk != b"IHDR" or not width or not height:
        raise MissingPicture(path, "has been altered")
    return width, height
