"""Which file of a run folder is its journal, when one process takes a run over from another.

A process that was paused may wake up after another one has taken over its run, and go on writing. A lock does
not help: the paused process still holds it. So every lease of a run has a number, its fencing token, and a
file of its own: the first lease and runs without one write `journal.jsonl`, lease 2 `journal.2.jsonl`. Who
takes over begins with a copy of the lines so far. The file of the highest token is the journal, whatever is
written to the others. No file has two writers, as the append of a network file system needs.
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


def clock_that_never_stops() -> float:
    """Seconds that go on while the machine sleeps, where the system has such a clock."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Lease:
    """The right to write to a run for a while, granted by a job table that several machines share.

    It is renewed while its holder lives. A holder that was paused for too long finds by its own clock that
    the lease has run out, and makes no further call. Its fencing token keeps what it may still write from
    counting.
    """

    def __init__(
        self, token: int, until: float, *, clock: Callable[[], float] = clock_that_never_stops
    ) -> None:
        self.token = token
        """Higher than that of every earlier lease of the same run."""
        self.until = until
        """On this machine's clock, counted from before the lease was asked for."""
        self._clock = clock
        self._lost = False

    @property
    def held(self) -> bool:
        return not self._lost and self._clock() < self.until

    def renew(self, until: float) -> None:
        """Go on until later; a lease that has run out stays so: another holder may have begun."""
        if self.held:
            self.until = until

    def lose(self) -> None:
        self._lost = True

    def check(self) -> None:
        """Raise `LeaseLost` where it is no longer held."""
        if not self.held:
            self.lose()
            raise LeaseLost("the lease of the run has ended: another worker goes on with it")


DIGEST_BYTES = 8
_SEAL = re.compile(rb',"digest":"([0-9a-f]{16})"\}')


class JournalPosition(Value):
    """A place in a journal: after this many lines, the last of which has this digest."""

    lines: int = 0
    digest: str = ""
    """Empty where the last line has none."""


class DigestChain:
    """The state of the chain after the lines so far: what the digest of the next line is computed from.

    Every line ends with a digest of its own content and of the digest of the line before it, so a line
    that is changed, removed, added or moved is noticed. A journal that was begun without digests gets them
    from the first line that is added; its digest covers everything before it. The chain protects against
    damage, not against forgery: any writer of the file can compute it.
    """

    def __init__(self) -> None:
        self.lines = 0
        self.digest = b""
        self._undigested = hashlib.blake2b(digest_size=DIGEST_BYTES)
        """Over everything, as long as no line has a digest."""

    @classmethod
    def at_end_of(cls, data: bytes) -> DigestChain:
        """The chain after these complete lines, which are not checked."""
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
        """The next line, a JSON object, with its digest as the last field."""
        self.digest = self._next(line)
        self.lines += 1
        return b'%b,"digest":"%b"}' % (line[:-1], self.digest)

    def unseal(self, line: bytes) -> bytes:
        """The next line without its digest; raises `BrokenChain` where it is not what was written."""
        found = _SEAL.search(line, max(0, len(line) - _SEAL_BYTES))
        if found is None:
            if self.digest:
                raise BrokenChain("it has no digest, and the line before it has one")
            self._undigested.update(line + b"\n")
            self.lines += 1
            return line
        content = line[: found.start()] + b"}"
        if self._next(content) != found.group(1):
            raise BrokenChain(
                "its digest does not fit: it was altered, or lines before it are missing or moved"
            )
        self.digest = found.group(1)
        self.lines += 1
        return content

    def continues_in(self, rest: bytes) -> bool:
        """Whether bytes without a line break hold the whole next line: then the break itself was altered.

        A torn line, never finished, ends inside itself, or in the zeros of a disk that lost power.
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
    """The digest of the last of these complete lines; empty where it has none."""
    found = _SEAL.search(data, max(0, len(data) - _SEAL_BYTES - 1))
    return found.group(1) if found and data.endswith(b"}\n") else b""
