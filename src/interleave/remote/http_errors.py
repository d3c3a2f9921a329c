"""Responses: size limits, field access, and failures as `BackendError`s.

This is the only place that interprets status codes.

| failure                                   | kind         | retried     |
|-------------------------------------------|--------------|-------------|
| no connection, reset, cut off             | unreachable  | yes         |
| certificate not trusted                   | unreachable  | no          |
| 408, 504, or longer than the deadline     | timeout      | yes         |
| 409, 425, 429, 503, 529                   | busy         | yes         |
| 429 because the credit is used up         | denied       | no          |
| 401, 403, 407                             | denied       | no          |
| other 4xx, a redirect                     | invalid      | no          |
| 4xx of a content filter                   | refused      | no          |
| other 5xx                                 | failed       | yes         |
| not JSON, wrong fields, no image in it    | bad_reply    | yes         |
| too many bytes or JSON values             | bad_reply    | no          |

A response that is cheap to send must not be expensive to read. Parsing JSON takes time and memory in
proportion to the number of its values, so that number is first estimated from commas and brackets. Fields
are read from plain JSON values. The SDKs' models would build an object for every value, of which a server
can send any number, and would pass wrong types through to their first use.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, TypeVar

from interleave import BackendError, Failure
from interleave.plugin import backends, one_line, redaction
from interleave.remote.keys import Key

if TYPE_CHECKING:
    import httpx2


CHAT_BYTES = 8_000_000
"""Enough for a chat completion with the log-probabilities of about fifty thousand tokens."""
STATUS_BYTES = 16_000_000
"""Enough for the state of a server, such as all workflows in ComfyUI's queue."""
IMAGE_BYTES = 64_000_000
"""The largest size of a base64 PNG of 16 megapixels."""
ERROR_BYTES = 1_000_000
"""Limit for an error response, of which only the beginning is shown."""
MAX_JSON_VALUES = 1_000_000
"""Limit per response; the log-probabilities of fifty thousand tokens have about half as many values."""


class UnreadableJson(ValueError):
    """A body that is not JSON, or has too many values."""

    def __init__(self, problem: str, *, permanent: bool = False) -> None:
        super().__init__(problem)
        self.permanent = permanent
        """Whether a retry would probably fail the same way."""


def parse_json(body: bytes, *, max_values: int = MAX_JSON_VALUES) -> Any:
    """Parse the JSON of a body; raise `UnreadableJson` if it is not JSON or has too many values."""
    if (values := 1 + sum(body.count(mark) for mark in (b",", b"[", b"{"))) > max_values:
        raise UnreadableJson(f"it has about {values:,} values, more than {max_values:,}", permanent=True)
    try:
        return json.loads(body)
    except RecursionError:
        raise UnreadableJson("its values are nested too deeply", permanent=True) from None
    except ValueError:
        raise UnreadableJson("it is not JSON") from None


EXCERPT_CHARACTERS = 200
MAX_ERROR_VALUES = 20_000
"""An error with more JSON values than this is shown as plain text."""
_KINDS = {
    401: Failure.DENIED,
    402: Failure.DENIED,
    403: Failure.DENIED,
    407: Failure.DENIED,
    408: Failure.TIMEOUT,
    409: Failure.BUSY,
    425: Failure.BUSY,
    429: Failure.BUSY,
    503: Failure.BUSY,
    504: Failure.TIMEOUT,
    529: Failure.BUSY,
}
_PERMANENT = {501, 505}
"""5xx that a retry cannot fix."""
_OUT_OF_MONEY = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}
_WRONG_KEY = {"API_KEY_INVALID", "invalid_api_key"}
_FILTERED = {
    "content_filter",
    "content_policy_violation",
    "moderation_blocked",
    "responsible_ai_policy_violation",
    "image_generation_user_error",
}
_DELAY = re.compile(r"(\d+(?:\.\d+)?)s\Z")

ADVICE = {
    400: "check the model and its options",
    404: "check the model's name and the address",
    405: "check the address",
    413: "send fewer or smaller images",
    422: "check the model and its options",
}


def status_error(
    where: str, status: int, headers: Mapping[str, str], body: bytes, *, key: Key | None
) -> BackendError:
    """Return the error for a response with a status other than 2xx."""
    if 300 <= status < 400:
        return BackendError(
            f"{where} answered {status}, a redirect, which is never followed: use the final address",
            kind=Failure.INVALID,
        )
    fields = _error_fields(body)
    codes = _codes(fields)
    if codes & _FILTERED:
        said = shorten(fields.get("message"))
        return BackendError(f"{where} refused the request: {said or 'content filter'}", kind=Failure.REFUSED)
    if status == 429 and codes & _OUT_OF_MONEY:
        return BackendError(f"{where} answered 429: the account has no credit left", kind=Failure.DENIED)
    kind = _KINDS.get(status, Failure.INVALID if status < 500 else Failure.FAILED)
    if codes & _WRONG_KEY:  # Google answers 400 to a wrong key
        kind = Failure.DENIED
    if kind is Failure.DENIED:
        return BackendError(f"{where} answered {status}: {_denial(status, fields, key)}", kind=kind)
    transient = kind is not Failure.INVALID and status not in _PERMANENT
    said = shorten(fields.get("message"))
    parts = [f"{where} answered {status}", said, "" if transient else ADVICE.get(status, "")]
    return BackendError(
        ": ".join(part for part in parts if part),
        transient=transient,
        retry_after=retry_after(headers, fields) if transient else None,
        kind=kind,
        status=status,
    )


def bad_reply(where: str, problem: str, *, excerpt: str = "", permanent: bool = False) -> BackendError:
    """Return the error for an unusable response, often the page of a proxy whose server is starting."""
    shown = shorten(excerpt)
    return BackendError(
        f"{where} sent an unusable response: {shorten(problem)}" + (f" ({shown!r})" if shown else ""),
        transient=not permanent,
        kind=Failure.BAD_REPLY,
    )


def unreachable(where: str, reason: str, *, permanent: bool = False) -> BackendError:
    advice = "" if not permanent else "; fix its certificate, or trust its authority with SSL_CERT_FILE"
    return BackendError(
        f"{where} cannot be reached ({shorten(reason)}){advice}",
        transient=not permanent,
        kind=Failure.UNREACHABLE,
    )


def timed_out(where: str, seconds: float) -> BackendError:
    return BackendError(
        f"{where} sent no complete response within {seconds:g} s{backends.TIMEOUT_ADVICE}",
        transient=True,
        kind=Failure.TIMEOUT,
    )


def refused(where: str, reason: str) -> BackendError:
    """Return the error for a request that the model declined."""
    return BackendError(f"{where} refused the request: {shorten(reason)}", kind=Failure.REFUSED)


def no_image(where: str, said: str) -> BackendError:
    """Return the error for a response with text only; most models return an image on a retry."""
    words = shorten(said)
    return BackendError(
        f"{where} answered without an image" + (f": {words!r}" if words else ""),
        transient=True,
        kind=Failure.NO_IMAGE,
    )


def retry_after(headers: Mapping[str, str], fields: Mapping[str, Any] | None = None) -> float | None:
    """Return the retry delay that the server requests in seconds; None if it is missing or invalid."""
    lower = {name.lower(): value for name, value in headers.items()}
    in_ms = _number(lower.get("retry-after-ms"))
    if in_ms is not None and in_ms >= 0:
        return in_ms / 1000
    value = lower.get("retry-after")
    seconds = _number(value)
    if seconds is None and value is not None:
        seconds = _seconds_until(value)
    if seconds is None:
        seconds = _google_delay(fields or {})
    return seconds if seconds is not None and seconds >= 0 else None


def _number(value: str | None) -> float | None:
    try:
        number = float(value) if value is not None else None
    except ValueError:
        return None
    return number if number is not None and number == number and abs(number) != float("inf") else None


def _seconds_until(date: str) -> float | None:
    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


def _codes(fields: Mapping[str, Any]) -> set[str]:
    """Return the error codes of a response, from all fields in which the various APIs put them."""
    details = fields.get("details")
    sources = [fields, *(details if isinstance(details, list) else [])]
    names = ("code", "type", "status", "reason")
    return {str(each[name]) for each in sources if isinstance(each, dict) for name in names if each.get(name)}


def _google_delay(fields: Mapping[str, Any]) -> float | None:
    details = fields.get("details")
    for detail in details if isinstance(details, list) else []:
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and (found := _DELAY.match(delay)):
            return _number(found[1])
    return None


def _error_fields(body: bytes) -> dict[str, Any]:
    """Return the fields of an error of OpenAI, FastAPI or Google; for any other, its text as `message`."""
    raw = {"message": body[: 4 * EXCERPT_CHARACTERS].decode("utf-8", "replace")}
    try:
        value = parse_json(body, max_values=MAX_ERROR_VALUES)
    except UnreadableJson:
        return raw
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, dict):
        return raw
    inner = value.get("error")
    if isinstance(inner, dict):
        return {**inner, "message": _node_errors(value.get("node_errors")) or inner.get("message")}
    message = inner if isinstance(inner, str) else value.get("detail", value.get("message", ""))
    return {**value, "message": message if isinstance(message, str) else json.dumps(message)[:1000]}


def _node_errors(found: object) -> str:
    """Return ComfyUI's errors for the nodes of a workflow; its message only says that there are some."""
    said = []
    for number, node in found.items() if isinstance(found, dict) else ():
        errors = node.get("errors") if isinstance(node, dict) else None
        for error in errors if isinstance(errors, list) else ():
            if isinstance(error, dict):
                words = [each for each in (error.get("message"), error.get("details")) if each]
                said.append(f"node {number} ({node.get('class_type')}): {': '.join(map(str, words))}")
    return "; ".join(said)


def shorten(text: object) -> str:
    """Return the beginning of a server's message, redacted and on one line."""
    return one_line(
        redaction.redacted(str(text or "")[: 20 * EXCERPT_CHARACTERS], message=True), EXCERPT_CHARACTERS
    )


def _denial(status: int, fields: Mapping[str, Any], key: Key | None) -> str:
    if key is not None:  # the message of such a response often repeats the key, so it is not shown
        return f"the key in {key.variable} was rejected, or lacks the permission for this request"
    advice = "name the environment variable that holds it with ?key=NAME"
    said = shorten(fields.get("message"))
    if status == 403 and said:  # a server may also refuse an address, a host or a country
        return f"{said} (if it requires a key, {advice})"
    return f"it requires a key: {advice}"


T = TypeVar("T", str, dict, list)  # type: ignore[type-arg]

PARSED_JSON = "parsed_json"
"""The response extension in which `CheckedTransport` stores the JSON object."""
MAX_TOKEN_COUNT = 100_000_000
"""More than any model reads or writes in one call; a larger count is ignored."""
MAX_LABEL_CHARACTERS = 64
"""Longer than any finish reason or id."""
MAX_LISTED = 100
"""Maximum number of choices in a response; only one is requested."""
_TYPE_NAMES = {str: "text", dict: "an object", list: "a list", type(None): "null", bool: "true or false"}


def json_of(response: httpx2.Response) -> dict[str, Any]:
    """Return the JSON object of a response."""
    parsed: dict[str, Any] = response.extensions[PARSED_JSON]
    return parsed


def parse_object(body: bytes, where: str) -> dict[str, Any]:
    """Parse the JSON object of a body; raise `BackendError` for anything else."""
    try:
        return expect(parse_json(body), dict, "whole", where)
    except UnreadableJson as error:
        raise bad_reply(where, str(error), permanent=error.permanent) from None


def expect(value: object, type_: type[T], what: str, where: str) -> T:
    """Return the value if it is of this type, else raise `BackendError`."""
    if isinstance(value, type_):
        return value
    raise bad_reply(where, f"its {what} is {_type_name(value)}, not {_TYPE_NAMES[type_]}")


def optional(value: object, type_: type[T], what: str, where: str) -> T | None:
    """Return the value if it is of this type or None, else raise `BackendError`."""
    return None if value is None else expect(value, type_, what, where)


def first_item(response: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    """Return the first object of a list in a response; raise `BackendError` if the list is empty."""
    listed = optional(response.get(name), list, name, where)
    if not listed:
        raise bad_reply(where, f"it has no {name}")
    if len(listed) > MAX_LISTED:
        raise bad_reply(where, f"it has {len(listed):,} {name}, and one was requested", permanent=True)
    return expect(listed[0], dict, f"first of {name}", where)


def label(value: object, what: str, where: str) -> str | None:
    """Return a short text such as a finish reason; None if it is missing or empty."""
    found = optional(value, str, what, where)
    if found is not None and len(found) > MAX_LABEL_CHARACTERS:
        raise bad_reply(where, f"its {what} has {len(found):,} characters")
    return found or None


def token_count(value: object) -> int | None:
    """Return a token count; None if the value is not a plausible one."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= MAX_TOKEN_COUNT else None


def usage_missing(where: str) -> BackendError:
    """Return the error for a priced model that reports no token counts; a retry would not help."""
    return bad_reply(
        where,
        "it reports no token counts, so its cost is unknown: omit price_in and price_out, "
        "and limit the run with --max-calls",
        permanent=True,
    )


def _type_name(value: object) -> str:
    return _TYPE_NAMES.get(type(value), "a number")
