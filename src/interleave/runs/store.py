"""The pictures of a run: files named by the hash of their bytes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from PIL import Image

from interleave.errors import InputError, MissingPicture, RunError, StorageError
from interleave.files import read_from, remove_temporaries_of, sync_folder, write_atomic
from interleave.images import decode_picture, encode_png

IMAGES_FOLDER = "images"
_NAME = re.compile(r"[0-9a-f]{64}\.png\Z")


class PictureStore:
    """Writes pictures into a run folder and reads them back."""

    def __init__(self, run: Path) -> None:
        self.folder = run / IMAGES_FOLDER
        self._folder_made = False

    def put(self, image: Image.Image, metadata: Mapping[str, str] | None = None) -> str:
        """Store a picture and return its name; equal pictures with equal metadata are one file."""
        data = encode_png(image, metadata)
        name = _name_of(data)
        if not self._folder_made:
            self._make_folder()
        write_atomic(self.folder / name, data)
        return name

    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise StorageError.at(self.folder, error) from error
        sync_folder(self.folder.parent)
        self._folder_made = True

    def has(self, name: str) -> bool:
        """Whether the picture of this name is there, unaltered."""
        return self.problem_with(name) is None

    def problem_with(self, name: str) -> MissingPicture | None:
        """What is wrong with the picture of this name, if anything."""
        try:
            self._read(name)
        except MissingPicture as problem:
            return problem
        return None

    def get(self, name: str) -> Image.Image:
        """The picture of this name; raises `MissingPicture` where it is missing or altered."""
        try:
            data = self._read(name)
            return decode_picture(data, name=str(self.path(name)), max_bytes=len(data))  # it is our own file
        except InputError as error:
            raise RunError(str(error)) from None

    def _read(self, name: str) -> bytes:
        path = self.path(name)
        try:
            data = read_from(path)
        except FileNotFoundError:
            raise MissingPicture(path, "is missing") from None
        except OSError as error:
            raise MissingPicture(path, f"cannot be read ({error.strerror})") from None
        if _name_of(data) != name:
            raise MissingPicture(path, "has been altered")
        return data

    def path(self, name: str) -> Path:
        """The file of the picture of this name. Names come from files, so they are checked."""
        if not _NAME.match(name):
            raise RunError(f"{name!r} is not the name of a stored picture: the journal is damaged")
        return self.folder / name


def image_name(image: Image.Image) -> str:
    """The name that a picture without metadata has in a store."""
    return _name_of(encode_png(image))


def _name_of(data: bytes) -> str:
    return f"{hashlib.sha256(data).hexdigest()}.png"


def remove_temporary_files(run: Path) -> None:
    """Remove the temporary files of a process that died; call it only while holding the lock."""
    for folder in (run, run / IMAGES_FOLDER):
        remove_temporaries_of(folder)
