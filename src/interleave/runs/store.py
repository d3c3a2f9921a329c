"""The pictures of a run: files named by the hash of their bytes, written whole or not at all."""

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

from interleave.errors import InputError, RunError, StorageError
from interleave.pictures import decode_picture, encode_png

FOLDER = "images"
_NAME = re.compile(r"[0-9a-f]{64}\.png\Z")


class MissingPicture(RunError):
    """A picture that the journal names is not there as it was stored."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"the picture {path} {what}: restore it, or have it drawn again with --redraw")


class PictureStore:
    """Puts pictures into a run folder and takes them out again."""

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
        """Whether the picture of this name is there, as it was stored."""
        return self.problem_with(name) is None

    def problem_with(self, name: str) -> MissingPicture | None:
        """What is wrong with the picture of this name, if anything."""
        try:
            self._read(name)
        except MissingPicture as problem:
            return problem
        return None

    def get(self, name: str) -> Image.Image:
        """The picture of this name, as it was stored; raises `MissingPicture` when it is not there."""
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
        """Where the picture of this name lies. Names come from files, so they are checked."""
        if not _NAME.match(name):
            raise RunError(f"{name!r} is not the name of a stored picture: the journal is damaged")
        return self.folder / name


def name_of(image: Image.Image) -> str:
    """The name a picture without metadata has in a store."""
    return _name_of(encode_png(image))


def _name_of(data: bytes) -> str:
    return f"{hashlib.sha256(data).hexdigest()}.png"


def sweep(run: Path) -> None:
    """Remove what a process that died left half written; only for whoever holds the lock."""
    for folder in (run, run / FOLDER):
        sweep_for(folder)


def sweep_for(folder: Path, name: str = "*") -> None:
    """Remove what is left half written of the file of this name; only for whoever alone may write it."""
    for leftover in folder.glob(f".{name}.*.tmp"):
        with suppress(OSError):  # it is in nobody's way
            leftover.unlink()


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is absent, as it was before, or complete, whenever the power fails."""
    # several machines may write the same file at once, and their processes may have the same number
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
    """Make a folder and what is missing above it; each is on disk by name before anything is put into it."""
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
        return  # one may write to it and not read it, and then nobody can sync it
    except OSError as error:
        raise StorageError.at(folder, error) from error
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that knows no syncing of folders
            raise StorageError.at(folder, error) from error
    finally:
        os.close(handle)


def read_file(path: Path, start: int = 0) -> bytes:
    """The bytes of a file from a place on; what is no file is refused, as a pipe would never end."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "not a file")
    with open(path, "rb") as file:
        file.seek(start)
        return file.read()
