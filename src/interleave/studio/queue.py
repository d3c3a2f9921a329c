"""The queue: running, waiting and failed documents. It can be paused, reordered and retried."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response

from interleave import InterleaveError, RunRecord
from interleave.plugin import one_line
from interleave.service.documents.job_decisions import DecisionRequest, Decisions
from interleave.service.documents.jobs import Job
from interleave.service.documents.keys import Caller
from interleave.service.documents.refusals import ApiRefusal
from interleave.service.documents.response_json import thumbnail_url
from interleave.service.documents.routes import caller_of, read_value, value_json
from interleave.service.documents.service import Documents
from interleave.service.http.middleware import REQUEST_ID
from interleave.studio.catalogue import Search
from interleave.studio.indexing import Indexing
from interleave.studio.schemas import Move, Queue, QueueItem, Retried

if TYPE_CHECKING:
    from starlette.requests import Request

MAX_RUNNING, MAX_WAITING, MAX_FAILED = 64, 200, 20
MAX_RETRIED = 100


class QueueRoutes:
    """The handlers of the queue."""

    def __init__(self, documents: Documents, indexing: Indexing) -> None:
        self.documents = documents
        self.indexing = indexing
        self.decisions = Decisions(documents)

    async def show(self, request: Request) -> Response:
        caller = caller_of(request, "read")
        return value_json(await self._queue(caller))

    async def pause(self, request: Request) -> Response:
        await self.documents.pause(caller_of(request), True)
        return value_json(await self._queue(caller_of(request)))

    async def resume(self, request: Request) -> Response:
        await self.documents.pause(caller_of(request), False)
        return value_json(await self._queue(caller_of(request)))

    async def move(self, request: Request) -> Response:
        move = await read_value(request, Move, "place")
        await self.documents.move(caller_of(request), request.path_params["id"], move.place)
        return value_json(await self._queue(caller_of(request)))

    async def retry_failed(self, request: Request) -> Response:
        """Resume every failed document."""
        caller = caller_of(request, "submit")
        continued, left = [], 0
        for entry in await self._failed(caller, MAX_RETRIED):
            asked = DecisionRequest(caller, entry.id, digest="", request_id=request.scope[REQUEST_ID])
            try:
                continued.append((await self.decisions.resume(asked)).id)
            except ApiRefusal:  # it is running already, or the queue is full
                left += 1
        return value_json(Retried(continued=continued, left=left))

    async def _queue(self, caller: Caller) -> Queue:
        jobs, sees = self.documents.jobs, caller.sees
        return Queue(
            paused=await jobs.is_paused(),
            running=[await self._running(job) for job in await jobs.running(sees, limit=MAX_RUNNING)],
            waiting=[self._item(job) for job in await jobs.waiting(sees, limit=MAX_WAITING)],
            waiting_total=await jobs.count_waiting(sees),
            failed=await self._failed(caller, MAX_FAILED),
        )

    async def _failed(self, caller: Caller, most: int) -> list[QueueItem]:
        catalogue = await self.indexing.catalogue()
        found = await catalogue.search(caller.sees, Search(outcome="failed"), limit=most)
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
