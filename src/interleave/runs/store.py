"""The pictures of a run: files named by the hash of their bytes; and files that are written atomically."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from PIL import Image

from interleave.errors import InputError, MissingPicture, RunError, StorageError
from interleave.pictures import decode_picture, encode_png

FOLDER = "images"
_NAME = re.compile(r"[0-9a-f]{64}\.png\Z")


class PictureStore:
    """Writes pictures into a run folder and reads them back."""

    def __init__(self, run: Path) -> None:
        self.folder = run / FOLDER
        self._folder_made = False

    def put(self, image: Image.Image, metadata: Mapping[str, str] | None = None) -> str:
        """Store a picture and return its name; equal pictures with equal metadata are one file."""
        data = encode_png(image, metadata)
        name = _name_of(data)
        if not self._folder_made:
            self._make_folder()
        write_whole(self.folder / name, data)
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
            data = read_file(path)
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


def name_of(image: Image.Image) -> str:
    """The name that a picture without metadata has in a store."""
    return _name_of(encode_png(image))


def _name_of(data: bytes) -> str:
    return f"{hashlib.sha256(data).hexdigest()}.png"


def remove_temporary_files(run: Path) -> None:
    """Remove the temporary files of a process that died; call it only while holding the lock."""
    for folder in (run, run / FOLDER):
        remove_temporaries_of(folder)


def remove_temporaries_of(folder: Path, name: str = "*") -> None:
    """Remove the temporary files of one file; call it only as the only writer of that file."""
    for leftover in folder.glob(f".{name}.*.tmp"):
        with suppress(OSError):  # it does no harm
            leftover.unlink()


def write_whole(path: Path, data: bytes) -> None:
    """Write a file atomically: whenever the power fails it is absent, as it was before, or complete."""
    # several machines may write the same file at once, with processes of the same number
    temporary = f"{path.parent}/.{path.name}.{secrets.token_hex(6)}.tmp"
    try:
        _write_new(temporary, data)
        os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise StorageError.at(path, error) from error
        raise
    sync_folder(path.parent)


def _write_new(path: str, data: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        written = 0
        while written < len(data):
            written += os.write(file, data[written:])
        os.fsync(file)
    finally:
        os.close(file)


def make_folder(folder: Path) -> None:
    """Make a folder and its parents; the name of each is on disk before anything is written into it."""
    try:
        folder.mkdir()
    except FileNotFoundError:
        if folder.parent == folder:  # the working directory itself is gone
            raise
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
    except OSError:
        if folder.is_dir():
            return
        raise
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        return  # it can be written to and not read, and so cannot be synced
    except OSError as error:
        raise StorageError.at(folder, error) from error
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that cannot sync folders
            raise StorageError.at(folder, error) from error
    finally:
        os.close(handle)


def read_file(path: Path, start: int = 0) -> bytes:
    """The bytes of a file from an offset on; only regular files are read, as a pipe may never end."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "not a file")
    with open(path, "rb") as file:
        file.seek(start)
        return file.read()
