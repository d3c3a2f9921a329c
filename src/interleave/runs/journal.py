"""The journal of a run: one JSON line per event, appended and never changed.

Everything else in a run folder can be rebuilt from the journal and the images. Lines with the result of a
model call are synced to disk before the run continues; other lines are synced with the next such line.
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
    TypeAdapter,
    ValidationError,
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
    AltText,
    Asset,
    AssetKind,
    Chapter,
    Finding,
    Heading,
    Lettering,
    Plan,
    PlanStep,
    Prose,
    Question,
    Title,
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
            raise ValueError("a part of a request must be either text or an image")
        return self


class StoredAsset(Value):
    """A named asset given by the user: an image, a description, or both."""

    name: str
    image: str | None = WRITTEN_IF_GIVEN
    """Name of the stored image."""
    kind: AssetKind = Field(default="character", exclude_if=lambda kind: kind == "character")
    description: str = Field(default="", exclude_if=operator.not_)


class StoredReading(Value):
    """The request as the planner reads it, if that differs from what the user wrote."""

    parts: tuple[RequestPart, ...]
    captions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Line(Value):
    """Fields of every journal line. Numbers are finite, as JSON has no others."""

    model_config = ConfigDict(allow_inf_nan=False)

    time: float = Field(default_factory=lambda: round(time.time(), 3))
    """Seconds since 1970, for readers; nothing depends on it."""


class Started(Line):
    event: Literal["started"] = "started"
    version: int = VERSION
    request: tuple[RequestPart, ...]
    config: RunConfig
    software: str
    hold_plan: bool = Field(default=False, exclude_if=operator.not_)
    """Whether drawing waits until a person has released the plan."""
    assets: tuple[StoredAsset, ...] = Field(default=(), exclude_if=operator.not_)
    reading: StoredReading | None = WRITTEN_IF_GIVEN


class Continued(Line):
    """Another process continued the run."""

    event: Literal["continued"] = "continued"
    software: str


class CallLine(Line):
    """Fields of every line about a model call."""

    role: Role
    call: int
    """Number of the call within its role, from 1; a retried call keeps its number."""
    step: int = 0
    attempt: int = 0


class Called(CallLine):
    """A call is about to be made."""

    event: Literal["called"] = "called"


class CallFailed(CallLine):
    """A call failed. It may be retried."""

    event: Literal["call_failed"] = "call_failed"
    error: str
    transient: bool


class Replied(CallLine):
    """A vision-language model answered."""

    event: Literal["replied"] = "replied"
    fingerprint: str
    """Digest of the messages."""
    text: str
    document: tuple[RequestPart, ...] = Field(default=(), exclude_if=operator.not_)
    """Parts of the document, in place of a text, if a native system answered as the planner."""
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
    sent: str | None = WRITTEN_IF_GIVEN
    """The prompt as the generator received it, if more was added for lettering."""
    seed: int
    image: str
    cost: float | None = None
    seconds: float


class Planned(Line):
    event: Literal["planned"] = "planned"
    plan: Plan


class ChapterPlanned(Line):
    """A further chapter of a plan; the first chapter is in `planned`."""

    event: Literal["chapter_planned"] = "chapter_planned"
    chapter: Chapter
    steps: tuple[PlanStep, ...] = ()
    assets: tuple[Asset, ...] = Field(default=(), exclude_if=operator.not_)
    """All assets so far."""

    def after(self, plan: Plan) -> Plan:
        """Return the plan with this chapter."""
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
    """The attempt to show; `None` for a text-only step."""
    accepted: bool
    forced: bool
    drift: StepDrift | None = WRITTEN_IF_GIVEN
    """Drift of the image from the one that the step was to change."""


class Audited(Line):
    """The whole document was audited."""

    event: Literal["audited"] = "audited"
    round: int = Field(ge=1)
    findings: tuple[Finding, ...] = ()


class DecisionLine(Line):
    """Fields of every decision, by a person or by the run itself."""

    by: str = Field(default="", max_length=200)
    """Who decided, for readers; nothing depends on it."""
    cause: Cause | None = WRITTEN_IF_GIVEN
    """Why the run decided this itself; `None` for a person's decision."""


class PlanReleased(DecisionLine):
    """The plan to draw, approved or edited by a person."""

    event: Literal["plan_released"] = "plan_released"
    plan: Plan


class StepDecision(DecisionLine):
    """Fields of every decision about one step. Steps that follow from its image are redrawn."""

    step: int
    keep: dict[int, int] = Field(default_factory=dict)
    """Later steps that keep their image anyway, with the attempt that each keeps."""
    refused: int | None = WRITTEN_IF_GIVEN
    """The rejected step that caused the run to roll back."""


class RedrawDecided(StepDecision):
    """The step is to be redrawn."""

    event: Literal["redraw_decided"] = "redraw_decided"
    prompt: Prose | None = None
    """New prompt; `None` keeps the prompt of the step."""
    seed: int = Field(ge=0, lt=2**63)
    """Base seed of the step's attempts, in place of the run's seed."""
    generator: RoleConfig | None = None
    """New generator; `None` keeps the generator of the step."""
    anew: bool | None = WRITTEN_IF_GIVEN
    """Whether it is drawn from its scene description instead of from the previous image."""


class AttemptChosen(StepDecision):
    """Another attempt is to be shown."""

    event: Literal["attempt_chosen"] = "attempt_chosen"
    attempt: int


class GeneratorChanged(DecisionLine):
    """All unfinished steps are to be drawn with another generator."""

    event: Literal["generator_changed"] = "generator_changed"
    step: int
    """The first step that it affects."""
    done: tuple[int, ...] = ()
    """Later steps that are already finished and stay unchanged."""
    generator: RoleConfig

    def covers(self, step: int) -> bool:
        """Return whether a step is drawn with this generator."""
        return step >= self.step and step not in self.done


class StepWords(Value):
    """Words of one step of a document. Fields that are `None` stay unchanged."""

    number: int
    name: Heading | None = WRITTEN_IF_GIVEN
    """Heading; empty for none."""
    text: Prose | None = WRITTEN_IF_GIVEN
    """Caption, or the whole text of a text-only step."""
    alt: AltText | None = WRITTEN_IF_GIVEN
    """Alternative text of the image; empty to use the text of the step."""
    hidden: bool | None = WRITTEN_IF_GIVEN
    """Whether the document leaves the step out."""
    lettering: tuple[Lettering, ...] | None = WRITTEN_IF_GIVEN
    """Words set upon its image; empty for none."""


class Words(Value):
    """Changes of what a document shows. Fields that are omitted stay unchanged."""

    title: Title | None = WRITTEN_IF_GIVEN
    order: tuple[int, ...] = Field(default=(), exclude_if=operator.not_)
    """Numbers of the first steps to show, in order; the other steps follow in the order of the plan."""
    steps: tuple[StepWords, ...] = Field(default=(), exclude_if=operator.not_)
    keep: tuple[int, ...] = Field(default=(), exclude_if=operator.not_)
    """Steps whose text fits their redrawn image."""

    @property
    def named_steps(self) -> list[int]:
        """Numbers of the steps that it names."""
        return [*self.order, *(each.number for each in self.steps), *self.keep]

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing."""
        return self.title is None and not self.named_steps


class DocumentEdited(Words, DecisionLine):
    """A person changed what the document shows, not how it was made. The status of the run stays."""

    event: Literal["document_edited"] = "document_edited"


class Undone(DecisionLine):
    """The last edit in effect is undone: a person's of any kind, or the run's own decision about steps."""

    event: Literal["undone"] = "undone"


class Branched(DecisionLine):
    """All lines before this one, and their images, are copies of another run's."""

    event: Literal["branched"] = "branched"
    parent: str
    """Name of the parent run's folder."""
    parent_journal: JournalPosition
    """Position up to which the parent's journal was copied."""
    step: int
    """First step that differs from the parent."""


Status = Literal["running", "held", "asked", "done", "short", "failed", "interrupted"]


class Ended(Line):
    """A process stopped working on the run."""

    event: Literal["ended"] = "ended"
    status: Status
    reason: str = ""
    seconds: float = 0.0
    unreadable_plan: bool = False
    """Whether the planner's replies so far were unreadable: a continued run calls it again."""
    question: Question | None = WRITTEN_IF_GIVEN
    """What the planner asks back, with the status `asked`."""


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
    | DocumentEdited
    | Undone
    | Branched
    | Ended,
    Field(discriminator="event"),
]
_ENTRY: TypeAdapter[Entry] = TypeAdapter(Entry)


class Journal:
    """The only writer of a journal, which it locks. Readers need no lock.

    A line is buffered, then written, then synced. A written line survives a crash of the process, a synced
    line survives a crash of the machine. Other line files, such as an index, are written the same way but
    without digests: their readers skip a damaged line instead of reporting it.
    """

    def __init__(self, path: Path, *, chained: bool = True, lease: Lease | None = None) -> None:
        self.path = path
        self.lease = lease
        """`None` if no other machine works on the same runs."""
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        self._chained = chained
        self._chain = DigestChain()
        self._buffer: list[bytes] = []
        self._buffer_lock = threading.Lock()
        """Held briefly: a cancelled call may still write while the end of the run is appended."""
        self.listener: Callable[[Any], object] | None = None
        """Called with every line, so that new lines need not be read back."""
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
                raise self._failure  # nothing may follow a line that may be half written
            self._buffer.append((self._chain.seal(line) if self._chained else line) + b"\n")
        if self.listener is not None:
            self.listener(entry)

    @property
    def position(self) -> JournalPosition:
        """The end of the journal, including buffered lines."""
        return self._chain.position

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been written yet."""
        return self._size == 0

    def write(self) -> None:
        """Write every line so far to the operating system."""
        with self._file_lock:
            self._write()

    def sync(self) -> None:
        """Sync every line so far to disk."""
        with self._file_lock:
            self._write()
            try:
                sync_file(self._file, only_data=True)
                if os.fstat(self._file).st_nlink == 0:  # the file is unlinked: writes succeed but are lost
                    raise OSError(errno.ENOENT, "it was removed or replaced during the run")
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
        """Close the file; a thread that still runs for a cancelled call must not write to it."""
        with self._file_lock:
            if self._closed:
                return
            self._closed = True
            self._failure = self._failure or StorageError(f"{self.path} is closed")
            # Unlock explicitly: a child that is being forked has a copy of the file and of its lock.
            unlock(self._file)
            os.close(self._file)

    def _fail(self, error: OSError) -> StorageError:
        # After a failed write or sync the contents on disk are unknown, and a second sync may not fail.
        self._failure = StorageError.at(self.path, error)
        return self._failure

    def _lock(self) -> None:
        """Take the lock; the kernel releases it when the process ends, even by a crash."""
        try:
            for _ in range(LOCK_TRIES):
                with suppress(BlockingIOError):  # perhaps only `is_being_written` of another process
                    return lock(self._file)
                time.sleep(LOCK_WAIT_SECONDS)
            raise folder_in_use(self.path.parent)
        except OSError as error:
            raise no_locks(self.path.parent, error) from None

    def _drop_torn_line(self) -> int:
        """Truncate an unfinished last line; return the size of the rest."""
        data = read_from(self.path)
        kept = data.rfind(b"\n") + 1
        if kept < len(data):
            log.warning("%s: dropped an unfinished last line", self.path)
            os.ftruncate(self._file, kept)
            sync_file(self._file)
        if self._chained:
            self._chain = DigestChain.at_end_of(data[:kept])
        return kept


def folder_in_use(folder: Path) -> FolderInUse:
    """Return the error for the second of two writers."""
    return FolderInUse(
        f"another process is writing to {folder}: wait for it, or choose another folder with out="
    )


def no_locks(folder: Path, error: OSError) -> RunError:
    """Return the error for a file system without locks."""
    return RunError(
        f"the file system of {folder} does not support locks ({error.strerror}), so two processes could "
        "write at the same time: choose a folder on a local disk with out="
    )


def is_being_written(folder: Path, name: str = JOURNAL_NAME) -> bool:
    """Return whether a live process holds the lock of the journal, regardless of its last line."""
    return is_locked(journal_path(folder) if name == JOURNAL_NAME else folder / name)


class JournalReader:
    """Reads a growing journal, each line once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = journal_path(folder)
        self._chain = DigestChain()
        self._offset = 0

    @property
    def position(self) -> JournalPosition:
        """The position up to which it has been read."""
        return self._chain.position

    def read_new(self) -> list[Entry]:
        """Return finished lines since the last call; raise `RunError` with file and line of a damaged one."""
        data = self._unread()
        end = data.rfind(b"\n") + 1
        entries = [self._entry(line) for line in data[:end].split(b"\n")[:-1]]
        if self._chain.continues_in(data[end:]):
            raise damaged(self.path, self._chain.lines + 1, "its line break was altered")
        self._offset += end
        return entries

    @property
    def size(self) -> int:
        """Current size of the journal in bytes; 0 if it does not exist."""
        try:
            return os.stat(journal_path(self.folder)).st_size
        except OSError:
            return 0

    def _unread(self) -> bytes:
        try:
            with suppress(FileNotFoundError):  # another lease may be taking it over
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
        """Switch to the file of a later lease, which begins with the same lines."""
        if path == self.path:
            return
        if self._offset and last_digest(read_from(path)[: self._offset]) != self._chain.digest:
            raise RunError(
                f"{path} was taken over from a worker that kept writing after its lease: read the run again"
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
    """Return the finished lines of a run's journal; raise `RunError` with file and line if one is damaged."""
    return JournalReader(folder).read_new()


def first_entry(folder: Path) -> Entry | None:
    """Return the first line of a journal, or `None` if it is missing or unreadable."""
    path = journal_path(folder)
    if not path.is_file():
        return None
    try:
        with open(path, "rb") as file:
            return _ENTRY.validate_json(DigestChain().unseal(file.readline().rstrip(b"\n")))
    except (OSError, ValidationError, BrokenChain):
        return None


def damaged(path: Path, number: int, problem: str) -> RunError:
    """Return the error for a damaged line."""
    return RunError(f"{path}:{number} is damaged ({problem}): restore it from a copy")


def _refuse_newer(line: bytes, path: Path) -> None:
    found = re.search(rb'"version":\s*(\d{1,9})', line)
    if found and int(found.group(1)) > VERSION:
        raise RunError(
            f"{path}:1 has format version {int(found.group(1))}, and this interleave reads up to {VERSION}: "
            "continue it with a newer interleave, or restore it from a copy if no newer one wrote it"
        )
