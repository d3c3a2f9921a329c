"""Routes that FastAPI describes, with bodies read within our limits.

FastAPI itself would read a body before it checks the caller, parse it without limits, and keep it until the
response has been sent. So its routes get an empty body here, and a dependency of the route reads the real
one, in its turn among the other parameters.
"""

# Without postponed annotations: FastAPI reads those of `read_body`, which name a local type.

import inspect
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Request
from fastapi.routing import APIRoute
from pydantic import BaseModel, WrapValidator
from pydantic_core import PydanticUndefined
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Receive, Scope, Send

OPEN: dict[str, Any] = {"security": []}
"""`openapi_extra` of a route without API key: it exposes nothing sensitive, or its address is signed."""


class LimitedRoute(APIRoute):
    """A route whose body only its dependency reads, described by the docstring of its handler."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        summary, _, more = inspect.cleandoc(endpoint.__doc__ or "").partition("\n\n")
        options["summary"] = options.get("summary") or summary.removesuffix(".")
        super().__init__(path, endpoint, **options)
        self.description = more

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        return super().matches(_head_as_get(scope))

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await super().handle(_head_as_get(scope), receive, send)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        if self.body_field is None:
            return handle

        async def handle_unread(request: Request) -> Response:
            return await handle(_UnreadRequest(request.scope, request.receive))

        return handle_unread


def _head_as_get(scope: Scope) -> Scope:
    """Answer HEAD like GET: the server leaves out the body."""
    return {**scope, "method": "GET"} if scope["type"] == "http" and scope["method"] == "HEAD" else scope


class _UnreadRequest(Request):
    async def body(self) -> bytes:
        return b"{}"

    async def json(self) -> Any:
        return {}


class LimitedRouter(APIRouter):
    """A router of such routes."""

    def __init__(self, **options: Any) -> None:
        super().__init__(route_class=LimitedRoute, generate_unique_id_function=_operation_id, **options)


def _operation_id(route: APIRoute) -> str:
    methods = sorted(route.methods or ())
    return "_".join([*map(str.lower, methods), *re.findall(r"[^\W_]+", route.path_format)])


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


def describe_security(description: dict[str, Any], schemes: Mapping[str, Any]) -> None:
    """Add the keys, which the middleware checks. A service may be set up to need none."""
    description.setdefault("components", {})["securitySchemes"] = dict(schemes)
    description["security"] = [*({name: []} for name in schemes), {}]
