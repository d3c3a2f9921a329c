"""Documents that were deleted in the library, and can be restored for a week.

ROOT/trash/ID  an empty file; its time is that of the deletion
"""

from __future__ import annotations

import time
from pathlib import Path

from interleave.plugin import make_folder, write_atomic
from interleave.service.documents.jobs import is_job_id

FOLDER = "trash"
KEEP_SECONDS = 7 * 86_400.0


class Trash:
    """The deleted documents of a service folder."""

    def __init__(self, root: Path) -> None:
        self.folder = root / FOLDER

    def has(self, id_: str) -> bool:
        return (self.folder / id_).exists()

    def put(self, id_: str) -> None:
        make_folder(self.folder)
        write_atomic(self.folder / id_, b"")

    def take_back(self, id_: str) -> None:
        (self.folder / id_).unlink(missing_ok=True)

    def expired(self) -> list[str]:
        """Return the documents that are to be removed for good."""
        if not self.folder.is_dir():
            return []
        before = time.time() - KEEP_SECONDS
        found = [path for path in self.folder.iterdir() if is_job_id(path.name)]
        return [path.name for path in found if path.stat().st_mtime < before]
