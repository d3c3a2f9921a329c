"""The document service process: binds its port, resumes open jobs, serves, and shuts down gracefully."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import socket
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import uvicorn

from interleave import ConfigurationError
from interleave.plugin import count, make_folder, redaction, resolve, runs, write_atomic
from interleave.service.documents.app import build_app
from interleave.service.documents.call_observer import observed
from interleave.service.documents.deliveries import Deliveries
from interleave.service.documents.folders import Folders
from interleave.service.documents.idle import LastUse, until_idle
from interleave.service.documents.job_table import JobTable
from interleave.service.documents.keys import FILE_NAME as KEYS_NAME
from interleave.service.documents.keys import GuestQuota, Guests, KeyAccess
from interleave.service.documents.logs import JsonFormatter
from interleave.service.documents.metrics import DocumentMetrics
from interleave.service.documents.model_cache import ModelCache, NoModels, Offer
from interleave.service.documents.postgres import PostgresDatabase
from interleave.service.documents.private_files import close_to_others, private_files
from interleave.service.documents.routes import Router
from interleave.service.documents.service import Documents, ServiceSettings
from interleave.service.documents.webhooks import SECRET_VARIABLE, AllowedHosts, Webhooks
from interleave.service.generator.server import GRACE_SECONDS, Server, address_of, listen, uvicorn_config
from interleave.service.http.auth import is_loopback
from interleave.service.http.memory import trim_freed_memory
from interleave.service.http.signals import drain_on_signals

log = logging.getLogger("interleave.service")
JOBS_NAME = "jobs.sqlite"
DEFAULT_FOLDER = Path("runs") / "documents"
DEFAULT_PORT = 8020
ADDRESS_NAME = "service.json"
"""File with the address of the running service of a folder."""
DISK_THREADS = 32
"""Threads that open and close runs. They mostly wait for the disk, which serves many threads in parallel."""


@dataclass(frozen=True)
class DocumentsConfig:
    """Options of `interleave serve documents`."""

    chosen: runs.Choices
    folder: Path = DEFAULT_FOLDER
    jobs: Path | str | None = None
    """Job table: a SQLite file, or the URL of a Postgres database; `None` for a file in the folder."""
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    drain_seconds: float = 10.0
    settings: ServiceSettings = field(default_factory=ServiceSettings)
    webhook_hosts: tuple[str, ...] = ()
    webhook_secret: str | None = None
    json_logs: bool = False
    others: tuple[str, ...] = ()
    """Further profiles that clients may choose."""
    guests: GuestQuota | None = None
    """Quota of visitors without an API key; `None` to refuse them."""
    routes: Mapping[str, Router] = field(default_factory=dict)
    """Configured routers that replace the installed ones of the same names."""
    idle_seconds: float | None = None
    """Time without requests and jobs after which the service ends; `None` for never."""

    @property
    def keys_path(self) -> Path:
        return self.folder / KEYS_NAME


def serve_documents(config: DocumentsConfig, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C. `announce` receives the address once the port is open."""
    access = KeyAccess(config.keys_path, Guests(config.folder, config.guests) if config.guests else None)
    check_public(config, access)
    resolve(config.chosen)  # report wrong options before binding the port
    listening = listen(config.host, config.port)
    trim_freed_memory()
    log.setLevel(logging.INFO)
    redaction.keep_environment_secret()
    if config.webhook_secret:
        redaction.keep_secret(config.webhook_secret, SECRET_VARIABLE)
    form = JsonFormatter() if config.json_logs else "%(asctime)s %(message)s"
    if not config.json_logs:  # a line per model call is only useful to log search
        logging.getLogger(observed.__module__).setLevel(logging.WARNING)
    close_to_others(config.folder)
    with (
        listening,
        private_files(),
        redaction.redacted_logging(form),
        opened_jobs(config.jobs, config.folder) as jobs,
    ):
        asyncio.run(_serve(config, jobs, access, listening, announce))


@contextmanager
def opened_jobs(where: Path | str | None, folder: Path) -> Iterator[JobTable]:
    """Open the job table of a service and lock its folder; a shared table needs no lock."""
    with ExitStack() as held:
        if isinstance(where, str):
            make_folder(folder)
            jobs = JobTable(PostgresDatabase(where))
        else:
            held.enter_context(Folders(folder).locked())
            jobs = JobTable(where or folder / JOBS_NAME)
        held.callback(jobs.close)
        yield jobs


def make_documents(config: DocumentsConfig, jobs: JobTable, metrics: DocumentMetrics) -> Documents:
    """Create the service of a configuration; the caller starts it."""
    run_config, pack = resolve(config.chosen)
    kind = ModelCache if config.settings.concurrency else NoModels
    model_cache = kind(
        run_config,
        pack,
        config.chosen,
        lambda models: observed(models, metrics),
        {name: _offer(config.chosen, name) for name in config.others},
    )
    webhooks = None
    if config.webhook_hosts:
        if not config.webhook_secret:
            raise ConfigurationError(
                f"webhook calls are signed: set {SECRET_VARIABLE} to a secret shared with the receivers, "
                "whsec_ followed by random bytes in base64 (openssl rand -base64 32)"
            )
        webhooks = Webhooks(
            Deliveries(jobs.database),
            AllowedHosts(config.webhook_hosts),
            config.webhook_secret,
            counted=lambda outcome: metrics.webhooks.labels(outcome).inc(),
        )
    documents = Documents(Folders(config.folder), jobs, model_cache, config.settings, webhooks=webhooks)
    metrics.watch(documents)
    return documents


def _offer(chosen: runs.Choices, profile: str) -> Offer:
    """Return another profile with the rules of the service and the profile's models."""
    other = replace(chosen, profile=profile, planner=None, critic=None, generator=None, prompts=None)
    return Offer(*resolve(other), other)


def check_public(config: DocumentsConfig, access: KeyAccess) -> None:
    """Refuse to serve the network without API keys."""
    if not access.has_keys and access.guests is None and not is_loopback(config.host):
        raise ConfigurationError(
            f"--host {config.host} can be reached from other machines, but there is no API key: create one "
            f"with 'interleave serve keys add NAME --runs {config.folder}', or serve this machine only "
            "with --host 127.0.0.1"
        )


async def _serve(
    config: DocumentsConfig,
    jobs: JobTable,
    access: KeyAccess,
    listening: socket.socket,
    announce: Callable[[str], None],
) -> None:
    asyncio.get_running_loop().set_default_executor(
        ThreadPoolExecutor(DISK_THREADS, thread_name_prefix="disk")
    )
    metrics = DocumentMetrics()
    documents = make_documents(config, jobs, metrics)
    used = LastUse(build_app(documents, access, metrics, config.routes))
    server = Server(uvicorn_config(used))
    gc.collect()
    gc.freeze()  # these objects are permanent; collecting them would delay every request
    died = documents.supervision.died()
    opened = await documents.start()
    if opened:
        log.info("resuming %s", count(opened, "job"))
    loading = documents.model_cache.start()
    try:
        with (
            drain_on_signals(server, lambda: _drain(server, documents, config.drain_seconds)),
            address_file(config.folder, address_of(listening)),
        ):
            serving = asyncio.create_task(server.serve(sockets=[listening]))
            announce(address_of(listening))
            ending: set[asyncio.Future[Any]] = {serving, loading, died}
            if config.idle_seconds is not None:
                idle = asyncio.create_task(until_idle(used, documents, config.idle_seconds))
                idle.add_done_callback(lambda _: setattr(server, "should_exit", True))
                documents.background.add(idle)
            await asyncio.wait(ending, return_when=asyncio.FIRST_COMPLETED)
            if loading.done() and loading.exception() is not None:
                server.should_exit = True
            died.add_done_callback(lambda _: setattr(server, "should_exit", True))
            await serving
        for each in (loading, died):
            if each.done():
                each.result()
    finally:
        await documents.stop()


@contextmanager
def address_file(folder: Path, address: str) -> Iterator[None]:
    """Write the address of a service into its folder meanwhile, for programs that look for it."""
    path = folder / ADDRESS_NAME
    write_atomic(path, json.dumps({"address": address}).encode(), private=True)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


async def _drain(server: uvicorn.Server, documents: Documents, within: float) -> None:
    """Wait up to `within` seconds for running jobs; the next start resumes the others."""
    documents.draining = True
    log.info("shutting down: %s in progress", count(len(documents.worker.running()), "job"))
    await documents.stop(within)
    server.config.timeout_graceful_shutdown = int(GRACE_SECONDS)
    server.should_exit = True
