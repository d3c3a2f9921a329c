"""Copies the images of rows into the export, or references their files."""

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

from interleave import ImagePart, Message, read_image
from interleave.plugin import ImageStore, errors, images
from interleave.train.data.manifest import file_digest
from interleave.train.data.trajectories import StoredImage

if TYPE_CHECKING:
    from PIL.Image import Image

FOLDER = "images"


class ImageForm(StrEnum):
    """How rows refer to their images."""

    EMBEDDED = "embedded"
    """In the parquet file, or in a folder next to a text file: the export is self-contained."""
    REFERENCED = "referenced"
    """By the absolute path of the file in its collection."""


@dataclass(frozen=True)
class ImageRef:
    """An image of a row: a file of a collection, or new bytes."""

    name: str
    """Hash of its bytes, and the file suffix."""
    size: tuple[int, int]
    path: Path | None = None
    """Absolute."""
    data: bytes | None = None
    """Bytes of an image without a file: a white canvas, or an image scaled down."""

    def read(self) -> bytes:
        """Return the bytes; raises `MissingImage` if the file's hash does not match its name."""
        return self.data if self.data is not None else _read_checked(str(self.path), self.name)


def stored_image(image: StoredImage) -> ImageRef:
    """Return the reference of a run's image; raises `MissingImage` if its file is not an image."""
    return _cached_stored_image(image.store, image.name)


@lru_cache(maxsize=256)
def _cached_stored_image(store: ImageStore, name: str) -> ImageRef:
    """Read the header once: consecutive rows share images."""
    image = StoredImage(store, name)
    return ImageRef(name, image.size, path=image.path)


@cache
def white_image(size: tuple[int, int]) -> ImageRef:
    """Return the white canvas of a step without sources; cached, because there are few sizes."""
    return _new_image(images.white_canvas(size))


class ImageFiles:
    """Maps image objects to their files, so that rows refer to the file and not to a copy.

    Images of a run carry their file and need not be added. Any other image becomes a new file of the export.
    """

    def __init__(self) -> None:
        # The image is kept with its reference: an id is unique only while its object lives.
        self._refs: dict[int, tuple[Image, ImageRef]] = {}

    def read(self, path: Path) -> Image:
        """Read an image from outside the collections; raises `InputError` if it cannot be used."""
        image = read_image(path)
        name = f"{file_digest(path)}{path.suffix.lower()}"
        self.add(image, ImageRef(name, image.size, path=Path(os.path.abspath(path))))
        return image

    def add(self, image: Image, ref: ImageRef) -> None:
        self._refs[id(image)] = (image, ref)

    def ref(self, image: Image) -> ImageRef:
        """Return the reference of an image."""
        if (known := self._refs.get(id(image))) is not None:
            return known[1]
        return stored_image(image) if isinstance(image, StoredImage) else _new_image(image)

    def refs(self, messages: Iterable[Message]) -> tuple[ImageRef, ...]:
        """Return the references of the images of messages, in order."""
        images = (part for message in messages for part in message.parts if isinstance(part, ImagePart))
        return tuple(self.ref(image.image) for image in images)


def _new_image(image: Image) -> ImageRef:
    data = images.encode_png(image)
    return ImageRef(f"{hashlib.sha256(data).hexdigest()}.png", image.size, data=data)


@lru_cache(maxsize=32)
def _read_checked(path: str, name: str) -> bytes:
    """Read the file once: consecutive rows share images."""
    try:
        data = Path(path).read_bytes()
    except OSError:
        raise errors.MissingImage(Path(path), "is missing") from None
    if hashlib.sha256(data).hexdigest() != name.partition(".")[0]:
        raise errors.MissingImage(Path(path), "has been altered")
    return data


@dataclass(frozen=True)
class ImageWriter:
    """Writes the images of one format, and returns the paths for its rows."""

    mode: ImageForm
    staging: Path
    """Folder of the format while the export is written."""
    destination: Path
    """Final path of that folder."""

    def path(self, ref: ImageRef, *, absolute: bool = False) -> str:
        """Return the path in a row: relative to the format's folder, or absolute."""
        if self.mode is ImageForm.REFERENCED and ref.path is not None:
            return str(ref.path)
        place = f"{FOLDER}/{ref.name[:2]}/{ref.name}"
        self.store(ref, place)
        outside = absolute or self.mode is ImageForm.REFERENCED
        return str(self.destination / place) if outside else place

    def struct(self, ref: ImageRef) -> dict[str, Any]:
        """Return the value of an Image feature of `datasets`."""
        if self.mode is ImageForm.REFERENCED:
            return {"bytes": None, "path": self.path(ref)}
        return {"bytes": ref.read(), "path": ref.name}

    def store(self, ref: ImageRef, place: str) -> None:
        """Put an image into the format's folder, as a hard link if possible."""
        target = self.staging / place
        if target.exists():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        data = ref.read()  # verified, even if it is only linked
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
