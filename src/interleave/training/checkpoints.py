"""Checkpoints that are whole or named as broken.

A checkpoint is a folder `checkpoint-N` as the trainer writes it. When all its files are there they are
sealed: `whole.json`, written last, has the size and digest of each. What has no seal was cut off by a crash,
and is passed over; what does not agree with its seal is refused by name, and an older one is taken only if
asked for. Old ones are removed only after the new one is sealed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from interleave.errors import ConfigurationError, StorageError
from interleave.files import sync_folder, write_atomic
from interleave.types import Value

SEAL = "whole.json"
_FOLDER = re.compile(r"checkpoint-(\d+)\Z")
_OUT_OF_ROOM = (
    "No space left",
    "File too large",
    "Disk quota",
    "failed writing file",
    "PytorchStreamWriter",
    "unexpected pos",
)


class SealedFile(Value):
    size: int
    sha256: str


class Seal(Value):
    """What a whole checkpoint consists of."""

    step: int
    processes: int
    """How many processes trained it: with another number, data would come in another order."""
    files: dict[str, SealedFile]


def seal(folder: Path, *, step: int, processes: int) -> None:
    """Declare a checkpoint whole: every file is on disk, and known by its digest."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SEAL)
    with ThreadPoolExecutor(4) as pool:
        sealed = list(pool.map(_sealed, paths))
    files = {str(path.relative_to(folder)): each for path, each in zip(paths, sealed, strict=True)}
    for inner in {path.parent for path in paths}:
        sync_folder(inner)
    whole = Seal(step=step, processes=processes, files=files)
    write_atomic(folder / SEAL, whole.model_dump_json(indent=1).encode())


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in a folder, sealed or not, oldest first."""
    if not folder.is_dir():
        return []
    found = [(int(match[1]), path) for path in folder.iterdir() if (match := _FOLDER.match(path.name))]
    return [path for _, path in sorted(found) if path.is_dir()]


def half_written(folder: Path) -> list[Path]:
    """Checkpoints that a crash cut off."""
    return [path for path in checkpoints(folder) if not (path / SEAL).is_file()]


def latest(folder: Path, *, fall_back: bool = False) -> Path | None:
    """The last sealed checkpoint, if it is still what was sealed; an older good one if asked to fall back."""
    for path in reversed([each for each in checkpoints(folder) if (each / SEAL).is_file()]):
        try:
            verify(path)
        except ConfigurationError as error:
            if fall_back:
                continue
            raise ConfigurationError(f"{error}. To go on from an older checkpoint add --fall-back") from None
        return path
    return None


def verify(folder: Path) -> Seal:
    """The seal of a checkpoint, when every file agrees with it."""
    whole = read_seal(folder)
    for name, expected in whole.files.items():
        path = folder / name
        if not path.is_file():
            raise ConfigurationError(f"the checkpoint is broken: {path} is missing")
        size = path.stat().st_size
        if size != expected.size:
            raise ConfigurationError(
                f"the checkpoint is broken: {path} has {size:,} bytes, not {expected.size:,}"
            )
        if _digest(path) != expected.sha256:
            raise ConfigurationError(f"the checkpoint is broken: {path} is not the file that was saved")
    return whole


def read_seal(folder: Path) -> Seal:
    """The seal as it is written, unchecked."""
    path = folder / SEAL
    try:
        return Seal.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read ({error.strerror}): no whole checkpoint") from None
    except ValidationError:
        raise ConfigurationError(f"{path} is not the seal of a checkpoint") from None


def prune(folder: Path, keep: int) -> None:
    """Remove all but the last sealed checkpoints, and what a crash left half."""
    whole = [path for path in checkpoints(folder) if (path / SEAL).is_file()]
    for path in [*whole[:-keep], *half_written(folder)]:
        (path / SEAL).unlink(missing_ok=True)  # from here on it is no checkpoint
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def storing(folder: Path) -> Iterator[None]:
    """A disk that fails while a checkpoint is written ends the run clearly; the half of it is removed."""
    try:
        yield
    except Exception as error:
        if not _is_of_the_disk(error):
            raise
        shutil.rmtree(folder, ignore_errors=True)
        reason = getattr(error, "strerror", None) or str(error).strip().splitlines()[0][:160]
        raise StorageError(
            f"cannot write the checkpoint {folder} ({reason}). The one before it is whole: make room, "
            "then give the same command again"
        ) from error


def _is_of_the_disk(error: Exception) -> bool:
    """Whether it was the disk; safetensors and torch have their own words for it."""
    if isinstance(error, OSError | StorageError):
        return True
    return any(words in str(error) for words in _OUT_OF_ROOM)


def _sealed(path: Path) -> SealedFile:
    digest = _digest(path)
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    return SealedFile(size=path.stat().st_size, sha256=digest)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def same_model(checkpoint: Path, model: Path) -> None:
    """Refuse a checkpoint of another model, by their config.json; an adapter has none of its own."""
    mine, theirs = checkpoint / "config.json", model / "config.json"
    if not mine.is_file():
        return
    one, other = _shapes(mine), _shapes(theirs)
    if one != other:
        differing = sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key))
        raise ConfigurationError(
            f"{checkpoint} is a checkpoint of another model than {model}: they differ in {differing[0]!r}"
        )


def _shapes(path: Path) -> dict[str, Any]:
    """What decides the shapes of a model's tensors."""
    config = json.loads(path.read_text("utf-8"))
    sizes = re.compile(r"size|layers|heads|depth|dim|vocab|model_type|architectures")
    flat = {
        f"{part}.{key}" if part else key: value
        for part, values in (
            ("", config),
            *((p, config.get(p) or {}) for p in ("text_config", "vision_config")),
        )
        for key, value in values.items()
    }
    return {
        key: value for key, value in flat.items() if sizes.search(key) and isinstance(value, int | str | list)
    }
