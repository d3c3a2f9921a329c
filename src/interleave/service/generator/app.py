"""The generator server as an ASGI application."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette.responses import Response

from interleave import __version__
from interleave.service.generator import edit_api as reference
from interleave.service.generator import openai_images_api as openai
from interleave.service.generator.request_handling import Service
from interleave.service.generator.routes import router
from interleave.service.http.auth import Access
from interleave.service.http.middleware import ServiceMiddleware, exception_handlers
from interleave.service.http.refusals import Refusal, error_response
from interleave.service.http.routing import describe_security


def build_app(service: Service, access: Access) -> ServiceMiddleware:
    """Build the ASGI application. The caller starts and stops the pool."""
    app = GeneratorApp()
    app.state.service = service
    known = {route.path for route in iter_route_contexts(router.routes)}
    return ServiceMiddleware(
        app,
        service.pool,
        access,
        service.metrics,
        lambda path: path if path in known else "other",
        refusal_response,
    )


class GeneratorApp(FastAPI):
    """The routes and their description; a service is added to its state."""

    def __init__(self) -> None:
        super().__init__(
            title="interleave generator server",
            version=__version__,
            openapi_url=None,
            redirect_slashes=False,
            exception_handlers=exception_handlers(refusal_response),
        )
        self.router.routes.extend(router.routes)

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            describe_security(super().openapi(), {"bearer": {"type": "http", "scheme": "bearer"}})
        return super().openapi()


def refusal_response(path: str, reason: Refusal) -> Response:
    """Return a refusal in the error format of the path's API."""
    if path.startswith("/v1/"):
        return error_response(reason, openai.refusal(reason), openai.status_of(reason))
    return error_response(reason, reference.refusal(reason), reason.status)
