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
from typing import TYPE_CHECKING, Any

from interleave.backends.protocols import Message
from interleave.data.manifest import file_digest
from interleave.data.trajectories import StoredPicture
from interleave.pictures import encode_png, read_picture, white_canvas
from interleave.runs.store import MissingPicture, PictureStore
from interleave.types import Picture

if TYPE_CHECKING:
    from PIL.Image import Image

FOLDER = "images"


class PictureForm(StrEnum):
    """How rows come to their pictures."""

    EMBEDDED = "embedded"
    """Inside a parquet file, or in a folder beside a text file: the export stands alone."""
    REFERENCED = "referenced"
    """By the absolute path of the file in its collection."""


@dataclass(frozen=True)
class ImageRef:
    """A picture that a row shows: a file of a collection, or one that was made for the row."""

    name: str
    """The hash of its bytes, and what kind of file it is."""
    size: tuple[int, int]
    path: Path | None = None
    """Absolute."""
    data: bytes | None = None
    """Its bytes, where no collection has it: a white canvas, or a picture scaled down."""

    def read(self) -> bytes:
        """The bytes of the file; raises `MissingPicture` when they are not those of its name."""
        return self.data if self.data is not None else _read_checked(str(self.path), self.name)


def stored_image(picture: StoredPicture) -> ImageRef:
    """A picture of a run; raises `MissingPicture` when there is no picture in its file."""
    return _cached_stored_image(picture.store, picture.name)


@lru_cache(maxsize=256)
def _cached_stored_image(store: PictureStore, name: str) -> ImageRef:
    """A picture is in several rows that follow each other: look once."""
    picture = StoredPicture(store, name)
    return ImageRef(name, picture.size, path=picture.path)


@cache
def white_image(size: tuple[int, int]) -> ImageRef:
    """The white canvas that stands for no picture; there are few sizes and many of each."""
    return _new_image(white_canvas(size))


class ImageFiles:
    """Remembers which file stands for an image object, so that rows refer to the file and not to a copy.

    Images of a run know their file and need not be added; any other image becomes a new file of the export.
    """

    def __init__(self) -> None:
        # The image is kept beside its reference: an id is unique only while its object lives.
        self._refs: dict[int, tuple[Image, ImageRef]] = {}

    def read(self, path: Path) -> Image:
        """Read an image from outside the collections; raises `InputError` when it cannot be used."""
        image = read_picture(path)
        name = f"{file_digest(path)}{path.suffix.lower()}"
        self.add(image, ImageRef(name, image.size, path=Path(os.path.abspath(path))))
        return image

    def add(self, image: Image, ref: ImageRef) -> None:
        self._refs[id(image)] = (image, ref)

    def ref(self, image: Image) -> ImageRef:
        """What stands for an image in rows."""
        if (known := self._refs.get(id(image))) is not None:
            return known[1]
        return stored_image(image) if isinstance(image, StoredPicture) else _new_image(image)

    def refs(self, messages: Iterable[Message]) -> tuple[ImageRef, ...]:
        """What stands for the images of messages, in their order."""
        pictures = (part for message in messages for part in message.parts if isinstance(part, Picture))
        return tuple(self.ref(picture.image) for picture in pictures)


def _new_image(image: Image) -> ImageRef:
    data = encode_png(image)
    return ImageRef(f"{hashlib.sha256(data).hexdigest()}.png", image.size, data=data)


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
class ImageWriter:
    """Where the rows of one format find their pictures."""

    mode: PictureForm
    staging: Path
    """The folder of the format, while it is made."""
    destination: Path
    """Where that folder will lie."""

    def path(self, ref: ImageRef, *, absolute: bool = False) -> str:
        """What a text format writes: a path inside its own folder, or the absolute one of the original."""
        if self.mode is PictureForm.REFERENCED and ref.path is not None:
            return str(ref.path)
        place = f"{FOLDER}/{ref.name[:2]}/{ref.name}"
        self.store(ref, place)
        outside = absolute or self.mode is PictureForm.REFERENCED
        return str(self.destination / place) if outside else place

    def struct(self, ref: ImageRef) -> dict[str, Any]:
        """What the Image feature of `datasets` holds."""
        if self.mode is PictureForm.REFERENCED:
            return {"bytes": None, "path": self.path(ref)}
        return {"bytes": ref.read(), "path": ref.name}

    def store(self, ref: ImageRef, place: str) -> None:
        """Put a picture into the folder of the format; where it can be, as a second name of the same file."""
        target = self.staging / place
        if target.exists():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        data = ref.read()  # checked, also where it is only linked
        temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        try:
            if ref.path is None:
                temporary.write_bytes(data)
            else:
                _link_or_copy(ref.path, temporary)
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(os.path.realpath(source), target)
    except OSError:  # another file system, or one without links
        shutil.copyfile(source, target)
