"""`/v1/responses`, OpenAI's API for documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BeforeValidator
from starlette.responses import Response

from interleave.plugin import journal
from interleave.service.documents import schemas as wire
from interleave.service.documents.input_roles import role_in
from interleave.service.documents.jobs import Job
from interleave.service.documents.refusals import unknown
from interleave.service.documents.request_handling import Handling, submission_body
from interleave.service.documents.response_json import waiting_response
from interleave.service.documents.responses_request import parse_submission
from interleave.service.documents.routes import (
    IDEMPOTENT,
    AfterEvent,
    Call,
    RequestContext,
    Router,
    plain_json,
)
from interleave.service.documents.stored_images import StoredImage
from interleave.service.documents.streams import EventStream, json_response
from interleave.service.documents.submissions import Submission

MAX_ITEMS = 100
Flag = Annotated[bool, BeforeValidator(lambda text: str(text).lower() in ("true", "1"))]
router = Router(prefix="/v1/responses")


async def answer(call: RequestContext, job: Job) -> Response:
    """Send a job as a Response with its output so far."""
    documents = call.documents
    value = waiting_response(job) if job.is_new else await documents.in_thread(documents.response, job)
    return await json_response(value, call.images(job), call.lease)


def _stream(
    call: RequestContext, job: Job, *, after: int, leaving: Callable[[], object] | None = None
) -> Response:
    events = call.documents.events(job, after=after)
    return EventStream(events, call.images(job), call.lease, client_gone=leaving)


@router.post("", response_model=wire.ResponseObject, dependencies=IDEMPOTENT)
async def create(
    call: Handling, asked: Annotated[Submission, submission_body(wire.Submission, parse_submission)]
) -> Response:
    """Create a document."""
    job = await call.submit(asked)
    if asked.stream:
        return _stream(call, job, after=-1, leaving=call.on_leaving(asked, job))
    return await answer(call, job if asked.background else await call.wait(asked, job))


@router.get("/{id}", response_model=wire.ResponseObject)
async def retrieve(call: Call, id: str, after: AfterEvent, stream: Flag = False) -> Response:
    """Get a job as a Response, or its events with stream=true."""
    job = await call.documents.get(call.caller, id)
    return _stream(call, job, after=after) if stream else await answer(call, job)


@router.delete("/{id}", response_model=wire.Deleted)
async def delete(call: Call, id: str) -> Response:
    """Delete a document with all its files. This is final: it cannot be restored."""
    await call.documents.delete(call.caller, id)
    return plain_json({"id": id, "object": "response", "deleted": True})


@router.post("/{id}/cancel", response_model=wire.ResponseObject)
async def cancel(call: Call, id: str) -> Response:
    """Cancel a job."""
    return await answer(call, await call.documents.cancel(call.caller, id))


@router.get("/{id}/input_items", response_model=dict[str, Any])
async def input_items(
    call: Call,
    id: str,
    after: str | None = None,
    order: Literal["asc", "desc"] = "desc",
    limit: Annotated[int, Query(ge=1, le=MAX_ITEMS)] = 20,
) -> Response:
    """Get the request of a job."""
    documents = call.documents
    job = await documents.get(call.caller, id)
    record = await documents.in_thread(documents.record, job)
    parts, store = record.request if record else job.parts, call.images(job)
    items = [_item(job, number, part) for number, part in enumerate(parts)]
    if order == "desc":
        items.reverse()
    page = _page(items, after, limit)
    return await json_response(page, store if record else documents.folders.inputs(job.id), call.lease)


def _page(items: list[dict[str, Any]], after: str | None, limit: int) -> dict[str, Any]:
    """Return a page of the items, with images as data: URLs."""
    if after is not None:
        place = next((place for place, item in enumerate(items) if item["id"] == after), None)
        if place is None:
            raise unknown("item", after)
        items = items[place + 1 :]
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
        made = {"type": "image_generation_call", "result": StoredImage(part.image)}
        return {"id": f"ig_{id_}", "status": "completed", **made}
    content: dict[str, Any] = {"type": "input_text", "text": part.text or ""}
    if role == "assistant":
        content = {"type": "output_text", "text": part.text or "", "annotations": []}
    elif part.image:
        url = StoredImage(part.image, prefix="data:image/png;base64,")
        content = {"type": "input_image", "detail": "auto", "image_url": url, "file_id": None}
    message = {"type": "message", "role": role, "content": [content]}
    return {"id": f"msg_{id_}", "status": "completed", **message}
