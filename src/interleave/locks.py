"""Locks on files and folders. The system releases them when a process ends, even after a crash."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from interleave.errors import ConfigurationError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

File = int | IO[Any]


def has_locks() -> bool:
    """Return whether the platform can lock files."""
    return fcntl is not None


def require_locks() -> None:
    """Raise `ConfigurationError` if the platform has no locks. Call this before loading models."""
    if not has_locks():
        raise ConfigurationError(
            "interleave runs on Linux and macOS: it locks run folders with fcntl, which this platform lacks. "
            "On Windows, install and run it inside WSL"
        )


def open_lock_file(path: Path) -> int:
    """Open a lock file, creating it if it is missing."""
    require_locks()
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)


def lock(file: File, *, wait: bool = False) -> None:
    """Lock a file. Raises `BlockingIOError` if another process holds it and `wait` is false.

    Raises another `OSError` if the file system has no locks.
    """
    require_locks()
    fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def unlock(file: File) -> None:
    """Release a lock immediately, even if a child being forked holds a copy of the file descriptor."""
    with suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_UN)


def is_locked(path: Path) -> bool:
    """Return whether a process holds a lock on a file. Always false without locks, which writers require."""
    if fcntl is None:
        return False
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(file)
    return False
