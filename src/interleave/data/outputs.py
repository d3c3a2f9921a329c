"""An output that is absent, as it was before, or complete, whenever the process dies or the disk fails.

It is made beside its place under another name and moved there when it is done. What was there before is
deleted only when the new one is on disk at its place: where the system can, the two are swapped in one step,
else the old one is set aside first, and moved back by the next attempt if nothing took its place.

.NAME.making   half made, or no longer needed: cleared by the next attempt
.NAME.old      the complete output of before, set aside: never deleted while nothing is at its place
.NAME.lock     held by the process that makes it


Two calls to the operating system that Python has no function for, and what to do where it lacks them."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

from interleave.errors import ConfigurationError, RunError, StorageError
from interleave.runs.folder import refuse_foreign_folder
from interleave.runs.store import make_folder, sync_folder

_IN_WORKING_DIRECTORY = -100
_EXCHANGE = 2
_NOT_OFFERED = {errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM}
"""An old kernel, a file system without it, or a sandbox that does not know the call."""


@contextmanager
def atomic_folder(out: Path, marker: str, *, replace: bool = False) -> Iterator[Path]:
    """A new folder to fill, moved to `out` when the block ends well; a folder with `marker` in it is ours."""
    out = Path(os.path.realpath(out) if out.is_symlink() else os.path.abspath(out))
    paths = _OutputPaths(out)
    _refuse_existing(out, marker, replace)
    try:
        make_folder(out.parent)
        with _exclusive_lock(out.with_name(f".{out.name}.lock"), out) as lock:
            paths.recover()
            _refuse_existing(out, marker, replace)  # again: perhaps what a crash had set aside is back
            paths.staging.mkdir()
            new = os.stat(paths.staging)
            try:
                yield paths.staging
                sync_file_system(lock)
                paths.publish()
            except BaseException:
                with suppress(FileNotFoundError):
                    if os.path.samestat(new, os.stat(paths.staging)):  # else it is what was there before
                        paths.remove_staging()
                raise
            paths.finish()
    except OSError as error:
        raise paths.cannot_write(error) from error


def _refuse_existing(out: Path, marker: str, replace: bool) -> None:
    refuse_foreign_folder(out, marker=marker)
    if (out / marker).exists() and not replace:
        raise RunError(
            f"{out} is already made: choose another folder with --out, or make it anew with --replace"
        )


@dataclass(frozen=True)
class _OutputPaths:
    """Where an output belongs, and the names beside it."""

    out: Path

    @property
    def staging(self) -> Path:
        return self.out.with_name(f".{self.out.name}.making")

    @property
    def old(self) -> Path:
        return self.out.with_name(f".{self.out.name}.old")

    def recover(self) -> None:
        """Put in order what a process that died has left."""
        if not (os.path.lexists(self.staging) or os.path.lexists(self.old)):
            return
        self._sync_names()  # as they are now, before anything is deleted
        self.remove_staging()
        if not os.path.lexists(self.old):
            return
        if _is_empty(self.out):
            os.rename(self.old, self.out)
            self._sync_names()
        else:
            self._discard_old()

    def publish(self) -> None:
        """Put the new output in its place; whatever fails, the old one is there or set aside."""
        if _is_empty(self.out):
            os.rename(self.staging, self.out)
        elif not exchange(self.staging, self.out):
            os.rename(self.out, self.old)
            try:
                os.rename(self.staging, self.out)
            except BaseException:
                with suppress(OSError):  # then the next attempt does it
                    os.rename(self.old, self.out)
                raise

    def finish(self) -> None:
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
        self.remove_staging()

    def remove_staging(self) -> None:
        shutil.rmtree(self.staging, ignore_errors=True)

    def _sync_names(self) -> None:
        try:
            sync_folder(self.out.parent)
        except StorageError as error:  # whose words are for runs
            raise (error.__cause__ or error) from None

    def _discard_old(self) -> None:
        # Under the other name, so that half of it is never taken for the whole when this is cut short.
        os.rename(self.old, self.staging)
        self.remove_staging()

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
def atomic_file(out: Path, *, replace: bool = False) -> Iterator[IO[bytes]]:
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
def _exclusive_lock(lock: Path, out: Path) -> Iterator[int]:
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


def exchange(one: Path, other: Path) -> bool:
    """Swap what two names stand for in one step; False where that is not offered, and nothing has changed."""
    rename = _function("renameat2")
    if rename is None:
        return False
    names = os.fsencode(one), os.fsencode(other)
    if rename(_IN_WORKING_DIRECTORY, names[0], _IN_WORKING_DIRECTORY, names[1], _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NOT_OFFERED:
        return False
    raise OSError(number, os.strerror(number), str(one))


def sync_file_system(handle: int) -> None:
    """Put everything on the file system of an open file on disk, in one call for very many files.

    Raises `OSError` when anything could not be written since the file was opened; `os.sync`, which is used
    where this is not offered, cannot tell.
    """
    sync = _function("syncfs")
    if sync is None:
        os.sync()
    elif sync(handle) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@cache
def _function(name: str) -> Any:
    return getattr(ctypes.CDLL(None, use_errno=True), name, None)
