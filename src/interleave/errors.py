"""All errors that this package raises on purpose. The name says who must act; the message says what to do.

InterleaveError
├── ConfigurationError   the caller asked for something that does not exist or cannot work
│   └── MissingDependency    an optional package is not installed
├── InputError           a request, image or file from outside cannot be used
├── RunError             a run folder is damaged, busy, or does not fit what was asked
│   ├── FolderInUse          another process is writing to it
│   ├── MissingImage       an image that the journal names is missing or altered
│   ├── BrokenChain          a line of a journal does not follow from the line before it
│   └── StorageError         the disk failed while a run was under way; what is on it can be continued
│       └── LeaseLost            another worker has taken the run over
├── BackendError         a model or an API failed; `kind` says how, `transient` whether trying again may help
│   └── OutOfMemory          a device has too little memory for what was asked; less may fit
├── ReplyError           a model answered, but not in the agreed form; `reply` has the text
├── UnreadableLiteral    a stretch of a reply is not an object that can be read
└── LimitReached         a limit set by the user ended the run in order

Messages are lower case, name the value with `!r`, list alternatives and give the next command.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING

from interleave.text import storable

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

EVIDENCE_CHARACTERS = 300
"""How much of a bad reply an error message shows; the whole reply stays on the exception."""


class InterleaveError(Exception):
    """The root of the tree: catch this to catch everything the package raises on purpose."""

    def __init__(self, *arguments: object) -> None:
        # Messages name files and quote models, and are written to journals and pages.
        super().__init__(*(storable(each) if isinstance(each, str) else each for each in arguments))


class ConfigurationError(InterleaveError, ValueError):
    """The caller asked for something that does not exist or cannot work."""


class MissingDependency(ConfigurationError, ImportError):
    """An optional package is not installed; the message has the command that installs it."""


class InputError(InterleaveError, ValueError):
    """A request, image or file from outside cannot be used."""


class RunError(InterleaveError):
    """A run folder is damaged, busy, or does not fit what was asked of it."""


class FolderInUse(RunError):
    """Another process is writing to the folder: nothing is wrong with it, but it must be left alone."""


class MissingImage(RunError):
    """An image that the journal names is missing or altered."""

    def __init__(self, path: object, what: str) -> None:
        super().__init__(f"the image {path} {what}: restore it, or have it drawn again with --redraw")


class BrokenChain(RunError, ValueError):
    """A line of a journal does not follow from the line before it; the message says what is wrong with it."""


class StorageError(RunError):
    """The disk failed while a run was under way; what is on it can be continued."""

    @classmethod
    def at(cls, path: object, error: OSError) -> StorageError:
        reason = error.strerror or error
        return cls(f"cannot write {path} ({reason}): make room or repair the disk, then continue the run")


class LeaseLost(StorageError):
    """The lease of a run has ended, and another worker may have taken it over: this one writes no more."""


class Failure(StrEnum):
    """How a model or an API failed."""

    FAILED = "failed"
    UNREACHABLE = "unreachable"
    """No connection, or one that broke."""
    TIMEOUT = "timeout"
    BUSY = "busy"
    """It asks to be called later."""
    DENIED = "denied"
    """The key is missing, wrong, or without permission or credit."""
    INVALID = "invalid"
    """It says that the request is invalid."""
    BAD_REPLY = "bad_reply"
    """Its answer is not in the form that was asked for."""
    REFUSED = "refused"
    """A content filter, or the model itself, refused the request."""
    NO_IMAGE = "no_picture"
    """It answered with text where an image was asked for."""


class BackendError(InterleaveError, RuntimeError):
    """A model or an API failed."""

    def __init__(
        self,
        message: str,
        *,
        transient: bool = False,
        retry_after: float | None = None,
        kind: Failure = Failure.FAILED,
        status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.transient = transient
        self.kind = kind
        self.status = status
        """The HTTP status, where an answer had one that is no success."""
        self.retry_after = retry_after
        """Seconds to wait that the backend asked for, if it did."""


class OutOfMemory(BackendError):
    """A device has too little memory for what was asked; less may fit."""


class ReplyError(InterleaveError, ValueError):
    """A model answered, but not in the agreed form."""

    def __init__(self, problem: str, *, reply: str = "", advice: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        """In words for the model, which is asked again with them."""
        self.reply = reply
        self.advice = advice
        """What the person who runs the model can do about it."""

    def __str__(self) -> str:
        evidence = f" (the reply ended with {self.reply[-EVIDENCE_CHARACTERS:]!r})" if self.reply else ""
        return self.problem + evidence + (f". {self.advice}" if self.advice else "")


class UnreadableLiteral(InterleaveError, ValueError):
    """A stretch of a reply is not an object that can be read; the message says why."""


class LimitReached(InterleaveError):
    """A limit set by the user ended the run in order."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of an "unknown name" message: the known names, and the closest of them."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"Known: {', '.join(names) or 'none'}.{hint}"


def add_advice(error: InterleaveError, advice: str) -> None:
    """Add to the message of an error what else can be done about it."""
    error.args = (f"{error}. {advice}", *error.args[1:])
    if isinstance(error, ImportError):  # it has its message twice
        error.msg = error.args[0]


def class_and_message(error: Exception) -> str:
    """The class and message of a foreign exception; the message may be empty."""
    return f"{type(error).__name__}: {error}" if str(error) else f"{type(error).__name__} without a message"


def causes(error: BaseException) -> Iterator[BaseException]:
    """An error, and the errors that led to it."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


_WANTED = {
    "int": "a whole number",
    "float": "a number",
    "finite_number": "a number",
    "bool": "true or false",
    "string_type": "a text",
    "tuple": "a list",
    "model": "a table of settings",
}
_LIMITS = {
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than": "less than {lt:g}",
    "less_than_equal": "at most {le:g}",
}


def problem_with(error: ErrorDetails) -> str:
    """The problem without its location: `must be a whole number, not 'abc'`."""
    kind, context = error["type"], error.get("ctx", {})
    shown = f"{error['input']!r:.80}"
    if kind in _LIMITS:
        return f"must be {_LIMITS[kind].format(**context)}, not {shown}"
    if kind == "literal_error":
        return f"must be {context['expected']}, not {shown}"
    if kind == "value_error":
        return str(context["error"])
    for start, wanted in _WANTED.items():
        if kind.startswith(start):
            return f"must be {wanted}, not {shown}"
    return error["msg"][:1].lower() + error["msg"][1:]


def first_problem(error: ValidationError) -> str:
    """The first problem, with its location."""
    first = error.errors()[0]
    place = ".".join(str(piece) for piece in first["loc"])
    return f"{f'{place}: ' if place else ''}{problem_with(first)}"
