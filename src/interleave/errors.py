"""Errors that this package raises deliberately. The class says who must act, the message what to do.

InterleaveError
├── ConfigurationError   the caller asked for something that does not exist or cannot work
│   └── MissingDependency    an optional package is not installed
├── InputError           a request, image or file from outside cannot be used
│   ├── UnknownWords         the planner does not know words of the request; `nearest` has neighbours
│   └── Asked                the plan does not fit the request (`types.py`)
├── RunError             a run folder is damaged, in use, or does not match the call
│   ├── FolderInUse          another process is writing to it
│   ├── MissingImage         an image that the journal names is missing or altered
│   ├── BrokenChain          a line of a journal does not follow from the line before it
│   └── StorageError         the disk failed during a run, which can be continued
│       └── LeaseLost            another worker has taken over the run
├── BackendError         a model or an API failed; `kind` says how, `transient` whether a retry may help
│   └── OutOfMemory          a device has too little memory for the request
├── ReplyError           a model's reply is not in the required format; `reply` has the text
├── UnreadableLiteral    a part of a reply is not a readable object
└── LimitReached         a limit set by the user ended the run

Messages are lower case, quote the value with `!r`, list alternatives and give the next command.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

from interleave.text import storable

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

EVIDENCE_CHARACTERS = 300
"""Characters of a bad reply in an error message. The exception keeps the whole reply."""


class InterleaveError(Exception):
    """Base class of all errors that the package raises deliberately."""

    def __init__(self, *arguments: object) -> None:
        # Messages contain file names and replies, and are written to journals and pages.
        super().__init__(*(storable(each) if isinstance(each, str) else each for each in arguments))


class ConfigurationError(InterleaveError, ValueError):
    """The caller asked for something that does not exist or cannot work."""


class MissingDependency(ConfigurationError, ImportError):
    """An optional package is not installed. The message has the command that installs it."""


class InputError(InterleaveError, ValueError):
    """A request, image or file from outside cannot be used."""


class UnknownWords(InputError):
    """The planner does not know words of the request."""

    def __init__(self, message: str, nearest: Mapping[str, str]) -> None:
        super().__init__(message)
        self.nearest = dict(nearest)
        """Unknown word → the known word that `nearest=True` puts in its place. Others have no neighbour."""


class RunError(InterleaveError):
    """A run folder is damaged, in use, or does not match the call."""


class FolderInUse(RunError):
    """Another process is writing to the folder, which is intact but must not be changed."""


class MissingImage(RunError):
    """An image that the journal names is missing or altered."""

    def __init__(self, path: object, what: str) -> None:
        super().__init__(f"the image {path} {what}: restore it, or redraw it with redraw=True")


class BrokenChain(RunError, ValueError):
    """A line of a journal does not follow from the line before it. The message says why."""


class StorageError(RunError):
    """The disk failed during a run. The run can be continued from its folder."""

    @classmethod
    def at(cls, path: object, error: OSError) -> StorageError:
        reason = error.strerror or error
        return cls(f"cannot write {path} ({reason}): make room or repair the disk, then continue the run")


class LeaseLost(StorageError):
    """The lease of a run has ended. Another worker may have taken over, so this one stops writing."""


class Failure(StrEnum):
    """How a model or an API failed."""

    FAILED = "failed"
    UNREACHABLE = "unreachable"
    """No connection, or one that broke."""
    TIMEOUT = "timeout"
    BUSY = "busy"
    """The server asks to be called later."""
    DENIED = "denied"
    """The key is missing, wrong, or without permission or credit."""
    INVALID = "invalid"
    """The server reports an invalid request."""
    BAD_REPLY = "bad_reply"
    """The answer is not in the requested format."""
    REFUSED = "refused"
    """A content filter, or the model itself, refused the request."""
    NO_IMAGE = "no_picture"
    """The answer is text instead of an image."""


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
        """HTTP status of a failed answer, if there was one."""
        self.retry_after = retry_after
        """Seconds to wait, if the backend asked for a delay."""


class OutOfMemory(BackendError):
    """A device has too little memory for the request. A smaller one may fit."""


class ReplyError(InterleaveError, ValueError):
    """A model's reply is not in the required format."""

    def __init__(self, problem: str, *, reply: str = "", advice: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        """Problem as text for the model, which is asked again with it."""
        self.reply = reply
        self.advice = advice
        """Advice for the person who runs the model."""

    def __str__(self) -> str:
        evidence = f" (the reply ended with {self.reply[-EVIDENCE_CHARACTERS:]!r})" if self.reply else ""
        return self.problem + evidence + (f". {self.advice}" if self.advice else "")


class UnreadableLiteral(InterleaveError, ValueError):
    """A part of a reply is not a readable object. The message says why."""


class LimitReached(InterleaveError):
    """A limit set by the user ended the run."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of an "unknown name" message: the known names and the closest of them."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"Known: {', '.join(names) or 'none'}.{hint}"


def add_advice(error: InterleaveError, advice: str) -> None:
    """Append advice to the message of an error."""
    error.args = (f"{error}. {advice}", *error.args[1:])
    if isinstance(error, ImportError):  # `ImportError` stores its message twice
        error.msg = error.args[0]


def class_and_message(error: Exception) -> str:
    """Return the class and message of a foreign exception. The message may be empty."""
    return f"{type(error).__name__}: {error}" if str(error) else f"{type(error).__name__} without a message"


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and the errors that caused it."""
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
    """Return the problem without its location: `must be a whole number, not 'abc'`."""
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
    """Return the first problem with its location."""
    first = error.errors()[0]
    place = ".".join(str(piece) for piece in first["loc"])
    return f"{f'{place}: ' if place else ''}{problem_with(first)}"
