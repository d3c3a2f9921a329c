"""Thumbnails: made once, cached on disk up to a limit, removed with their document."""

from __future__ import annotations

import io
import logging
import os
import re
import shutil
import threading
from contextlib import suppress
from pathlib import Path

from PIL import Image

from interleave import RunError
from interleave.plugin import files, make_folder
from interleave.service.documents.folders import THUMBNAILS, Folders

log = logging.getLogger(__name__)
SIDES = (160, 320, 640)
QUALITY = 80
MAX_BYTES = 512_000_000
KEPT = 0.75
"""Fraction kept when the limit is reached, most recent documents first."""
_NAME = re.compile(r"([0-9a-f]{64})\.webp\Z")


def image_name(thumbnail: str) -> str | None:
    """Return the image of a thumbnail; `None` if the name is not that of a thumbnail."""
    found = _NAME.match(thumbnail)
    return f"{found[1]}.png" if found else None


class Thumbnails:
    """The thumbnails of a service's images."""

    def __init__(self, folders: Folders, most_bytes: int = MAX_BYTES) -> None:
        self.folders = folders
        self.most_bytes = most_bytes
        self._bytes: int | None = None
        self._lock = threading.Lock()

    def kept(self, job: str, image: str, side: int) -> bytes | None:
        """Return the cached thumbnail. Reads the disk, so run it in a thread."""
        try:
            names = self._path(job, image, side).relative_to(self.folders.root).parts
            with open(files.open_below(self.folders.root, *names), "rb") as file:
                data = file.read()
        except OSError:
            return None
        return data if int.from_bytes(data[4:8], "little") + 8 == len(data) else None  # torn by a crash

    def pixels(self, job: str, name: str) -> int:
        """Return an image's number of pixels from its header; 0 if it cannot be read."""
        try:
            with self.folders.images(job).open(name) as file, Image.open(file) as image:
                return image.width * image.height
        except (OSError, ValueError, SyntaxError, RunError):
            return 0

    def made(self, job: str, name: str, side: int) -> bytes:
        """Make and cache a thumbnail. Raises `RunError` if the image is missing."""
        image = self.folders.images(job).get(name)
        image.thumbnail((side, side), Image.Resampling.LANCZOS)
        buffer = io.BytesIO()
        image.save(buffer, "WEBP", quality=QUALITY, method=4)
        data = buffer.getvalue()
        with suppress(OSError, RunError):  # it can be made again
            self._keep(self._path(job, name, side), data)
        return data

    def _path(self, job: str, name: str, side: int) -> Path:
        return self.folders.thumbnails(job) / f"{name.removesuffix('.png')}-{side}.webp"

    def _keep(self, path: Path, data: bytes) -> None:
        make_folder(path.parent)
        temporary = path.with_suffix(f".{threading.get_ident()}.tmp")
        temporary.write_bytes(data)  # not synced: a torn file is made again
        os.replace(temporary, path)
        with self._lock:
            if self._bytes is None:
                self._bytes = sum(size for _, size, _ in self._folders())
            else:
                self._bytes += len(data)
            if self._bytes > self.most_bytes:
                self._bytes = self._shrunk()

    def _shrunk(self) -> int:
        """Remove the least recently extended folders; return the remaining size."""
        folders = sorted(self._folders(), reverse=True)
        left = 0
        for _, size, folder in folders:
            if left + size <= self.most_bytes * KEPT:
                left += size
            else:
                shutil.rmtree(folder, ignore_errors=True)
        return left

    def _folders(self) -> list[tuple[float, int, str]]:
        """Yield each document folder's last change, size and path."""
        found = []
        for group in _entries(self.folders.root / THUMBNAILS):
            for folder in _entries(Path(group.path)):
                with suppress(OSError):
                    size = sum(file.stat().st_size for file in _entries(Path(folder.path)))
                    found.append((folder.stat().st_mtime, size, folder.path))
        return found


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []
