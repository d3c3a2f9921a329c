"""An output that is absent, as it was before, or complete, whenever the process dies or the disk fails.

It is made beside its place under another name and moved there when it is done. What was there before is
deleted only when the new one is on disk at its place: where the system can, the two are swapped in one step,
else the old one is set aside first, and moved back by the next attempt if nothing took its place.

.NAME.making   half made, or no longer needed: cleared by the next attempt
.NAME.old      the complete output of before, set aside: never deleted while nothing is at its place
.NAME.lock     held by the process that makes it
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from interleave.data.file_systems import exchange, sync_file_system
from interleave.errors import ConfigurationError, RunError, StorageError
from interleave.files import make_folder, sync_folder
from interleave.runs.folder import refuse_foreign_folder


@contextmanager
def whole_folder(out: Path, marker: str, *, replace: bool = False) -> Iterator[Path]:
    """A new folder to fill, moved to `out` when the block ends well; a folder with `marker` in it is ours."""
    out = Path(os.path.realpath(out) if out.is_symlink() else os.path.abspath(out))
    place = _Place(out)
    _refuse(out, marker, replace)
    try:
        make_folder(out.parent)
        with _held(out.with_name(f".{out.name}.lock"), out) as lock:
            place.tidy()
            _refuse(out, marker, replace)  # again: perhaps what a crash had set aside is back
            place.making.mkdir()
            new = os.stat(place.making)
            try:
                yield place.making
                sync_file_system(lock)
                place.swap()
            except BaseException:
                with suppress(FileNotFoundError):
                    if os.path.samestat(new, os.stat(place.making)):  # else it is what was there before
                        place.clear()
                raise
            place.settle()
    except OSError as error:
        raise place.cannot_write(error) from error


def _refuse(out: Path, marker: str, replace: bool) -> None:
    refuse_foreign_folder(out, marker=marker)
    if (out / marker).exists() and not replace:
        raise RunError(
            f"{out} is already made: choose another folder with --out, or make it anew with --replace"
        )


@dataclass(frozen=True)
class _Place:
    """Where an output belongs, and the names beside it."""

    out: Path

    @property
    def making(self) -> Path:
        return self.out.with_name(f".{self.out.name}.making")

    @property
    def old(self) -> Path:
        return self.out.with_name(f".{self.out.name}.old")

    def tidy(self) -> None:
        """Put in order what a process that died has left."""
        if not (os.path.lexists(self.making) or os.path.lexists(self.old)):
            return
        self._sync_names()  # as they are now, before anything is deleted
        self.clear()
        if not os.path.lexists(self.old):
            return
        if _is_empty(self.out):
            os.rename(self.old, self.out)
            self._sync_names()
        else:
            self._discard_old()

    def swap(self) -> None:
        """Put the new output in its place; whatever fails, the old one is there or set aside."""
        if _is_empty(self.out):
            os.rename(self.making, self.out)
        elif not exchange(self.making, self.out):
            os.rename(self.out, self.old)
            try:
                os.rename(self.making, self.out)
            except BaseException:
                with suppress(OSError):  # then the next attempt does it
                    os.rename(self.old, self.out)
                raise

    def settle(self) -> None:
        """Delete what was there before, once the new output is on disk under its name."""
        try:
            self._sync_names()
        except OSError as error:
            raise StorageError(
                f"{self.out} is made, but the disk has not confirmed it ({_reason(error)}): mend the disk, "
                "then make it again with --replace"
            ) from error
        with suppress(OSError):  # nothing is lost by it, and the next attempt does it
            if os.path.lexists(self.old):
                self._discard_old()
        self.clear()

    def clear(self) -> None:
        shutil.rmtree(self.making, ignore_errors=True)

    def _sync_names(self) -> None:
        try:
            sync_folder(self.out.parent)
        except StorageError as error:  # whose words are for runs
            raise (error.__cause__ or error) from None

    def _discard_old(self) -> None:
        # Under the other name, so that half of it is never taken for the whole when this is cut short.
        os.rename(self.old, self.making)
        self.clear()

    def cannot_write(self, error: OSError) -> StorageError:
        if not os.path.lexists(self.out) and os.path.lexists(self.old):
            return StorageError(
                f"cannot write {self.out} ({_reason(error)}): what was there before is in {self.old}; mend "
                "the disk, then run the same command again, and it is moved back"
            )
        return _cannot_write(self.out, error)


def _is_empty(folder: Path) -> bool:
    """Whether nothing is at this place, or a folder with nothing in it."""
    return not os.path.lexists(folder) or not any(folder.iterdir())


@contextmanager
def whole_file(out: Path, *, replace: bool = False) -> Iterator[IO[bytes]]:
    """A file to fill, moved to `out` when the block ends well."""
    refuse_folder(out)
    if out.exists() and not replace:
        raise RunError(f"{out} is already there: choose another with --out, or make it anew with --replace")
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        make_folder(out.parent)
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, out)
        sync_folder(out.parent)
    except OSError as error:
        raise _cannot_write(out, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def refuse_folder(out: Path) -> None:
    """Where a file is to be, there must be no folder."""
    if out.is_dir():
        raise ConfigurationError(f"--out {str(out)!r} is a folder: name a file")


def _cannot_write(out: Path, error: OSError) -> StorageError:
    return StorageError(
        f"cannot write {out} ({_reason(error)}), nothing was left behind: make room or mend the disk, "
        "then run the same command again"
    )


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or " ".join(str(error).split())


@contextmanager
def _held(lock: Path, out: Path) -> Iterator[int]:
    """Keep others from making the same output; gives the open lock file."""
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
            yield file
        finally:
            with suppress(OSError):
                os.unlink(lock)
    finally:
        os.close(file)
