"""The sprites and backgrounds of the whole world at the reader's resolution, painted once per user.

Painting takes about 20 s of CPU time, so it is divided among processes, and the result (8 MB) is kept in the
user's cache folder, under a digest of the drawing code.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np
import PIL
from numpy.typing import NDArray

import interleave_mini.world
from interleave_mini.reader.arrays import reduced
from interleave_mini.world.backgrounds import background
from interleave_mini.world.carrying import layout
from interleave_mini.world.drawing import GRIPPERS, RELATIONS, ROW_OF, THINGS
from interleave_mini.world.scene import Gripper, Size
from interleave_mini.world.sprites import CELL, in_all_colours, sprite
from interleave_mini.world.wider import ALL_BACKGROUNDS, ALL_COLOURS, ALL_NOUNS

FINE = 40
_SHARE = 4
"""Pixels of a sprite in one of the reader's: sums of so many are whole numbers."""
_MOST_PROCESSES = 8
_PER_NOUN = len(ALL_COLOURS) * len(Size)
_ENTRY = 6
"""Numbers that say how a carrier and its load are drawn."""


class Painted(NamedTuple):
    """What the world looks like to the reader."""

    sprites: NDArray[np.uint16]
    """Rows of the atlas × FINE × FINE × 4: sums of four pixels."""
    layouts: NDArray[np.int16]
    """What `drawing.layouts` returns."""
    backgrounds: NDArray[np.uint8]

    def as_pixels(self) -> NDArray[np.float32]:
        """Return the sprites in numbers from 0 to 255."""
        return self.sprites * np.float32(1 / _SHARE)


@cache
def painted() -> Painted:
    """Return the templates, from the cache if it has them."""
    file = cache_folder() / f"mini-templates-{digest()}.npz"
    try:
        with file.open("rb") as opened, np.load(opened) as kept:
            return Painted(kept["sprites"], kept["layouts"], kept["backgrounds"])
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):  # not there, or not whole
        found = _paint()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, suffix=".npz", delete=False) as part:
            np.savez_compressed(part, **found._asdict())
        os.replace(part.name, file)
    except OSError:  # a read-only home: painted again next time
        pass
    return found


def cache_folder() -> Path:
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "interleave"


@cache
def digest() -> str:
    """Return a digest of the code that draws."""
    folder = Path(interleave_mini.world.__path__[0])
    found = sha256(f"{PIL.__version__} {FINE}".encode())
    for file in sorted(folder.rglob("*.py")):
        found.update(file.read_bytes())
    return found.hexdigest()[:16]


def _paint() -> Painted:
    count = max(1, min(_MOST_PROCESSES, os.cpu_count() or 1))
    nouns = [*ALL_NOUNS]
    parts = [nouns[len(nouns) * part // count : len(nouns) * (part + 1) // count] for part in range(count)]
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{part}.npz" for part in range(1, count)]
        started = [_start(part, file) for part, file in zip(parts[1:], files, strict=True)]
        done = [_part(parts[0])]
        done += [_finish(*each) for each in zip(started, files, parts[1:], strict=True)]
    grippers = np.stack([sprite(Gripper(0, holds)) for holds in GRIPPERS])
    nothing = np.zeros((1, FINE, FINE, 4), np.uint16)
    rows = np.concatenate([rows for _, rows in done])
    empty = np.zeros((1, len(RELATIONS), _ENTRY), np.int16)
    return Painted(
        np.concatenate([nothing, *(sprites for sprites, _ in done), _sums(grippers)]),
        np.concatenate([empty, rows, np.repeat(empty, len(GRIPPERS), 0)]).reshape(-1, _ENTRY),
        np.stack([background(name) for name in ALL_BACKGROUNDS]),
    )


def _start(nouns: Sequence[str], file: Path) -> subprocess.Popen[bytes] | None:
    """Paint some nouns in another process, if this one can start it."""
    command = [sys.executable, "-m", __name__, str(file), *nouns]
    try:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except OSError:
        return None


def _finish(
    process: subprocess.Popen[bytes] | None, file: Path, nouns: Sequence[str]
) -> tuple[NDArray[np.uint16], NDArray[np.int16]]:
    """Return what a process has painted; paint it here if it failed."""
    if process is None or process.wait() != 0:
        return _part(nouns)
    with np.load(file) as kept:
        return kept["sprites"], kept["layouts"]


def _part(nouns: Sequence[str]) -> tuple[NDArray[np.uint16], NDArray[np.int16]]:
    """Return the rows of some nouns: their sprites, and how they carry others."""
    sprites = np.concatenate([*map(_sprites, nouns)])
    first = [*ALL_NOUNS].index(nouns[0]) * _PER_NOUN
    layouts = np.zeros((len(sprites), len(RELATIONS), _ENTRY), np.int16)
    for row, thing in enumerate(THINGS[first : first + len(sprites)]):
        for number, relation in enumerate(RELATIONS):
            if thing.size is Size.LARGE and relation.is_possible_with(thing.noun):
                drawn, *numbers = layout(thing, relation)
                layouts[row, number] = ROW_OF[drawn], *numbers
    return sprites, layouts


def _sprites(noun: str) -> NDArray[np.uint16]:
    sizes = np.stack([in_all_colours(noun, size) for size in Size], axis=1)
    return _sums(sizes.reshape(-1, CELL, CELL, 4))


def _sums(sprites: NDArray[np.uint8]) -> NDArray[np.uint16]:
    sums: NDArray[np.uint16] = (reduced(sprites.astype(np.float32), FINE) * _SHARE).astype(np.uint16)
    return sums


if __name__ == "__main__":
    _found = _part(sys.argv[2:])
    np.savez(sys.argv[1], sprites=_found[0], layouts=_found[1])
