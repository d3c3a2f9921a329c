"""Works on jobs that several processes share: claims them, keeps their leases, hears of what others do.

Threads of their own renew the leases and listen to the job table, so that a slow disk or a busy event loop
costs no lease. A lease that cannot be renewed runs out here before it does in the table: calls stop first,
and only then can another worker begin.
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
from interleave.service.documents.fair_queue import Turns
from interleave.service.documents.folders import Folders
from interleave.service.documents.jobs import OPEN, Delivery, Job, JobError, JobTable
from interleave.service.documents.model_cache import ModelShelf
from interleave.service.documents.shared_jobs import CHANNEL, Claimed, KeyLoad, SharedJobTable
from interleave.service.documents.worker import JobWorker

log = logging.getLogger(__name__)
LOOK_SECONDS = 2.0
"""How often the table is looked at without being told: for jobs that stalled, and notices that got lost."""
GATHER_SECONDS = 0.02
"""Several places that become free at the same moment are filled by one claim."""
MOST_STALLS = 5
"""After so many workers in a row died or hung with a job, the job is taken to be the cause."""
RENEWALS = 3
"""In the time of a lease."""
COUNT_SECONDS = 1.0
"""For which a count of the jobs of all processes is good."""


def worker_name() -> str:
    """Who holds a lease, for people who read the table."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"


@dataclass(frozen=True)
class Sharing:
    """How a process shares jobs with others."""

    lease_seconds: float = 30.0
    name: str = field(default_factory=worker_name)


class SharedTurns(Turns):
    """Admits jobs by the load of all processes; whose turn it is the table decides."""

    shared = True

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.per_key_everywhere: int | None = options.get("per_key")
        """On all machines together; None for as many as there are places."""
        self._load: dict[str, KeyLoad] = {}
        self._since: Counter[str] = Counter()
        self._counted = -math.inf

    async def refresh(self, jobs: SharedJobTable) -> None:
        """Count the open jobs of all processes, unless that was done just now."""
        if self._clock() - self._counted < COUNT_SECONDS:
            return
        self._counted, before = self._clock(), self._since.copy()
        self._load = await jobs.load()
        self._since -= before

    def stored(self, key: str) -> None:
        """A job was added here since the last count."""
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
    """Runs jobs of a shared table in this process, as many as it has places for."""

    jobs: SharedJobTable
    turns: SharedTurns

    def __init__(self, *arguments: Any, sharing: Sharing | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.sharing = sharing or Sharing()
        self.on_news: list[Callable[[Job], None]] = []
        """Called with every job that another process has ended, or reopened."""
        self.wants_news: Callable[[str], bool] = lambda id_: False
        """Whether anybody here waits for this job."""
        self.on_reconnect: list[Callable[[], object]] = []
        """Called when notices may have been lost."""
        self._leases: dict[str, runs.Lease] = {}
        self._wake = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []
        self._claiming: asyncio.Task[None] | None = None

    async def restart(self, order: Sequence[str] = ()) -> int:
        """Begin to claim jobs, in the order of the table; returns the number of those that wait."""
        self._loop = asyncio.get_running_loop()
        for work, name in ((self._renew_regularly, "leases"), (self._listen, "notices")):
            thread = threading.Thread(target=work, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)
        for id_ in await self.jobs.removals():
            await self.remove(id_)
        await self.turns.refresh(self.jobs)
        self._claiming = asyncio.create_task(self._claim_regularly())
        return self.turns.depth

    def add(self, job: Job) -> None:
        self.turns.stored(job.key)
        self._wake.set()

    def dispatch(self) -> None:
        """A place is free."""
        self._wake.set()

    def lease_of(self, id_: str) -> runs.Lease | None:
        return self._leases.get(id_)

    async def cancel(self, job: Job) -> None:
        """Stop a job wherever it is worked on; returns when it has its final state."""
        if job.id in self._tasks:
            await super().cancel(job)
            return
        while True:
            ended = await self.jobs.finish_unclaimed(
                job.id, "cancelled", round(self.clock(), 3), self.deliveries
            )
            if ended is not None:
                self._tell(ended)
                return
            latest = await self.jobs.get(job.id)
            if latest is None or latest.is_final:
                return
            await asyncio.sleep(0.1)  # its worker is told, and ends it

    async def stop(self, within: float = 0.0) -> None:
        if self._claiming is not None:
            self._claiming.cancel()
        await super().stop(within)
        self._ended.set()
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

    async def left(self, id_: str) -> None:
        lease = self._leases.pop(id_, None)
        if lease is not None and lease.held:  # it has not ended: the next worker need not wait
            with suppress(StorageError):
                await self.jobs.release(id_, lease.token)

    async def _store_end(self, job: Job, *ending: Any) -> None:
        await super()._store_end(job, *ending)
        self._leases.pop(job.id, None)  # it has ended, here or elsewhere: there is nothing to give back

    async def _claim_regularly(self) -> None:
        while not self._stopping:
            self._wake.clear()
            try:
                await self._claim()
            except StorageError as error:
                log.error("no jobs can be claimed: %s", error)
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._wake.wait()
            await asyncio.sleep(GATHER_SECONDS)

    async def _claim(self) -> None:
        await self.turns.refresh(self.jobs)
        free = self.turns.most_running - len(self._tasks)
        if free <= 0:
            return
        asked_at, seconds = runs.clock_that_never_stops(), self.sharing.lease_seconds
        claimed = await self.jobs.claim(
            self.sharing.name, most=free, seconds=seconds, per_key=self.turns.per_key_everywhere
        )
        for each in claimed:
            self._leases[each.job.id] = runs.Lease(each.token, asked_at + seconds)
            await self._begin(each)

    async def _begin(self, claimed: Claimed) -> None:
        job = claimed.job
        if claimed.stalled_worker:
            log.warning(
                "job %s stalled on %s and goes on here, lease %d",
                job.id,
                claimed.stalled_worker,
                claimed.token,
            )
        self.turns.running[job.key] += 1
        if claimed.stalls >= MOST_STALLS:
            error = JobError(
                code="server_error", message=f"{claimed.stalls} workers in a row died or hung with it"
            )
            await self._finish(job, "failed", error)
            self.turns.ended(job.key)
            self._leases.pop(job.id, None)
            return
        self._tasks[job.id] = asyncio.create_task(self._work(job.key, job.id), name=job.id)

    def _renew_regularly(self) -> None:
        """The thread that keeps the leases."""
        seconds = self.sharing.lease_seconds
        while not self._ended.wait(seconds / RENEWALS):
            held = {id_: lease for id_, lease in list(self._leases.items()) if lease.held}
            asked_at, kept = runs.clock_that_never_stops(), dict[str, bool]()
            if not held:
                continue
            try:
                tokens = {id_: lease.token for id_, lease in held.items()}
                kept = self.jobs.renew(tokens, seconds=seconds, within=seconds / RENEWALS)
            except StorageError as error:  # tried again until they run out
                log.warning("leases cannot be renewed: %s", error)
                kept = dict.fromkeys(held, False)
            else:
                for id_ in kept:
                    held[id_].renew(asked_at + seconds)
            for id_, lease in held.items():
                if id_ not in kept:
                    lease.lose()
            self._in_loop(self._check, {id_ for id_, cancelling in kept.items() if cancelling})

    def _check(self, cancelled: set[str]) -> None:
        """Interrupt what is to be cancelled, and what this process may no longer work on."""
        for id_, task in list(self._tasks.items()):
            lease = self._leases.get(id_)
            lost = lease is not None and not lease.held
            if (lost or id_ in cancelled) and not task.cancelling():
                if lost:
                    log.warning("job %s is left to another worker: its lease has ended", id_)
                task.cancel()

    def _listen(self) -> None:
        """The thread that hears what other processes do."""
        import psycopg

        delays = runs.backoff_delays(0.1, LOOK_SECONDS)
        while not self._ended.is_set():
            try:
                with self.jobs.postgres.connect() as connection:
                    connection.execute(f"LISTEN {CHANNEL}")
                    delays = runs.backoff_delays(0.1, LOOK_SECONDS)
                    self._in_loop(self._reconnected)
                    while not self._ended.is_set():
                        for notice in connection.notifies(timeout=0.5):
                            self._in_loop(self._heard, notice.payload)
            except psycopg.Error:
                time.sleep(next(delays))

    def _in_loop(self, work: Callable[..., object], *arguments: Any) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: the process ends
                self._loop.call_soon_threadsafe(work, *arguments)

    def _reconnected(self) -> None:
        self._wake.set()
        for listener in self.on_reconnect:
            listener()

    def _heard(self, payload: str) -> None:
        status, cancelling, id_ = payload.split(" ", 2)
        if status == "queued":
            self._wake.set()
        if cancelling == "1" and status in OPEN and id_ in self._tasks:
            self._check({id_})
        if status not in OPEN and id_ not in self._tasks and self.wants_news(id_):
            task = asyncio.ensure_future(self._pass_on(id_))
            self._storing.add(task)
            task.add_done_callback(self._storing.discard)

    async def _pass_on(self, id_: str) -> None:
        with suppress(StorageError):
            job = await self.jobs.get(id_)
            if job is not None and job.is_final:
                for listener in self.on_news:
                    listener(job)

    def _tell(self, job: Job) -> None:
        for listener in self.listeners:
            listener(job)


def make_worker(
    jobs: JobTable,
    folders: Folders,
    shelf: ModelShelf,
    limits: Limits,
    *,
    running: int,
    waiting: int,
    per_key: int | None = None,
    sharing: Sharing | None = None,
    deliveries: Callable[[Job], list[Delivery]] = lambda job: [],
    clock: Callable[[], float] = time.time,
) -> JobWorker:
    """A worker that fits the job table, still to be started: alone with it, or one of several."""
    shared = isinstance(jobs, SharedJobTable)
    turns = (SharedTurns if shared else Turns)(running=running, waiting=waiting, per_key=per_key)
    options: dict[str, Any] = {"deliveries": deliveries, "clock": clock}
    if shared:
        return SharedJobWorker(jobs, folders, shelf, turns, limits, sharing=sharing, **options)
    return JobWorker(jobs, folders, shelf, turns, limits, **options)
