"""What all routes need of a request: who sent it, what they have seen; and JSON without pictures."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from interleave.plugin import Value
from interleave.service.documents.keys import Caller
from interleave.service.documents.refusals import ApiRefusal
from interleave.service.http.middleware import CALLER

if TYPE_CHECKING:
    from starlette.requests import Request

_EVENT_NUMBER = re.compile(r"[0-9]{1,9}\Z")


def caller_of(request: Request) -> Caller:
    """Who sent a request; the middleware has checked the key."""
    caller = request.scope[CALLER]
    if not isinstance(caller, Caller):  # an open path, without a key
        raise ApiRefusal("an API key is needed", status=401, code="invalid_api_key")
    return caller


def event_number(request: Request) -> int:
    """The number of the last event that the client has; -1 where it has none."""
    given = request.query_params.get("starting_after") or request.headers.get("last-event-id") or ""
    return int(given) if _EVENT_NUMBER.match(given) else -1


def value_json(value: Value, status: int = 200) -> Response:
    """A value of our own as JSON."""
    return Response(value.model_dump_json().encode(), status, media_type="application/json")


def plain_json(body: Any, status: int = 200) -> Response:
    """JSON without pictures."""
    return Response(
        json.dumps(body, ensure_ascii=False).encode("utf-8", "backslashreplace"),
        status,
        media_type="application/json",
    )
