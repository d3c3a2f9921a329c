"""Route descriptions, route sets added by packages, and helpers for request handlers.

An entry point of the group `interleave.routes` names a `RouteSet`. Its routes are described in
`/openapi.json`, authorized, limited and counted like the built-in ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from interleave import ConfigurationError
from interleave.plugin import Value, entry_points, first_problem
from interleave.service.documents.keys import Caller, KeyAccess
from interleave.service.documents.refusals import ApiRefusal
from interleave.service.documents.service import Documents
from interleave.service.http.middleware import CALLER
from interleave.service.http.request_bodies import read_json

V = TypeVar("V", bound=Value)
Key = tuple[str, str]
"""Method and path, with parameters in Starlette's notation."""
Handler = Callable[[Request], Awaitable[Response]]
_EVENT_NUMBER = re.compile(r"[0-9]{1,9}\Z")
_PARAMETER = re.compile(r"\\{\w+(:path)?\\}")


@dataclass(frozen=True)
class Route:
    """Description of a route: its purpose, body and response."""

    summary: str
    answer: type[BaseModel] | str | None = None
    """Response type or media type; `None` for no body."""
    body: type[BaseModel] | str | None = None
    query: tuple[tuple[str, dict[str, Any]], ...] = ()
    """Query parameters, each with its JSON schema."""
    idempotent: bool = False
    """Whether it accepts an `Idempotency-Key`."""
    is_open: bool = False
    """Whether it needs no API key: it exposes nothing sensitive, or its address is signed."""


@dataclass(frozen=True)
class RouteSet:
    """Routes that a package adds to the document service."""

    described: Mapping[Key, Route]
    handlers: Callable[[Documents, KeyAccess], Mapping[Key, Handler]]
    """Returns the handler of each route, for a service that is starting."""
    may_lack: frozenset[str] = frozenset()
    """Names of types whose fields with a default may be missing in a response."""


def added_routes() -> dict[str, RouteSet]:
    """Return the route sets of installed packages, by entry point name."""
    found: dict[str, RouteSet] = {}
    for name, point in entry_points.installed("routes").items():
        found[name] = entry_points.load(point, f"the route set {name!r}")
        if not isinstance(found[name], RouteSet):
            raise ConfigurationError(
                f"{point.value!r} of {entry_points.package_of(point)} is not a RouteSet: an entry point "
                "of interleave.routes must name one"
            )
    return found


def all_routes(own: Mapping[Key, Route], added: Mapping[str, RouteSet]) -> dict[Key, Route]:
    """Return the built-in routes together with the added ones."""
    described = dict(own)
    for name, routes in added.items():
        if taken := described.keys() & routes.described.keys():
            raise ConfigurationError(
                f"the route set {name!r} has {' '.join(min(taken))}, which already exists"
            )
        described |= routes.described
    return described


def route_finder(described: Mapping[Key, Route]) -> Callable[[str], str]:
    """Return a function that maps a request path to its route's path, or to "other"."""
    paths = list(dict.fromkeys(path for _, path in described))
    known = re.compile("|".join(f"({_pattern(path)})" for path in paths))

    def route_of(path: str) -> str:
        found = known.fullmatch(path)
        return paths[found.lastindex - 1] if found and found.lastindex else "other"

    return route_of


def _pattern(path: str) -> str:
    return _PARAMETER.sub(lambda found: ".*" if found[1] else "[^/]+", re.escape(path))


def caller_of(request: Request, scope: str | None = None) -> Caller:
    """Return the caller of a request, and check the scope. The middleware has checked the key."""
    caller = request.scope[CALLER]
    if not isinstance(caller, Caller):  # an open path, called without a key
        raise ApiRefusal("an API key is required", status=401, code="invalid_api_key")
    if scope is not None:
        caller.require(scope)
    return caller


def event_number(request: Request) -> int:
    """Return the number of the client's last event; -1 if it has none."""
    given = request.query_params.get("starting_after") or request.headers.get("last-event-id") or ""
    return int(given) if _EVENT_NUMBER.match(given) else -1


async def read_value(request: Request, kind: type[V], parameter: str | None = None) -> V:
    """Parse the body of a request as `kind`; a refusal names `parameter`."""
    body = (await read_json(request)).parse()[0]
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        raise ApiRefusal(first_problem(error), parameter=parameter) from None


def value_json(value: Value, status: int = 200) -> Response:
    """Return a `Value` as a JSON response."""
    return Response(value.model_dump_json().encode(), status, media_type="application/json")


def plain_json(body: Any, status: int = 200) -> Response:
    """Return a JSON response without images."""
    return Response(
        json.dumps(body, ensure_ascii=False).encode("utf-8", "backslashreplace"),
        status,
        media_type="application/json",
    )


def number_in(request: Request, name: str, default: int, most: int) -> int:
    """Return a query parameter as a number from 1 to `most`."""
    text = request.query_params.get(name, str(default))
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= most:
        raise ApiRefusal(f"{name} must be a number from 1 to {most}", parameter=name)
    return int(text)
