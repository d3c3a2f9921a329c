"""`run.json`: the record of a run as a file, and whether it is up to date with the journal.

The journal is the source of truth, but folding it takes ten times as long as reading this file. A process
that ends writes its record after its journal is on disk; one that is killed leaves the record before it.
"""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import ValidationError

from interleave.errors import RunError
from interleave.files import read_from, write_atomic
from interleave.runs.digest_chain import last_digest
from interleave.runs.journal import Ended, Status
from interleave.runs.journal_files import journal_path
from interleave.runs.record import RunRecord

RECORD_NAME = "run.json"
SEAL_BYTES, LINE_BYTES = 64, 65_536
"""How much of the end of a journal is read for the digest of its last line, and for the whole line."""


def write_stored(folder: Path, record: RunRecord) -> None:
    """Write `run.json`, whole or not at all."""
    write_atomic(folder / RECORD_NAME, record.model_dump_json(indent=1).encode() + b"\n")


def read_stored(folder: Path) -> tuple[RunRecord, bytes] | None:
    """The record in `run.json`, and its bytes; None where it cannot be read. It may be out of date."""
    try:
        data = read_from(folder / RECORD_NAME)
        return RunRecord.model_validate_json(data), data
    except (OSError, ValidationError):
        return None


def is_current(record: RunRecord, folder: Path) -> bool:
    """Whether a stored record is up to date: nothing was appended to the journal or lost from it since.

    Only the end of the journal is read.
    """
    path = journal_path(folder)
    try:
        end = _end_of(path, SEAL_BYTES if record.journal.digest else LINE_BYTES)
    except FileNotFoundError:
        return True  # the record is all there is
    except OSError as error:
        raise RunError(f"{path} cannot be read ({error.strerror})") from None
    digest = last_digest(end).decode()
    if record.journal.digest or digest:
        return record.journal.digest == digest
    return _ends_with(end, record.status)


def _end_of(path: Path, size: int) -> bytes:
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # half the cost of open(), for each run
    try:
        return os.pread(file, size, max(0, os.fstat(file).st_size - size))
    finally:
        os.close(file)


def _ends_with(end: bytes, status: Status) -> bool:
    """Whether the last line of a journal without digests records this end."""
    try:
        last = Ended.model_validate_json(end[end[:-1].rfind(b"\n") + 1 :])
    except ValidationError:
        return False
    return last.status == status


def lost_lines(record: RunRecord, folder: Path) -> str | None:
    """A warning where `run.json` was made from more lines than the journal has: no crash can cause that."""
    stored = read_stored(folder)
    if stored is None or stored[0].journal.lines <= record.journal.lines:
        return None
    return (
        f"{journal_path(folder)} has lost its end: it has {record.journal.lines} lines, and {RECORD_NAME} "
        f"was made from {stored[0].journal.lines}: restore it from a copy, or resume the run to make the "
        "rest again"
    )
