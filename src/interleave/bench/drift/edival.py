"""EdiVal-Bench as chains of edits: 572 images with three successive instructions each.

The folder holds the repository's `oai_instruction_generation_output.csv`, and the dataset's images as
`input_images_resize_512.zip` or unpacked. Each row of the table has the first *n* instructions of an image as
a Python list. The longest row of each image is its chain.
"""

from __future__ import annotations

import ast
import csv
import io
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL.Image import Image

from interleave import InputError, read_image
from interleave.bench.drift.chains import Chain, ImageChains, Link, Protocol_, UnknownTruth, with_history
from interleave.plugin import files, images, read_text

TABLE = "oai_instruction_generation_output.csv"
IMAGES = "input_images_resize_512"
MAX_TABLE_BYTES = 64_000_000
MAX_IMAGE_BYTES = 20_000_000
ENDINGS = (".jpg", ".png", ".jpeg")


class EdivalChains(UnknownTruth):
    """EdiVal's chains. Other protocols apply generic edits to its images."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.instructions = read_instructions(folder / TABLE)

    def chains(self, protocol: Protocol_, count: int, steps: int, seed: int) -> list[Chain]:
        chosen = list(self.instructions.items())[:count]
        images = [self._image(index) for index, _ in chosen]
        if protocol != "chain":
            return ImageChains(images).chains(protocol, count, steps, seed)
        return [
            Chain(index, image, with_history([Link(prompt) for prompt in prompts[:steps]]))
            for (index, prompts), image in zip(chosen, images, strict=True)
        ]

    def _image(self, index: str) -> Image:
        names = [f"{index}_input_raw{ending}" for ending in ENDINGS]
        for folder in (self.folder / IMAGES, self.folder):
            for name in names:
                if (folder / name).is_file():
                    return read_image(folder / name)
        return self._packed_image(names)

    def _packed_image(self, names: Sequence[str]) -> Image:
        path = self.folder / f"{IMAGES}.zip"
        try:
            with zipfile.ZipFile(path) as packed:
                found = {Path(each.filename).name: each for each in packed.infolist()}
                entry = next((found[name] for name in names if name in found), None)
                if entry is None:
                    raise InputError(f"{path} has no image {names[0]}")
                if entry.file_size > MAX_IMAGE_BYTES:
                    raise InputError(f"{path}: {entry.filename} is too large")
                return images.decode_image(packed.read(entry), name=f"{path}: {entry.filename}")
        except OSError as error:
            raise InputError(f"cannot read EdiVal's images in {path} ({files.why(error)})") from None
        except zipfile.BadZipFile:
            raise InputError(f"{path} is not a ZIP archive: download it again") from None


def read_instructions(path: Path) -> dict[str, tuple[str, ...]]:
    """Read the instructions of every image in order. Shorter rows must be prefixes of the longest."""
    try:
        rows = list(csv.DictReader(io.StringIO(read_text(path, most_bytes=MAX_TABLE_BYTES))))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read EdiVal's instructions in {path} ({files.why(error)})") from None
    except csv.Error as error:
        raise InputError(f"{path} is not a CSV table ({error})") from None
    found: dict[str, tuple[str, ...]] = {}
    for number, row in enumerate(rows, start=2):
        index, prompts = _row(row, f"{path}, row {number}")
        shorter, longer = sorted((found.get(index, ()), prompts), key=len)
        if longer[: len(shorter)] != shorter:
            raise InputError(f"{path}, row {number}: image {index} had different instructions before")
        found[index] = longer
    if not found:
        raise InputError(f"{path} has no instructions")
    return found


def _row(row: dict[str, Any], where: str) -> tuple[str, tuple[str, ...]]:
    index = str(row.get("image_index") or "").strip()
    if not index.isascii() or not index.isalnum():
        raise InputError(f"{where}: 'image_index' is {index!r:.40}, not alphanumeric")
    try:
        prompts = ast.literal_eval(row.get("instructions") or "")
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        prompts = None
    if not isinstance(prompts, list) or not prompts or not all(isinstance(each, str) for each in prompts):
        raise InputError(f"{where}: 'instructions' is not a list of strings")
    return index, tuple(prompts)
