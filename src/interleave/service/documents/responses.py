"""`/v1/responses`, OpenAI's API for documents, and the routes for health and models."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from interleave import StorageError
from interleave.plugin import journal
from interleave.service.documents.health import status_of as health_status
from interleave.service.documents.input_roles import role_in
from interleave.service.documents.jobs import Job
from interleave.service.documents.refusals import ApiRefusal, unknown
from interleave.service.documents.request_handling import JobHandling
from interleave.service.documents.response_json import waiting_response
from interleave.service.documents.responses_request import parse_submission
from interleave.service.documents.routes import caller_of, event_number, number_in, plain_json
from interleave.service.documents.service import Documents
from interleave.service.documents.stored_images import StoredImage
from interleave.service.documents.streams import EventStream, json_response
from interleave.service.generator import openai_images_api as openai
from interleave.service.http.middleware import LEASE

MAX_ITEMS = 100


class ResponseRoutes:
    """Handlers of `/v1/responses`, `/health` and `/v1/models`."""

    def __init__(self, documents: Documents) -> None:
        self.documents = documents
        self.handling = JobHandling(documents)
        self.created = int(time.time())

    async def create(self, request: Request) -> Response:
        asked, job = await self.handling.submit(request, parse_submission)
        if asked.stream:
            leaving = self.handling.on_leaving(request, asked, job)
            return self._stream(request, job, after=-1, leaving=leaving)
        if not asked.background:
            job = await self.handling.wait(request, asked, job)
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
        page = input_items(job, record.request if record else job.parts, request)
        return await json_response(page, store, request.scope[LEASE])

    async def delete(self, request: Request) -> Response:
        id_ = request.path_params["id"]
        await self.documents.delete(caller_of(request), id_)
        return plain_json({"id": id_, "object": "response", "deleted": True})

    async def health(self, request: Request) -> Response:
        documents, state = self.documents, str(self.documents.model_cache.state)
        try:
            load = await documents.load()
        except StorageError:
            load, state = documents.last_load, "job table failing"
        if documents.draining:
            state = "stopping"
        elif documents.worker.storage_problem:
            state = "disk failing"
        body = {
            "status": state,
            "models": documents.model_cache.state,
            "queued": load.waiting,
            "in_progress": load.running,
        }
        return plain_json(body, 200 if state in ("ready", "loading") else 503)

    async def live(self, request: Request) -> Response:
        found = self.documents.health.live()
        return plain_json(found, health_status(found))

    async def ready(self, request: Request) -> Response:
        found = await self.documents.health.ready()
        return plain_json(found, health_status(found))

    async def models(self, request: Request) -> Response:
        return plain_json(openai.models_list(self.documents.settings.models, self.created))

    async def model(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self.documents.settings.models:
            raise ApiRefusal(f"no model {name[:80]!r}; see /v1/models", status=404, code="model_not_found")
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


def input_items(job: Job, parts: tuple[journal.RequestPart, ...], request: Request) -> dict[str, Any]:
    """Return a page of the items, with images as data: URLs."""
    asked = request.query_params
    items = [_item(job, number, part) for number, part in enumerate(parts)]
    order = asked.get("order", "desc")
    if order not in ("asc", "desc"):
        raise ApiRefusal("order must be asc or desc", parameter="order")
    if order == "desc":
        items.reverse()
    if (after := asked.get("after")) is not None:
        place = next((place for place, item in enumerate(items) if item["id"] == after), None)
        if place is None:
            raise unknown("item", after)
        items = items[place + 1 :]
    limit = number_in(request, "limit", 20, MAX_ITEMS)
    page = items[:limit]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
        "has_more": len(items) > limit,
    }


def _item(job: Job, number: int, part: journal.RequestPart) -> dict[str, Any]:
    role, id_ = role_in(job, number), f"{job.id.removeprefix('resp_')}_input_{number}"
    if role == "assistant" and part.image:
        call = {"type": "image_generation_call", "result": StoredImage(part.image)}
        return {"id": f"ig_{id_}", "status": "completed", **call}
    content: dict[str, Any] = {"type": "input_text", "text": part.text or ""}
    if role == "assistant":
        content = {"type": "output_text", "text": part.text or "", "annotations": []}
    elif part.image:
        url = StoredImage(part.image, prefix="data:image/png;base64,")
        content = {"type": "input_image", "detail": "auto", "image_url": url, "file_id": None}
    message = {"type": "message", "role": role, "content": [content]}
    return {"id": f"msg_{id_}", "status": "completed", **message}
