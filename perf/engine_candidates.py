"""Job engines behind one small interface: our job table, DBOS and procrastinate.

Each can store a job, claim one, and work as a process of its own. A job is one unit of work `resume(id)`: it
makes calls of a tenth of a second and appends a line to the journal of the job after each, with the token of
its claim; an append with an older token is refused. Engines without leases get the smallest heartbeat and
reaper that makes them take over.
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
from pathlib import Path
from types import SimpleNamespace
from typing import Any

LEASE = 3.0
"""Seconds without a sign of life after which a worker counts as gone."""
CALL_SECONDS = 0.1
SLOTS = 4
QUEUE = "documents"


class StaleToken(Exception):
    """Another worker has claimed the job later."""


class FakeRun:
    """A run folder reduced to its journal; `calls.log` lists the calls that were begun."""

    def __init__(self, folder: Path, id_: str) -> None:
        self.folder, self.path = folder, folder / f"{id_}.jsonl"

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []

    def append(self, token: int, **values: Any) -> None:
        with self.path.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if any(line["token"] > token for line in self.lines()):
                with (self.folder / "refused.log").open("a") as log:
                    log.write(f"{self.path.stem}\n")
                raise StaleToken(self.path.stem)
            file.write(json.dumps({"token": token, "at": time.time(), "pid": os.getpid(), **values}) + "\n")
            file.flush()
            os.fsync(file.fileno())

    async def resume(self, token: int) -> None:
        self.append(token, event="claimed")
        calls = int((self.folder / "calls").read_text())
        for call in range(sum(line["event"] == "called" for line in self.lines()), calls):
            with (self.folder / "calls.log").open("a") as log:
                log.write(f"{self.path.stem} {call}\n")
            await asyncio.sleep(CALL_SECONDS)
            self.append(token, event="called")
        self.append(token, event="done")


class Ours:
    """The job table of the document service, as it is."""

    CLONE = ("jobs", "number", {"id": "'resp_' || lpad(to_hex(n + 99), 48, '0')", "key": "'k' || n % KEYS"})
    SCHEMA = "interleave"

    def __init__(self, url: str) -> None:
        from interleave.service.documents.jobs import JobTable
        from interleave.service.documents.shared_jobs import SharedJobTable

        shared = url.startswith("postgres")
        self.jobs: Any = SharedJobTable(url) if shared else JobTable(Path(url.removeprefix("sqlite:///")))

    def close(self) -> None:
        self.jobs.close()

    async def submit(self, id_: str, key: str = "k0") -> None:
        from interleave.plugin import journal
        from interleave.runs.resolve import Choices, resolve
        from interleave.service.documents.jobs import Job

        self.config = getattr(self, "config", None) or resolve(Choices(profile="dry-run"))[0]
        parts = (journal.RequestPart(text="a lake"),)
        await self.jobs.insert(
            Job(id=id_, key=key, created=time.time(), parts=parts, config=self.config, model="m")
        )

    async def claim(self) -> str | None:
        found = await self.jobs.claim("w", most=1, seconds=600, per_key=2)
        return found[0].job.key if found else None

    STATUSES = "SELECT status, count(*) FROM interleave.jobs GROUP BY status"

    @classmethod
    def work(cls, url: str, folder: Path, name: str) -> None:
        from interleave.plugin import Limits, errors
        from interleave.service.documents.folders import Folders
        from interleave.service.documents.shared_worker import SharedFairQueue, SharedJobWorker, Sharing

        class Worker(SharedJobWorker):
            async def _answer(self, job: Any) -> Any:
                lease = self.lease_of(job.id)
                assert lease is not None
                try:
                    await FakeRun(folder, job.id).resume(lease.token)
                except StaleToken as error:
                    raise errors.LeaseLost(str(error)) from error
                return SimpleNamespace(status="done", reason=None, bad_request=False)

        async def main() -> None:
            queue = SharedFairQueue(running=SLOTS, waiting=0, per_key=per_key())
            sharing = Sharing(lease_seconds=LEASE, name=name)
            cache: Any = None
            worker = Worker(cls(url).jobs, Folders(folder), cache, queue, Limits(), sharing=sharing)
            await worker.restart()
            await asyncio.Event().wait()

        asyncio.run(main())


class Dbos:
    """DBOS: a workflow without steps, in a queue with one partition for each key."""

    CLONE = (
        "workflow_status",
        "",
        {"workflow_uuid": "'w' || n", "queue_partition_key": "'k' || n % KEYS", "created_at": "n"},
    )
    SCHEMA = "dbos"
    STATUSES = "SELECT status, count(*) FROM dbos.workflow_status GROUP BY status"
    TABLES = (
        "CREATE TABLE IF NOT EXISTS tokens (job TEXT PRIMARY KEY, token BIGINT)",
        "CREATE TABLE IF NOT EXISTS beats (executor TEXT PRIMARY KEY, at DOUBLE PRECISION)",
    )

    def __init__(self, url: str, name: str = "tester", version: str = "1", listen: bool = False) -> None:
        import sqlalchemy as sa
        from dbos import DBOS, DBOSClient
        from dbos._serialization import Serializer

        class Json(Serializer):
            def serialize(self, data: Any) -> str:
                return json.dumps(data, default=repr)

            def deserialize(self, text: str) -> Any:
                return json.loads(text)

            def name(self) -> str:
                return "json"

        self.sa, self.url = sa, url.replace("postgres://", "postgresql+psycopg://")
        config: Any = {
            "name": "interleave",
            "system_database_url": self.url,
            "application_version": version,
            "executor_id": name,
            "serializer": Json(),
            "console_log_level": "CRITICAL",
            "log_level": os.environ.get("ENGINE_LOG", "CRITICAL"),
        }
        self.dbos = DBOS(config=config)
        DBOS.listen_queues([QUEUE] if listen else [])
        self.folder = Path()

        @DBOS.workflow(name="resume")
        async def resume(id_: str) -> None:
            await FakeRun(self.folder, id_).resume(await asyncio.to_thread(self.token, id_, owner()))

        def owner() -> str | None:
            from dbos._context import current_owner_xid

            assert DBOS.workflow_id is not None
            return current_owner_xid(DBOS.workflow_id)

        DBOS.launch()
        self.queue = DBOS.register_queue(
            QUEUE,
            worker_concurrency=SLOTS,
            partition_concurrency=per_key(),
            polling_interval_sec=float(os.environ.get("ENGINE_POLL", "1")),
            on_conflict="always_update",
        )
        self.database = self.dbos._sys_db
        with self.database.engine.begin() as connection:
            for table in self.TABLES:
                connection.execute(sa.text(table))
        self.client = DBOSClient(
            system_database_url=self.url, serializer=Json(), application_name="interleave"
        )

    def close(self) -> None:
        from dbos import DBOS

        DBOS.destroy(destroy_registry=True)

    def token(self, id_: str, owner: str | None) -> int:
        """Take the next token, but only while the engine still says that this process owns the job."""
        with self.database.engine.begin() as connection:
            statement = (
                f"INSERT INTO tokens SELECT '{id_}', 1 FROM {self.prefix}workflow_status "
                f"WHERE workflow_uuid = '{id_}' AND owner_xid = '{owner}' "
                "ON CONFLICT (job) DO UPDATE SET token = tokens.token + 1 RETURNING token"
            )
            row = connection.execute(self.sa.text(statement)).fetchone()
        if row is None:
            raise StaleToken(id_)
        return int(row[0])

    @property
    def prefix(self) -> str:
        return "" if self.url.startswith("sqlite") else "dbos."

    async def submit(self, id_: str, key: str = "k0") -> None:
        options: Any = {"queue_name": QUEUE, "workflow_name": "resume", "workflow_id": id_}
        await self.client.enqueue_async({**options, "queue_partition_key": key}, id_)

    async def claim(self) -> str | None:
        """One poll of its queue thread with a free slot."""
        keys = self.database.get_queue_partitions(QUEUE)
        random.shuffle(keys)
        self.queue._worker_concurrency = 1
        for key in keys:
            found, _ = self.database.start_queued_workflows(self.queue, "w", "1", key, owner_xid="o")
            if found:
                return key
        return None

    @classmethod
    def work(cls, url: str, folder: Path, name: str) -> None:
        engine = cls(url, name, os.environ.get("ENGINE_VERSION", "1"), listen=True)
        engine.folder = folder
        while True:
            with suppress(engine.sa.exc.SQLAlchemyError):
                engine.beat(name)
            time.sleep(LEASE / 3)

    def beat(self, name: str) -> None:
        """Say that this worker lives, and put the jobs of silent ones back: the engine has nothing for it."""
        if "reaper" in os.environ.get("ENGINE_WITHOUT", ""):
            return
        with self.database.engine.begin() as connection:
            beat = "INSERT INTO beats VALUES (:name, extract(epoch FROM now())) ON CONFLICT (executor) DO "
            connection.execute(self.sa.text(f"{beat} UPDATE SET at = excluded.at"), {"name": name})
            silent = f"SELECT executor FROM beats WHERE at < extract(epoch FROM now()) - {LEASE}"
            gone = [row[0] for row in connection.execute(self.sa.text(silent))]
        if gone:
            self.dbos._recover_pending_workflows(gone)


class Procrastinate:
    """procrastinate: a task in one queue; its lock admits one job of a key, so two locks stand for two."""

    CLONE = ("procrastinate_jobs", "id", {"lock": "'k' || n % KEYS"})
    SCHEMA = "public"
    STATUSES = "SELECT status, count(*) FROM procrastinate_jobs GROUP BY status"

    def __init__(self, url: str) -> None:
        import psycopg
        from procrastinate import App, PsycopgConnector

        self.app = App(connector=PsycopgConnector(conninfo=url))
        with psycopg.connect(url, autocommit=True) as connection:
            if connection.execute("SELECT to_regclass('procrastinate_jobs')").fetchone() == (None,):
                connection.execute(self.app.schema_manager.get_schema().encode())
        self.opened, self.number, self.folder = False, 0, Path()

        @self.app.task(name="resume", queue=QUEUE, pass_context=True)
        async def resume(context: Any, id: str) -> None:
            await FakeRun(self.folder, id).resume(context.job.attempts)

    def close(self) -> None:
        pass

    async def open(self) -> None:
        if not self.opened:
            await self.app.open_async()
            self.opened = True

    async def submit(self, id_: str, key: str = "k0") -> None:
        await self.open()
        self.number += 1
        lock = f"{key}#{self.number % per_key()}"
        await self.app.configure_task("resume", lock=lock, queue=QUEUE).defer_async(id=id_)

    async def claim(self) -> str | None:
        await self.open()
        self.worker = getattr(self, "worker", None) or await self.app.job_manager.register_worker()
        job = await self.app.job_manager.fetch_job(queues=None, worker_id=self.worker)
        return job.lock.partition("#")[0] if job else None

    @classmethod
    def work(cls, url: str, folder: Path, name: str) -> None:
        engine = cls(url)
        engine.folder = folder

        async def reap() -> None:
            while "reaper" not in os.environ.get("ENGINE_WITHOUT", ""):
                await asyncio.sleep(LEASE / 3)
                with suppress(Exception):
                    for job in await engine.app.job_manager.get_stalled_jobs(seconds_since_heartbeat=LEASE):
                        await engine.app.job_manager.retry_job(job)

        async def main() -> None:
            await engine.open()
            reaping = asyncio.create_task(reap())
            await engine.app.run_worker_async(
                concurrency=SLOTS, update_heartbeat_interval=LEASE / 3, stalled_worker_timeout=LEASE
            )
            reaping.cancel()

        asyncio.run(main())


ENGINES: dict[str, Any] = {"ours": Ours, "dbos": Dbos, "procrastinate": Procrastinate}


def per_key() -> int:
    return int(os.environ.get("ENGINE_PER_KEY", "16"))


if __name__ == "__main__":
    _, engine, url, folder, name = sys.argv
    ENGINES[engine].work(url, Path(folder), name)
