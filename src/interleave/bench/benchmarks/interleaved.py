"""What benchmarks of whole documents share: pictures as a judge sees them, and files of pictures."""

from __future__ import annotations

import io
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from interleave import InputError
from interleave.plugin import files, images, make_folder

if TYPE_CHECKING:
    from PIL.Image import Image


def as_jpeg(image: Image, size: tuple[int, int]) -> Image:
    """A picture in another size, with what JPEG loses: some judges were only ever shown that."""
    resized = image if image.size == size else image.resize(size)
    coded = io.BytesIO()
    resized.convert("RGB").save(coded, format="JPEG")
    return images.decode_picture(coded.getvalue())


def below(folder: Path, name: str) -> Path:
    """A file of a folder, there or not; raises `InputError` for a name that leads out of it."""
    root = os.path.abspath(folder)
    path = Path(os.path.normpath(os.path.join(root, name)))  # by name alone: image folders are often links
    if not path.is_relative_to(root):
        raise InputError(f"{name!r:.80} leads out of {folder}")
    return path


def within(folder: Path, *names: str) -> Path | None:
    """The first of these files that is there; names that lead out of the folder are not there."""
    for name in names:
        try:
            path = below(folder, name)
        except InputError:
            continue
        if path.is_file():
            return path
    return None


def file_name(identity: str) -> str:
    """The name of an item's file or folder: an id must not choose where it is written."""
    return re.sub(r"[/\\\0]", "_", identity)


def copy_picture(source: Path, target: Path) -> None:
    """Copy a picture into a folder that is made where there is none."""
    make_folder(target.parent)
    try:
        shutil.copyfile(source, target)
    except OSError as error:
        raise InputError(f"{source} cannot be copied to {target} ({files.why(error)})") from None
