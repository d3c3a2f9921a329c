"""How a folder of many runs stands: what its index says, and what only its run folders know.

The index has only what has ended, and may be lost; a run that was killed, or is under way, is told of by its
own folder alone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from interleave.batches.batch import BatchSummary, Ended, read_index
from interleave.errors import RunError
from interleave.runs.record import RunRecord, read_record
from interleave.runs.record_file import is_current, read_stored

log = logging.getLogger(__name__)


@dataclass
class Standing:
    """The runs of a folder, counted."""

    summary: BatchSummary = field(default_factory=BatchSummary)
    """Of those that have ended."""
    running: int = 0
    interrupted: int = 0
    damaged: int = 0

    @property
    def others(self) -> dict[str, int]:
        """Those that have not ended, by how they stand."""
        return {"running": self.running, "interrupted": self.interrupted, "damaged": self.damaged}

    def count(self, ended: Ended) -> None:
        self.summary.total += 1
        self.summary.count(ended, already=True)


def standing_of(folder: Path) -> Standing:
    """Count the runs below a folder; those the index knows are not opened."""
    standing, known = Standing(), set[str]()
    for ended in read_index(folder):
        known.add(ended.folder)
        standing.count(ended)
    for name in _run_folders(folder):
        if name not in known:
            _count_run(standing, folder, name)
    return standing


def _run_folders(folder: Path) -> Iterator[str]:
    return (path.relative_to(folder).as_posix() for path in sorted(folder.glob("runs/*/*")) if path.is_dir())


def _count_run(standing: Standing, folder: Path, name: str) -> None:
    try:
        record = _record_of(folder / name)
    except RunError as error:
        log.warning("%s", error)
        standing.damaged += 1
        return
    match record.status:
        case "running":
            standing.running += 1
        case "interrupted":
            standing.interrupted += 1
        case status:
            standing.count(
                Ended(
                    id=Path(name).name,  # a run does not know its id, and this ends with words of it
                    digest="",
                    folder=name,
                    status=status,
                    reason=record.reason,
                    forced=len(record.forced_steps),
                    calls=record.calls.total,
                    repeated=record.calls.repeated,
                    seconds=record.seconds,
                    generator=record.config.generator.identity,
                )
            )


def _record_of(run: Path) -> RunRecord:
    """A done run hardly ever changes, so its `run.json` will do; for others the journal is read."""
    stored = read_stored(run)
    if stored is not None and stored[0].status == "done" and is_current(stored[0], run):
        return stored[0]
    return read_record(run)
