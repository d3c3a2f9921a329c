"""Atomic outputs: absent, unchanged or complete, even if the process dies or the disk fails.

An output is written under a temporary name and renamed when complete. The previous output is deleted only
after the new one is on disk under its name. If the system has renameat2, the two are exchanged in one step.
Otherwise the previous one is renamed first, and the next attempt restores it if nothing replaced it.

.NAME.making   incomplete or no longer needed: removed by the next attempt
.NAME.old      the previous output, complete: never deleted while nothing has its name
.NAME.lock     locked by the process that writes the output
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

from interleave import ConfigurationError, RunError, StorageError
from interleave.plugin import files, locks, make_folder, runs

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM}
"""Errors from an old kernel, a file system without the call, or a sandbox that blocks it."""


@contextmanager
def atomic_folder(out: Path, marker: str, *, replace: bool = False) -> Iterator[Path]:
    """Yield a new folder, renamed to `out` on success; an existing folder must contain `marker`."""
    out = Path(os.path.realpath(out) if out.is_symlink() else os.path.abspath(out))
    paths = _OutputPaths(out)
    _refuse_existing(out, marker, replace)
    try:
        make_folder(out.parent)
        with _exclusive_lock(out.with_name(f".{out.name}.lock"), out) as handle:
            paths.recover()
            _refuse_existing(out, marker, replace)  # again: recovery may have restored an output
            paths.staging.mkdir()
            new = os.stat(paths.staging)
            try:
                yield paths.staging
                sync_file_system(handle)
                paths.publish()
            except BaseException:
                with suppress(FileNotFoundError):
                    if os.path.samestat(new, os.stat(paths.staging)):  # else it is the old output
                        paths.remove_staging()
                raise
            paths.finish()
    except OSError as error:
        raise paths.cannot_write(error) from error


def _refuse_existing(out: Path, marker: str, replace: bool) -> None:
    runs.refuse_foreign_folder(out, marker=marker)
    if (out / marker).exists() and not replace:
        raise RunError(
            f"{out} already exists: choose another folder with --out, or replace it with --replace"
        )


@dataclass(frozen=True)
class _OutputPaths:
    """Path of an output, and its temporary paths."""

    out: Path

    @property
    def staging(self) -> Path:
        return self.out.with_name(f".{self.out.name}.making")

    @property
    def old(self) -> Path:
        return self.out.with_name(f".{self.out.name}.old")

    def recover(self) -> None:
        """Clean up after a process that died."""
        if not (os.path.lexists(self.staging) or os.path.lexists(self.old)):
            return
        self._sync_names()  # persist the current names before anything is deleted
        self.remove_staging()
        if not os.path.lexists(self.old):
            return
        if _is_empty(self.out):
            os.rename(self.old, self.out)
            self._sync_names()
        else:
            self._discard_old()

    def publish(self) -> None:
        """Rename the new output; on any failure, the old one still exists under its name or `.old`."""
        if _is_empty(self.out):
            os.rename(self.staging, self.out)
        elif not exchange(self.staging, self.out):
            os.rename(self.out, self.old)
            try:
                os.rename(self.staging, self.out)
            except BaseException:
                with suppress(OSError):  # the next attempt restores it
                    os.rename(self.old, self.out)
                raise

    def finish(self) -> None:
        """Delete the previous output after the new one is on disk under its name."""
        try:
            self._sync_names()
        except OSError as error:
            raise StorageError(
                f"{self.out} was written, but the disk has not confirmed it ({_reason(error)}): fix the "
                "disk, then run the command again with --replace"
            ) from error
        with suppress(OSError):  # the next attempt deletes it
            if os.path.lexists(self.old):
                self._discard_old()
        self.remove_staging()

    def remove_staging(self) -> None:
        shutil.rmtree(self.staging, ignore_errors=True)

    def _sync_names(self) -> None:
        try:
            files.sync_folder(self.out.parent)
        except StorageError as error:  # its message is written for runs
            raise (error.__cause__ or error) from None

    def _discard_old(self) -> None:
        # Renamed first, so that an interrupted deletion never leaves half an output under the name `.old`.
        os.rename(self.old, self.staging)
        self.remove_staging()

    def cannot_write(self, error: OSError) -> StorageError:
        if not os.path.lexists(self.out) and os.path.lexists(self.old):
            return StorageError(
                f"cannot write {self.out} ({_reason(error)}): its previous content is in {self.old}. Fix "
                "the disk, then run the same command again, which moves it back"
            )
        return _cannot_write(self.out, error)


def _is_empty(folder: Path) -> bool:
    """Return whether this path is missing or an empty folder."""
    return not os.path.lexists(folder) or not any(folder.iterdir())


@contextmanager
def atomic_file(out: Path, *, replace: bool = False) -> Iterator[IO[bytes]]:
    """Yield an open file, renamed to `out` if the block succeeds."""
    refuse_folder(out)
    if out.exists() and not replace:
        raise RunError(f"{out} already exists: choose another file with --out, or replace it with --replace")
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        make_folder(out.parent)
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            files.sync_file(file.fileno())
        os.replace(temporary, out)
        files.sync_folder(out.parent)
    except OSError as error:
        raise _cannot_write(out, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def refuse_folder(out: Path) -> None:
    """Raise `ConfigurationError` if the path of an output file is a folder."""
    if out.is_dir():
        raise ConfigurationError(f"--out {str(out)!r} is a folder: name a file")


def _cannot_write(out: Path, error: OSError) -> StorageError:
    return StorageError(
        f"cannot write {out} ({_reason(error)}); no partial output is left. Free space or fix the disk, "
        "then run the same command again"
    )


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or " ".join(str(error).split())


@contextmanager
def _exclusive_lock(path: Path, out: Path) -> Iterator[int]:
    """Lock an output against other writers; yields the descriptor of the lock file."""
    file = locks.open_lock_file(path)
    try:
        try:
            locks.lock(file)
            is_ours = os.path.samestat(os.fstat(file), os.stat(path))  # not one that was just deleted
        except (BlockingIOError, FileNotFoundError):
            is_ours = False
        if not is_ours:
            raise RunError(
                f"another process is writing {out}: wait for it, or choose another folder with --out"
            )
        try:
            yield file
        finally:
            with suppress(OSError):
                os.unlink(path)
    finally:
        os.close(file)


def exchange(one: Path, other: Path) -> bool:
    """Exchange two paths in one step; return False, with nothing changed, if that is not supported."""
    rename = _function("renameat2")
    if rename is None:
        return False
    names = os.fsencode(one), os.fsencode(other)
    if rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number), str(one))


def sync_file_system(handle: int) -> None:
    """Sync the whole file system of an open file: one call instead of one per file.

    Raises `OSError` if any write since the file was opened has failed. The fallback `os.sync` cannot report
    that.
    """
    sync = _function("syncfs")
    if sync is None:
        os.sync()
        files.sync_file(handle)  # sync may return before the drive has all data
    elif sync(handle) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@cache
def _function(name: str) -> Any:
    return getattr(ctypes.CDLL(None, use_errno=True), name, None)
