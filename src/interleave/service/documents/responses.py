"""`/v1/responses`, OpenAI's API for documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import Depends, Query, Request
from pydantic import BeforeValidator
from starlette.responses import Response

from interleave.plugin import journal
from interleave.service.documents import schemas as wire
from interleave.service.documents.jobs import Job
from interleave.service.documents.refusals import unknown
from interleave.service.documents.request_handling import Handling, JobHandling, handling_of, submission_body
from interleave.service.documents.response_json import waiting_response
from interleave.service.documents.responses_request import parse_submission
from interleave.service.documents.routes import (
    AfterEvent,
    IdempotencyKey,
    Lease,
    Router,
    Sender,
    Service,
    Submitter,
    plain_json,
)
from interleave.service.documents.stored_images import StoredImage
from interleave.service.documents.streams import EventStream, json_response
from interleave.service.documents.submissions import Submission
from interleave.service.http.memory import MemoryLease
from interleave.service.http.middleware import LEASE

MAX_ITEMS = 100
Flag = Annotated[bool, BeforeValidator(lambda text: str(text).lower() in ("true", "1"))]
router = Router(prefix="/v1/responses")


class Answer:
    """Writer of a job as a Response, whole or as a stream."""

    def __init__(self, handling: JobHandling, lease: MemoryLease) -> None:
        self.handling = handling
        self.lease = lease

    async def whole(self, job: Job) -> Response:
        value = waiting_response(job) if job.is_new else await self.handling.response(job)
        return await json_response(value, self.handling.store(job), self.lease)

    def stream(self, job: Job, *, after: int, leaving: Callable[[], object] | None = None) -> Response:
        return EventStream(
            self.handling.documents.events(job, after=after),
            self.handling.store(job),
            self.lease,
            client_gone=leaving,
        )


async def answer_to(request: Request) -> Answer:
    return Answer(await handling_of(request), request.scope[LEASE])


Answers = Annotated[Answer, Depends(answer_to)]


@router.post("", response_model=wire.ResponseObject)
async def create(
    request: Request,
    handling: Handling,
    caller: Submitter,
    answer: Answers,
    asked: Annotated[Submission, submission_body(wire.Submission, parse_submission)],
    key: IdempotencyKey = None,
) -> Response:
    """Create a document."""
    job = await handling.submit(request, asked)
    if asked.stream:
        return answer.stream(job, after=-1, leaving=handling.on_leaving(request, asked, job))
    if not asked.background:
        job = await handling.wait(request, asked, job)
    return await answer.whole(job)


@router.get("/{id}", response_model=wire.ResponseObject)
async def retrieve(
    documents: Service, caller: Sender, answer: Answers, id: str, after: AfterEvent, stream: Flag = False
) -> Response:
    """Get a job as a Response, or its events with stream=true."""
    job = await documents.get(caller, id)
    return answer.stream(job, after=after) if stream else await answer.whole(job)


@router.delete("/{id}", response_model=wire.Deleted)
async def delete(documents: Service, caller: Sender, id: str) -> Response:
    """Delete a document with all its files."""
    await documents.delete(caller, id)
    return plain_json({"id": id, "object": "response", "deleted": True})


@router.post("/{id}/cancel", response_model=wire.ResponseObject)
async def cancel(documents: Service, caller: Sender, answer: Answers, id: str) -> Response:
    """Cancel a job."""
    return await answer.whole(await documents.cancel(caller, id))


@router.get("/{id}/input_items", response_model=dict[str, Any])
async def input_items(
    handling: Handling,
    caller: Sender,
    lease: Lease,
    id: str,
    after: str | None = None,
    order: Literal["asc", "desc"] = "desc",
    limit: Annotated[int, Query(ge=1, le=MAX_ITEMS)] = 20,
) -> Response:
    """Get the request of a job."""
    documents = handling.documents
    job = await documents.get(caller, id)
    record = await documents.in_thread(documents.record, job)
    parts, store = record.request if record else job.parts, handling.store(job)
    items = [_item(job, number, part) for number, part in enumerate(parts)]
    if order == "desc":
        items.reverse()
    page = _page(items, after, limit)
    return await json_response(page, store if record else documents.folders.inputs(job.id), lease)


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
    content: dict[str, Any] = {"type": "input_text", "text": part.text or ""}
    if part.image:
        url = StoredImage(part.image, prefix="data:image/png;base64,")
        content = {"type": "input_image", "detail": "auto", "image_url": url, "file_id": None}
    return {
        "id": f"msg_{job.id.removeprefix('resp_')}_input_{number}",
        "type": "message",
        "role": "user",
        "status": "completed",
        "content": [content],
    }
