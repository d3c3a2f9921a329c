"""The pictures of rows: held by the export itself, or left where they are and named."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from interleave.backends.protocols import Message
from interleave.data.manifest import file_digest
from interleave.data.trajectories import StoredPicture
from interleave.pictures import encode_png, read_picture, white_canvas
from interleave.runs.store import MissingPicture, PictureStore
from interleave.types import Picture

if TYPE_CHECKING:
    from PIL.Image import Image

FOLDER = "images"
_LABEL = "_interleave_exhibit"


class PictureForm(StrEnum):
    """How rows come to their pictures."""

    EMBEDDED = "embedded"
    """Inside a parquet file, or in a folder beside a text file: the export stands alone."""
    REFERENCED = "referenced"
    """By the absolute path of the file in its collection."""


@dataclass(frozen=True)
class Exhibit:
    """A picture that a row shows: a file of a collection, or one that was made for the row."""

    name: str
    """The hash of its bytes, and what kind of file it is."""
    size: tuple[int, int]
    path: Path | None = None
    """Absolute."""
    made: bytes | None = None
    """Its bytes, where no collection has it: a white canvas, or a picture scaled down."""

    def read(self) -> bytes:
        """The bytes of the file; raises `MissingPicture` when they are not those of its name."""
        return self.made if self.made is not None else _read_checked(str(self.path), self.name)


def stored(picture: StoredPicture) -> Exhibit:
    """A picture of a run; raises `MissingPicture` when there is no picture in its file."""
    return _stored(picture.store, picture.name)


@lru_cache(maxsize=256)
def _stored(store: PictureStore, name: str) -> Exhibit:
    """A picture is in several rows that follow each other: look once."""
    picture = StoredPicture(store, name)
    return Exhibit(name, picture.size, path=picture.path)


@cache
def canvas(size: tuple[int, int]) -> Exhibit:
    """The white canvas that stands for no picture; there are few sizes and many of each."""
    return _made(white_canvas(size))


def foreign(path: Path) -> Image:
    """A picture from outside that knows its file; raises `InputError` when it cannot be used."""
    image = read_picture(path)
    name = f"{file_digest(path)}{path.suffix.lower()}"
    return labelled(image, Exhibit(name, image.size, path=Path(os.path.abspath(path))))


def labelled(image: Image, exhibit: Exhibit) -> Image:
    """The same picture, which now knows what stands for it in rows."""
    setattr(image, _LABEL, exhibit)
    return image


def exhibits_of(messages: Iterable[Message]) -> tuple[Exhibit, ...]:
    """What stands for the pictures of messages, in their order."""
    return tuple(
        exhibit_of(part.image) for message in messages for part in message.parts if isinstance(part, Picture)
    )


def exhibit_of(image: Image) -> Exhibit:
    """A picture as rows show it; one that is in no file becomes a file of the export."""
    if (label := getattr(image, _LABEL, None)) is not None:
        return cast(Exhibit, label)
    return stored(image) if isinstance(image, StoredPicture) else _made(image)


def _made(image: Image) -> Exhibit:
    data = encode_png(image)
    return Exhibit(f"{hashlib.sha256(data).hexdigest()}.png", image.size, made=data)


@lru_cache(maxsize=32)
def _read_checked(path: str, name: str) -> bytes:
    """A picture is in several rows that follow each other: read it once."""
    try:
        data = Path(path).read_bytes()
    except OSError:
        raise MissingPicture(Path(path), "is missing") from None
    if hashlib.sha256(data).hexdigest() != name.partition(".")[0]:
        raise MissingPicture(Path(path), "has been altered")
    return data


@dataclass(frozen=True)
class Shelf:
    """Where the rows of one format find their pictures."""

    form: PictureForm
    making: Path
    """The folder of the format, while it is made."""
    final: Path
    """Where that folder will lie."""

    def path(self, exhibit: Exhibit, *, absolute: bool = False) -> str:
        """What a text format writes: a path inside its own folder, or the absolute one of the original."""
        if self.form is PictureForm.REFERENCED and exhibit.path is not None:
            return str(exhibit.path)
        place = f"{FOLDER}/{exhibit.name[:2]}/{exhibit.name}"
        self.keep(exhibit, place)
        outside = absolute or self.form is PictureForm.REFERENCED
        return str(self.final / place) if outside else place

    def struct(self, exhibit: Exhibit) -> dict[str, Any]:
        """What the Image feature of `datasets` holds."""
        if self.form is PictureForm.REFERENCED:
            return {"bytes": None, "path": self.path(exhibit)}
        return {"bytes": exhibit.read(), "path": exhibit.name}

    def keep(self, exhibit: Exhibit, place: str) -> None:
        """Put a picture into the folder of the format; where it can be, as a second name of the same file."""
        target = self.making / place
        if target.exists():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        data = exhibit.read()  # checked, also where it is only linked
        temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        try:
            if exhibit.path is None:
                temporary.write_bytes(data)
            else:
                _link_or_copy(exhibit.path, temporary)
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(os.path.realpath(source), target)
    except OSError:  # another file system, or one without links
        shutil.copyfile(source, target)
