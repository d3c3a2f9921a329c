"""The routes of the document service."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.responses import Response

from interleave import StorageError
from interleave.plugin import render
from interleave.service.documents.chat import ChatRoutes
from interleave.service.documents.decision_routes import DecisionRoutes
from interleave.service.documents.document_routes import DocumentRoutes
from interleave.service.documents.file_routes import FileRoutes
from interleave.service.documents.gemini import GeminiRoutes, gemini_refusal, is_gemini_path
from interleave.service.documents.input_items import input_items
from interleave.service.documents.jobs import Job
from interleave.service.documents.keys import GOOGLE_KEY, REPORTS, KeyAccess
from interleave.service.documents.metrics import CONTENT_TYPE, DocumentMetrics
from interleave.service.documents.openapi import openapi
from interleave.service.documents.refusals import ApiRefusal, refusal_response
from interleave.service.documents.request_handling import JobHandling
from interleave.service.documents.requests import caller_of, event_number, plain_json
from interleave.service.documents.response_json import waiting_response
from interleave.service.documents.responses_request import parse_submission
from interleave.service.documents.robot_routes import RobotRoutes
from interleave.service.documents.service import Documents, storage_failed
from interleave.service.documents.shared_images import PREFIX as SIGNED_PATHS
from interleave.service.documents.shared_images import ROUTE as SHARED
from interleave.service.documents.streams import EventStream, json_response
from interleave.service.generator import openai_images_api as openai
from interleave.service.generator.app import CLIENT_CLOSED_REQUEST
from interleave.service.generator.messages import ClientDisconnected, Refusal
from interleave.service.http.middleware import (
    LEASE,
    REQUEST_ID,
    ServiceMiddleware,
    internal_failure,
)
from interleave.studio.gallery import GalleryRoutes
from interleave.studio.guard import ChangesGuard
from interleave.studio.indexing import Indexing
from interleave.studio.label_routes import JudgingRoutes
from interleave.studio.page import PageFile
from interleave.studio.queue import QueueRoutes
from interleave.studio.related import RelatedRoutes
from interleave.studio.report_routes import FILE_ROUTE, ReportRoutes
from interleave.studio.reports import ReportFolders
from interleave.studio.routes import PageRoutes

if TYPE_CHECKING:
    from starlette.requests import Request

Handler = Callable[["Request"], Awaitable[Response]]
_ID = re.compile(r"/(resp_|file-)[^/]*")
_STEP = re.compile(r"/steps/[^/]{0,20}/")
_TASK = re.compile(r"/judging/[^/]*\Z")
_NAME = re.compile(r"/(pictures|thumbnails|models)/[^/]*\Z")


def build_app(
    documents: Documents,
    access: KeyAccess,
    metrics: DocumentMetrics,
    page: PageFile | None = None,
    reports: Sequence[Path] = (),
) -> ServiceMiddleware:
    """The service as an ASGI application; the caller starts and stops the service.

    `reports` are folders whose reports the studio shows.
    """
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.routing import Route

    page = page or PageFile()
    shown = ReportRoutes(documents, ReportFolders(reports, documents.folders.root), page.frame_ancestors)
    table = routes(documents, metrics) | studio_routes(documents, access, page) | report_routes(shown)
    app = Starlette(
        routes=[Route(path, handler, methods=[method]) for (method, path), handler in table.items()],
        exception_handlers={
            HTTPException: _unrouted,
            Refusal: _refused,
            StorageError: _not_stored,
            Exception: _failed,
        },
    )
    app.router.redirect_slashes = False
    known = {path for _, path in table}

    def route_of(path: str) -> str:
        if path.startswith(SIGNED_PATHS):
            return SHARED
        if path.startswith(REPORTS):
            return FILE_ROUTE
        route = _NAME.sub(r"/\1/{name}", _STEP.sub("/steps/{step}/", _ID.sub("/{id}", path)))
        route = _TASK.sub("/judging/{task}", route)
        return route if route in known else "other"

    guarded = ChangesGuard(app)
    return ServiceMiddleware(guarded, documents, access, metrics, route_of, refuse=refusal_at)


def routes(documents: Documents, metrics: DocumentMetrics) -> dict[tuple[str, str], Handler]:
    """The handlers by method and path. A facade adds its own."""
    responses, pages, files = ResponseRoutes(documents), DocumentRoutes(documents), FileRoutes(documents)
    chat, gemini = ChatRoutes(documents), GeminiRoutes(documents)
    decisions = DecisionRoutes(documents, responses.answer)

    async def scrape(request: Request) -> Response:
        caller_of(request).require("admin")
        return Response(metrics.text(), media_type=CONTENT_TYPE)

    async def models(request: Request) -> Response:
        return await (gemini if GOOGLE_KEY in request.headers else responses).models(request)

    async def model(request: Request) -> Response:
        return await (gemini if GOOGLE_KEY in request.headers else responses).model(request)

    return {
        ("GET", "/health"): responses.health,
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
        ("POST", "/v1/documents/{id}/continue"): decisions.go_on,
        ("GET", "/v1/documents/{id}/events"): pages.events,
        ("GET", "/v1/documents/{id}/calls"): pages.calls,
        **{
            ("GET", f"/v1/documents/{{id}}/document.{name}"): pages.export(name)
            for name in render.known_formats()
        },
        ("GET", "/v1/documents/{id}/document.md"): pages.markdown,
        ("GET", "/v1/documents/{id}/pictures/{name}"): pages.picture,
        ("GET", SHARED): pages.shared,
        ("POST", "/v1/robot/check"): RobotRoutes(documents).check,
        ("POST", "/v1/files"): files.create,
        ("GET", "/v1/files"): files.listing,
        ("GET", "/v1/files/{id}"): files.retrieve,
        ("DELETE", "/v1/files/{id}"): files.delete,
        ("GET", "/v1/files/{id}/content"): files.content,
    }


def studio_routes(documents: Documents, access: KeyAccess, page: PageFile) -> dict[tuple[str, str], Handler]:
    """What the studio's page needs besides."""
    pages, indexing = PageRoutes(documents, access, page), Indexing(documents)
    gallery, queue = GalleryRoutes(documents, indexing), QueueRoutes(documents, indexing)
    judging, related = JudgingRoutes(documents, indexing), RelatedRoutes(documents, indexing)
    return {
        ("GET", "/"): pages.show,
        ("GET", "/openapi.json"): described,
        ("GET", "/v1/studio/start"): pages.start,
        ("POST", "/v1/studio/session"): pages.sign_in,
        ("DELETE", "/v1/studio/session"): pages.sign_out,
        ("GET", "/v1/studio/documents"): gallery.listing,
        ("GET", "/v1/documents/{id}/thumbnails/{name}"): gallery.thumbnail,
        ("GET", "/v1/studio/queue"): queue.show,
        ("POST", "/v1/studio/queue/pause"): queue.pause,
        ("POST", "/v1/studio/queue/resume"): queue.resume,
        ("POST", "/v1/studio/queue/{id}/move"): queue.move,
        ("POST", "/v1/studio/queue/retry-failed"): queue.retry_failed,
        ("GET", "/v1/studio/documents/{id}/related"): related.show,
        ("GET", "/v1/studio/judging/{task}"): judging.items,
        ("GET", "/v1/studio/labels"): judging.listing,
        ("POST", "/v1/studio/labels"): judging.add,
        ("POST", "/v1/studio/labels/undo"): judging.undo,
        ("POST", "/v1/studio/labels/reveal"): judging.reveal,
        ("GET", "/v1/studio/labels/export"): judging.export,
        ("POST", "/v1/studio/labels/import"): judging.take_in,
        ("GET", "/v1/studio/agreement"): judging.agreement,
    }


def report_routes(reports: ReportRoutes) -> dict[tuple[str, str], Handler]:
    return {("GET", "/v1/studio/reports"): reports.listing, ("GET", FILE_ROUTE): reports.file}


async def described(request: Request) -> Response:
    return plain_json(openapi())


def refusal_at(path: str, reason: Refusal) -> Response:
    """A refusal in the error format of this path's API."""
    return gemini_refusal(reason) if is_gemini_path(path) else refusal_response(reason)


async def _unrouted(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 500)
    words = {404: "there is nothing here", 405: f"{request.method} is not allowed here"}
    response = refusal_at(request.url.path, ApiRefusal(words.get(status, str(error)), status=status))
    response.headers.update(getattr(error, "headers", None) or {})
    return response


async def _refused(request: Request, error: Exception) -> Response:
    reason = error if isinstance(error, Refusal) else Refusal(str(error), status=500)
    return refusal_at(request.url.path, reason)


async def _not_stored(request: Request, error: Exception) -> Response:
    return refusal_at(request.url.path, storage_failed())


async def _failed(request: Request, error: Exception) -> Response:
    return refusal_at(request.url.path, internal_failure(request.scope[REQUEST_ID]))


class ResponseRoutes:
    """`/v1/responses`, and what belongs to the service as a whole."""

    def __init__(self, documents: Documents) -> None:
        self.documents = documents
        self.handling = JobHandling(documents)
        self.created = int(time.time())

    async def create(self, request: Request) -> Response:
        try:
            asked, job = await self.handling.submit(request, parse_submission)
            if asked.stream:
                leaving = self.handling.on_leaving(request, asked, job)
                return self._stream(request, job, after=-1, leaving=leaving)
            if not asked.background:
                job = await self.handling.wait(request, asked, job)
        except ClientDisconnected:
            return Response(status_code=CLIENT_CLOSED_REQUEST)
        return await self.answer(request, job)

    async def retrieve(self, request: Request) -> Response:
        job = await self.documents.get(caller_of(request), request.path_params["id"])
        if request.query_params.get("stream", "").lower() in ("true", "1"):
            return self._stream(request, job, after=event_number(request))
        return await self.answer(request, job)

    async def cancel(self, request: Request) -> Response:
        job = await self.documents.cancel(caller_of(request), request.path_params["id"])
        return await self.answer(request, job)

    async def input_items(self, request: Request) -> Response:
        job = await self.documents.get(caller_of(request), request.path_params["id"])
        record = await self.documents.in_thread(self.documents.record, job)
        folders = self.documents.folders
        store = self.handling.store(job) if record else folders.inputs(job.id)
        page = input_items(job, record.request if record else job.parts, request.query_params)
        return await json_response(page, store, request.scope[LEASE])

    async def delete(self, request: Request) -> Response:
        id_ = request.path_params["id"]
        await self.documents.delete(caller_of(request), id_)
        return plain_json({"id": id_, "object": "response", "deleted": True})

    async def health(self, request: Request) -> Response:
        documents, state = self.documents, str(self.documents.shelf.state)
        if documents.draining:
            state = "stopping"
        elif documents.worker.storage_problem:
            state = "disk failing"
        body = {
            "status": state,
            "models": documents.shelf.state,
            "queued": documents.turns.depth,
            "in_progress": documents.turns.in_flight,
        }
        return plain_json(body, 200 if state in ("ready", "loading") else 503)

    async def models(self, request: Request) -> Response:
        return plain_json(openai.models_list(self.documents.settings.models, self.created))

    async def model(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self.documents.settings.models:
            raise ApiRefusal("there is no such model here", status=404, code="model_not_found")
        return plain_json(openai.model_card(name, self.created))

    async def answer(self, request: Request, job: Job) -> Response:
        value = waiting_response(job) if job.is_new else await self.handling.response(job)
        return await json_response(value, self.handling.store(job), request.scope[LEASE])

    def _stream(
        self, request: Request, job: Job, *, after: int, leaving: Callable[[], object] | None = None
    ) -> Response:
        return EventStream(
            self.documents.events(job, after=after),
            self.handling.store(job),
            request.scope[LEASE],
            client_gone=leaving,
        )
