"""The pictures of a run: files named by the hash of their bytes, written whole or not at all."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from PIL import Image

from interleave.errors import InputError, RunError
from interleave.pictures import decode_picture, encode_png

FOLDER = "images"
_NAME = re.compile(r"[0-9a-f]{64}\.png\Z")


class PictureStore:
    """Puts pictures into a run folder and takes them out again."""

    def __init__(self, run: Path) -> None:
        self.folder = run / FOLDER

    def put(self, image: Image.Image, metadata: Mapping[str, str] | None = None) -> str:
        """Store a picture and return its name; equal pictures with equal metadata are one file."""
        data = encode_png(image, metadata)
        name = _name_of(data)
        if not (self.folder / name).exists():
            self.folder.mkdir(exist_ok=True)
            write_whole(self.folder / name, data)
        return name

    def get(self, name: str) -> Image.Image:
        """The picture of this name, as it was stored; raises `RunError` when it is missing or altered."""
        path = self.path(name)
        try:
            data = path.read_bytes()
        except OSError:
            raise RunError(
                f"the picture {path} is missing: restore it, or start again in a new folder"
            ) from None
        if hashlib.sha256(data).hexdigest() != path.stem:
            raise RunError(f"the picture {path} has been altered: restore it, or start again in a new folder")
        try:
            return decode_picture(data, name=str(path))
        except InputError as error:
            raise RunError(str(error)) from None

    def path(self, name: str) -> Path:
        """Where the picture of this name lies. Names come from files, so they are checked."""
        if not _NAME.match(name):
            raise RunError(f"{name!r} is not the name of a stored picture: the journal is damaged")
        return self.folder / name


def name_of(image: Image.Image) -> str:
    """The name a picture without metadata has in a store."""
    return _name_of(encode_png(image))


def _name_of(data: bytes) -> str:
    return f"{hashlib.sha256(data).hexdigest()}.png"


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is either absent, as it was before, or complete, whenever the power fails."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
