"""The journal of a run: one JSON line per fact, appended and never changed.

Everything else in a run folder can be made again from the journal and the pictures. Lines that record what a
model call brought are synced to disk before the run goes on; the others ride along with the next of those.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from interleave.errors import RunError
from interleave.runs.config import RunConfig
from interleave.types import Plan, Value, Verdict

VERSION = 1
FILE_NAME = "journal.jsonl"

Role = Literal["planner", "critic", "generator"]


class RequestPart(Value):
    """A part of the request: text, or the name of a stored picture."""

    text: str | None = None
    image: str | None = None


class Line(Value):
    """What every line of a journal has."""

    time: float = 0.0
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
    """The one writer of a journal. Readers need no lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            # The kernel drops the lock when the process dies, however it dies.
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._file)
            raise RunError(
                f"another process is writing to {path.parent}: wait for it, "
                "or choose another folder with --out"
            ) from None

    def append(self, entry: Line, *, sync: bool = False) -> None:
        """Add a line; with `sync` it and everything before it is on disk when this returns."""
        stamped = entry.model_copy(update={"time": round(time.time(), 3)})
        data = stamped.model_dump_json().encode() + b"\n"
        while data:
            data = data[os.write(self._file, data) :]
        if sync:
            os.fdatasync(self._file)

    def drop_torn_line(self) -> bool:
        """Cut off a last line that was never finished; whether there was one."""
        size = os.fstat(self._file).st_size
        kept = _end_of_last_line(self.path)
        if kept == size:
            return False
        os.ftruncate(self._file, kept)
        os.fsync(self._file)
        return True

    def close(self) -> None:
        os.close(self._file)


def read_journal(folder: Path) -> list[Entry]:
    """Every finished line of a run's journal; raises `RunError` with file and line where one is damaged."""
    return list(_read_lines(folder / FILE_NAME))


def _read_lines(path: Path) -> Iterator[Entry]:
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise RunError(f"{path.parent} is not a run folder: it has no {FILE_NAME}") from None
    except OSError as error:
        raise RunError(f"{path} cannot be read ({error.strerror})") from None
    whole = data[: data.rfind(b"\n") + 1]
    for number, line in enumerate(whole.split(b"\n")[:-1], start=1):
        try:
            yield _ENTRY.validate_json(line)
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
            raise RunError(f"{path}:{number} is damaged or of an unknown version ({reason})") from None


def _end_of_last_line(path: Path) -> int:
    data = path.read_bytes()
    return data.rfind(b"\n") + 1
