"""Documents of joined files: their rows, their split, and the pictures that they name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from interleave import InputError, Picture
from interleave.train.data.export.images import ImageFiles
from interleave.train.data.export.rows import TrainingRow

IMAGE_FOLDERS = ("", "images")


@dataclass(frozen=True)
class JoinedDocument:
    """One document: its rows, and the text that decides its split."""

    text: str
    rows: tuple[TrainingRow, ...]


def joined_picture(files: ImageFiles, folder: Path, name: str) -> Picture:
    """A picture beside the file or below it; raises for one elsewhere.

    Rows of the reference name pictures by paths of the machine that made them: such a path is shortened from
    the left until it leads to a file below the folder. Its last folder stays, as file names repeat.
    """
    parts = PurePosixPath(name).parts
    shorter = [str(PurePosixPath(*parts[start:])) for start in range(1, len(parts) - 1) if ".." not in parts]
    outside = False
    for each in (name, *shorter):
        for subfolder in IMAGE_FOLDERS:
            try:
                path = (folder / subfolder / each).resolve()
                is_inside, is_there = path.is_relative_to(folder.resolve()), path.is_file()
            except (OSError, RuntimeError, ValueError) as error:  # a name too long, or a symlink loop
                raise InputError(f"the picture {name[:80]!r} cannot be read ({error})") from None
            if is_inside and is_there:
                return Picture(files.read(path))
            outside = outside or not is_inside
    if outside:
        raise InputError(
            f"the picture {name[:80]!r} lies outside the folder of the file, and not below it either"
        )
    raise InputError(f"the picture {name[:80]!r} is not there")


def sample_of(name: str) -> str:
    """The folder of a picture, which holds everything the reference made for one request."""
    return PurePosixPath(name).parent.as_posix()
