"""Handling of a document request in any API: read, submit, wait, and cancel if the client disconnects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from starlette.requests import ClientDisconnect

from interleave.plugin import ImageStore
from interleave.service.documents.bodies import described_body
from interleave.service.documents.jobs import Job
from interleave.service.documents.refusals import ApiRefusal
from interleave.service.documents.routes import caller_of, per_service
from interleave.service.documents.service import RECEIVE_SECONDS, Documents
from interleave.service.documents.streams import disconnected
from interleave.service.documents.submissions import Submission
from interleave.service.http.decoding import finish_despite_cancel
from interleave.service.http.middleware import LEASE, REQUEST_ID
from interleave.service.http.request_bodies import read_json

Asked = TypeVar("Asked", bound=Submission)
SMALL_BYTES = 16_000
"""Bodies up to this size are parsed faster than a thread starts."""
Parse = Callable[[dict[str, Any], tuple[str, ...], Iterable[str]], Asked]


class JobHandling:
    """Shared job handling of the routes of all APIs."""

    def __init__(self, documents: Documents) -> None:
        self.documents = documents

    async def submit(self, request: Request, asked: Submission) -> Job:
        """Store a job; raise a `Refusal`."""
        job = await self.documents.submit(
            caller_of(request),
            asked,
            lease=request.scope[LEASE],
            idempotency_key=request.headers.get("idempotency-key"),
            request_id=request.scope[REQUEST_ID],
            trace=request.headers.get("traceparent"),
        )
        request.scope[LEASE].drop_body()
        return job

    async def read(self, request: Request, parse: Parse[Asked]) -> Asked:
        """Read and parse the body of a request; raise `ClientDisconnect` or a `Refusal`."""
        settings = self.documents.settings
        body = await read_json(request)

        def work() -> Asked:
            return parse(body.parse()[0], settings.models, settings.ignored)

        if body.size <= SMALL_BYTES:
            return work()
        if body.working_bytes:
            ends_at = asyncio.get_running_loop().time() + RECEIVE_SECONDS
            await request.scope[LEASE].reserve(body.working_bytes, ends_at)
        return await finish_despite_cancel(self.documents.in_thread(work))

    async def wait(self, request: Request, asked: Submission, job: Job) -> Job:
        """Wait for the end of a job. Cancel it if the client disconnects and cannot return for it."""
        working = asyncio.ensure_future(self.documents.wait(job))
        gone = asyncio.ensure_future(disconnected(request.receive))
        try:
            await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                if working.cancelled():
                    raise ApiRefusal("the service is shutting down", status=503, retry_after=5)
                return working.result()
            if not keeps(request, asked):
                self.abandon(request, job)
            raise ClientDisconnect
        finally:
            working.cancel()
            gone.cancel()
            await asyncio.gather(working, gone, return_exceptions=True)

    def on_leaving(self, request: Request, asked: Submission, job: Job) -> Callable[[], None] | None:
        """Return the callback for a stream whose client disconnects; `None` if the job continues."""
        return None if keeps(request, asked) else lambda: self.abandon(request, job)

    def abandon(self, request: Request, job: Job) -> None:
        """Cancel a job whose client disconnected and cannot return for it."""
        task = asyncio.ensure_future(self.documents.cancel(caller_of(request), job.id))
        self.documents.background.add(task)
        task.add_done_callback(self.documents.background.discard)

    async def response(self, job: Job) -> dict[str, Any]:
        """Return the job as a Response object with its output so far."""
        return await self.documents.in_thread(self.documents.response, job)

    def store(self, job: Job) -> ImageStore:
        return ImageStore(self.documents.folders.run(job.id))


def keeps(request: Request, asked: Submission) -> bool:
    """Return whether a job continues without its client, because the client can return for it."""
    return asked.background or "idempotency-key" in request.headers


handling_of = per_service(JobHandling)
Handling = Annotated[JobHandling, Depends(handling_of)]


def submission_body(kind: Any, parse: Parse[Asked]) -> Any:
    """Return the dependency on a body that `parse` turns into a submission."""

    async def read(request: Request) -> Asked:
        return await (await handling_of(request)).read(request, parse)

    return described_body(kind, read)
