"""An output that is absent, as it was before, or complete, whenever the process dies.

It is made beside its place under another name and moved there when it is done. A folder that a process left
half made is cleared by the next one that makes the same.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from interleave.errors import ConfigurationError, RunError, StorageError
from interleave.runs.folder import refuse_foreign_folder
from interleave.runs.store import sync_folder


@contextmanager
def whole_folder(out: Path, marker: str, *, replace: bool = False) -> Iterator[Path]:
    """A new folder to fill, moved to `out` when the block ends well; a folder with `marker` in it is ours."""
    out = Path(os.path.abspath(out))
    refuse_foreign_folder(out, marker=marker)
    if (out / marker).exists() and not replace:
        raise RunError(
            f"{out} is already made: choose another folder with --out, or make it anew with --replace"
        )
    making, old = (out.with_name(f".{out.name}.{state}") for state in ("making", "old"))
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with _held(out.with_name(f".{out.name}.lock"), out):
            shutil.rmtree(making, ignore_errors=True)
            making.mkdir()
            try:
                yield making
                _move(making, out, old)
            finally:
                shutil.rmtree(making, ignore_errors=True)
                shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise _cannot_write(out, error) from error


@contextmanager
def whole_file(out: Path, *, replace: bool = False) -> Iterator[IO[bytes]]:
    """A file to fill, moved to `out` when the block ends well."""
    refuse_folder(out)
    if out.exists() and not replace:
        raise RunError(f"{out} is already there: choose another with --out, or make it anew with --replace")
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, out)
        sync_folder(out.parent)
    except OSError as error:
        raise _cannot_write(out, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def refuse_folder(out: Path) -> None:
    """Where a file is to be, there must be no folder."""
    if out.is_dir():
        raise ConfigurationError(f"--out {str(out)!r} is a folder: name a file")


def _cannot_write(out: Path, error: OSError) -> StorageError:
    reason = error.strerror or " ".join(str(error).split())
    return StorageError(
        f"cannot write {out} ({reason}), nothing was left behind: make room or mend the disk, "
        "then run the same command again"
    )


def _move(making: Path, out: Path, old: Path) -> None:
    os.sync()  # one call for all files, of which there may be very many
    shutil.rmtree(old, ignore_errors=True)
    if out.exists():
        os.replace(out, old)
    os.replace(making, out)
    sync_folder(out.parent)


@contextmanager
def _held(lock: Path, out: Path) -> Iterator[None]:
    file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_ours = os.path.samestat(os.fstat(file), os.stat(lock))  # not one that was just thrown away
        except (BlockingIOError, FileNotFoundError):
            is_ours = False
        if not is_ours:
            raise RunError(
                f"another process is making {out}: wait for it, or choose another folder with --out"
            )
        try:
            yield
        finally:
            with suppress(OSError):
                os.unlink(lock)
    finally:
        os.close(file)
