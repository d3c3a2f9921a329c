"""Runs jobs: claims them from the job table, resumes each in its run folder, and stores its end.

A job that was running when its worker ended is resumed by the next one. The final state of a job is stored
only after its run folder is closed, so the journal of an ended job never changes. A person's decision waits
in the job table until its job runs again.

In a shared table, threads of their own renew the leases and follow notices, so a slow disk or a busy event
loop costs no lease. A lease that cannot be renewed expires here before it expires in the table: calls stop
first, and only then can another worker begin.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from interleave import Ended, InterleaveError, StorageError
from interleave.plugin import Limits, batches, errors, runs
from interleave.service.documents.deliveries import Delivery
from interleave.service.documents.folders import Folders
from interleave.service.documents.job_table import Claimed, JobTable
from interleave.service.documents.jobs import OPEN, Job, JobError, JobStatus
from interleave.service.documents.logs import job_context
from interleave.service.documents.model_cache import ModelCache
from interleave.service.documents.postgres import PostgresDatabase
from interleave.service.documents.schema import CHANNEL
from interleave.service.documents.supervision import Supervision
from interleave.service.documents.tracing import span

log = logging.getLogger(__name__)
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
POLL_SECONDS = 2.0
"""Interval for polling the table for stalled jobs and lost notices."""
GATHER_SECONDS = 0.02
"""Delay before a claim in a shared table, so that one claim fills several slots freed together."""
CANCEL_SECONDS = 0.1
"""Interval for checking whether the worker that holds a cancelled job has ended it."""
STUCK_SECONDS = 120.0
"""Time without a sign of life after which a loop counts as stuck; longer than work waits for the database."""
MAX_STALLS = 5
"""Consecutive dead or hung workers after which the job counts as the cause."""
RENEWALS = 3
"""Renewals per lease duration."""
OUTCOMES: dict[str, JobStatus] = {
    "done": "completed",
    "short": "incomplete",
    "failed": "failed",
    "held": "held",
    "asked": "asked",
}
JobListener = Callable[[Job], None]


def worker_name() -> str:
    """Return a readable name for this process as a lease holder."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"


@dataclass(frozen=True)
class WorkerSettings:
    """Settings of a worker."""

    concurrency: int = 64
    """Maximum concurrent jobs; their calls share the limits of each model."""
    per_key: int | None = None
    """Maximum concurrent jobs per key, of all workers together."""
    limits: Limits = field(default_factory=Limits)
    """Limits of each job: calls, seconds, cost."""
    lease_seconds: float = 30.0
    name: str = field(default_factory=worker_name)


class ModelsMissing(Exception):
    """The models of the service cannot be loaded, which is not a failure of the job."""


class Worker:
    """Worker of a job table."""

    def __init__(
        self,
        jobs: JobTable,
        folders: Folders,
        model_cache: ModelCache,
        settings: WorkerSettings,
        *,
        supervision: Supervision | None = None,
        deliveries: Callable[[Job], list[Delivery]] = lambda job: [],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.jobs = jobs.patient
        self.folders = folders
        self.model_cache = model_cache
        self.settings = settings
        self.supervision = supervision or Supervision()
        self.deliveries = deliveries
        self.clock = clock
        self.outage_retry = runs.OutageRetry(settings.limits.max_seconds)
        self.listeners: list[JobListener] = []
        """Called with every job that reaches its final state in this process."""
        self.on_notice: list[Callable[[str, str], object]] = []
        """Called with the status and the id of every job that another process changes."""
        self.on_reconnect: list[Callable[[], object]] = []
        """Called when notices of other processes may have been lost."""
        self.storage_problem: str | None = None
        """Current disk error, if any."""
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._all_tasks: set[asyncio.Task[None]] = set()
        """All tasks, also those that have not run yet."""
        self._leases: dict[str, runs.Lease] = {}
        self._storing: set[asyncio.Future[None]] = set()
        """Final states that are being stored."""
        self._wake = asyncio.Event()
        self._stopping = False
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []
        self._claiming: asyncio.Task[None] | None = None

    @property
    def postgres(self) -> PostgresDatabase | None:
        """The database, if other processes use it too."""
        database = self.jobs.database
        return database if isinstance(database, PostgresDatabase) else None

    async def start(self) -> int:
        """Start claiming jobs; return the number of waiting ones."""
        self._loop = asyncio.get_running_loop()
        if self.postgres is None:
            waiting = await self.jobs.free_all()
        else:
            waiting = (await self.jobs.load()).waiting
            for work in (self._renew_regularly, self._follow):
                thread = threading.Thread(target=work, args=(self.postgres,), daemon=True)
                thread.start()
                self._threads.append(thread)
        for id_ in await self.jobs.removals():
            await self.remove(id_)
        if self.settings.concurrency:
            self._claiming = asyncio.create_task(self._claim_regularly())
        return waiting

    def wake(self) -> None:
        """Claim jobs soon: one was stored, or a slot is free."""
        self._wake.set()

    def running(self) -> list[str]:
        """Return the ids of the jobs running in this process, the earliest first."""
        return list(self._tasks)

    async def cancel(self, job: Job) -> None:
        """Stop a job that is marked to be cancelled, on any machine, and wait for its final state."""
        while True:
            ended = await self.jobs.finish_unclaimed(
                job.id, "cancelled", round(self.clock(), 3), self.deliveries
            )
            if ended is not None:
                self._ended(ended)
                return
            if (task := self._tasks.get(job.id)) is not None:
                if not task.cancelling():  # a second cancel would interrupt the storing of its final state
                    task.cancel()
                await asyncio.wait({task})
            latest = await self.jobs.get(job.id)
            if latest is None or latest.is_final:
                return
            await asyncio.sleep(CANCEL_SECONDS)  # its worker is notified, and ends it

    async def remove(self, id_: str) -> None:
        """Remove the files of a deleted job."""
        await asyncio.to_thread(self.folders.remove, id_)
        await self.jobs.removed(id_)

    async def stop(self, within: float = 0.0) -> None:
        """Start no more jobs, wait up to `within` seconds for running ones, and interrupt the rest."""
        self._stopping = True
        if self._claiming is not None:
            self._claiming.cancel()
            await asyncio.gather(self._claiming, return_exceptions=True)
        if self._tasks and within:
            await asyncio.wait(self._tasks.values(), timeout=within)
        await asyncio.sleep(0)  # a task that has not started would not run at all
        tasks = list(self._all_tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*self._storing, return_exceptions=True)
        self._stopped.set()
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

    async def _claim_regularly(self) -> None:
        with self.supervision.loop("claims", max_age=STUCK_SECONDS) as loop:
            while not self._stopping:
                loop.beat()
                self._wake.clear()
                try:
                    while await self._claim():
                        loop.beat()
                except StorageError as error:
                    log.error("cannot claim jobs: %s", error)
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        await self._wake.wait()
                if self.postgres is not None:
                    await asyncio.sleep(GATHER_SECONDS)

    async def _claim(self) -> bool:
        """Claim jobs for the free slots; return whether there may be more for the slots that are left."""
        free = self.settings.concurrency - len(self._tasks)
        if free <= 0 or self._stopping:
            return False
        seconds = self.settings.lease_seconds if self.postgres is not None else None
        claimed = await self.jobs.claim(
            self.settings.name, most=free, seconds=seconds, per_key=self.settings.per_key
        )
        for each in claimed:
            until = each.leased_until
            lease = None if until is None else runs.Lease(each.token, until)
            work = self._work(each, lease, earlier=self._tasks.get(each.job.id))
            task = asyncio.create_task(work, name=each.job.id)
            self._all_tasks.add(task)
            task.add_done_callback(self._all_tasks.discard)
        await asyncio.sleep(0)  # they have started then
        return 0 < len(claimed) < free

    async def _work(
        self, claimed: Claimed, lease: runs.Lease | None, earlier: asyncio.Task[None] | None
    ) -> None:
        """Run a claimed job, once the task that lost an earlier lease on it here has ended."""
        job = claimed.job
        # From here on it may be cancelled; before, it would not run at all.
        self._tasks[job.id] = cast("asyncio.Task[None]", asyncio.current_task())
        if lease is not None:
            self._leases[job.id] = lease
        if claimed.stalled_worker:
            log.warning(
                "job %s stalled on %s; resuming it here, lease %d",
                job.id,
                claimed.stalled_worker,
                claimed.token,
            )
        try:
            if self._stopping:
                return
            if earlier is not None:
                await asyncio.wait({earlier})
            await self._until_stored(claimed, lease)
        except asyncio.CancelledError:
            await asyncio.shield(self._cancelled(claimed))
        except ModelsMissing as error:  # the service stops; the next one finds the job unchanged
            log.error("job %s waits: its models cannot be loaded: %s", job.id, error)
        except Exception as error:
            log.exception("job %s failed unexpectedly", job.id)
            with suppress(StorageError):
                await self._finish(claimed, "failed", _server_error(f"{type(error).__name__}: {error}"))
        finally:
            await self._leave(claimed, lease)
            self.wake()

    async def _leave(self, claimed: Claimed, lease: runs.Lease | None) -> None:
        """Forget a job, unless it was claimed again here, and release it if it has not ended."""
        id_ = claimed.job.id
        if self._tasks.get(id_) is asyncio.current_task():
            del self._tasks[id_]
        if lease is not None and self._leases.get(id_) is lease:
            del self._leases[id_]
            with suppress(StorageError):
                await self.jobs.release(id_, claimed.token)

    async def _until_stored(self, claimed: Claimed, lease: runs.Lease | None) -> None:
        """Run a job; while the disk is full, wait and retry."""
        for delay in runs.backoff_delays(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS):
            try:
                await self._run(claimed, lease)
                self.storage_problem = None
                return
            except errors.LeaseLost as error:
                log.warning("job %s is left to another worker: %s", claimed.job.id, error)
                return
            except StorageError as error:
                self.storage_problem = str(error)
                log.error("job %s waits for the disk: %s", claimed.job.id, error)
            await asyncio.sleep(delay)

    async def _run(self, claimed: Claimed, lease: runs.Lease | None) -> None:
        job = claimed.job
        if claimed.stalls >= MAX_STALLS:
            reason = f"{claimed.stalls} workers in a row died or hung with it"
            await self._finish(claimed, "failed", _server_error(reason))
            return
        if job.cancelling:  # by a process that died before it finished
            await self._finish(claimed, "cancelled", None)
            return
        with job_context(job.id, job.request_id), span("interleave.job", parent=job.traceparent, job=job.id):
            try:
                ended = await self._answer(job, lease)
            except StorageError:
                raise
            except InterleaveError as error:  # its models cannot be loaded, or its run cannot be read
                await self._finish(claimed, "failed", _server_error(self._for_clients(str(error))))
                return
        await self._finish(claimed, *self._outcome(ended))

    async def _answer(self, job: Job, lease: runs.Lease | None) -> Ended:
        """Run the request of a job in its run folder, retrying through outages of its models."""
        try:
            models = await self.model_cache.models_for(job.config)
        except Exception as error:
            if self.model_cache.state == "failed":
                raise ModelsMissing(str(error)) from error
            raise
        if job.decision is not None:  # recorded only once its models are loaded and it can be carried out
            await asyncio.to_thread(self.folders.carry_out, job, lease)
        identity = job.config.generator.identity
        worker = batches.Worker(
            self.folders.root, batches.Assignment(config=job.config), self.settings.limits, {identity: models}
        )
        item = batches.Item(job.id, "", lambda: self.folders.request_of(job), identity, job.hold_plan, lease)

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

    async def _cancelled(self, claimed: Claimed) -> None:
        """Finish a cancelled task if its client cancelled it, and not the end of the service."""
        with suppress(StorageError):
            job = await self.jobs.get(claimed.job.id)
            if job is not None and job.cancelling:
                await self._finish(claimed, "cancelled", None)

    async def _finish(self, claimed: Claimed, status: JobStatus, error: JobError | None) -> None:
        """Store the final state of a job and notify listeners, even if cancelled in the meantime."""
        storing = asyncio.ensure_future(self._store_end(claimed, status, error))
        self._storing.add(storing)
        storing.add_done_callback(self._storing.discard)
        await asyncio.shield(storing)

    async def _store_end(self, claimed: Claimed, status: JobStatus, error: JobError | None) -> None:
        job = claimed.job
        final = await self.jobs.finish(
            job.id,
            status,
            round(self.clock(), 3),
            token=claimed.token,
            error=error,
            deliveries=self.deliveries,
        )
        lease = self._leases.get(job.id)
        if lease is not None and lease.token == claimed.token:
            del self._leases[job.id]  # it has ended, here or elsewhere: there is no lease to release
        if final is not None:
            if job.has_inputs:
                self.folders.remove_inputs(job.id)
            self._ended(final)

    def _ended(self, job: Job) -> None:
        with job_context(job.id, job.request_id):
            log.info("job %s %s", job.id, job.status)
        for listener in self.listeners:
            listener(job)

    def _renew_regularly(self, database: PostgresDatabase) -> None:
        """Renew the leases until the worker stops; runs in a thread."""
        every = self.settings.lease_seconds / RENEWALS
        with self.supervision.loop("leases", max_age=every + STUCK_SECONDS) as loop:
            while not self._stopped.wait(every):
                loop.beat()
                held = {id_: lease for id_, lease in list(self._leases.items()) if lease.held}
                if held:
                    self._renew(database, held)

    def _renew(self, database: PostgresDatabase, held: dict[str, runs.Lease]) -> None:
        seconds = self.settings.lease_seconds
        tokens = {id_: lease.token for id_, lease in held.items()}
        asked_at = runs.clock_that_never_stops()
        try:
            renew = partial(self.jobs.renew, tokens=tokens, seconds=seconds)
            kept = database.transaction(renew, seconds / RENEWALS)
        except StorageError as error:  # retried until they expire
            log.warning("cannot renew leases: %s", error)
            self._in_loop(self._interrupt, set())
            return
        for id_, lease in held.items():
            if id_ in kept:
                lease.renew(asked_at + seconds)
            else:
                lease.lose()
        self._in_loop(self._interrupt, {id_ for id_, cancelling in kept.items() if cancelling})

    def _interrupt(self, cancelled: set[str]) -> None:
        """Interrupt cancelled jobs, and those whose lease this process has lost."""
        for id_, task in list(self._tasks.items()):
            lease = self._leases.get(id_)
            lost = lease is not None and not lease.held
            if (lost or id_ in cancelled) and not task.cancelling():
                if lost:
                    log.warning("job %s is left to another worker: its lease has expired", id_)
                task.cancel()

    def _follow(self, database: PostgresDatabase) -> None:
        """Follow the changes that other processes make; runs in a thread."""
        with self.supervision.loop("notices", max_age=STUCK_SECONDS) as loop:
            for payload in database.notices(CHANNEL, self._stopped):
                loop.beat()
                if payload is not None:
                    self._in_loop(self._on_notice, payload)

    def _in_loop(self, work: Callable[..., object], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed because the process ends
            self._loop.call_soon_threadsafe(work, *arguments)

    def _on_notice(self, payload: str) -> None:
        if not payload:
            self.wake()
            for listener in self.on_reconnect:
                listener()
            return
        status, cancelling, id_ = payload.split(" ", 2)
        if status == "queued":
            self.wake()
        if cancelling == "1" and status in OPEN:
            self._interrupt({id_})
        if id_ not in self._tasks:
            for notified in self.on_notice:
                notified(status, id_)


def _server_error(message: str) -> JobError:
    return JobError(code="server_error", message=message)
