"""Handling of a document request in any API: read, submit, wait, and cancel if the client disconnects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from starlette.requests import ClientDisconnect

from interleave.service.documents.bodies import described_body
from interleave.service.documents.jobs import Job
from interleave.service.documents.refusals import ApiRefusal
from interleave.service.documents.routes import RequestContext
from interleave.service.documents.service import RECEIVE_SECONDS
from interleave.service.documents.stream_limits import take_place
from interleave.service.documents.streams import disconnected
from interleave.service.documents.submissions import Submission
from interleave.service.http.decoding import finish_despite_cancel
from interleave.service.http.request_bodies import read_json

Asked = TypeVar("Asked", bound=Submission)
SMALL_BYTES = 16_000
"""Bodies up to this size are parsed faster than a thread starts."""
Parse = Callable[[dict[str, Any], tuple[str, ...], Iterable[str]], Asked]


class JobHandling(RequestContext):
    """A request that submits a job."""

    async def submit(self, asked: Submission) -> Job:
        if asked.stream or not asked.background:
            take_place(self.request.scope)
        job = await self.documents.submit(
            self.caller,
            asked,
            lease=self.lease,
            idempotency_key=self.idempotency_key,
            request_id=self.request_id,
            trace=self.request.headers.get("traceparent"),
        )
        self.lease.drop_body()
        return job

    async def read(self, parse: Parse[Asked]) -> Asked:
        """Read and parse the body; raise `ClientDisconnect` or a `Refusal`."""
        settings = self.documents.settings
        body = await read_json(self.request)

        def work() -> Asked:
            return parse(body.parse()[0], settings.models, settings.ignored)

        if body.size <= SMALL_BYTES:
            return work()
        if body.working_bytes:
            ends_at = asyncio.get_running_loop().time() + RECEIVE_SECONDS
            await self.lease.reserve(body.working_bytes, ends_at)
        return await finish_despite_cancel(self.documents.in_thread(work))

    async def wait(self, asked: Submission, job: Job) -> Job:
        """Wait for the end of a job. Cancel it if the client disconnects and cannot return for it."""
        working = asyncio.ensure_future(self.documents.wait(job))
        gone = asyncio.ensure_future(disconnected(self.request.receive))
        try:
            await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                if working.cancelled():
                    raise ApiRefusal("the service is shutting down", status=503, retry_after=5)
                return working.result()
            if not self._keeps(asked):
                self.abandon(job)
            raise ClientDisconnect
        finally:
            working.cancel()
            gone.cancel()
            await asyncio.gather(working, gone, return_exceptions=True)

    def on_leaving(self, asked: Submission, job: Job) -> Callable[[], None] | None:
        """Return the callback for a stream whose client disconnects; `None` if the job continues."""
        return None if self._keeps(asked) else lambda: self.abandon(job)

    def abandon(self, job: Job) -> None:
        """Cancel a job whose client disconnected and cannot return for it."""
        task = asyncio.ensure_future(self.documents.cancel(self.caller, job.id))
        self.documents.background.add(task)
        task.add_done_callback(self.documents.background.discard)

    def _keeps(self, asked: Submission) -> bool:
        """Return whether a job continues without its client, because the client can return for it."""
        return asked.background or self.idempotency_key is not None


async def _handling(request: Request) -> JobHandling:
    handling = JobHandling(request)
    handling.caller.require("submit")
    return handling


Handling = Annotated[JobHandling, Depends(_handling)]


def submission_body(kind: Any, parse: Parse[Asked]) -> Any:
    """Return the dependency on a body that `parse` turns into a submission."""
    return described_body(kind, lambda request: JobHandling(request).read(parse))
