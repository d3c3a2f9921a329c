"""Routes: their descriptions, the sets of them that packages add, and what handlers need of a request.

An entry point of the group `interleave.routes` names a `RouteSet`. Its routes are served, described in
`/openapi.json`, guarded, limited and counted as those of the service itself.
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
"""A method and a path, with parameters as Starlette writes them."""
Handler = Callable[[Request], Awaitable[Response]]
_EVENT_NUMBER = re.compile(r"[0-9]{1,9}\Z")
_PARAMETER = re.compile(r"\\{\w+(:path)?\\}")


@dataclass(frozen=True)
class Route:
    """What a route is for, takes and answers."""

    summary: str
    answer: type[BaseModel] | str | None = None
    """A type, or a media type; None for no body."""
    body: type[BaseModel] | str | None = None
    query: tuple[tuple[str, dict[str, Any]], ...] = ()
    """The parameters of its query, each with its JSON schema."""
    idempotent: bool = False
    """Whether it takes an `Idempotency-Key`."""
    is_open: bool = False
    """Whether it needs no API key: it tells nothing of value, or its address is signed."""


@dataclass(frozen=True)
class RouteSet:
    """Routes that a package adds to the document service."""

    described: Mapping[Key, Route]
    handlers: Callable[[Documents, KeyAccess], Mapping[Key, Handler]]
    """Makes the handler of each, for a service that is about to start."""
    may_lack: frozenset[str] = frozenset()
    """The names of types whose fields with a default may be missing in an answer."""


def added_routes() -> dict[str, RouteSet]:
    """The sets of installed packages, by the names of their entry points."""
    found: dict[str, RouteSet] = {}
    for name, point in entry_points.installed("routes").items():
        found[name] = entry_points.load(point, f"the set of routes {name!r}")
        if not isinstance(found[name], RouteSet):
            raise ConfigurationError(
                f"{point.value!r} of {entry_points.package_of(point)} is no RouteSet: an entry point of "
                "interleave.routes must name one"
            )
    return found


def all_routes(own: Mapping[Key, Route], added: Mapping[str, RouteSet]) -> dict[Key, Route]:
    """The routes of a service and of the sets that are added to it."""
    described = dict(own)
    for name, routes in added.items():
        if taken := described.keys() & routes.described.keys():
            raise ConfigurationError(
                f"the set of routes {name!r} has {' '.join(min(taken))}, which is served already"
            )
        described |= routes.described
    return described


def route_finder(described: Mapping[Key, Route]) -> Callable[[str], str]:
    """A function from the path of a request to that of its route, and to "other" where there is none."""
    paths = list(dict.fromkeys(path for _, path in described))
    known = re.compile("|".join(f"({_pattern(path)})" for path in paths))

    def route_of(path: str) -> str:
        found = known.fullmatch(path)
        return paths[found.lastindex - 1] if found and found.lastindex else "other"

    return route_of


def _pattern(path: str) -> str:
    return _PARAMETER.sub(lambda found: ".*" if found[1] else "[^/]+", re.escape(path))


def caller_of(request: Request, scope: str | None = None) -> Caller:
    """Who sent a request; refuses who has not this scope. The middleware has checked the key."""
    caller = request.scope[CALLER]
    if not isinstance(caller, Caller):  # an open path, without a key
        raise ApiRefusal("an API key is needed", status=401, code="invalid_api_key")
    if scope is not None:
        caller.require(scope)
    return caller


def event_number(request: Request) -> int:
    """The number of the last event that the client has; -1 where it has none."""
    given = request.query_params.get("starting_after") or request.headers.get("last-event-id") or ""
    return int(given) if _EVENT_NUMBER.match(given) else -1


async def read_value(request: Request, kind: type[V], parameter: str | None = None) -> V:
    """The body of a request as a value of our own; a refusal names `parameter`."""
    body = (await read_json(request)).parse()[0]
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        raise ApiRefusal(first_problem(error), parameter=parameter) from None


def value_json(value: Value, status: int = 200) -> Response:
    """A value of our own as JSON."""
    return Response(value.model_dump_json().encode(), status, media_type="application/json")


def plain_json(body: Any, status: int = 200) -> Response:
    """JSON without images."""
    return Response(
        json.dumps(body, ensure_ascii=False).encode("utf-8", "backslashreplace"),
        status,
        media_type="application/json",
    )


def number_in(request: Request, name: str, default: int, most: int) -> int:
    """A number from 1 to `most` in the query of a request."""
    text = request.query_params.get(name, str(default))
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= most:
        raise ApiRefusal(f"{name} must be a number from 1 to {most}", parameter=name)
    return int(text)
