"""Reading many pictures at once, on all cores.

Decoding a picture and comparing it with what the world can draw both happen outside of Python's lock, so
threads are enough.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from PIL import Image

from interleave.errors import MissingPicture
from interleave_mini.reader import Reading, shared_reader

TOGETHER = 8
"""Pictures read in one go: as many as stay in a core's cache."""
MOST_THREADS = 8

Given = TypeVar("Given")


def read_files(paths: Sequence[Path]) -> list[Reading]:
    """What stored pictures show; raises `MissingPicture` for one that is not there as it was stored."""
    return _in_threads(paths, lambda some: [stored_picture(path) for path in some])


def read_pictures(pictures: Sequence[Image.Image]) -> list[Reading]:
    """What pictures show."""
    return _in_threads(pictures, list)


def stored_picture(path: Path) -> Image.Image:
    """A picture of a store. It is our own and goes by its hash, so no hostile bytes need be looked for."""
    try:
        data = path.read_bytes()
    except OSError:
        raise MissingPicture(path, "is missing") from None
    if hashlib.sha256(data).hexdigest() != path.stem:
        raise MissingPicture(path, "has been altered")
    with Image.open(io.BytesIO(data), formats=("PNG",)) as opened:
        return opened.convert("RGB")


def _in_threads(
    given: Sequence[Given], opened: Callable[[Sequence[Given]], list[Image.Image]]
) -> list[Reading]:
    reader = shared_reader()
    slices = [given[start : start + TOGETHER] for start in range(0, len(given), TOGETHER)]
    with ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1)) as pool:
        return [
            reading
            for some in pool.map(lambda part: reader.read_many(opened(part)), slices)
            for reading in some
        ]
