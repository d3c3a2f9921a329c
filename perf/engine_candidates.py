"""Job engines behind one small interface: our job table, DBOS and procrastinate.

Each stores jobs, claims them, and works as a process of its own. A job appends a line to its journal after
each of its calls, with the token of its claim; the journal refuses older tokens. Engines without leases get
the smallest heartbeat and reaper that make them take over.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import random
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

LEASE = 3.0
"""Seconds without a sign of life after which a worker counts as gone."""
SLOTS = 4
QUEUE = "documents"


@dataclass(frozen=True)
class Settings:
    calls: int = 5
    """Calls per job, of a tenth of a second each."""
    per_key: int = 16
    """Jobs of one key at once."""
    reaper: bool = True


class StaleToken(Exception):
    """Another worker has claimed the job later."""


@dataclass(frozen=True)
class FakeRun:
    """A run folder reduced to its journal; `calls.log` lists the calls that were begun."""

    folder: Path
    id: str

    @property
    def path(self) -> Path:
        return self.folder / f"{self.id}.jsonl"

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []

    def append(self, token: int, event: str) -> None:
        with self.path.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if any(line["token"] > token for line in self.lines()):
                note(self.folder / "refused.log", self.id)
                raise StaleToken(self.id)
            line = {"token": token, "event": event, "at": time.time(), "pid": os.getpid()}
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())

    async def resume(self, token: int, calls: int) -> None:
        self.append(token, "claimed")
        for call in range(sum(line["event"] == "called" for line in self.lines()), calls):
            note(self.folder / "calls.log", f"{self.id} {call}")
            await asyncio.sleep(0.1)
            self.append(token, "called")
        self.append(token, "done")


def say_ready(folder: Path, name: str) -> None:
    (folder / f"{name}.ready").touch()


def note(log: Path, line: str) -> None:
    with log.open("a") as file:
        file.write(f"{line}\n")


class Ours:
    """The job table of the document service."""

    TABLE = "interleave.jobs"
    COPY: ClassVar[dict[str, str]] = {
        "id": "'resp_' || lpad(to_hex(n + 99), 48, '0')",
        "key": "'k' || n % {keys}",
    }
    GENERATED = "number"
    RUNNING = "status = 'in_progress', worker = 'x', leased_until = now() + interval '1 hour'"
    ROWS = ("id", "key", "number")
    NEWER = "needs = 99"

    def __init__(self, url: str, settings: Settings) -> None:
        from interleave.runs.resolve import Choices, resolve
        from interleave.service.documents.job_table import JobTable
        from interleave.service.documents.postgres import PostgresDatabase

        self.settings, self.config = settings, resolve(Choices(profile="dry-run"))[0]
        is_file = url.startswith("sqlite")
        self.jobs = JobTable(Path(url.removeprefix("sqlite:///")) if is_file else PostgresDatabase(url))

    def close(self) -> None:
        self.jobs.close()

    async def submit(self, id_: str, key: str) -> None:
        from interleave.plugin import journal
        from interleave.service.documents.jobs import Job

        parts = (journal.RequestPart(text="a lake"),)
        job = Job(id=id_, key=key, created=time.time(), parts=parts, config=self.config, model="m")
        await self.jobs.insert(job)

    async def claim(self) -> str | None:
        found = await self.jobs.claim("w", most=1, seconds=600, per_key=self.settings.per_key)
        return found[0].job.key if found else None

    def work(self, folder: Path, name: str) -> None:
        from interleave.plugin import errors
        from interleave.service.documents.folders import Folders
        from interleave.service.documents.worker import Worker, WorkerSettings

        calls = self.settings.calls

        class FakeWorker(Worker):
            async def _answer(self, job: Any, lease: Any) -> Any:
                try:
                    await FakeRun(folder, job.id).resume(lease.token, calls)
                except StaleToken as error:
                    raise errors.LeaseLost(str(error)) from error
                return SimpleNamespace(status="done", reason=None, bad_request=False)

        async def main() -> None:
            models: Any = None
            settings = WorkerSettings(
                name=name, concurrency=SLOTS, per_key=self.settings.per_key, lease_seconds=LEASE
            )
            await FakeWorker(self.jobs, Folders(folder), models, settings).start()
            say_ready(folder, name)
            await asyncio.Event().wait()

        asyncio.run(main())


class Dbos:
    """DBOS: a workflow without steps, in a queue with one partition per key."""

    TABLE = "dbos.workflow_status"
    COPY: ClassVar[dict[str, str]] = {
        "workflow_uuid": "'w' || n",
        "queue_partition_key": "'k' || n % {keys}",
        "created_at": "n",
    }
    GENERATED = ""
    RUNNING = "status = 'PENDING', executor_id = 'x'"
    ROWS = ("workflow_uuid", "queue_partition_key", "created_at")
    NEWER = "name = 'newer'"
    OURS = (
        "CREATE TABLE IF NOT EXISTS tokens (job TEXT PRIMARY KEY, token BIGINT)",
        "CREATE TABLE IF NOT EXISTS beats (executor TEXT PRIMARY KEY, at DOUBLE PRECISION)",
    )
    TOKEN = (
        "INSERT INTO tokens SELECT :job, 1 FROM dbos.workflow_status WHERE workflow_uuid = :job AND "
        "owner_xid = :owner ON CONFLICT (job) DO UPDATE SET token = tokens.token + 1 RETURNING token"
    )
    BEAT = (
        "INSERT INTO beats VALUES (:name, extract(epoch FROM now())) "
        "ON CONFLICT (executor) DO UPDATE SET at = excluded.at"
    )
    SILENT = f"SELECT executor FROM beats WHERE at < extract(epoch FROM now()) - {LEASE}"

    def __init__(self, url: str, settings: Settings) -> None:
        self.url, self.settings = url.replace("postgres://", "postgresql+psycopg://"), settings
        self.launch(Path(), "tester", listen=False)

    def launch(self, folder: Path, name: str, *, listen: bool) -> None:
        from dbos import DBOS, DBOSClient
        from dbos._context import current_owner_xid

        identity = {"name": "interleave", "application_version": "1", "executor_id": name}
        levels = {"console_log_level": "CRITICAL", "log_level": "CRITICAL"}
        self.dbos = DBOS(config={"system_database_url": self.url, **identity, **levels})
        DBOS.listen_queues([QUEUE] if listen else [])

        @DBOS.workflow(name="resume")  # type: ignore[untyped-decorator]
        async def resume(id_: str) -> None:
            token = await asyncio.to_thread(self.token, id_, current_owner_xid(DBOS.workflow_id))
            await FakeRun(folder, id_).resume(token, self.settings.calls)

        DBOS.launch()
        limits = {"worker_concurrency": SLOTS, "partition_concurrency": self.settings.per_key}
        self.queue = DBOS.register_queue(
            QUEUE, polling_interval_sec=1.0, on_conflict="always_update", **limits
        )
        self.client = DBOSClient(system_database_url=self.url, application_name="interleave")
        self.database = self.dbos._sys_db
        for table in self.OURS:
            self.sql(table)

    def close(self) -> None:
        self.dbos.destroy(destroy_registry=True)

    def sql(self, statement: str, **values: Any) -> list[Any]:
        import sqlalchemy

        with self.database.engine.begin() as connection:
            done = connection.execute(sqlalchemy.text(statement), values)
            return list(done) if done.returns_rows else []

    def token(self, id_: str, owner: str | None) -> int:
        """Take the next token, but only while the engine still says that this process owns the job."""
        for (token,) in self.sql(self.TOKEN, job=id_, owner=owner):
            return int(token)
        raise StaleToken(id_)

    async def submit(self, id_: str, key: str) -> None:
        options = {"queue_name": QUEUE, "workflow_name": "resume", "workflow_id": id_}
        await self.client.enqueue_async({**options, "queue_partition_key": key}, id_)

    async def claim(self) -> str | None:
        """Do one poll of its queue thread, with one free slot."""
        keys: list[str] = self.database.get_queue_partitions(QUEUE)
        random.shuffle(keys)
        self.queue._worker_concurrency = 1
        for key in keys:
            found, _ = self.database.start_queued_workflows(self.queue, "w", "1", key, owner_xid="o")
            if found:
                return key
        return None

    def work(self, folder: Path, name: str) -> None:
        """Work, say each second that this worker lives, and take over the jobs of silent ones."""
        import sqlalchemy

        self.close()
        self.launch(folder, name, listen=True)
        say_ready(folder, name)
        while True:
            with suppress(sqlalchemy.exc.SQLAlchemyError):
                if self.settings.reaper:
                    self.sql(self.BEAT, name=name)
                    if silent := [executor for (executor,) in self.sql(self.SILENT)]:
                        self.dbos._recover_pending_workflows(silent)
            time.sleep(LEASE / 3)


class Procrastinate:
    """procrastinate: a task in one queue; a lock admits one job of a key, so two locks stand for two."""

    TABLE = "public.procrastinate_jobs"
    COPY: ClassVar[dict[str, str]] = {"lock": "'k' || n % {keys}"}
    GENERATED = "id"
    RUNNING = "status = 'doing'"
    ROWS = ("id", "lock", "id")
    NEWER = "task_name = 'newer'"

    def __init__(self, url: str, settings: Settings) -> None:
        import psycopg
        from procrastinate import App, PsycopgConnector

        self.settings, self.app = settings, App(connector=PsycopgConnector(conninfo=url))
        with psycopg.connect(url, autocommit=True) as connection:
            if connection.execute("SELECT to_regclass('procrastinate_jobs')").fetchone() == (None,):
                connection.execute(self.app.schema_manager.get_schema().encode())
        self.number, self.worker, self.folder = 0, None, Path()

        @self.app.task(name="resume", queue=QUEUE, pass_context=True)  # type: ignore[untyped-decorator]
        async def resume(context: Any, id: str) -> None:
            await FakeRun(self.folder, id).resume(context.job.attempts, settings.calls)

    def close(self) -> None:
        pass

    async def submit(self, id_: str, key: str) -> None:
        if not self.number:
            await self.app.open_async()
        self.number += 1
        lock = f"{key}#{self.number % self.settings.per_key}"
        await self.app.configure_task("resume", lock=lock, queue=QUEUE).defer_async(id=id_)

    async def claim(self) -> str | None:
        jobs = self.app.job_manager
        self.worker = self.worker or await jobs.register_worker()
        job = await jobs.fetch_job(queues=None, worker_id=self.worker)
        return job.lock.partition("#")[0] if job else None

    def work(self, folder: Path, name: str) -> None:
        self.folder, jobs = folder, self.app.job_manager

        async def reap() -> None:
            while self.settings.reaper:
                await asyncio.sleep(LEASE / 3)
                with suppress(Exception):
                    for job in await jobs.get_stalled_jobs(seconds_since_heartbeat=LEASE):
                        await jobs.retry_job(job)

        async def main() -> None:
            await self.app.open_async()
            say_ready(folder, name)
            reaping = asyncio.create_task(reap())
            beats = {"update_heartbeat_interval": LEASE / 3, "stalled_worker_timeout": LEASE}
            await self.app.run_worker_async(concurrency=SLOTS, **beats)
            reaping.cancel()

        asyncio.run(main())


ENGINES: dict[str, Any] = {"ours": Ours, "dbos": Dbos, "procrastinate": Procrastinate}


def store(settings: Settings, folder: Path) -> None:
    """Keep the settings for workers."""
    (folder / "settings.json").write_text(json.dumps(asdict(settings)))


if __name__ == "__main__":
    _, engine, url, place, name = sys.argv
    settings = Settings(**json.loads((Path(place) / "settings.json").read_text()))
    ENGINES[engine](url, settings).work(Path(place), name)
