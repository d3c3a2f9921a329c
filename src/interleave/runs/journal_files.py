"""The journal file of a run folder when one process takes a run over from another.

A paused process may resume after another one has taken over its run, and keep writing. A lock does not help:
the paused process still holds it. So every lease of a run has a number, its fencing token, and a separate
file. The first lease, and a run without leases, write `journal.jsonl`; lease 2 writes `journal.2.jsonl`. A
takeover starts with a copy of the lines so far. The file with the highest token is the journal, regardless of
writes to the others. No file has two writers, which appending on a network file system requires.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from interleave.errors import BrokenChain, LeaseLost
from interleave.files import read_from, sync_folder, write_new
from interleave.types import Value

JOURNAL_NAME = "journal.jsonl"
_NAME = re.compile(r"journal(?:\.([1-9][0-9]{0,17}))?\.jsonl\Z")


def journal_name(token: int) -> str:
    """Return the file name of a lease."""
    return JOURNAL_NAME if token <= 1 else f"journal.{token}.jsonl"


def is_journal(name: str) -> bool:
    """Return whether `name` is the name of a journal, current or taken over."""
    return _NAME.match(name) is not None


def journal_path(folder: Path) -> Path:
    """Return the path of the journal of a run, which may not exist yet."""
    return folder / journal_name(_last_token(folder))


def has_journal(folder: Path) -> bool:
    return journal_path(folder).exists()


def claimed_journal(folder: Path, lease: Lease | None) -> Path:
    """Return the journal to write under a lease, after taking over that of an earlier lease.

    Raises `LeaseLost` if a later lease has written here.
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
    """Copy all finished lines; sync the new file before removing the old one."""
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
    """Make a network file system refresh its listing of the folder, by changing the folder."""
    if folder.is_dir():
        mark = folder / f".look.{secrets.token_hex(6)}.tmp"
        write_new(str(mark), b"")
        mark.unlink()


def clock_that_never_stops() -> float:
    """Return seconds that keep counting while the machine sleeps, if the system has such a clock."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Lease:
    """The right to write to a run for a limited time, granted by a job table that several machines share.

    Its holder renews it. A holder that was paused too long sees on its own clock that the lease has expired,
    and makes no further calls. Its fencing token invalidates anything that it may still write.
    """

    def __init__(
        self, token: int, until: float, *, clock: Callable[[], float] = clock_that_never_stops
    ) -> None:
        self.token = token
        """Higher than the token of every earlier lease of the same run."""
        self.until = until
        """End on this machine's clock, counted from before the lease was requested."""
        self._clock = clock
        self._lost = False

    @property
    def held(self) -> bool:
        return not self._lost and self._clock() < self.until

    def renew(self, until: float) -> None:
        """Extend the lease; an expired lease stays expired, as another holder may have it."""
        if self.held:
            self.until = until

    def lose(self) -> None:
        self._lost = True

    def check(self) -> None:
        """Raise `LeaseLost` if the lease is no longer held."""
        if not self.held:
            self.lose()
            raise LeaseLost("the lease of the run has expired: another worker continues it")


DIGEST_BYTES = 8
_SEAL = re.compile(rb',"digest":"([0-9a-f]{16})"\}')


class JournalPosition(Value):
    """A place in a journal: after this many lines, the last of which has this digest."""

    lines: int = 0
    digest: str = ""
    """Empty if the last line has none."""


class DigestChain:
    """State of the digest chain after the lines so far, from which the next digest is computed.

    Every line ends with a digest of its content and of the previous line's digest, so a changed, removed,
    added or moved line is detected. A journal begun without digests gets them from the next appended line on;
    that first digest covers everything before it. The chain protects against damage, not against forgery: any
    writer of the file can compute it.
    """

    def __init__(self) -> None:
        self.lines = 0
        self.digest = b""
        self._undigested = hashlib.blake2b(digest_size=DIGEST_BYTES)
        """Hash over all lines, as long as none has a digest."""

    @classmethod
    def at_end_of(cls, data: bytes) -> DigestChain:
        """Return the chain after these complete lines, without checking them."""
        chain = cls()
        chain.lines = data.count(b"\n")
        chain.digest = last_digest(data)
        if not chain.digest:
            chain._undigested.update(data)
        return chain

    @property
    def position(self) -> JournalPosition:
        return JournalPosition(lines=self.lines, digest=self.digest.decode())

    def seal(self, line: bytes) -> bytes:
        """Return the next line, a JSON object, with its digest as the last field."""
        self.digest = self._next(line)
        self.lines += 1
        return b'%b,"digest":"%b"}' % (line[:-1], self.digest)

    def unseal(self, line: bytes) -> bytes:
        """Return the next line without its digest; raise `BrokenChain` if it was altered."""
        found = _SEAL.search(line, max(0, len(line) - _SEAL_BYTES))
        if found is None:
            if self.digest:
                raise BrokenChain("it has no digest, but the line before it has one")
            self._undigested.update(line + b"\n")
            self.lines += 1
            return line
        content = line[: found.start()] + b"}"
        if self._next(content) != found.group(1):
            raise BrokenChain(
                "its digest does not match: it was altered, or lines before it are missing or moved"
            )
        self.digest = found.group(1)
        self.lines += 1
        return content

    def continues_in(self, rest: bytes) -> bool:
        """Return whether bytes without a line break hold the whole next line: then the break was altered.

        A torn line, which was never finished, ends early, or in the zeros of a disk that lost power.
        """
        return any(
            self._next(rest[: found.start()] + b"}") == found.group(1)
            for found in _SEAL.finditer(rest)
            if rest[found.end() : found.end() + 1] not in (b"", b"\0")
        )

    def _next(self, content: bytes) -> bytes:
        before = self.digest or self._undigested.hexdigest().encode()
        return hashlib.blake2b(before + content, digest_size=DIGEST_BYTES).hexdigest().encode()


_SEAL_BYTES = len(b',"digest":""}') + 2 * DIGEST_BYTES


def last_digest(data: bytes) -> bytes:
    """Return the digest of the last of these complete lines; empty if it has none."""
    found = _SEAL.search(data, max(0, len(data) - _SEAL_BYTES - 1))
    return found.group(1) if found and data.endswith(b"}\n") else b""
