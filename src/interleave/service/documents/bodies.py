"""Bodies as parameters of a route: described by FastAPI, read within our limits.

FastAPI itself would read a body before it checks the caller, parse it without limits, and keep it until the
response has been sent. So its routes get an empty body here, and a dependency of the route reads the real
one, in its turn among the other parameters.
"""

# Without postponed annotations: FastAPI reads those of `read_body`, which name a local type.

import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Annotated, Any, TypeVar

from fastapi import Body, Depends, Request
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError, WrapValidator
from pydantic_core import PydanticUndefined
from starlette.responses import Response

from interleave.plugin import Value, first_problem
from interleave.service.documents.refusals import ApiRefusal
from interleave.service.http.request_bodies import read_json

V = TypeVar("V", bound=Value)


class LimitedRoute(APIRoute):
    """A route whose body only its dependency reads, described by the docstring of its handler."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        summary, _, more = inspect.cleandoc(endpoint.__doc__ or "").partition("\n\n")
        options["summary"] = options.get("summary") or summary.removesuffix(".")
        super().__init__(path, endpoint, **options)
        self.description = more

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        if self.body_field is None:
            return handle

        async def handle_unread(request: Request) -> Response:
            return await handle(_UnreadRequest(request.scope, request.receive))

        return handle_unread


class _UnreadRequest(Request):
    async def body(self) -> bytes:
        return b"{}"

    async def json(self) -> Any:
        return {}


async def _left_to_the_handler(request: Request) -> None:
    pass


def described_body(
    kind: Any,
    read: Callable[[Request], Awaitable[Any]] = _left_to_the_handler,
    media_type: str = "application/json",
) -> Any:
    """Return the dependency on a body that `read` reads, or the handler itself, described as `kind`.

    The body may be left out if it is an object without required fields.
    """
    is_model = isinstance(kind, type) and issubclass(kind, BaseModel)
    required = not is_model or any(field.is_required() for field in kind.model_fields.values())
    described = Annotated[kind, WrapValidator(lambda value, _: value), Body(media_type=media_type)]
    default = PydanticUndefined if required else None

    async def read_body(request: Request, body: described = default) -> Any:
        return await read(request)

    return Depends(read_body)


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
