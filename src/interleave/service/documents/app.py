"""The document service as an ASGI application: the built-in routes and those that packages add."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as Served

from interleave import ConfigurationError, StorageError
from interleave.plugin import render
from interleave.service.documents.browser_guard import ChangesGuard
from interleave.service.documents.chat import ChatRoutes
from interleave.service.documents.decision_routes import DecisionRoutes
from interleave.service.documents.document_routes import DocumentRoutes
from interleave.service.documents.file_routes import FileRoutes
from interleave.service.documents.gemini import GeminiRoutes, gemini_refusal, is_gemini_path
from interleave.service.documents.keys import GOOGLE_KEY, KeyAccess
from interleave.service.documents.metrics import CONTENT_TYPE, DocumentMetrics
from interleave.service.documents.openapi import openapi, own_routes
from interleave.service.documents.refusals import refusal_response
from interleave.service.documents.responses import ResponseRoutes
from interleave.service.documents.routes import (
    Handler,
    Key,
    RouteSet,
    added_routes,
    all_routes,
    caller_of,
    plain_json,
    route_finder,
)
from interleave.service.documents.service import Documents, storage_failed
from interleave.service.documents.shared_images import ROUTE as SHARED
from interleave.service.documents.stream_limits import StreamPlaces
from interleave.service.http.middleware import ServiceMiddleware, exception_handlers
from interleave.service.http.refusals import Refusal


def build_app(
    documents: Documents,
    access: KeyAccess,
    metrics: DocumentMetrics,
    routes: Mapping[str, RouteSet] | None = None,
) -> ServiceMiddleware:
    """Build the ASGI application. The caller starts and stops the service.

    `routes` are configured route sets that replace the installed ones of the same names.
    """
    added = added_routes() | dict(routes or {})
    described = all_routes(own_routes(), added)
    handlers = own_handlers(documents, metrics, cache(partial(openapi, added)))
    for each in added.values():
        handlers |= each.handlers(documents, access)
    if unlike := handlers.keys() ^ described.keys():
        raise ConfigurationError(f"route {' '.join(min(unlike))} needs both a handler and a description")
    app = Starlette(
        routes=[Served(path, handler, methods=[method]) for (method, path), handler in handlers.items()],
        exception_handlers={**exception_handlers(refusal_at), StorageError: _not_stored},
    )
    app.router.redirect_slashes = False
    route_of = route_finder(described)
    closed = {path for (_, path), route in described.items() if not route.is_open} | {"other"}
    access.is_open = lambda path: route_of(path) not in closed
    placed = StreamPlaces(ChangesGuard(app), documents.streams)
    return ServiceMiddleware(placed, documents, access, metrics, route_of, refusal_at)


def own_handlers(
    documents: Documents, metrics: DocumentMetrics, described: Callable[[], Any]
) -> dict[Key, Handler]:
    """Return the built-in handlers by method and path."""
    responses, pages, files = ResponseRoutes(documents), DocumentRoutes(documents), FileRoutes(documents)
    chat, gemini = ChatRoutes(documents), GeminiRoutes(documents)
    decisions = DecisionRoutes(documents, responses.answer)

    async def describe(request: Request) -> Response:
        return plain_json(described())

    async def scrape(request: Request) -> Response:
        caller_of(request, "admin")
        await documents.load()
        return Response(metrics.text(), media_type=CONTENT_TYPE)

    async def models(request: Request) -> Response:
        return await (gemini if GOOGLE_KEY in request.headers else responses).models(request)

    async def model(request: Request) -> Response:
        return await (gemini if GOOGLE_KEY in request.headers else responses).model(request)

    return {
        ("GET", "/openapi.json"): describe,
        ("GET", "/health"): responses.health,
        ("GET", "/health/live"): responses.live,
        ("GET", "/health/ready"): responses.ready,
        ("GET", "/metrics"): scrape,
        ("GET", "/v1/models"): models,
        ("GET", "/v1/models/{name}"): model,
        ("POST", "/v1/chat/completions"): chat.create,
        ("POST", "/v1/models/{name}"): gemini.generate,
        ("POST", "/v1beta/models/{name}"): gemini.generate,
        ("GET", "/v1beta/models"): gemini.models,
        ("GET", "/v1beta/models/{name}"): gemini.model,
        ("POST", "/v1/responses"): responses.create,
        ("GET", "/v1/responses/{id}"): responses.retrieve,
        ("DELETE", "/v1/responses/{id}"): responses.delete,
        ("POST", "/v1/responses/{id}/cancel"): responses.cancel,
        ("GET", "/v1/responses/{id}/input_items"): responses.input_items,
        ("GET", "/v1/documents"): pages.listing,
        ("GET", "/v1/documents/{id}"): pages.document,
        ("GET", "/v1/documents/{id}/plan"): pages.plan,
        ("POST", "/v1/documents/{id}/plan/release"): decisions.release,
        ("GET", "/v1/documents/{id}/steps"): pages.steps,
        ("POST", "/v1/documents/{id}/steps/{step}/redraw"): decisions.redraw,
        ("POST", "/v1/documents/{id}/steps/{step}/choose"): decisions.choose,
        ("POST", "/v1/documents/{id}/undo"): decisions.undo,
        ("POST", "/v1/documents/{id}/branch"): decisions.branch,
        ("POST", "/v1/documents/{id}/continue"): decisions.resume,
        ("GET", "/v1/documents/{id}/events"): pages.events,
        ("GET", "/v1/documents/{id}/calls"): pages.calls,
        **{
            ("GET", f"/v1/documents/{{id}}/document.{name}"): pages.export(name)
            for name in render.known_formats()
        },
        ("GET", "/v1/documents/{id}/document.md"): pages.markdown,
        ("GET", "/v1/documents/{id}/pictures/{name}"): pages.image,
        ("GET", SHARED): pages.shared,
        ("POST", "/v1/files"): files.create,
        ("GET", "/v1/files"): files.listing,
        ("GET", "/v1/files/{id}"): files.retrieve,
        ("DELETE", "/v1/files/{id}"): files.delete,
        ("GET", "/v1/files/{id}/content"): files.content,
    }


def refusal_at(path: str, reason: Refusal) -> Response:
    """Return a refusal in the error format of the path's API."""
    return gemini_refusal(reason) if is_gemini_path(path) else refusal_response(reason)


async def _not_stored(request: Request, error: Exception) -> Response:
    return refusal_at(request.url.path, storage_failed())
