"""What benchmarks of whole documents share: pictures as a judge sees them, and files of pictures."""

from __future__ import annotations

import io
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from interleave.errors import InputError
from interleave.files import make_folder, why
from interleave.pictures import decode_picture

if TYPE_CHECKING:
    from PIL.Image import Image


def as_jpeg(image: Image, size: tuple[int, int]) -> Image:
    """A picture in another size, with what JPEG loses: some judges were only ever shown that."""
    resized = image if image.size == size else image.resize(size)
    coded = io.BytesIO()
    resized.convert("RGB").save(coded, format="JPEG")
    return decode_picture(coded.getvalue())


def within(folder: Path, *names: str) -> Path | None:
    """The first of these files that is there; names that lead out of the folder are not there."""
    root = os.path.abspath(folder)
    for name in names:
        path = Path(
            os.path.normpath(os.path.join(root, name))
        )  # by name alone: image folders are often links
        if path.is_relative_to(root) and path.is_file():
            return path
    return None


def copy_picture(source: Path, target: Path) -> None:
    """Copy a picture into a folder that is made where there is none."""
    make_folder(target.parent)
    try:
        shutil.copyfile(source, target)
    except OSError as error:
        raise InputError(f"{source} cannot be copied to {target} ({why(error)})") from None
