"""What benchmarks of edited pictures share: the source, the edit, their files in and out."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interleave import InputError, read_picture
from interleave.bench.base import Dataset, Item, Unparsed
from interleave.bench.outputs import Output, OutputPart
from interleave.plugin import images, make_folder, write_atomic

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_FILE_BYTES = 200_000_000
JPEG_QUALITY = 95


def edited_picture(output: Output | None, folder: Path) -> Image:
    """The result of an edit: the last picture of an output; raises `Unparsed` where there is none."""
    if output is None or not output.images:
        raise Unparsed("the output has no picture to judge")
    return read_picture(folder / output.images[-1])


def resized_to(picture: Image, source: Image) -> Image:
    """A picture in the size of another."""
    return picture if picture.size == source.size else picture.resize(source.size)


def save_picture(picture: Image, path: Path) -> None:
    """Write a picture as what its name says it is, PNG or JPEG."""
    make_folder(path.parent)
    if path.suffix == ".png":
        write_atomic(path, images.encode_png(picture))
        return
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=JPEG_QUALITY)
    write_atomic(path, buffer.getvalue())


def outputs_of(dataset: Dataset, path_of: Callable[[Item], Path | None]) -> Iterator[Output]:
    """The outputs whose pictures are there; raises `InputError` where none is."""
    found = False
    for item in dataset.items:
        path = path_of(item)
        if path is not None and path.is_file():
            found = True
            yield Output(item=item.id, parts=(OutputPart(image=str(path.resolve())),))
    if not found:
        first = path_of(dataset.items[0]) if dataset.items else None
        raise InputError(f"there is no output in the official layout, which would have {first}")


def first_file(*paths: Path) -> Path | None:
    """The first that exists."""
    return next((path for path in paths if path.is_file()), None)


def cache_folder(name: str) -> Path:
    """Where pictures that lie in tables are put as files, once."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "interleave" / "benchmarks" / name


def kept_picture(data: bytes, folder: Path) -> Path:
    """A file with these bytes, named by their digest."""
    path = folder / f"{hashlib.sha256(data).hexdigest()[:24]}.img"
    if not path.exists():
        make_folder(folder)
        write_atomic(path, data)
    return path


def picture_path(value: Any, row_file: Path, cache: Path, where: str) -> Path:
    """A picture of a row: bytes in a table, or the name of a file beside it."""
    if isinstance(value, Mapping) and isinstance(value.get("bytes"), bytes):
        return kept_picture(value["bytes"], cache)
    if isinstance(value, bytes):
        return kept_picture(value, cache)
    if isinstance(value, str) and value:
        return row_file.parent / value
    raise InputError(f"{where}: {value!r:.60} is no picture")
