"""The journal of a run: one JSON line per fact, appended and never changed.

Everything else in a run folder can be made again from the journal and the pictures. Lines that record what a
model call brought are synced to disk before the run goes on; the others ride along with the next of those.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from interleave.config.run_config import RunConfig
from interleave.errors import FolderInUse, RunError, StorageError
from interleave.redaction import redacted_model
from interleave.runs.digest_chain import BrokenChain, Chain, Mark
from interleave.runs.store import read_file
from interleave.types import Plan, Value, Verdict

log = logging.getLogger(__name__)

VERSION = 1
FILE_NAME = "journal.jsonl"
LOCK_TRIES, LOCK_WAIT_SECONDS = 5, 0.05

Role = Literal["planner", "critic", "generator"]


class RequestPart(Value):
    """A part of the request: text, or the name of a stored picture."""

    text: str | None = None
    image: str | None = None

    @model_validator(mode="after")
    def it_is_one_of_the_two(self) -> RequestPart:
        if (self.text is None) == (self.image is None):
            raise ValueError("a part of a request is a text or a picture")
        return self


class Line(Value):
    """What every line of a journal has. Its numbers are finite: JSON cannot write others."""

    model_config = ConfigDict(allow_inf_nan=False)

    time: float = Field(default_factory=lambda: round(time.time(), 3))
    """Seconds since 1970, for people; nothing is decided by it."""


class Started(Line):
    event: Literal["started"] = "started"
    version: int = VERSION
    request: tuple[RequestPart, ...]
    config: RunConfig
    software: str


class Continued(Line):
    """Another process took up the run."""

    event: Literal["continued"] = "continued"
    software: str


class CallLine(Line):
    """What every line about a model call has."""

    role: Role
    call: int
    """The how-maniest call of its role; a repeated call keeps its number."""
    step: int = 0
    attempt: int = 0


class Called(CallLine):
    """A call is about to be made."""

    event: Literal["called"] = "called"


class CallFailed(CallLine):
    """A call brought an error. It may be made again."""

    event: Literal["call_failed"] = "call_failed"
    error: str
    transient: bool


class Replied(CallLine):
    """A vision-language model answered."""

    event: Literal["replied"] = "replied"
    fingerprint: str
    """A digest of what it was asked."""
    text: str
    finish_reason: str
    usage: dict[str, int] = Field(default_factory=dict)
    cost: float | None = None
    tokens: tuple[tuple[str, float], ...] = ()
    seconds: float


class Drawn(CallLine):
    """A picture was drawn and stored."""

    event: Literal["drawn"] = "drawn"
    fingerprint: str
    prompt: str
    seed: int
    image: str
    cost: float | None = None
    seconds: float


class Planned(Line):
    event: Literal["planned"] = "planned"
    plan: Plan


class Judged(Line):
    event: Literal["judged"] = "judged"
    step: int
    attempt: int
    verdict: Verdict


class StepFinished(Line):
    event: Literal["step_finished"] = "step_finished"
    step: int
    attempt: int | None
    """The attempt to show; None for a step of text only."""
    accepted: bool
    forced: bool


Status = Literal["running", "done", "short", "failed", "interrupted"]


class Ended(Line):
    """A process stopped working on the run."""

    event: Literal["ended"] = "ended"
    status: Status
    reason: str = ""
    seconds: float = 0.0
    unreadable_plan: bool = False
    """The planner's replies so far are spent: whoever continues asks it anew."""


Entry = Annotated[
    Started | Continued | Called | CallFailed | Replied | Drawn | Planned | Judged | StepFinished | Ended,
    Field(discriminator="event"),
]
_ENTRY: TypeAdapter[Entry] = TypeAdapter(Entry)


class Journal:
    """The one writer of a journal. Readers need no lock.

    A line is first remembered, then written, then synced. What is written survives the death of the process,
    what is synced that of the machine. Other files of lines, such as an index, are written the same way, but
    their lines have no digests: their readers know no damage, only lines that count or do not.
    """

    def __init__(self, path: Path, *, chained: bool = True) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        self._chained = chained
        self._chain = Chain()
        self._remembered: list[bytes] = []
        self._remembering = threading.Lock()
        """Held for moments: a cancelled call may still be writing while the end of the run is appended."""
        self.listener: Callable[[Any], object] | None = None
        """Told of every line, so that nobody has to read back what was just written."""
        self._writing = threading.Lock()
        self._broken: StorageError | None = None
        self._closed = False
        try:
            self._lock()
            self._size = self._take_up()
        except BaseException:
            os.close(self._file)
            raise

    def append(self, entry: Value) -> None:
        """Remember a line; it is written with the next write or sync."""
        entry = redacted_model(entry)
        line = entry.model_dump_json().encode()
        with self._remembering:
            if self._broken is not None:
                raise self._broken  # nothing may follow a line that is perhaps only half there
            self._remembered.append((self._chain.seal(line) if self._chained else line) + b"\n")
        if self.listener is not None:
            self.listener(entry)

    @property
    def mark(self) -> Mark:
        """How far it goes with everything that was appended."""
        return self._chain.mark

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been written to it yet."""
        return self._size == 0

    def write(self) -> None:
        """Hand every line so far to the operating system."""
        with self._writing:
            self._write()

    def sync(self) -> None:
        """Put every line so far on disk."""
        with self._writing:
            self._write()
            try:
                (os.fdatasync if hasattr(os, "fdatasync") else os.fsync)(self._file)  # macOS has only fsync
                if os.fstat(self._file).st_nlink == 0:  # it can be written to, and nobody will ever read it
                    raise OSError(errno.ENOENT, "it was removed or replaced under way")
            except OSError as error:
                raise self._break(error) from error

    def _write(self) -> None:
        if self._broken is not None:
            raise self._broken
        with self._remembering:
            lines, self._remembered = self._remembered, []
        data = b"".join(lines)
        try:
            written = 0
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file, self._size)
            raise self._break(error) from error
        self._size += len(data)

    def close(self) -> None:
        """Let go of the file; a thread that is still at work for a cancelled call must not write to it."""
        with self._writing:
            if self._closed:
                return
            self._closed = True
            self._broken = self._broken or StorageError(f"{self.path} is closed")
            # Said aloud, because a child that is just being forked has a copy of the file and of its lock.
            with suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_UN)
            os.close(self._file)

    def _break(self, error: OSError) -> StorageError:
        # After a failed write or sync nobody knows what is on disk, and a second sync may lie: stop here.
        self._broken = StorageError.at(self.path, error)
        return self._broken

    def _lock(self) -> None:
        """Take the lock; the kernel drops it when the process dies, however it dies."""
        try:
            for _ in range(LOCK_TRIES):
                with suppress(BlockingIOError):  # perhaps only a reader who asks whether anybody writes
                    return fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                time.sleep(LOCK_WAIT_SECONDS)
            raise folder_in_use(self.path.parent)
        except OSError as error:
            raise no_locks(self.path.parent, error) from None

    def _take_up(self) -> int:
        """Cut off a last line that was never finished; returns the size of what is left, to go on from."""
        data = read_file(self.path)
        kept = data.rfind(b"\n") + 1
        if kept < len(data):
            log.warning("%s: the last line was never finished and is dropped", self.path)
            os.ftruncate(self._file, kept)
            os.fsync(self._file)
        if self._chained:
            self._chain = Chain.at_the_end_of(data[:kept])
        return kept


def folder_in_use(folder: Path) -> FolderInUse:
    """What to say to the second of two writers."""
    return FolderInUse(
        f"another process is writing to {folder}: wait for it, or choose another folder with --out"
    )


def no_locks(folder: Path, error: OSError) -> RunError:
    """What to say where a file system cannot keep two processes apart."""
    return RunError(
        f"the file system of {folder} gives no locks ({error.strerror}), so two processes could write "
        "there at once: choose a folder on a local disk with --out"
    )


def is_being_written(folder: Path, name: str = FILE_NAME) -> bool:
    """Whether a living process holds the journal; a dead one does not, whatever its last line says."""
    try:
        file = os.open(folder / name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no locks here, so that no process has one: a writer is refused before it begins
        return False
    finally:
        os.close(file)
    return False


class JournalReader:
    """Reads a journal, also as it grows: every line once."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME
        self._chain = Chain()
        self._read = 0

    @property
    def mark(self) -> Mark:
        """How far it has been read."""
        return self._chain.mark

    def news(self) -> list[Entry]:
        """Every finished line since the last time; raises `RunError` with file and line of a damaged one."""
        data = self._unread()
        end = data.rfind(b"\n") + 1
        entries = [self._entry(line) for line in data[:end].split(b"\n")[:-1]]
        if self._chain.goes_on_in(data[end:]):
            raise damaged(self.path, self._chain.lines + 1, "its line break was altered")
        self._read += end
        return entries

    def _unread(self) -> bytes:
        try:
            return read_file(self.path, self._read)
        except (FileNotFoundError, NotADirectoryError):
            raise RunError(f"{self.path.parent} is not a run folder: it has no {self.path.name}") from None
        except OSError as error:
            raise RunError(f"{self.path} cannot be read ({error.strerror})") from None

    def _entry(self, line: bytes) -> Entry:
        number = self._chain.lines + 1
        if number == 1:
            _refuse_newer(line, self.path)
        try:
            return _ENTRY.validate_json(self._chain.unseal(line))
        except BrokenChain as error:
            raise damaged(self.path, number, str(error)) from None
        except ValidationError as error:
            raise damaged(self.path, number, error.errors()[0]["msg"]) from None


def read_journal(folder: Path) -> list[Entry]:
    """Every finished line of a run's journal; raises `RunError` with file and line where one is damaged."""
    return JournalReader(folder).news()


def first_entry(folder: Path) -> Entry | None:
    """How a run began; None where it has not, or where that cannot be read."""
    path = folder / FILE_NAME
    if not path.is_file():
        return None
    try:
        with open(path, "rb") as file:
            return _ENTRY.validate_json(Chain().unseal(file.readline().rstrip(b"\n")))
    except (OSError, ValidationError, BrokenChain):
        return None


def damaged(path: Path, number: int, problem: str) -> RunError:
    """What to say of a line that is not as it was written."""
    return RunError(f"{path}:{number} is damaged ({problem}): restore it from a copy")


def _refuse_newer(line: bytes, path: Path) -> None:
    found = re.search(rb'"version":\s*(\d{1,9})', line)
    if found and int(found.group(1)) > VERSION:
        raise RunError(
            f"{path}:1 has format version {int(found.group(1))}, and this interleave reads up to {VERSION}: "
            "continue it with a newer interleave; if it was never used with one, restore it from a copy"
        )
