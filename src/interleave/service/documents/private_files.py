"""Files that only the user of the service may read: jobs, runs, uploads, keys and secrets.

The umask of the process decides about new files, also those of SQLite. Services and workers that share a
folder must therefore run as the same user.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PRIVATE = 0o077
"""Permission bits that files of a service lack."""
FOLDERS = ("runs", "inputs", "files", "thumbnails")


@contextmanager
def private_files() -> Iterator[None]:
    """Create files as 0600 and folders as 0700 meanwhile, in this whole process."""
    before = os.umask(PRIVATE)
    try:
        yield
    finally:
        os.umask(before)


def close_to_others(folder: Path) -> None:
    """Remove the permissions of other users from what an earlier version has left in a service folder.

    The folder itself stays as the operator made it, and so do the files of other programs in it.
    """
    for path in (*folder.glob("*.sqlite*"), *folder.glob("*.secret"), *map(folder.joinpath, FOLDERS)):
        with suppress(OSError):  # it belongs to another user, or is gone
            mode = stat.S_IMODE(path.lstat().st_mode)
            if mode & PRIVATE and not path.is_symlink():
                path.chmod(mode & ~PRIVATE)
