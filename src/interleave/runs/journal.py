"""The journal of a run: one JSON line per event, appended and never changed.

Everything else in a run folder can be made again from the journal and the images. Lines with the result of
a model call are synced to disk before the run goes on; the others are synced together with the next of those.
"""

from __future__ import annotations

import errno
import logging
import operator
import os
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    ValidationError,
    model_serializer,
    model_validator,
)

from interleave.config.run_config import RoleConfig, RunConfig
from interleave.drift.measures import StepDrift
from interleave.errors import BrokenChain, FolderInUse, RunError, StorageError
from interleave.files import read_from, sync_file
from interleave.locks import is_locked, lock, unlock
from interleave.redaction import redacted_model
from interleave.runs.journal_files import (
    JOURNAL_NAME,
    DigestChain,
    JournalPosition,
    Lease,
    journal_path,
    last_digest,
)
from interleave.types import (
    WRITTEN_IF_GIVEN,
    Asset,
    AssetKind,
    Chapter,
    Finding,
    Plan,
    PlanStep,
    Prose,
    Value,
    Verdict,
)

log = logging.getLogger(__name__)

VERSION = 1
LOCK_TRIES, LOCK_WAIT_SECONDS = 5, 0.05

Role = Literal["planner", "critic", "generator"]
Cause = Literal["rollback", "drift", "audit"]


class RequestPart(Value):
    """A part of the request: text, or the name of a stored image."""

    text: str | None = None
    image: str | None = None

    @model_validator(mode="after")
    def is_text_or_image(self) -> RequestPart:
        if (self.text is None) == (self.image is None):
            raise ValueError("a part of a request is a text or an image")
        return self


class StoredAsset(Value):
    """What the user gave of a named thing: an image, words, or both."""

    name: str
    image: str | None = WRITTEN_IF_GIVEN
    """The name of the stored image."""
    kind: AssetKind = Field(default="character", exclude_if=lambda kind: kind == "character")
    description: str = Field(default="", exclude_if=operator.not_)


class Line(Value):
    """What every line of a journal has. Numbers are finite: JSON cannot write others."""

    model_config = ConfigDict(allow_inf_nan=False)

    time: float = Field(default_factory=lambda: round(time.time(), 3))
    """Seconds since 1970, for readers; nothing depends on it."""


class Started(Line):
    event: Literal["started"] = "started"
    version: int = VERSION
    request: tuple[RequestPart, ...]
    config: RunConfig
    software: str
    hold_plan: bool = False
    """Whether nothing is drawn before a person has released the plan."""
    assets: tuple[StoredAsset, ...] = ()

    @model_serializer(mode="wrap")
    def as_before(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A plain run is written as earlier versions wrote it, and so they can read it."""
        values: dict[str, Any] = dump(self)
        return {key: value for key, value in values.items() if key not in ("hold_plan", "assets") or value}


class Continued(Line):
    """Another process continued the run."""

    event: Literal["continued"] = "continued"
    software: str


class CallLine(Line):
    """What every line about a model call has."""

    role: Role
    call: int
    """The number of the call among those of its role, from 1; a retried call keeps its number."""
    step: int = 0
    attempt: int = 0


class Called(CallLine):
    """A call is about to be made."""

    event: Literal["called"] = "called"


class CallFailed(CallLine):
    """A call failed. It may be made again."""

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
    """An image was drawn and stored."""

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


class ChapterPlanned(Line):
    """Another chapter of a plan that is written in chapters; the first one is `planned`."""

    event: Literal["chapter_planned"] = "chapter_planned"
    chapter: Chapter
    steps: tuple[PlanStep, ...] = ()
    assets: tuple[Asset, ...] = Field(default=(), exclude_if=operator.not_)
    """All assets so far."""

    def after(self, plan: Plan) -> Plan:
        """The plan with this chapter."""
        return plan.continued(self.steps, self.assets, self.chapter)


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
    drift: StepDrift | None = WRITTEN_IF_GIVEN
    """How far the image has moved from the one that the step was to change."""


class Audited(Line):
    """The whole document was looked at."""

    event: Literal["audited"] = "audited"
    round: int = Field(ge=1)
    findings: tuple[Finding, ...] = ()


class DecisionLine(Line):
    """What every line about a person's decision has."""

    by: str = Field(default="", max_length=200)
    """Who decided, for readers; nothing depends on it."""
    cause: Cause | None = WRITTEN_IF_GIVEN
    """Why the run decided this itself; None for what a person decided."""


class PlanReleased(DecisionLine):
    """The plan to draw, as a person approved or edited it."""

    event: Literal["plan_released"] = "plan_released"
    plan: Plan


class StepDecision(DecisionLine):
    """What every decision about one step has. Steps that follow from its image are drawn again."""

    step: int
    keep: dict[int, int] = Field(default_factory=dict)
    """Later steps that keep their image nevertheless, each with the attempt that is kept."""
    refused: int | None = WRITTEN_IF_GIVEN
    """The step that stayed refused, where the run went back for its sake."""


class RedrawDecided(StepDecision):
    """A person wants the step drawn again."""

    event: Literal["redraw_decided"] = "redraw_decided"
    prompt: Prose | None = None
    """What to draw; None: the prompt that the step had."""
    seed: int = Field(ge=0, lt=2**63)
    """The seeds of the step's attempts are derived from it, as from the run's seed."""
    generator: RoleConfig | None = None
    """What draws it; None: the generator that the step has anyway."""
    anew: bool | None = WRITTEN_IF_GIVEN
    """Whether it is drawn from the words for its whole scene instead of from the image before it."""


class AttemptChosen(StepDecision):
    """A person wants another attempt shown."""

    event: Literal["attempt_chosen"] = "attempt_chosen"
    attempt: int


class GeneratorChanged(DecisionLine):
    """A person wants all that is not finished yet drawn by another generator."""

    event: Literal["generator_changed"] = "generator_changed"
    step: int
    """The first step that it is about."""
    done: tuple[int, ...] = ()
    """Later steps that were finished already, and stay as they are."""
    generator: RoleConfig

    def covers(self, step: int) -> bool:
        """Whether a step is drawn by it."""
        return step >= self.step and step not in self.done


class Undone(DecisionLine):
    """The last decision about steps that still held no longer holds."""

    event: Literal["undone"] = "undone"


class Branched(DecisionLine):
    """All lines before this one are copies of another run's, and so are their images."""

    event: Literal["branched"] = "branched"
    parent: str
    """The name of the other run's folder."""
    parent_journal: JournalPosition
    """How far the other run's journal was copied."""
    step: int
    """The step from which on this run goes its own way."""


Status = Literal["running", "held", "done", "short", "failed", "interrupted"]


class Ended(Line):
    """A process stopped working on the run."""

    event: Literal["ended"] = "ended"
    status: Status
    reason: str = ""
    seconds: float = 0.0
    unreadable_plan: bool = False
    """The planner's replies so far could not be read: a continued run asks again."""


Entry = Annotated[
    Started
    | Continued
    | Called
    | CallFailed
    | Replied
    | Drawn
    | Planned
    | ChapterPlanned
    | Judged
    | StepFinished
    | Audited
    | PlanReleased
    | RedrawDecided
    | AttemptChosen
    | GeneratorChanged
    | Undone
    | Branched
    | Ended,
    Field(discriminator="event"),
]
_ENTRY: TypeAdapter[Entry] = TypeAdapter(Entry)


class Journal:
    """The only writer of a journal, which it locks. Readers need no lock.

    A line is first buffered, then written, then synced. What is written survives a crash of the process, what
    is synced survives a crash of the machine. Other files of lines, such as an index, are written the same
    way but without digests: their readers skip a damaged line instead of reporting it.
    """

    def __init__(self, path: Path, *, chained: bool = True, lease: Lease | None = None) -> None:
        self.path = path
        self.lease = lease
        """None where no other machine works on the same runs."""
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        self._chained = chained
        self._chain = DigestChain()
        self._buffer: list[bytes] = []
        self._buffer_lock = threading.Lock()
        """Held briefly: a cancelled call may still be writing while the end of the run is appended."""
        self.listener: Callable[[Any], object] | None = None
        """Called with every line, so that what was just written need not be read back."""
        self._file_lock = threading.Lock()
        self._failure: StorageError | None = None
        self._closed = False
        try:
            self._lock()
            self._size = self._drop_torn_line()
        except BaseException:
            os.close(self._file)
            raise

    def append(self, entry: Value) -> None:
        """Buffer a line; it is written with the next write or sync."""
        if self.lease is not None:
            self.lease.check()
        entry = redacted_model(entry)
        line = entry.model_dump_json().encode()
        with self._buffer_lock:
            if self._failure is not None:
                raise self._failure  # nothing may follow a line that is perhaps only half written
            self._buffer.append((self._chain.seal(line) if self._chained else line) + b"\n")
        if self.listener is not None:
            self.listener(entry)

    @property
    def position(self) -> JournalPosition:
        """The end of the journal with everything that was appended."""
        return self._chain.position

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been written to it yet."""
        return self._size == 0

    def write(self) -> None:
        """Hand every line so far to the operating system."""
        with self._file_lock:
            self._write()

    def sync(self) -> None:
        """Put every line so far on disk."""
        with self._file_lock:
            self._write()
            try:
                sync_file(self._file, only_data=True)
                if os.fstat(self._file).st_nlink == 0:  # writes succeed, and can never be read
                    raise OSError(errno.ENOENT, "it was removed or replaced under way")
            except OSError as error:
                raise self._fail(error) from error

    def _write(self) -> None:
        if self._failure is not None:
            raise self._failure
        with self._buffer_lock:
            lines, self._buffer = self._buffer, []
        data = b"".join(lines)
        try:
            written = 0
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file, self._size)
            raise self._fail(error) from error
        self._size += len(data)

    def close(self) -> None:
        """Release the file; a thread that still works for a cancelled call must not write to it."""
        with self._file_lock:
            if self._closed:
                return
            self._closed = True
            self._failure = self._failure or StorageError(f"{self.path} is closed")
            # Unlocked explicitly: a child that is just being forked has a copy of the file and of its lock.
            unlock(self._file)
            os.close(self._file)

    def _fail(self, error: OSError) -> StorageError:
        # After a failed write or sync it is unknown what is on disk, and a second sync may lie: stop here.
        self._failure = StorageError.at(self.path, error)
        return self._failure

    def _lock(self) -> None:
        """Take the lock; the kernel releases it when the process ends, however it ends."""
        try:
            for _ in range(LOCK_TRIES):
                with suppress(BlockingIOError):  # perhaps only `is_being_written` of another process
                    return lock(self._file)
                time.sleep(LOCK_WAIT_SECONDS)
            raise folder_in_use(self.path.parent)
        except OSError as error:
            raise no_locks(self.path.parent, error) from None

    def _drop_torn_line(self) -> int:
        """Cut off a last line that was never finished; returns the size of the rest."""
        data = read_from(self.path)
        kept = data.rfind(b"\n") + 1
        if kept < len(data):
            log.warning("%s: the last line was never finished and is dropped", self.path)
            os.ftruncate(self._file, kept)
            sync_file(self._file)
        if self._chained:
            self._chain = DigestChain.at_end_of(data[:kept])
        return kept


def folder_in_use(folder: Path) -> FolderInUse:
    """The error for the second of two writers."""
    return FolderInUse(
        f"another process is writing to {folder}: wait for it, or choose another folder with --out"
    )


def no_locks(folder: Path, error: OSError) -> RunError:
    """The error for a file system without locks."""
    return RunError(
        f"the file system of {folder} gives no locks ({error.strerror}), so two processes could write "
        "there at once: choose a folder on a local disk with --out"
    )


def is_being_written(folder: Path, name: str = JOURNAL_NAME) -> bool:
    """Whether a live process holds the lock of the journal, whatever the last line says."""
    return is_locked(journal_path(folder) if name == JOURNAL_NAME else folder / name)


class JournalReader:
    """Reads a journal as it grows, every line once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = journal_path(folder)
        self._chain = DigestChain()
        self._offset = 0

    @property
    def position(self) -> JournalPosition:
        """How far it has been read."""
        return self._chain.position

    def read_new(self) -> list[Entry]:
        """Every finished line since the last call; raises `RunError` with file and line of a damaged one."""
        data = self._unread()
        end = data.rfind(b"\n") + 1
        entries = [self._entry(line) for line in data[:end].split(b"\n")[:-1]]
        if self._chain.continues_in(data[end:]):
            raise damaged(self.path, self._chain.lines + 1, "its line break was altered")
        self._offset += end
        return entries

    @property
    def size(self) -> int:
        """The bytes of the journal now; 0 where there is none."""
        try:
            return os.stat(journal_path(self.folder)).st_size
        except OSError:
            return 0

    def _unread(self) -> bytes:
        try:
            with suppress(FileNotFoundError):  # perhaps it is just being taken over
                return self._read_on()
            return self._read_on()
        except (FileNotFoundError, NotADirectoryError):
            raise RunError(f"{self.path.parent} is not a run folder: it has no {self.path.name}") from None
        except OSError as error:
            raise RunError(f"{self.path} cannot be read ({error.strerror})") from None

    def _read_on(self) -> bytes:
        self._follow(journal_path(self.folder))
        return read_from(self.path, self._offset)

    def _follow(self, path: Path) -> None:
        """Read on in the file of a later lease, which begins with the same lines."""
        if path == self.path:
            return
        if self._offset and last_digest(read_from(path)[: self._offset]) != self._chain.digest:
            raise RunError(
                f"{path} was taken over from a worker that went on after its lease: read the run again"
            )
        self.path = path

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
    return JournalReader(folder).read_new()


def first_entry(folder: Path) -> Entry | None:
    """The first line of a journal; None where there is none, or where it cannot be read."""
    path = journal_path(folder)
    if not path.is_file():
        return None
    try:
        with open(path, "rb") as file:
            return _ENTRY.validate_json(DigestChain().unseal(file.readline().rstrip(b"\n")))
    except (OSError, ValidationError, BrokenChain):
        return None


def damaged(path: Path, number: int, problem: str) -> RunError:
    """The error for a line that is not as it was written."""
    return RunError(f"{path}:{number} is damaged ({problem}): restore it from a copy")


def _refuse_newer(line: bytes, path: Path) -> None:
    found = re.search(rb'"version":\s*(\d{1,9})', line)
    if found and int(found.group(1)) > VERSION:
        raise RunError(
            f"{path}:1 has format version {int(found.group(1))}, and this interleave reads up to {VERSION}: "
            "continue it with a newer interleave; if it was never used with one, restore it from a copy"
        )
