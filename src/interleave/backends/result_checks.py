"""Results of any model, a user's own included: checked, and keys removed, before they are used or stored."""

from __future__ import annotations

import math
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar, cast

from pydantic import BaseModel

from interleave.backends.protocols import Reply, Token
from interleave.errors import BackendError, Failure, class_and_message
from interleave.redaction import redacted, redacted_model
from interleave.text import storable

T = TypeVar("T")


def checked(result: T, who: str) -> T:
    """The result of a model as it is both used and journalled, so that a replay gives the same.

    Raises `BackendError` for a malformed reply.
    """
    if isinstance(result, Reply):
        return cast(T, _checked_reply(result, who))
    return cast(T, redacted_model(result)) if isinstance(result, BaseModel) else result


def is_price(value: object) -> bool:
    """Whether this is a price: a negative one or NaN would never reach a limit."""
    return _is_between(value, 0, math.inf) and value != math.inf


def explained_by(error: BaseException) -> BaseException | None:
    """The error as the cause of another; None where its traceback would show a key."""
    shown = "".join(traceback.format_exception(error))
    return error if redacted(shown, message=True) == shown else None


@contextmanager
def clean_errors(who: str) -> Iterator[None]:
    """Remove keys from the errors of a model, and text that a journal cannot hold.

    A timeout that a user's own model raises is a transient failure, as that of any other model.
    """
    try:
        yield
    except TimeoutError as error:
        message = storable(redacted(f"{who} timed out ({class_and_message(error)})", message=True))
        raise BackendError(message, transient=True, kind=Failure.TIMEOUT) from explained_by(error)
    except BackendError as error:
        message = str(error)
        if (clean := storable(redacted(message, message=True))) != message:
            error.args = (clean,)
        for cause in filter(None, (error.__cause__, error.__context__)):
            if explained_by(cause) is None:
                error.__cause__, error.__context__ = None, None
        raise


def _checked_reply(reply: Reply, who: str) -> Reply:
    for name in ("text", "finish_reason"):
        if not isinstance(value := getattr(reply, name), str):
            raise _bad(f"{who} answered with a {name} that is a {type(value).__name__}")
    if reply.cost is not None and not is_price(reply.cost):
        raise _bad(f"{who} says its answer cost {reply.cost!r} US dollars")
    text = redacted(storable(reply.text))
    return Reply(
        text,
        redacted(storable(reply.finish_reason)),
        _counts(reply.usage),
        reply.cost,
        _usable(reply.tokens) if text == storable(reply.text) else (),
    )


def _usable(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    """The tokens; empty where one has no valid probability, as a confidence would mean nothing."""
    if not all(_is_between(token.probability, 0, 1) for token in tokens):
        return ()
    return tuple(Token(storable(token.text), token.probability) for token in tokens)


def _is_between(value: object, low: float, high: float) -> bool:
    return isinstance(value, int | float) and low <= value <= high  # False for NaN


def _counts(usage: object) -> dict[str, int]:
    found = usage.items() if isinstance(usage, Mapping) else ()
    return {str(name): count for name, count in found if isinstance(count, int) and count >= 0}


def _bad(problem: str) -> BackendError:
    return BackendError(problem, kind=Failure.BAD_REPLY)
