"""Routers of the document service, and what their handlers depend on.

An entry point of the group `interleave.routes` names a `Router`. Its routes are described in
`/openapi.json`, authorized, limited and counted like the built-in ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Header, Query, Request
from pydantic import BeforeValidator
from starlette.responses import Response

from interleave import ConfigurationError
from interleave.plugin import ImageStore, Value, entry_points
from interleave.service.documents.jobs import Job
from interleave.service.documents.keys import Caller
from interleave.service.documents.refusals import ApiRefusal
from interleave.service.documents.schemas import ErrorBody
from interleave.service.documents.service import Documents
from interleave.service.http.memory import MemoryLease
from interleave.service.http.middleware import CALLER, LEASE, REQUEST_ID
from interleave.service.http.routing import OPEN as OPEN
from interleave.service.http.routing import LimitedRouter

T = TypeVar("T")
_EVENT_NUMBER = re.compile(r"[0-9]{1,9}\Z")
_PARAMETER = re.compile(r"\\{\w+(:path)?\\}")


class Router(LimitedRouter):
    """FastAPI's router, with the bodies, errors and names of the document service."""

    def __init__(self, **options: Any) -> None:
        super().__init__(responses={"default": {"model": ErrorBody, "description": "Error"}}, **options)


def added_routes() -> dict[str, Router]:
    """Return the routers of installed packages, by entry point name."""
    found: dict[str, Router] = {}
    for name, point in entry_points.installed("routes").items():
        found[name] = entry_points.load(point, f"the router {name!r}")
        if not isinstance(found[name], Router):
            raise ConfigurationError(
                f"{point.value!r} of {entry_points.package_of(point)} is not a Router: an entry point "
                "of interleave.routes must name one (interleave.service.documents.routes.Router)"
            )
    return found


def route_finder(paths: Iterable[str]) -> Callable[[str], str]:
    """Return a function that maps a request path to its route's path, or to "other"."""
    known_paths = list(dict.fromkeys(paths))
    known = re.compile("|".join(f"({_pattern(path)})" for path in known_paths))

    def route_of(path: str) -> str:
        found = known.fullmatch(path)
        return known_paths[found.lastindex - 1] if found and found.lastindex else "other"

    return route_of


def _pattern(path: str) -> str:
    return _PARAMETER.sub(lambda found: ".*" if found[1] else "[^/]+", re.escape(path))


class RequestContext:
    """What a handler needs of its request: the service, the caller, and the memory budget."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.documents: Documents = request.app.state.documents
        self.lease: MemoryLease = request.scope[LEASE]
        self.request_id: str = request.scope[REQUEST_ID]
        self.idempotency_key = request.headers.get("idempotency-key")

    @property
    def caller(self) -> Caller:
        """The caller. The middleware has checked the key."""
        caller = self.request.scope[CALLER]
        if not isinstance(caller, Caller):  # an open path, called without a key
            raise ApiRefusal("an API key is required", status=401, code="invalid_api_key")
        return caller

    def images(self, job: Job) -> ImageStore:
        return self.documents.folders.images(job.id)


def _context(scope: str | None = None) -> Callable[[Request], Awaitable[RequestContext]]:
    async def context(request: Request) -> RequestContext:
        made = RequestContext(request)
        if scope is not None:
            made.caller.require(scope)
        return made

    return context


Call = Annotated[RequestContext, Depends(_context())]
ReadCall = Annotated[RequestContext, Depends(_context("read"))]
SubmitCall = Annotated[RequestContext, Depends(_context("submit"))]
AdminCall = Annotated[RequestContext, Depends(_context("admin"))]


def per_service(make: Callable[[Documents], T]) -> Callable[[Request], Awaitable[T]]:
    """Return a dependency with one object per service, made when a route first needs it."""

    async def kept(request: Request) -> T:
        objects: dict[object, T] = request.app.state.objects
        if make not in objects:
            objects[make] = make(request.app.state.documents)
        return objects[make]

    return kept


async def _after_event(
    request: Request, starting_after: Annotated[str, Query(json_schema_extra={"type": "integer"})] = ""
) -> int:
    """Return the number of the client's last event; -1 if it has none."""
    given = starting_after or request.headers.get("last-event-id", "")
    return int(given) if _EVENT_NUMBER.match(given) else -1


def sending(media_type: str) -> type[Response]:
    """Return the `response_class` that describes a body of this type."""
    return type("DescribedResponse", (Response,), {"media_type": media_type})


BLANK = BeforeValidator(lambda text: text or None)
"""Reads an empty parameter as none."""
AfterEvent = Annotated[int, Depends(_after_event)]


async def _idempotency_key(key: Annotated[str | None, Header(alias="Idempotency-Key")] = None) -> None:
    pass


IDEMPOTENT = [Depends(_idempotency_key)]
"""`dependencies` of a route that accepts an idempotency key."""


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
