"""The routes of the document service."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from starlette.responses import Response

from interleave.runs.store import PictureStore
from interleave.service import openai_wire as openai
from interleave.service.app import CLIENT_CLOSED_REQUEST
from interleave.service.decoding import finish_despite_cancel
from interleave.service.documents.files import FileRoutes
from interleave.service.documents.jobs import Job
from interleave.service.documents.keys import KeyAccess
from interleave.service.documents.metrics import CONTENT_TYPE, DocumentMetrics
from interleave.service.documents.pages import DocumentRoutes
from interleave.service.documents.refusals import ApiRefusal, refusal_response
from interleave.service.documents.requests import caller_of, event_number, plain_json
from interleave.service.documents.responses_request import Submission, parse_submission
from interleave.service.documents.service import RECEIVE_SECONDS, Documents
from interleave.service.documents.streams import EventStream, json_response
from interleave.service.messages import ClientDisconnected, Refusal
from interleave.service.middleware import (
    LEASE,
    REQUEST_ID,
    ServiceMiddleware,
    internal_failure,
)
from interleave.service.request_bodies import read_json

if TYPE_CHECKING:
    from starlette.requests import Request

Handler = Callable[["Request"], Awaitable[Response]]
_ID = re.compile(r"/(resp_|file-)[^/]*")
_NAME = re.compile(r"/(pictures|models)/[^/]*\Z")


def build_app(documents: Documents, access: KeyAccess, metrics: DocumentMetrics) -> ServiceMiddleware:
    """The service as an ASGI application; the caller starts and stops the service."""
    from fastapi import FastAPI
    from starlette.exceptions import HTTPException

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    table = routes(documents, metrics)
    for (method, path), handler in table.items():
        app.add_route(path, handler, methods=[method])
    app.add_exception_handler(HTTPException, _unrouted)
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(Exception, _failed)
    known = {path for _, path in table}

    def route_of(path: str) -> str:
        route = _NAME.sub(r"/\1/{name}", _ID.sub("/{id}", path))
        return route if route in known else "other"

    return ServiceMiddleware(app, documents, access, metrics, route_of)


def routes(documents: Documents, metrics: DocumentMetrics) -> dict[tuple[str, str], Handler]:
    """The handlers by method and path. A facade adds its own."""
    responses, pages, files = ResponseRoutes(documents), DocumentRoutes(documents), FileRoutes(documents)

    async def scrape(request: Request) -> Response:
        caller_of(request).require("admin")
        return Response(metrics.text(), media_type=CONTENT_TYPE)

    return {
        ("GET", "/health"): responses.health,
        ("GET", "/metrics"): scrape,
        ("GET", "/v1/models"): responses.models,
        ("GET", "/v1/models/{name}"): responses.model,
        ("POST", "/v1/responses"): responses.create,
        ("GET", "/v1/responses/{id}"): responses.retrieve,
        ("DELETE", "/v1/responses/{id}"): responses.delete,
        ("POST", "/v1/responses/{id}/cancel"): responses.cancel,
        ("GET", "/v1/documents"): pages.listing,
        ("GET", "/v1/documents/{id}"): pages.document,
        ("GET", "/v1/documents/{id}/plan"): pages.plan,
        ("GET", "/v1/documents/{id}/steps"): pages.steps,
        ("GET", "/v1/documents/{id}/events"): pages.events,
        ("GET", "/v1/documents/{id}/document.html"): pages.html,
        ("GET", "/v1/documents/{id}/document.md"): pages.markdown,
        ("GET", "/v1/documents/{id}/document.zip"): pages.archive,
        ("GET", "/v1/documents/{id}/pictures/{name}"): pages.picture,
        ("POST", "/v1/files"): files.create,
        ("GET", "/v1/files"): files.listing,
        ("GET", "/v1/files/{id}"): files.retrieve,
        ("DELETE", "/v1/files/{id}"): files.delete,
        ("GET", "/v1/files/{id}/content"): files.content,
    }


async def _unrouted(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 500)
    words = {404: "there is nothing here", 405: f"{request.method} is not allowed here"}
    response = refusal_response(ApiRefusal(words.get(status, str(error)), status=status))
    response.headers.update(getattr(error, "headers", None) or {})
    return response


async def _refused(request: Request, error: Exception) -> Response:
    return refusal_response(error if isinstance(error, Refusal) else Refusal(str(error), status=500))


async def _failed(request: Request, error: Exception) -> Response:
    return refusal_response(internal_failure(request.scope[REQUEST_ID]))


class ResponseRoutes:
    """`/v1/responses`, and what belongs to the service as a whole."""

    def __init__(self, documents: Documents) -> None:
        self.documents = documents
        self.created = int(time.time())

    async def create(self, request: Request) -> Response:
        try:
            asked = await self._read(request)
            job = await self.documents.submit(
                caller_of(request),
                asked,
                lease=request.scope[LEASE],
                idempotency_key=request.headers.get("idempotency-key"),
                request_id=request.scope[REQUEST_ID],
            )
        except ClientDisconnected:
            return Response(status_code=CLIENT_CLOSED_REQUEST)
        request.scope[LEASE].drop_body()
        keeps = asked.background or "idempotency-key" in request.headers
        if asked.stream:
            return self._stream(request, job, after=-1, keeps=keeps)
        if not asked.background:
            finished = await self._wait(request, job, keeps=keeps)
            if finished is None:
                return Response(status_code=CLIENT_CLOSED_REQUEST)
            job = finished
        return await self._json(request, job)

    async def retrieve(self, request: Request) -> Response:
        job = await self.documents.get(caller_of(request), request.path_params["id"])
        if request.query_params.get("stream", "").lower() in ("true", "1"):
            return self._stream(request, job, after=event_number(request), keeps=True)
        return await self._json(request, job)

    async def cancel(self, request: Request) -> Response:
        job = await self.documents.cancel(caller_of(request), request.path_params["id"])
        return await self._json(request, job)

    async def delete(self, request: Request) -> Response:
        id_ = request.path_params["id"]
        await self.documents.delete(caller_of(request), id_)
        return plain_json({"id": id_, "object": "response", "deleted": True})

    async def health(self, request: Request) -> Response:
        documents, state = self.documents, self.documents.shelf.state
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

    async def _read(self, request: Request) -> Submission:
        settings = self.documents.settings
        body = await read_json(request)
        if body.working_bytes:
            ends_at = asyncio.get_running_loop().time() + RECEIVE_SECONDS
            await request.scope[LEASE].reserve(body.working_bytes, ends_at)
        return await finish_despite_cancel(
            self.documents.in_thread(
                lambda: parse_submission(body.parse()[0], settings.models, settings.ignored)
            )
        )

    async def _json(self, request: Request, job: Job) -> Response:
        value = await self.documents.in_thread(self.documents.response, job)
        store = PictureStore(self.documents.folders.run(job.id))
        return await json_response(value, store, request.scope[LEASE])

    def _stream(self, request: Request, job: Job, *, after: int, keeps: bool) -> Response:
        """`keeps`: the job goes on when the client is gone; it can come back for it."""
        return EventStream(
            self.documents.events(job, after=after),
            PictureStore(self.documents.folders.run(job.id)),
            request.scope[LEASE],
            client_gone=None if keeps else lambda: self._abandon(request, job),
        )

    async def _wait(self, request: Request, job: Job, *, keeps: bool) -> Job | None:
        """The job when it has ended; None when the client is gone before, who then has no way back to it."""
        working = asyncio.ensure_future(self.documents.wait(job))
        gone = asyncio.ensure_future(_disconnected(request))
        try:
            await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                if working.cancelled():
                    raise ApiRefusal("the service is shutting down", status=503, retry_after=5)
                return working.result()
            if not keeps:
                self._abandon(request, job)
            return None
        finally:
            working.cancel()
            gone.cancel()
            await asyncio.gather(working, gone, return_exceptions=True)

    def _abandon(self, request: Request, job: Job) -> None:
        """Cancel a job whose client is gone and cannot ask for it again."""
        task = asyncio.ensure_future(self.documents.cancel(caller_of(request), job.id))
        self.documents.background.add(task)
        task.add_done_callback(self.documents.background.discard)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
