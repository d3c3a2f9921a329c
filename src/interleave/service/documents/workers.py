"""The worker of a process: alone with its job table, or one of several that share one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from interleave.plugin import Limits
from interleave.service.documents.fair_queue import Turns
from interleave.service.documents.folders import Folders
from interleave.service.documents.jobs import Delivery, Job, JobTable
from interleave.service.documents.model_cache import ModelShelf
from interleave.service.documents.shared_jobs import SharedJobTable
from interleave.service.documents.shared_queue import SharedTurns
from interleave.service.documents.shared_worker import SharedJobWorker, Sharing
from interleave.service.documents.worker import JobWorker


@dataclass(frozen=True)
class Places:
    """How many jobs may run in a process and wait, and run at once for each key."""

    running: int
    waiting: int
    per_key: int | None = None


def make_worker(
    jobs: JobTable,
    folders: Folders,
    shelf: ModelShelf,
    limits: Limits,
    places: Places,
    *,
    sharing: Sharing | None = None,
    deliveries: Callable[[Job], list[Delivery]] = lambda job: [],
    clock: Callable[[], float] = time.time,
) -> JobWorker:
    """A worker that fits the job table, still to be started."""
    options = {"running": places.running, "waiting": places.waiting, "per_key": places.per_key}
    if isinstance(jobs, SharedJobTable):
        turns = SharedTurns(**options)
        return SharedJobWorker(
            jobs, folders, shelf, turns, limits, sharing=sharing, deliveries=deliveries, clock=clock
        )
    return JobWorker(
        jobs,
        folders,
        shelf,
        Turns(running=places.running, waiting=places.waiting, per_key=places.per_key),
        limits,
        deliveries=deliveries,
        clock=clock,
    )
