"""The status of a batch, from its index and its run folders.

The index has only runs that have ended, and may be lost. A run that was killed or is still running is found
only by its folder.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from interleave.batches.batch import BatchSummary, Ended, read_index
from interleave.errors import RunError
from interleave.runs.record import RunRecord, is_current, read_record, read_stored

log = logging.getLogger(__name__)


@dataclass
class BatchStatus:
    """The runs of a batch, counted by status."""

    summary: BatchSummary = field(default_factory=BatchSummary)
    """The runs that have ended."""
    running: int = 0
    interrupted: int = 0
    damaged: int = 0

    @property
    def others(self) -> dict[str, int]:
        """The runs that have not ended, by status."""
        return {"running": self.running, "interrupted": self.interrupted, "damaged": self.damaged}

    def count(self, ended: Ended) -> None:
        self.summary.total += 1
        self.summary.count(ended, already=True)


def read_batch_status(folder: Path) -> BatchStatus:
    """Count the runs below a folder; runs in the index are not opened."""
    batch, known = BatchStatus(), set[str]()
    for ended in read_index(folder):
        known.add(ended.folder)
        batch.count(ended)
    for name in _run_folders(folder):
        if name not in known:
            _count_run(batch, folder, name)
    return batch


def _run_folders(folder: Path) -> Iterator[str]:
    return (path.relative_to(folder).as_posix() for path in sorted(folder.glob("runs/*/*")) if path.is_dir())


def _count_run(batch: BatchStatus, folder: Path, name: str) -> None:
    try:
        record = _record_of(folder / name)
    except RunError as error:
        log.warning("%s", error)
        batch.damaged += 1
        return
    match record.status:
        case "running":
            batch.running += 1
        case "interrupted" | "held":
            batch.interrupted += 1
        case status:
            # A run does not store its id; its folder name has a slug of it.
            batch.count(Ended.of(record, status, id=Path(name).name, digest="", folder=name))


def _record_of(run: Path) -> RunRecord:
    """Return the record of a run: from `run.json` if it is done and unchanged, else from the journal."""
    stored = read_stored(run)
    if stored is not None and stored[0].status == "done" and is_current(stored[0], run):
        return stored[0]
    return read_record(run)
