"""Responses: how much of one is read, its fields, and failures as `BackendError`s.

The only place that interprets status codes.

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
| not JSON, wrong fields, no image in it  | bad_reply    | yes         |
| too many bytes or JSON values             | bad_reply    | no          |

A response that is cheap to send must not be expensive to read. Parsing JSON takes time and memory in
proportion to the number of its values, so these are estimated from its commas and brackets first. Fields are
read from plain JSON values: the SDKs' own models build an object for every value, of which a server can send
any number, and let wrong types through to wherever they are used first.
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
"""A chat completion with the log-probabilities of about fifty thousand tokens."""
STATUS_BYTES = 16_000_000
"""The state of a server, such as all workflows in the queue of ComfyUI."""
IMAGE_BYTES = 64_000_000
"""A base64 PNG of 16 megapixels is at most this large."""
ERROR_BYTES = 1_000_000
"""Of an error, only the beginning is shown."""
MAX_JSON_VALUES = 1_000_000
"""In one response; the log-probabilities of fifty thousand tokens have about half as many."""


class UnreadableJson(ValueError):
    """A body that is not JSON, or has too many values."""

    def __init__(self, problem: str, *, permanent: bool = False) -> None:
        super().__init__(problem)
        self.permanent = permanent
        """Whether a retry would probably fail in the same way."""


def parse_json(body: bytes, *, max_values: int = MAX_JSON_VALUES) -> Any:
    """The JSON value of a body; raises `UnreadableJson` if it is not JSON or has too many values."""
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
    """The error for a response with a status other than 2xx."""
    if 300 <= status < 400:
        return BackendError(
            f"{where} answers with a redirect ({status}), which is never followed: write the final address",
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
    """A response that cannot be used; often the page of a proxy whose server is still starting."""
    shown = shorten(excerpt)
    return BackendError(
        f"{where} sent no usable answer: {shorten(problem)}" + (f" ({shown!r})" if shown else ""),
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
        f"{where} gave no whole answer within {seconds:g} s{backends.TIMEOUT_ADVICE}",
        transient=True,
        kind=Failure.TIMEOUT,
    )


def refused(where: str, reason: str) -> BackendError:
    """The model declined to answer."""
    return BackendError(f"{where} refused the request: {shorten(reason)}", kind=Failure.REFUSED)


def no_image(where: str, said: str) -> BackendError:
    """The model answered with text only; on a retry most models draw."""
    words = shorten(said)
    return BackendError(
        f"{where} answered without an image" + (f": {words!r}" if words else ""),
        transient=True,
        kind=Failure.NO_IMAGE,
    )


def retry_after(headers: Mapping[str, str], fields: Mapping[str, Any] | None = None) -> float | None:
    """The seconds that the server asks to wait; None if it does not say, or not sensibly."""
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
    """The error codes in a response, from all fields that the various APIs use for them."""
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
    """The fields of an error response of OpenAI, FastAPI or Google; of any other, its text as `message`."""
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
    """What ComfyUI says is wrong with the nodes of a workflow; its message only says that something is."""
    said = []
    for number, node in found.items() if isinstance(found, dict) else ():
        errors = node.get("errors") if isinstance(node, dict) else None
        for error in errors if isinstance(errors, list) else ():
            if isinstance(error, dict):
                words = [each for each in (error.get("message"), error.get("details")) if each]
                said.append(f"node {number} ({node.get('class_type')}): {': '.join(map(str, words))}")
    return "; ".join(said)


def shorten(text: object) -> str:
    """The beginning of a server's message, redacted and on one line."""
    return one_line(
        redaction.redacted(str(text or "")[: 20 * EXCERPT_CHARACTERS], message=True), EXCERPT_CHARACTERS
    )


def _denial(status: int, fields: Mapping[str, Any], key: Key | None) -> str:
    if key is not None:  # the message of such a response often repeats the key, so it is not shown
        return f"the key in {key.variable} is not accepted, or may not do this"
    advice = "name the environment variable that holds it with ?key=NAME"
    said = shorten(fields.get("message"))
    if status == 403 and said:  # a server may also refuse an address, a host or a country
        return f"{said} (if it wants a key, {advice})"
    return f"it wants a key: {advice}"


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
