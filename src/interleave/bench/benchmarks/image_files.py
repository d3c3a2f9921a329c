"""Image files of outputs: found, shown to a judge, exported to and imported from official layouts."""

from __future__ import annotations

import io
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from interleave import InputError, read_image
from interleave.bench.base import Dataset, Item, Unparsed
from interleave.bench.outputs import Output, OutputPart
from interleave.plugin import files, images, make_folder, write_atomic

if TYPE_CHECKING:
    from PIL.Image import Image

JPEG_QUALITY = 95


def edited_image(output: Output | None, folder: Path) -> Image:
    """Return the result of an edit: the output's last image. Raises `Unparsed` if it has none."""
    if output is None or not output.images:
        raise Unparsed("the output has no image to judge")
    return read_image(folder / output.images[-1])


def as_jpeg(image: Image, size: tuple[int, int]) -> Image:
    """Resize an image and compress it as JPEG, the only form some judges were shown."""
    resized = image if image.size == size else image.resize(size)
    coded = io.BytesIO()
    resized.convert("RGB").save(coded, format="JPEG")
    return images.decode_image(coded.getvalue())


def save_image(image: Image, path: Path) -> None:
    """Write an image as PNG or JPEG, by its suffix."""
    make_folder(path.parent)
    if path.suffix == ".png":
        write_atomic(path, images.encode_png(image))
        return
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=JPEG_QUALITY)
    write_atomic(path, buffer.getvalue())


def copy_image(source: Path, target: Path) -> None:
    """Copy an image, creating its folder."""
    make_folder(target.parent)
    try:
        shutil.copyfile(source, target)
    except OSError as error:
        raise InputError(f"cannot copy {source} to {target} ({files.why(error)})") from None


def export_edits(
    dataset: Dataset, outputs: Mapping[str, Output], base: Path, path_of: Callable[[Item], Path]
) -> None:
    """Write the last image of every output to its item's path."""
    for item in dataset.items:
        output = outputs.get(item.id)
        if output is not None and output.images:
            save_image(edited_image(output, base), path_of(item))


def import_edits(dataset: Dataset, paths_of: Callable[[Item], Sequence[Path]]) -> Iterator[Output]:
    """Yield outputs of items for which one of these files exists. Raises `InputError` if there are none."""
    found = False
    for item in dataset.items:
        path = next((path for path in paths_of(item) if path.is_file()), None)
        if path is not None:
            found = True
            yield Output(item=item.id, parts=(OutputPart(image=str(path.resolve())),))
    if not found:
        first = paths_of(dataset.items[0])[0] if dataset.items else None
        raise InputError(f"no image in the official layout, such as {first}")


def below(folder: Path, name: str) -> Path:
    """Return the path of a file below a folder. Raises `InputError` for a name outside it."""
    root = os.path.abspath(folder)
    path = Path(os.path.normpath(os.path.join(root, name)))  # by name alone: image folders are often links
    if not path.is_relative_to(root):
        raise InputError(f"{name!r:.80} is outside {folder}")
    return path


def within(folder: Path, *names: str) -> Path | None:
    """Return the first of these files that exists, ignoring names outside the folder."""
    for name in names:
        try:
            path = below(folder, name)
        except InputError:
            continue
        if path.is_file():
            return path
    return None


def file_name(identity: str) -> str:
    """Return a safe file or folder name for an item: its id must not choose the location."""
    return re.sub(r"[/\\\0]", "_", identity)
