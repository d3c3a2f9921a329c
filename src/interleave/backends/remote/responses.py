"""The fields of a JSON response: one of the wrong type is a `BackendError`, never a crash.

Responses are read as plain JSON values. The SDKs' own models build an object for every value, of which a
server can send any number, and let wrong types through to wherever they are used first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from interleave.backends.remote.http_errors import bad_reply
from interleave.backends.remote.limits import UnreadableJson, parse_json
from interleave.errors import BackendError

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T", str, dict, list)  # type: ignore[type-arg]

PARSED_JSON = "parsed_json"
"""The key in the extensions of a response under which `CheckedTransport` puts its JSON object."""
MAX_TOKEN_COUNT = 100_000_000
"""More than any model reads or writes in one call: a larger count is ignored."""
MAX_LABEL_CHARACTERS = 64
"""Longer than any finish reason or id."""
MAX_LISTED = 100
"""Items in a list of choices; only one is asked for."""
_TYPE_NAMES = {str: "text", dict: "an object", list: "a list", type(None): "null", bool: "true or false"}


def json_of(response: httpx2.Response) -> dict[str, Any]:
    """The JSON object of a response."""
    parsed: dict[str, Any] = response.extensions[PARSED_JSON]
    return parsed


def parse_object(body: bytes, where: str) -> dict[str, Any]:
    """The JSON object in a body; raises `BackendError` for anything else."""
    try:
        return expect(parse_json(body), dict, "whole", where)
    except UnreadableJson as error:
        raise bad_reply(where, str(error), permanent=error.permanent) from None


def expect(value: object, type_: type[T], what: str, where: str) -> T:
    """The value, which must be of this type."""
    if isinstance(value, type_):
        return value
    raise bad_reply(where, f"its {what} is {_type_name(value)}, not {_TYPE_NAMES[type_]}")


def optional(value: object, type_: type[T], what: str, where: str) -> T | None:
    """The value, which must be of this type or None."""
    return None if value is None else expect(value, type_, what, where)


def first_item(response: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    """The first object of a list in a response; raises `BackendError` if there is none."""
    listed = optional(response.get(name), list, name, where)
    if not listed:
        raise bad_reply(where, f"it holds no {name}")
    if len(listed) > MAX_LISTED:
        raise bad_reply(where, f"it holds {len(listed):,} {name}, and one was asked for", permanent=True)
    return expect(listed[0], dict, f"first of {name}", where)


def label(value: object, what: str, where: str) -> str | None:
    """A short text such as a finish reason; None if there is none."""
    found = optional(value, str, what, where)
    if found is not None and len(found) > MAX_LABEL_CHARACTERS:
        raise bad_reply(where, f"its {what} has {len(found):,} characters")
    return found or None


def token_count(value: object) -> int | None:
    """A number of tokens; None for anything that cannot be one."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= MAX_TOKEN_COUNT else None


def usage_missing(where: str) -> BackendError:
    """The error for a priced model that does not report its tokens; a retry would not help."""
    return bad_reply(
        where,
        "it does not say how many tokens it used, so its cost is unknown: leave price_in and price_out out, "
        "and limit the run with --max-calls",
        permanent=True,
    )


def _type_name(value: object) -> str:
    return _TYPE_NAMES.get(type(value), "a number")
