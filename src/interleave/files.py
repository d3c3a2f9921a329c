"""Reading files that users name: only regular files are opened, and none is read without a bound.

A path may name a pipe, a device, a folder, or a file of terabytes. Each is refused at once with an `OSError`
whose `strerror` says why, so that callers report them like any file that cannot be read.
"""

from __future__ import annotations

import errno
import os
import stat
import tomllib
from collections.abc import Iterator
from io import BufferedReader
from itertools import count
from typing import Any

SETTINGS_BYTES = 4_000_000
"""Enough for any file written by hand: a profile, a plan, a list of addresses."""

FilePath = str | os.PathLike[str]


def open_regular(path: FilePath, *, most_bytes: int) -> BufferedReader:
    """Open a regular file for reading; raises `OSError` for anything else, or for a larger file."""
    try:
        # O_NONBLOCK: a named pipe must be refused, not waited for.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except ValueError as error:  # a NUL, or text that cannot be a path
        raise OSError(errno.EINVAL, str(error)) from None
    try:
        _refuse_irregular(os.fstat(handle), most_bytes)
        return open(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_bytes(path: FilePath, *, most_bytes: int) -> bytes:
    """The bytes of a file; raises `OSError` where it cannot be read, or is larger."""
    with open_regular(path, most_bytes=most_bytes) as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:  # it grew, or its size was reported as 0
        raise _too_large(len(data), most_bytes)
    return data


def read_text(path: FilePath, *, most_bytes: int = SETTINGS_BYTES) -> str:
    """The text of a file in UTF-8, with or without a byte order mark; raises `OSError` or `UnicodeError`."""
    text = read_bytes(path, most_bytes=most_bytes).decode("utf-8-sig")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text; raises only `TOMLDecodeError`."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise tomllib.TOMLDecodeError("it is nested too deeply") from None
    except ValueError as error:  # also a number with more digits than Python parses
        raise tomllib.TOMLDecodeError(str(error)) from None


def read_lines(path: FilePath, *, most_bytes: int, most_in_a_line: int) -> Iterator[tuple[int, int, bytes]]:
    """Number, offset and bytes of every line that is not blank; a longer line is cut just past the bound."""
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
    """The reason why a file cannot be read, without the error number and the path."""
    return getattr(error, "strerror", None) or str(error)


def _refuse_irregular(status: os.stat_result, most_bytes: int) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder, not a file")
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    if status.st_size > most_bytes:
        raise _too_large(status.st_size, most_bytes)


def _too_large(size: int, most_bytes: int) -> OSError:
    return OSError(errno.EFBIG, f"{size:,} bytes is more than the {most_bytes:,} allowed")
