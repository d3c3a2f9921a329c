"""Which file of a run folder is its journal, when one process takes a run over from another.

A process that was paused may wake up after another one has taken over its run, and go on writing. A lock does
not help: the paused process still holds it. So every lease of a run has a number, its fencing token, and a
file of its own: the first lease and runs without one write `journal.jsonl`, lease 2 `journal.2.jsonl`. Who
takes over begins with a copy of the lines so far. The file of the highest token is the journal, whatever is
written to the others. No file has two writers, as the append of a network file system needs.
"""

from __future__ import annotations

import os
import re
import secrets
from contextlib import suppress
from pathlib import Path

from interleave.errors import LeaseLost
from interleave.files import read_from, sync_folder, write_new
from interleave.runs.lease import Lease

JOURNAL_NAME = "journal.jsonl"
_NAME = re.compile(r"journal(?:\.([1-9][0-9]{0,17}))?\.jsonl\Z")


def journal_name(token: int) -> str:
    """The file of a lease."""
    return JOURNAL_NAME if token <= 1 else f"journal.{token}.jsonl"


def is_journal(name: str) -> bool:
    """Whether a file of this name is a journal, perhaps one that was taken over since."""
    return _NAME.match(name) is not None


def journal_path(folder: Path) -> Path:
    """The journal of a run, which may not exist yet."""
    return folder / journal_name(_last_token(folder))


def has_journal(folder: Path) -> bool:
    return journal_path(folder).exists()


def claimed_journal(folder: Path, lease: Lease | None) -> Path:
    """The journal to write under a lease; that of an earlier lease is taken over first.

    Raises `LeaseLost` where a later one has been here.
    """
    if lease is None:
        return journal_path(folder)
    if lease.token > 1:
        _show_new_names(folder)
    own = folder / journal_name(lease.token)
    while (before := journal_path(folder)) != own and before.exists():
        if _token_of(before.name) > lease.token:
            raise LeaseLost(f"{folder} was taken over by another worker")
        with suppress(FileNotFoundError):  # another lease has just taken it over
            _take_over(before, own)
    return own


def _last_token(folder: Path) -> int:
    try:
        return max(map(_token_of, os.listdir(folder)), default=0)
    except OSError:  # opening the journal reports it
        return 0


def _token_of(name: str) -> int:
    found = _NAME.match(name)
    return int(found[1] or 1) if found else 0


def _take_over(before: Path, own: Path) -> None:
    """Copy all finished lines; the new file is on disk before the old one is removed."""
    data = read_from(before)
    temporary = own.parent / f".{own.name}.{secrets.token_hex(6)}.tmp"
    try:
        write_new(str(temporary), data[: data.rfind(b"\n") + 1])
        os.rename(temporary, own)
    finally:
        with suppress(OSError):
            temporary.unlink()
    sync_folder(own.parent)
    for name in os.listdir(own.parent):
        if 0 < _token_of(name) < _token_of(own.name):
            with suppress(OSError):
                (own.parent / name).unlink()


def _show_new_names(folder: Path) -> None:
    """Have a network file system list the folder anew: it does so after a change by this machine."""
    if folder.is_dir():
        mark = folder / f".look.{secrets.token_hex(6)}.tmp"
        write_new(str(mark), b"")
        mark.unlink()
