"""Two calls to the operating system that Python has no function for, and what to do where it lacks them."""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache
from pathlib import Path
from typing import Any

_IN_WORKING_DIRECTORY = -100
_EXCHANGE = 2
_NOT_OFFERED = {errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM}
"""An old kernel, a file system without it, or a sandbox that does not know the call."""


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
