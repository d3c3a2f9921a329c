"""Read files that users name, and write files that survive a crash.

A path from a user may name a pipe, a device, a folder, or a file of terabytes. Each is refused with an
`OSError` whose `strerror` gives the reason, so that callers report it like any unreadable file. All reads are
bounded. Writes are atomic: after a crash a file is unchanged or complete.
"""

from __future__ import annotations

import errno
import functools
import operator
import os
import secrets
import stat
import sys
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from io import BufferedReader
from itertools import count
from pathlib import Path
from typing import Any

from interleave.errors import StorageError

SETTINGS_BYTES = 4_000_000
"""Maximum size of a file written by hand: a profile, a plan, a list of addresses."""

FilePath = str | os.PathLike[str]


STANDARD_INPUT: dict[str, str] = {}
"""The file that standard input was copied to, for "-", if a command reads it."""


def open_regular(path: FilePath, *, most_bytes: int) -> BufferedReader:
    """Open a regular file for reading. Raises `OSError` for anything else or for a larger file."""
    try:
        # O_NONBLOCK: refuse a named pipe instead of waiting for it.
        path = STANDARD_INPUT.get(str(path), path)
        handle = os.open(path, os.O_RDONLY | _flags("O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC"))
    except ValueError as error:  # a NUL, or text that cannot be a path
        raise OSError(errno.EINVAL, str(error)) from None
    try:
        _refuse_irregular(os.fstat(handle), most_bytes)
        return open(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_bytes(path: FilePath, *, most_bytes: int) -> bytes:
    """Return the bytes of a file. Raises `OSError` if it cannot be read or is larger."""
    with open_regular(path, most_bytes=most_bytes) as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:  # it grew, or its size was reported as 0
        raise _too_large(len(data), most_bytes)
    return data


def read_text(path: FilePath, *, most_bytes: int = SETTINGS_BYTES) -> str:
    """Return the text of a UTF-8 file, without its byte order mark. Raises `OSError` or `UnicodeError`."""
    text = read_bytes(path, most_bytes=most_bytes).decode("utf-8-sig")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML. Raises only `TOMLDecodeError`."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise tomllib.TOMLDecodeError("it is nested too deeply") from None
    except ValueError as error:  # also a number with more digits than Python parses
        raise tomllib.TOMLDecodeError(str(error)) from None


def read_lines(path: FilePath, *, most_bytes: int, most_in_a_line: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield number, offset and bytes of every non-blank line. Longer lines are cut just past the bound."""
    with open_regular(path, most_bytes=most_bytes) as file:
        offset = 0
        for number in count(1):
            line = file.readline(most_in_a_line + 1)
            if not line:
                return
            size, rest = len(line), line
            while len(rest) > most_in_a_line and not rest.endswith(b"\n"):
                rest = file.readline(most_in_a_line + 1)
                size += len(rest)
            if offset + size > most_bytes:  # it grew while it was read
                raise _too_large(offset + size, most_bytes)
            if line.strip():
                yield number, offset, line
            offset += size


def why(error: Exception) -> str:
    """Return why a file cannot be read, without the error number and the path."""
    return getattr(error, "strerror", None) or str(error)


def _flags(*names: str) -> int:
    """Return those of the `os.open` flags that the platform has. Windows has few."""
    return functools.reduce(operator.or_, (getattr(os, name, 0) for name in names))


def _refuse_irregular(status: os.stat_result, most_bytes: int) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder, not a file")
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    if status.st_size > most_bytes:
        raise _too_large(status.st_size, most_bytes)


def _too_large(size: int, most_bytes: int) -> OSError:
    return OSError(errno.EFBIG, f"{size:,} bytes is more than the {most_bytes:,} allowed")


def remove_temporaries_of(folder: Path, name: str = "*") -> None:
    """Remove the temporary files of one file. The caller must be the only writer of that file."""
    for leftover in folder.glob(f".{name}.*.tmp"):
        with suppress(OSError):  # a leftover does no harm
            leftover.unlink()


def write_atomic(path: Path, data: bytes, *, private: bool = False) -> None:
    """Write and sync a file. After a crash it is absent, unchanged or complete.

    Only its user may read a `private` file.
    """
    # several machines may write the same file concurrently, with equal process ids
    temporary = f"{path.parent}/.{path.name}.{secrets.token_hex(6)}.tmp"
    try:
        write_new(temporary, data, private=private)
        os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise StorageError.at(path, error) from error
        raise
    sync_folder(path.parent)


def write_new(path: str, data: bytes, *, private: bool = False) -> None:
    """Write and sync a file, but not its name in the folder."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _flags("O_CLOEXEC", "O_NOFOLLOW", "O_BINARY")
    file = os.open(path, flags, 0o600 if private else 0o644)
    try:
        written = 0
        while written < len(data):
            written += os.write(file, data[written:])
        sync_file(file)
    finally:
        os.close(file)


def make_folder(folder: Path) -> None:
    """Make a folder and its parents. Each name is synced before anything is written into the folder."""
    try:
        folder.mkdir()
    except FileNotFoundError:
        if folder.parent == folder:  # the working directory itself is gone
            raise
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
    except OSError:
        if folder.is_dir():
            return
        raise
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Sync the names in a folder to disk."""
    if not hasattr(os, "O_DIRECTORY"):
        return  # Windows cannot open a folder
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        return  # a folder that can be written but not read cannot be synced
    except OSError as error:
        raise StorageError.at(folder, error) from error
    try:
        sync_file(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that cannot sync folders
            raise StorageError.at(folder, error) from error
    finally:
        os.close(handle)


def sync_file(file: int, *, only_data: bool = False) -> None:
    """Sync an open file to disk. `only_data` skips its times, which is faster."""
    if sys.platform == "darwin":  # fsync stops at the drive's cache, and there is no fdatasync
        import fcntl

        try:
            fcntl.fcntl(file, fcntl.F_FULLFSYNC)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
                raise  # the disk failed: a second sync may succeed although data is lost
    if only_data and hasattr(os, "fdatasync"):
        os.fdatasync(file)
    else:
        os.fsync(file)


def allow_open_files(wanted: int) -> int:
    """Raise the limit of open files, often 256 or 1,024, as far as the system allows. Returns it."""
    import resource  # not on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    asked = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    while soft != resource.RLIM_INFINITY and soft < asked:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (asked, hard))
            return asked
        except (OSError, ValueError):  # macOS reports no limit but allows less
            asked //= 2
    return wanted if soft == resource.RLIM_INFINITY else soft


def has_link_below(folder: Path, path: Path) -> bool:
    """Return whether `path`, or a folder between it and `folder`, is a symbolic link."""
    between = [path, *path.parents]
    return any(each.is_symlink() for each in between[: between.index(folder)])


def open_below(folder: Path, *names: str) -> int:
    """Open a regular file in a subfolder of `folder` for reading, following no link below `folder`.

    Raises `OSError` for a link, a folder or a pipe.
    """
    flags = os.O_RDONLY | _flags("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")
    if os.open not in os.supports_dir_fd:  # Windows
        paths = [folder.joinpath(*names[: number + 1]) for number in range(len(names))]
        if any(path.is_symlink() for path in paths):
            raise OSError(errno.ELOOP, "it is a link")
        return os.open(paths[-1], flags)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for number, name in enumerate(names):
        last = number == len(names) - 1
        try:
            inner = os.open(name, flags if last else flags | os.O_DIRECTORY, dir_fd=handle)
        finally:
            os.close(handle)
        handle = inner
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a regular file")
    return handle


def read_from(path: Path, start: int = 0) -> bytes:
    """Return the bytes of a regular file from an offset on. A pipe may never end, so it is refused."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "not a file")
    with open(path, "rb") as file:
        file.seek(start)
        return file.read()
