"""`interleave serve worker`: a process that runs jobs of document services on other machines."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interleave.plugin import count, redaction, resolve, runs
from interleave.service.documents.call_observer import observed
from interleave.service.documents.folders import Folders
from interleave.service.documents.health import Health
from interleave.service.documents.job_table import JobTable
from interleave.service.documents.logs import JsonFormatter
from interleave.service.documents.metrics import DocumentMetrics
from interleave.service.documents.model_cache import ModelCache
from interleave.service.documents.postgres import PostgresDatabase
from interleave.service.documents.private_files import close_to_others, private_files
from interleave.service.documents.server import DISK_THREADS
from interleave.service.documents.supervision import Supervision
from interleave.service.documents.webhooks import deliveries_of
from interleave.service.documents.worker import Worker, WorkerSettings
from interleave.service.documents.worker_health import serve_health

log = logging.getLogger("interleave.service")


@dataclass(frozen=True)
class WorkConfig:
    """Options of `interleave serve worker`."""

    chosen: runs.Choices
    folder: Path
    jobs: str
    worker: WorkerSettings = field(default_factory=WorkerSettings)
    drain_seconds: float = 10.0
    metrics_port: int | None = None
    json_logs: bool = False


def work(config: WorkConfig, announce: Callable[[str], None]) -> None:
    """Run jobs until SIGTERM or Ctrl-C. `announce` receives the worker's name once its models are loaded."""
    resolve(config.chosen)  # report wrong options before a job is claimed
    log.setLevel(logging.INFO)
    redaction.keep_environment_secret()
    if not config.json_logs:
        logging.getLogger(observed.__module__).setLevel(logging.WARNING)
    close_to_others(config.folder)
    form = JsonFormatter() if config.json_logs else "%(asctime)s %(message)s"
    with private_files(), redaction.redacted_logging(form):
        jobs = JobTable(PostgresDatabase(config.jobs))
        try:
            asyncio.run(_work(config, jobs, announce))
        finally:
            jobs.close()


async def _work(config: WorkConfig, jobs: JobTable, announce: Callable[[str], None]) -> None:
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(DISK_THREADS, thread_name_prefix="disk"))
    metrics = DocumentMetrics()
    run_config, pack = resolve(config.chosen)
    model_cache = ModelCache(run_config, pack, config.chosen, lambda models: observed(models, metrics))
    folders = Folders(config.folder)
    folders.make()
    supervision = Supervision()
    worker = Worker(
        jobs, folders, model_cache, config.worker, supervision=supervision, deliveries=deliveries_of
    )
    worker.listeners.append(lambda job: metrics.job_ended(job, folders))
    ending = asyncio.Event()
    health = Health(supervision, model_cache, jobs, folders.root, is_draining=ending.is_set)
    if config.metrics_port is not None:
        serve_health(config.metrics_port, metrics.registry, health, loop)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ending.set)
    loading, ended = model_cache.start(), asyncio.ensure_future(ending.wait())
    await asyncio.wait({loading, ended}, return_when=asyncio.FIRST_COMPLETED)
    if ending.is_set():
        return
    loading.result()  # a worker without models claims nothing
    announce(config.worker.name)
    died = supervision.died()
    waiting = await worker.start()
    if waiting:
        log.info("%s waiting", count(waiting, "job"))
    try:
        ending_for: set[asyncio.Future[Any]] = {ended, died}
        await asyncio.wait(ending_for, return_when=asyncio.FIRST_COMPLETED)
        if died.done():
            died.result()
    finally:
        log.info("shutting down: %s in progress", count(len(worker.running()), "job"))
        await worker.stop(config.drain_seconds)
