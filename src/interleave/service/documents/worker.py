"""Runs jobs concurrently in this process, each as a run in its folder, scheduled fairly among the keys.

A job that was running when the process ended is resumed by the next one. The final state of a job is stored
only after its run folder is closed, so the journal of an ended job never changes. A person's decision waits
in the job table until its job runs again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from interleave import Ended, InterleaveError, StorageError
from interleave.plugin import Limits, batches, errors, runs
from interleave.service.documents.fair_queue import FairQueue
from interleave.service.documents.folders import Folders
from interleave.service.documents.jobs import Delivery, Job, JobError, JobStatus, JobTable
from interleave.service.documents.logs import job_context
from interleave.service.documents.model_cache import ModelCache
from interleave.service.documents.tracing import span

log = logging.getLogger(__name__)
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
OUTCOMES: dict[str, JobStatus] = {
    "done": "completed",
    "short": "incomplete",
    "failed": "failed",
    "held": "held",
    "asked": "asked",
}
JobListener = Callable[[Job], None]


class ModelsMissing(Exception):
    """The models of the service cannot be loaded, which is not a failure of the job."""


class JobWorker:
    """Worker that runs the jobs of a service."""

    def __init__(
        self,
        jobs: JobTable,
        folders: Folders,
        model_cache: ModelCache,
        queue: FairQueue,
        limits: Limits,
        *,
        deliveries: Callable[[Job], list[Delivery]] = lambda job: [],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.jobs = jobs
        self.folders = folders
        self.model_cache = model_cache
        self.queue = queue
        self.limits = limits
        self.deliveries = deliveries
        self.clock = clock
        self.outage_retry = runs.OutageRetry(limits.max_seconds)
        self.listeners: list[JobListener] = []
        """Called with every job that reaches its final state."""
        self.queue_listeners: list[JobListener] = []
        """Called with every job that enters the queue, also after a decision."""
        self.storage_problem: str | None = None
        """Current disk error, if any."""
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._storing: set[asyncio.Future[None]] = set()
        """Final states that are being stored."""
        self._stopping = False

    async def released(self, id_: str) -> None:
        """Called when this process no longer works on a job."""

    def lease_of(self, id_: str) -> runs.Lease | None:
        """Return the lease of a running job; `None` if this process owns the job table."""
        return None

    async def restart(self, order: Sequence[str] = ()) -> int:
        """Put every open job back into the queue and return their number.

        Running jobs come first, then the waiting jobs in `order`, then the others.
        """
        places = {id_: place for place, id_ in enumerate(order)}

        def place_of(job: Job) -> int:
            return -1 if job.status == "in_progress" else places.get(job.id, len(places))

        jobs = sorted(await self.jobs.open_jobs(), key=place_of)
        for job in jobs:
            self.queue.add(job.key, job.id, age=self.clock() - job.created)
        for id_ in await self.jobs.removals():
            await self.remove(id_)
        self.folders.remove_unknown_inputs({job.id for job in jobs})
        self.dispatch()
        return len(jobs)

    def add(self, job: Job) -> None:
        self.queue.add(job.key, job.id)
        for listener in self.queue_listeners:
            listener(job)
        self.dispatch()

    def dispatch(self) -> None:
        """Start as many waiting jobs as the limits allow."""
        while not self._stopping and (turn := self.queue.take()) is not None:
            key, id_ = turn
            task = asyncio.create_task(self._work(key, id_), name=id_)
            self._tasks[id_] = task

    def running(self) -> list[str]:
        """Return the ids of the jobs running in this process, the earliest first."""
        return list(self._tasks)

    async def cancel(self, job: Job) -> None:
        """Stop a job that is marked to be cancelled, and wait for its final state."""
        if self.queue.drop(job.key, job.id):
            await self._finish(job, "cancelled", None)
            return
        task = self._tasks.get(job.id)
        if task is None:
            await self._finish(job, "cancelled", None)
            return
        if not task.cancelling():  # a second cancel would interrupt the storing of its final state
            task.cancel()
        await asyncio.wait({task})

    async def remove(self, id_: str) -> None:
        """Remove the files of a deleted job."""
        await asyncio.to_thread(self.folders.remove, id_)
        await self.jobs.removed(id_)

    async def stop(self, within: float = 0.0) -> None:
        """Start no more jobs, wait up to `within` seconds for running ones, and interrupt the rest."""
        self._stopping = True
        if self._tasks and within:
            await asyncio.wait(self._tasks.values(), timeout=within)
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*self._storing, return_exceptions=True)

    async def _work(self, key: str, id_: str) -> None:
        try:
            await self._until_stored(id_)
        except asyncio.CancelledError:
            await asyncio.shield(self._cancelled(id_))
        except ModelsMissing as error:  # the service stops; the next one finds the job unchanged
            log.error("job %s waits: its models cannot be loaded: %s", id_, error)
        except Exception as error:
            log.exception("job %s failed unexpectedly", id_)
            await self._failed(id_, f"{type(error).__name__}: {error}")
        finally:
            self._tasks.pop(id_, None)
            self.queue.ended(key)
            await self.released(id_)
            self.dispatch()

    async def _until_stored(self, id_: str) -> None:
        """Run a job; while the disk is full, wait and retry."""
        for delay in runs.backoff_delays(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS):
            try:
                await self._run(id_)
                self.storage_problem = None
                return
            except errors.LeaseLost as error:
                log.warning("job %s is left to another worker: %s", id_, error)
                return
            except StorageError as error:
                self.storage_problem = str(error)
                log.error("job %s waits for the disk: %s", id_, error)
            await asyncio.sleep(delay)

    async def _run(self, id_: str) -> None:
        lease = self.lease_of(id_)
        job = await self.jobs.start(id_, token=lease.token if lease else None)
        if job is None:
            return
        if job.cancelling:  # by a process that died before it finished
            await self._finish(job, "cancelled", None)
            return
        with job_context(job.id, job.request_id), span("interleave.job", parent=job.traceparent, job=job.id):
            try:
                ended = await self._answer(job)
            except StorageError:
                raise
            except InterleaveError as error:  # its models cannot be loaded, or its run cannot be read
                await self._finish(
                    job, "failed", JobError(code="server_error", message=self._for_clients(str(error)))
                )
                return
        await self._finish(job, *self._outcome(ended))

    async def _answer(self, job: Job) -> Ended:
        """Run the request of a job in its run folder, retrying through outages of its models."""
        try:
            models = await self.model_cache.models_for(job.config)
        except Exception as error:
            if self.model_cache.state == "failed":
                raise ModelsMissing(str(error)) from error
            raise
        if job.decision is not None:  # recorded only once its models are loaded and it can be carried out
            await asyncio.to_thread(self.folders.carry_out, job, self.lease_of(job.id))
        identity = job.config.generator.identity
        worker = batches.Worker(
            self.folders.root, batches.Assignment(config=job.config), self.limits, {identity: models}
        )
        item = batches.Item(
            job.id, "", lambda: self.folders.request_of(job), identity, job.hold_plan, self.lease_of(job.id)
        )

        async def attempt() -> runs.TryResult[Ended]:
            ended = await worker.execute(item)
            return runs.TryResult(
                ended,
                transient=ended.passing or ended.status == "busy",
                reason=ended.reason,
                progress=ended.calls - ended.repeated,
                succeeded=ended.status in ("done", "held", "asked"),
            )

        return await self.outage_retry.run(attempt, identity)

    def _outcome(self, ended: Ended) -> tuple[JobStatus, JobError | None]:
        """Return the final status and the error of a job."""
        status = OUTCOMES.get(ended.status, "failed")
        if status != "failed":
            return status, None
        code = "invalid_prompt" if ended.bad_request else "server_error"
        return status, JobError(code=code, message=self._for_clients(ended.reason or "the run failed"))

    def _for_clients(self, reason: str) -> str:
        return reason.replace(str(self.folders.root), "…")

    async def _cancelled(self, id_: str) -> None:
        """Finish a cancelled task if its client cancelled it, and not the end of the service."""
        with suppress(StorageError):
            job = await self.jobs.get(id_)
            if job is not None and job.cancelling:
                await self._finish(job, "cancelled", None)

    async def _failed(self, id_: str, message: str) -> None:
        with suppress(StorageError):
            job = await self.jobs.get(id_)
            if job is not None:
                await self._finish(job, "failed", JobError(code="server_error", message=message))

    async def _finish(self, job: Job, status: JobStatus, error: JobError | None) -> None:
        """Store the final state of a job and notify listeners, even if cancelled in the meantime."""
        storing = asyncio.ensure_future(self._store_end(job, status, error))
        self._storing.add(storing)
        storing.add_done_callback(self._storing.discard)
        await asyncio.shield(storing)

    async def _store_end(self, job: Job, status: JobStatus, error: JobError | None) -> None:
        lease = self.lease_of(job.id)
        final = await self.jobs.finish(
            job.id,
            status,
            round(self.clock(), 3),
            token=lease.token if lease else None,
            error=error,
            deliveries=self.deliveries,
        )
        if final is not None:
            if job.has_inputs:
                self.folders.remove_inputs(job.id)
            with job_context(job.id, job.request_id):
                log.info("job %s %s", job.id, status)
            for listener in self.listeners:
                listener(final)
