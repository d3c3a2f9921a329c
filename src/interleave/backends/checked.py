"""What any model brings back, a user's own included: checked and rid of keys before anybody keeps it."""

from __future__ import annotations

import math
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar, cast

from pydantic import BaseModel

from interleave.backends.protocols import Reply, Token
from interleave.errors import BackendError, Failure
from interleave.redaction import redacted, redacted_model
from interleave.text import storable

T = TypeVar("T")


def checked(result: T, who: str) -> T:
    """What a model brought, as it is both used and kept: a journal later answers with the same.

    Raises `BackendError` for a reply that is none.
    """
    if isinstance(result, Reply):
        return cast(T, _checked_reply(result, who))
    return cast(T, redacted_model(result)) if isinstance(result, BaseModel) else result


def is_price(value: object) -> bool:
    """Whether this is an amount of money: with less than nothing, or NaN, a limit would never be reached."""
    return _is_between(value, 0, math.inf) and value != math.inf


def explained_by(error: BaseException) -> BaseException | None:
    """The error as the cause of another; None where a traceback of it would show a key."""
    told = "".join(traceback.format_exception(error))
    return error if redacted(told, message=True) == told else None


@contextmanager
def clean_errors() -> Iterator[None]:
    """Whatever model fails in here, its error says no key, and can be kept."""
    try:
        yield
    except BackendError as error:
        said = str(error)
        if (clean := storable(redacted(said, message=True))) != said:
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
    """The tokens; none where one has no probability, for a confidence is worth nothing then."""
    if not all(_is_between(token.probability, 0, 1) for token in tokens):
        return ()
    return tuple(Token(storable(token.text), token.probability) for token in tokens)


def _is_between(value: object, low: float, high: float) -> bool:
    return isinstance(value, int | float) and low <= value <= high  # NaN is on neither side


def _counts(usage: object) -> dict[str, int]:
    found = usage.items() if isinstance(usage, Mapping) else ()
    return {str(name): count for name, count in found if isinstance(count, int) and count >= 0}


def _bad(problem: str) -> BackendError:
    return BackendError(problem, kind=Failure.BAD_REPLY)
