"""The queue: running, waiting and failed documents. It can be paused, reordered and retried."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends
from starlette.responses import Response

from interleave import InterleaveError, RunRecord
from interleave.plugin import one_line
from interleave.service.documents.bodies import json_body
from interleave.service.documents.job_decisions import DecisionRequest, Decisions
from interleave.service.documents.jobs import Job
from interleave.service.documents.refusals import ApiRefusal
from interleave.service.documents.response_json import thumbnail_url
from interleave.service.documents.routes import Call, ReadCall, RequestContext, Router, SubmitCall, value_json
from interleave.studio.catalogue import Search
from interleave.studio.indexing import Indexing, OwnIndexing
from interleave.studio.schemas import Move, Queue, QueueItem, Retried

MAX_RUNNING, MAX_WAITING, MAX_FAILED = 64, 200, 20
MAX_RETRIED = 100
router = Router(prefix="/v1/studio/queue")


class QueueView:
    """The queue as one caller sees it."""

    def __init__(self, call: RequestContext, indexing: Indexing) -> None:
        self.documents = call.documents
        self.caller = call.caller
        self.indexing = indexing

    async def whole(self) -> Queue:
        jobs, sees = self.documents.jobs, self.caller.sees
        return Queue(
            paused=await jobs.is_paused(),
            running=[await self._running(job) for job in await jobs.running(sees, limit=MAX_RUNNING)],
            waiting=[self._item(job) for job in await jobs.waiting(sees, limit=MAX_WAITING)],
            waiting_total=await jobs.count_waiting(sees),
            failed=await self.failed(MAX_FAILED),
        )

    async def failed(self, most: int) -> list[QueueItem]:
        catalogue = await self.indexing.catalogue()
        found = await catalogue.search(self.caller.sees, Search(outcome="failed"), limit=most)
        return [
            QueueItem(
                id=entry.id,
                title=entry.title,
                status="failed",
                created_at=int(entry.created_at),
                profile=entry.profile,
                steps=entry.steps,
                error=entry.error,
                cover=thumbnail_url(entry.id, entry.cover) if entry.cover else None,
            )
            for entry in found.entries
        ]

    async def _running(self, job: Job) -> QueueItem:
        try:
            record = await self.documents.in_thread(self.documents.record, job)
        except InterleaveError:  # a damaged journal; the job reports it
            record = None
        return self._item(job, record)

    def _item(self, job: Job, record: RunRecord | None = None) -> QueueItem:
        steps = record.steps if record else ()
        open_ = next((step.plan.number for step in steps if not step.finished), None)
        shown = [step.attempt.image for step in steps if step.attempt]
        return QueueItem(
            id=job.id,
            title=one_line(next((part.text for part in job.parts if part.text), ""), 200),
            status=job.status,
            created_at=int(job.created),
            profile=self.documents.profile_of(job),
            step=open_,
            steps=len(steps) or None,
            cover=thumbnail_url(job.id, shown[-1]) if shown else None,
        )


async def _view(call: Call, indexing: OwnIndexing) -> QueueView:
    return QueueView(call, indexing)


View = Annotated[QueueView, Depends(_view)]


@router.get("", response_model=Queue)
async def show(view: View, call: ReadCall) -> Response:
    """The queue."""
    return value_json(await view.whole())


@router.post("/pause", response_model=Queue)
async def pause(view: View) -> Response:
    """Pause the queue."""
    await view.documents.pause(view.caller, True)
    return value_json(await view.whole())


@router.post("/resume", response_model=Queue)
async def resume(view: View) -> Response:
    """Resume the queue."""
    await view.documents.pause(view.caller, False)
    return value_json(await view.whole())


@router.post("/{id}/move", response_model=Queue)
async def move(view: View, id: str, body: Annotated[Move, json_body(Move)]) -> Response:
    """Move a document in the queue."""
    await view.documents.move(view.caller, id, body.place)
    return value_json(await view.whole())


@router.post("/retry-failed", response_model=Retried)
async def retry_failed(view: View, call: SubmitCall) -> Response:
    """Retry all failed documents."""
    continued, left, decisions = [], 0, Decisions(view.documents)
    for entry in await view.failed(MAX_RETRIED):
        asked = DecisionRequest(call.caller, entry.id, digest="", request_id=call.request_id)
        try:
            continued.append((await decisions.resume(asked)).id)
        except ApiRefusal:  # it is running already, or the queue is full
            left += 1
    return value_json(Retried(continued=continued, left=left))
