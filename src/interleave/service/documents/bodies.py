"""Bodies as parameters of a route: described by FastAPI, read and checked as objects of our types."""

from __future__ import annotations

from typing import Any, TypeVar

from fastapi import Request
from pydantic import ValidationError

from interleave.plugin import Value, first_problem
from interleave.service.documents.refusals import ApiRefusal
from interleave.service.http.request_bodies import read_json
from interleave.service.http.routing import described_body as described_body

V = TypeVar("V", bound=Value)


def json_body(kind: type[V]) -> Any:
    """Return the dependency on a JSON body, as an object of this type."""

    async def read(request: Request) -> V:
        body = await read_object(request)
        try:
            return kind.model_validate(body)
        except ValidationError as error:
            place = error.errors()[0]["loc"]
            raise ApiRefusal(first_problem(error), parameter=str(place[0]) if place else None) from None

    return described_body(kind, read)


def json_object(kind: type[Value]) -> Any:
    """Return the dependency on a JSON body that the handler checks itself."""
    return described_body(kind, read_object)


async def read_object(request: Request) -> dict[str, Any]:
    """Read the JSON object of a request; an empty one if it has no body."""
    if request.headers.get("content-length", "0") == "0" and "transfer-encoding" not in request.headers:
        return {}
    body: dict[str, Any] = (await read_json(request)).parse()[0]
    return body
