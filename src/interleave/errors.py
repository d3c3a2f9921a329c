"""Every way this package fails on purpose. The name says who must act; the message says what to do next.

InterleaveError
├── ConfigurationError   the caller asked for something that does not exist or cannot work
│   └── MissingDependency    an optional package is not installed
├── InputError           a request, picture or file from outside cannot be used
├── RunError             a run folder is damaged, busy, or does not fit what was asked
│   ├── FolderInUse          another process is at work in it
│   └── StorageError         the disk failed while a run was under way; what is on it can be continued
├── BackendError         a model or an API failed; `kind` says how, `transient` whether trying again may help
│   └── OutOfMemory          a device has too little memory for what was asked; less may fit
├── ReplyError           a model answered, but not in the agreed form; `reply` has the text
└── LimitReached         a limit set by the user ended the run in order

Messages are lower case, name the value with `!r`, list alternatives and give the next command.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from enum import StrEnum

from interleave.text import storable

EVIDENCE_CHARACTERS = 300
"""How much of a bad reply an error message shows; the whole reply stays on the exception."""


class InterleaveError(Exception):
    """The root of the tree: catch this to catch everything the package raises on purpose."""

    def __init__(self, *said: object) -> None:
        # Messages name files and quote models, and are written to journals and pages.
        super().__init__(*(storable(each) if isinstance(each, str) else each for each in said))


class ConfigurationError(InterleaveError, ValueError):
    """The caller asked for something that does not exist or cannot work."""


class MissingDependency(ConfigurationError, ImportError):
    """An optional package is not installed; the message has the command that installs it."""


class InputError(InterleaveError, ValueError):
    """A request, picture or file from outside cannot be used."""


class RunError(InterleaveError):
    """A run folder is damaged, busy, or does not fit what was asked of it."""


class FolderInUse(RunError):
    """Another process is at work in the folder: nothing is wrong with it, but it must be left alone."""


class StorageError(RunError):
    """The disk failed while a run was under way; what is on it can be continued."""

    @classmethod
    def at(cls, path: object, error: OSError) -> StorageError:
        reason = error.strerror or error
        return cls(f"cannot write {path} ({reason}): make room or mend the disk, then continue the run")


class Failure(StrEnum):
    """How a model or an API failed."""

    FAILED = "failed"
    UNREACHABLE = "unreachable"
    """No connection, or one that broke."""
    TIMEOUT = "timeout"
    BUSY = "busy"
    """It asks to come back later."""
    DENIED = "denied"
    """The key is missing, wrong, or has no right or no money left."""
    INVALID = "invalid"
    """It says that the request is wrong."""
    BAD_REPLY = "bad_reply"
    """It answered with something that is no answer."""
    REFUSED = "refused"
    """It understood and will not do it: a content filter, or its own refusal."""
    NO_PICTURE = "no_picture"
    """It answered with words where a picture was asked for."""


class BackendError(InterleaveError, RuntimeError):
    """A model or an API failed."""

    def __init__(
        self,
        message: str,
        *,
        transient: bool = False,
        retry_after: float | None = None,
        kind: Failure = Failure.FAILED,
    ) -> None:
        super().__init__(message)
        self.transient = transient
        self.kind = kind
        self.retry_after = retry_after
        """Seconds the backend asked us to wait, if it did."""


class OutOfMemory(BackendError):
    """A device has too little memory for what was asked; less may fit."""


class ReplyError(InterleaveError, ValueError):
    """A model answered, but not in the agreed form."""

    def __init__(self, problem: str, *, reply: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.reply = reply

    def __str__(self) -> str:
        if not self.reply:
            return self.problem
        tail = self.reply[-EVIDENCE_CHARACTERS:]
        return f"{self.problem} (the reply ended with {tail!r})"


class LimitReached(InterleaveError):
    """A limit set by the user ended the run in order."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The tail of an "unknown name" message: what is known, and the closest of it."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"Known: {', '.join(names) or 'none'}.{hint}"


def causes(error: BaseException) -> Iterator[BaseException]:
    """An error, and the errors that led to it."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__
