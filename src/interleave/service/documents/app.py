"""The document service as an ASGI application: the built-in routers and those that packages add."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import iter_route_contexts
from starlette.requests import Request
from starlette.responses import Response

from interleave import ConfigurationError, StorageError, __version__
from interleave.service.documents import (
    chat,
    decision_routes,
    document_routes,
    export_routes,
    file_routes,
    gemini,
    operation_routes,
    responses,
    shown_routes,
)
from interleave.service.documents.browser_guard import HEADER, ChangesGuard
from interleave.service.documents.gemini import gemini_refusal, is_gemini_path
from interleave.service.documents.keys import GOOGLE_KEY, KeyAccess
from interleave.service.documents.metrics import DocumentMetrics
from interleave.service.documents.refusals import invalid_parameter, refusal_response
from interleave.service.documents.routes import OPEN, Router, added_routes, route_finder
from interleave.service.documents.service import Documents, storage_failed
from interleave.service.documents.stream_limits import StreamPlaces
from interleave.service.http.middleware import ServiceMiddleware, exception_handlers
from interleave.service.http.refusals import Refusal
from interleave.service.http.routing import describe_security

SECURITY_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "google": {"type": "apiKey", "in": "header", "name": GOOGLE_KEY},
}


def build_app(
    documents: Documents,
    access: KeyAccess,
    metrics: DocumentMetrics,
    routes: Mapping[str, Router] | None = None,
) -> ServiceMiddleware:
    """Build the ASGI application. The caller starts and stops the service.

    `routes` are configured routers that replace the installed ones of the same names.
    """
    app = DocumentApp(added_routes() | dict(routes or {}))
    app.state.documents, app.state.access, app.state.metrics = documents, access, metrics
    app.state.objects = {}
    route_of = route_finder(app.served)
    access.is_open = lambda path: route_of(path) not in app.closed_paths
    placed = StreamPlaces(ChangesGuard(app), documents.streams)
    return ServiceMiddleware(placed, documents, access, metrics, route_of, refusal_at)


class DocumentApp(FastAPI):
    """The routes and their description; a service is added to its state."""

    def __init__(self, added: Mapping[str, Router]) -> None:
        super().__init__(
            title="interleave document service",
            version=__version__,
            openapi_url=None,
            redirect_slashes=False,
            telemetry={"tracing": False, "metrics": False, "logs": False},  # tracing.py has its own
            exception_handlers={
                **exception_handlers(refusal_at),
                StorageError: _not_stored,
                RequestValidationError: _invalid,
            },
        )
        self.served: dict[str, set[str]] = {}
        """Methods by path."""
        self.closed_paths = {"other"}
        """Paths that need an API key."""
        own = (operation_routes, responses, chat, gemini, document_routes, decision_routes, shown_routes)
        for router in (*(module.router for module in own), file_routes.router, export_routes.router()):
            self._add("the service", router)
        for name, router in added.items():
            self._add(f"the router {name!r}", router)

    def _add(self, owner: str, router: Router) -> None:
        for route in iter_route_contexts(router.routes):
            path, methods = route.path or "", route.methods or set()
            known = self.served.setdefault(path, set())
            if taken := known & methods:
                raise ConfigurationError(f"{owner} has {min(taken)} {path}, which already exists")
            known |= methods
            if (route.openapi_extra or {}).get("security") != OPEN["security"]:
                self.closed_paths.add(path)
        # `include_router` would match each request through a wrapper of each route, which takes 0.1 ms.
        self.router.routes.extend(router.routes)

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            _complete(super().openapi())
        return super().openapi()


def refusal_at(path: str, reason: Refusal) -> Response:
    """Return a refusal in the error format of the path's API."""
    return gemini_refusal(reason) if is_gemini_path(path) else refusal_response(reason)


async def _not_stored(request: Request, error: Exception) -> Response:
    return refusal_at(request.url.path, storage_failed())


async def _invalid(request: Request, error: RequestValidationError) -> Response:
    return refusal_at(request.url.path, invalid_parameter(error.errors()[0]))


def _complete(description: dict[str, Any]) -> None:
    """Add what FastAPI cannot know: API keys, the header of browsers, and that all errors are JSON."""
    describe_security(description, SECURITY_SCHEMES)
    for path in description["paths"].values():
        for method, operation in path.items():
            if method != "get":
                header = {"name": HEADER, "in": "header", "schema": {"type": "string"}}
                operation.setdefault("parameters", []).append(header)
            error = operation["responses"]["default"]
            error["content"] = {"application/json": next(iter(error["content"].values()))}
            for content in operation["responses"].get("200", {}).get("content", {}).values():
                if "$ref" in content["schema"]:  # of a stream, which FastAPI also calls a string
                    content["schema"].pop("type", None)
