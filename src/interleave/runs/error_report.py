"""Errors as records for other programs: their kind, what happened, and what to do about it."""

from __future__ import annotations

import re

from interleave.errors import (
    BackendError,
    BrokenChain,
    ConfigurationError,
    Failure,
    FolderInUse,
    InputError,
    InterleaveError,
    LimitReached,
    MissingDependency,
    MissingPicture,
    OutOfMemory,
    ReplyError,
    RunError,
    StorageError,
)
from interleave.redaction import redacted
from interleave.types import Value

ADVICE: dict[type[Exception], str] = {
    ConfigurationError: "change the option, spec or profile that the message names",
    MissingDependency: "install what the message names",
    InputError: "change the request or the file that the message names",
    RunError: "choose another folder, or restore this one from a copy",
    FolderInUse: "wait until the other process has ended",
    MissingPicture: "restore the picture, or continue with --redraw",
    BrokenChain: "restore the journal from a copy",
    StorageError: "make room or repair the disk, then continue the run",
    OutOfMemory: "choose a smaller size, batch or model",
    ReplyError: "choose another model for this role, or give its replies more room",
    LimitReached: "continue with a higher limit",
}
FAILURE_ADVICE = {
    Failure.FAILED: "read what the model or its server says, then continue the run",
    Failure.UNREACHABLE: "start the server or correct its address, then continue the run",
    Failure.TIMEOUT: "raise ?timeout= of its spec or lower ?concurrency=, then continue the run",
    Failure.BUSY: "continue the run later",
    Failure.DENIED: "set the key that the message names, or renew its permission or credit",
    Failure.INVALID: "correct the spec: its model, its options or its address",
    Failure.BAD_REPLY: "check what answers at this address, then continue the run",
    Failure.REFUSED: "reword the request",
    Failure.NO_PICTURE: "choose a model that draws",
}
UNEXPECTED = "unexpected"
"""The kind of an error that this package does not raise on purpose."""


class ErrorReport(Value):
    """An error that ended a command."""

    kind: str
    """The name of its class in `interleave`, in snake case; `usage_error`, `interrupted`, `unexpected`."""
    message: str
    advice: str
    """What to do about errors of this kind; the message often says it more closely."""
    failure: str | None = None
    """How a model or an API failed: the `kind` of a `BackendError`."""
    transient: bool = False
    """Whether trying again may help."""


def report_of(error: Exception) -> ErrorReport:
    message = redacted(str(error), message=True)
    if isinstance(error, BackendError):
        advice = ADVICE[OutOfMemory] if isinstance(error, OutOfMemory) else FAILURE_ADVICE[error.kind]
        return ErrorReport(
            kind=_snake_case(type(error)),
            message=message,
            advice=advice,
            failure=error.kind.value,
            transient=error.transient,
        )
    if not isinstance(error, InterleaveError):
        return ErrorReport(kind=UNEXPECTED, message=message, advice="add --debug to see where it came from")
    advice = error.advice if isinstance(error, ReplyError) and error.advice else ""
    known = next((ADVICE[each] for each in type(error).__mro__ if each in ADVICE), "")
    return ErrorReport(kind=_snake_case(type(error)), message=message, advice=advice or known)


def _snake_case(class_: type[Exception]) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", class_.__name__).lower()
