"""Runs jobs of a shared table: claims them, renews their leases, and follows other processes' changes.

Separate threads renew the leases and listen to the job table, so a slow disk or a busy event loop costs no
lease. A lease that cannot be renewed expires here before it expires in the table: calls stop first, and only
then can another worker begin.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import secrets
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from interleave import StorageError
from interleave.plugin import Limits, runs
from interleave.service.documents.fair_queue import FairQueue
from interleave.service.documents.folders import Folders
from interleave.service.documents.jobs import OPEN, Delivery, Job, JobError, JobTable
from interleave.service.documents.model_cache import ModelCache
from interleave.service.documents.shared_jobs import CHANNEL, Claimed, KeyLoad, SharedJobTable
from interleave.service.documents.worker import JobWorker

log = logging.getLogger(__name__)
POLL_SECONDS = 2.0
"""Interval for polling the table for stalled jobs and lost notifications."""
GATHER_SECONDS = 0.02
"""Delay before a claim, so that one claim fills several slots freed together."""
MAX_STALLS = 5
"""Consecutive dead or hung workers after which the job counts as the cause."""
RENEWALS = 3
"""Renewals per lease duration."""
COUNT_SECONDS = 1.0
"""Time for which a job count of all processes stays valid."""


def worker_name() -> str:
    """Return a readable name for this process as a lease holder."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"


@dataclass(frozen=True)
class Sharing:
    """Settings for sharing jobs with other processes."""

    lease_seconds: float = 30.0
    name: str = field(default_factory=worker_name)


class SharedFairQueue(FairQueue):
    """Admission by the load of all processes; the table decides which job is next."""

    shared = True

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.max_per_key_total: int | None = options.get("per_key")
        """Maximum jobs per key on all machines together; `None` for no limit."""
        self._load: dict[str, KeyLoad] = {}
        self._since: Counter[str] = Counter()
        self._counted = -math.inf

    async def refresh(self, jobs: SharedJobTable) -> None:
        """Count the open jobs of all processes, unless the last count is still valid."""
        if self._clock() - self._counted < COUNT_SECONDS:
            return
        self._counted, before = self._clock(), self._since.copy()
        self._load = await jobs.load()
        self._since -= before

    def stored(self, key: str) -> None:
        """Count a job that was added here since the last refresh."""
        self._since[key] += 1

    @property
    def depth(self) -> int:
        return sum(each.waiting for each in self._load.values()) + self._since.total()

    @property
    def in_flight(self) -> int:
        return sum(each.running for each in self._load.values())

    @property
    def oldest_seconds(self) -> float:
        return max((each.oldest_seconds for each in self._load.values()), default=0.0)

    def open_jobs(self, key: str) -> int:
        load = self._load.get(key, KeyLoad(0, 0, 0.0))
        return load.waiting + load.running + self._since[key]


class SharedJobWorker(JobWorker):
    """Worker that runs jobs of a shared table in this process, up to its limit."""

    jobs: SharedJobTable
    queue: SharedFairQueue

    def __init__(self, *arguments: Any, sharing: Sharing | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.sharing = sharing or Sharing()
        self.on_remote_end: list[Callable[[Job], None]] = []
        """Called with every job that another process has ended."""
        self.is_watched: Callable[[str], bool] = lambda id_: False
        """Returns whether a client of this process waits for a job."""
        self.on_reconnect: list[Callable[[], object]] = []
        """Called when notifications may have been lost."""
        self._leases: dict[str, runs.Lease] = {}
        self._wake = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []
        self._claiming: asyncio.Task[None] | None = None

    async def restart(self, order: Sequence[str] = ()) -> int:
        """Start claiming jobs in the order of the table; return the number of waiting jobs."""
        self._loop = asyncio.get_running_loop()
        for work, name in ((self._renew_regularly, "leases"), (self._listen, "notices")):
            thread = threading.Thread(target=work, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)
        for id_ in await self.jobs.removals():
            await self.remove(id_)
        await self.queue.refresh(self.jobs)
        self._claiming = asyncio.create_task(self._claim_regularly())
        return self.queue.depth

    def add(self, job: Job) -> None:
        self.queue.stored(job.key)
        self._wake.set()

    def dispatch(self) -> None:
        """Claim jobs for a free slot."""
        self._wake.set()

    def lease_of(self, id_: str) -> runs.Lease | None:
        return self._leases.get(id_)

    async def cancel(self, job: Job) -> None:
        """Stop a job on any machine and wait for its final state."""
        if job.id in self._tasks:
            await super().cancel(job)
            return
        while True:
            ended = await self.jobs.finish_unclaimed(
                job.id, "cancelled", round(self.clock(), 3), self.deliveries
            )
            if ended is not None:
                self._notify_listeners(ended)
                return
            latest = await self.jobs.get(job.id)
            if latest is None or latest.is_final:
                return
            await asyncio.sleep(0.1)  # its worker is notified, and ends it

    async def stop(self, within: float = 0.0) -> None:
        if self._claiming is not None:
            self._claiming.cancel()
        await super().stop(within)
        self._ended.set()
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

    async def released(self, id_: str) -> None:
        lease = self._leases.pop(id_, None)
        if lease is not None and lease.held:  # it has not ended: let the next worker claim it immediately
            with suppress(StorageError):
                await self.jobs.release(id_, lease.token)

    async def _store_end(self, job: Job, *ending: Any) -> None:
        await super()._store_end(job, *ending)
        self._leases.pop(job.id, None)  # it has ended, here or elsewhere: there is no lease to release

    async def _claim_regularly(self) -> None:
        while not self._stopping:
            self._wake.clear()
            try:
                await self._claim()
            except StorageError as error:
                log.error("cannot claim jobs: %s", error)
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._wake.wait()
            await asyncio.sleep(GATHER_SECONDS)

    async def _claim(self) -> None:
        await self.queue.refresh(self.jobs)
        free = self.queue.max_running - len(self._tasks)
        if free <= 0:
            return
        asked_at, seconds = runs.clock_that_never_stops(), self.sharing.lease_seconds
        claimed = await self.jobs.claim(
            self.sharing.name, most=free, seconds=seconds, per_key=self.queue.max_per_key_total
        )
        for each in claimed:
            self._leases[each.job.id] = runs.Lease(each.token, asked_at + seconds)
            await self._begin(each)

    async def _begin(self, claimed: Claimed) -> None:
        job = claimed.job
        if claimed.stalled_worker:
            log.warning(
                "job %s stalled on %s; resuming it here, lease %d",
                job.id,
                claimed.stalled_worker,
                claimed.token,
            )
        self.queue.running[job.key] += 1
        if claimed.stalls >= MAX_STALLS:
            error = JobError(
                code="server_error", message=f"{claimed.stalls} workers in a row died or hung with it"
            )
            await self._finish(job, "failed", error)
            self.queue.ended(job.key)
            self._leases.pop(job.id, None)
            return
        self._tasks[job.id] = asyncio.create_task(self._work(job.key, job.id), name=job.id)

    def _renew_regularly(self) -> None:
        """Renew the leases; runs in a thread."""
        seconds = self.sharing.lease_seconds
        while not self._ended.wait(seconds / RENEWALS):
            held = {id_: lease for id_, lease in list(self._leases.items()) if lease.held}
            asked_at, kept = runs.clock_that_never_stops(), dict[str, bool]()
            if not held:
                continue
            try:
                tokens = {id_: lease.token for id_, lease in held.items()}
                kept = self.jobs.renew(tokens, seconds=seconds, within=seconds / RENEWALS)
            except StorageError as error:  # retried until they expire
                log.warning("cannot renew leases: %s", error)
                kept = dict.fromkeys(held, False)
            else:
                for id_ in kept:
                    held[id_].renew(asked_at + seconds)
            for id_, lease in held.items():
                if id_ not in kept:
                    lease.lose()
            self._in_loop(self._check, {id_ for id_, cancelling in kept.items() if cancelling})

    def _check(self, cancelled: set[str]) -> None:
        """Interrupt cancelled jobs, and those whose lease this process has lost."""
        for id_, task in list(self._tasks.items()):
            lease = self._leases.get(id_)
            lost = lease is not None and not lease.held
            if (lost or id_ in cancelled) and not task.cancelling():
                if lost:
                    log.warning("job %s is left to another worker: its lease has expired", id_)
                task.cancel()

    def _listen(self) -> None:
        """Listen for notifications of other processes; runs in a thread."""
        import psycopg

        delays = runs.backoff_delays(0.1, POLL_SECONDS)
        while not self._ended.is_set():
            try:
                with self.jobs.postgres.connect() as connection:
                    connection.execute(f"LISTEN {CHANNEL}")
                    delays = runs.backoff_delays(0.1, POLL_SECONDS)
                    self._in_loop(self._reconnected)
                    while not self._ended.is_set():
                        for notice in connection.notifies(timeout=0.5):
                            self._in_loop(self._on_notice, notice.payload)
            except psycopg.Error:
                time.sleep(next(delays))

    def _in_loop(self, work: Callable[..., object], *arguments: Any) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed because the process ends
                self._loop.call_soon_threadsafe(work, *arguments)

    def _reconnected(self) -> None:
        self._wake.set()
        for listener in self.on_reconnect:
            listener()

    def _on_notice(self, payload: str) -> None:
        status, cancelling, id_ = payload.split(" ", 2)
        if status == "queued":
            self._wake.set()
        if cancelling == "1" and status in OPEN and id_ in self._tasks:
            self._check({id_})
        if status not in OPEN and id_ not in self._tasks and self.is_watched(id_):
            task = asyncio.ensure_future(self._forward_end(id_))
            self._storing.add(task)
            task.add_done_callback(self._storing.discard)

    async def _forward_end(self, id_: str) -> None:
        with suppress(StorageError):
            job = await self.jobs.get(id_)
            if job is not None and job.is_final:
                for listener in self.on_remote_end:
                    listener(job)

    def _notify_listeners(self, job: Job) -> None:
        for listener in self.listeners:
            listener(job)


def make_worker(
    jobs: JobTable,
    folders: Folders,
    model_cache: ModelCache,
    limits: Limits,
    *,
    running: int,
    waiting: int,
    per_key: int | None = None,
    sharing: Sharing | None = None,
    deliveries: Callable[[Job], list[Delivery]] = lambda job: [],
    clock: Callable[[], float] = time.time,
) -> JobWorker:
    """Create a worker for the job table, exclusive or shared; the caller starts it."""
    shared = isinstance(jobs, SharedJobTable)
    queue = (SharedFairQueue if shared else FairQueue)(running=running, waiting=waiting, per_key=per_key)
    options: dict[str, Any] = {"deliveries": deliveries, "clock": clock}
    if shared:
        return SharedJobWorker(jobs, folders, model_cache, queue, limits, sharing=sharing, **options)
    return JobWorker(jobs, folders, model_cache, queue, limits, **options)
