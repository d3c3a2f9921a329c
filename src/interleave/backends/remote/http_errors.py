"""Failed HTTP requests as `BackendError`s: the only place that interprets status codes.

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
| not JSON, wrong fields, no picture in it  | bad_reply    | yes         |
| too many bytes or JSON values             | bad_reply    | no          |
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from interleave.backends.deadlines import TIMEOUT_ADVICE
from interleave.backends.remote.keys import Key
from interleave.backends.remote.limits import UnreadableJson, parse_json
from interleave.errors import BackendError, Failure
from interleave.redaction import redacted
from interleave.text import one_line

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
    413: "send fewer or smaller pictures",
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
        f"{where} gave no whole answer within {seconds:g} s{TIMEOUT_ADVICE}",
        transient=True,
        kind=Failure.TIMEOUT,
    )


def refused(where: str, reason: str) -> BackendError:
    """The model declined to answer."""
    return BackendError(f"{where} refused the request: {shorten(reason)}", kind=Failure.REFUSED)


def no_picture(where: str, said: str) -> BackendError:
    """The model answered with text only; on a retry most models draw."""
    words = shorten(said)
    return BackendError(
        f"{where} answered without a picture" + (f": {words!r}" if words else ""),
        transient=True,
        kind=Failure.NO_PICTURE,
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
    return one_line(redacted(str(text or "")[: 20 * EXCERPT_CHARACTERS], message=True), EXCERPT_CHARACTERS)


def _denial(status: int, fields: Mapping[str, Any], key: Key | None) -> str:
    if key is not None:  # the message of such a response often repeats the key, so it is not shown
        return f"the key in {key.variable} is not accepted, or may not do this"
    advice = "name the environment variable that holds it with ?key=NAME"
    said = shorten(fields.get("message"))
    if status == 403 and said:  # a server may also refuse an address, a host or a country
        return f"{said} (if it wants a key, {advice})"
    return f"it wants a key: {advice}"
