"""Reading the fields of an answer: what is not of the kind it must be is a bad reply, never a crash.

Answers are read as plain JSON values. The SDKs' own models build an object for every value there is, which a
server can make as many as it likes, and let wrong types through to wherever they are used first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from interleave.backends.remote.bounds import UnreadableAnswer, value_in
from interleave.backends.remote.http_errors import bad_reply
from interleave.errors import BackendError

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T", str, dict, list)  # type: ignore[type-arg]

ANSWER = "answer"
"""Under this name the door leaves the value of a JSON answer in the extensions of a response."""
MOST_TOKENS = 100_000_000
"""More than any model reads or writes in one call: such a count is not believed."""
WORD_CHARACTERS = 64
"""Of a finish reason."""
MOST_LISTED = 100
"""Choices in an answer: one is asked for."""
_NAMES = {str: "text", dict: "an object", list: "a list", type(None): "null", bool: "true or false"}


def answer_of(response: httpx2.Response) -> dict[str, Any]:
    """The JSON object of an answer, as the door has read it."""
    answer: dict[str, Any] = response.extensions[ANSWER]
    return answer


def object_in(body: bytes, where: str) -> dict[str, Any]:
    """The JSON object that a body is; raises a typed error for anything else."""
    try:
        return expect(value_in(body), dict, "whole", where)
    except UnreadableAnswer as error:
        raise bad_reply(where, str(error), for_good=error.for_good) from None


def expect(value: object, kind: type[T], what: str, where: str) -> T:
    """The value, if it is of this kind."""
    if isinstance(value, kind):
        return value
    raise bad_reply(where, f"its {what} is {_named(value)}, not {_NAMES[kind]}")


def optional(value: object, kind: type[T], what: str, where: str) -> T | None:
    """The value, if it is of this kind; None where there is none."""
    return None if value is None else expect(value, kind, what, where)


def first_of(answer: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    """The first object of a list in an answer; raises a typed error where there is none."""
    listed = optional(answer.get(name), list, name, where)
    if not listed:
        raise bad_reply(where, f"it holds no {name}")
    if len(listed) > MOST_LISTED:
        raise bad_reply(where, f"it holds {len(listed):,} {name}, and one was asked for", for_good=True)
    return expect(listed[0], dict, f"first of {name}", where)


def word(value: object, what: str, where: str) -> str | None:
    """A short text such as a finish reason; None where there is none."""
    found = optional(value, str, what, where)
    if found is not None and len(found) > WORD_CHARACTERS:
        raise bad_reply(where, f"its {what} has {len(found):,} characters")
    return found or None


def token_count(value: object) -> int | None:
    """How many tokens were counted; None for what cannot be a count, such as less than none."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= MOST_TOKENS else None


def uncounted(where: str) -> BackendError:
    """A model with a price that does not tell its tokens; it would not the next time either."""
    return bad_reply(
        where,
        "it does not say how many tokens it used, so its cost is unknown: leave price_in and price_out out, "
        "and limit the run with --max-calls",
        for_good=True,
    )


def _named(value: object) -> str:
    return _NAMES.get(type(value), "a number")
