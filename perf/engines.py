"""Tries job engines for the document service side by side: our job table, DBOS and procrastinate.

A job is one unit of work `resume(id)`: it makes calls of a tenth of a second and appends a line to the job's
journal after each, with the token of its claim; an append with an older token is refused. Workers are real
processes on a real Postgres, killed and paused by signals. Engines that have no lease get the smallest
heartbeat and reaper that makes them take over.

Install the candidates beside the project, not into it, then name the tests, or none for all:

    pip install --target /tmp/engines dbos procrastinate
    PYTHONPATH=/tmp/engines python perf/engines.py [TEST...]      (needs Postgres)
"""

from __future__ import annotations

import asyncio
import fcntl
import importlib.util
import json
import logging
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "deploy"))

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

    CLONE = ("jobs", "number", {"id": "'resp_' || lpad(to_hex(n), 48, 'f')", "key": "'k' || n % KEYS"})
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
        from interleave.plugin import Limits
        from interleave.service.documents.folders import Folders
        from interleave.service.documents.shared_worker import SharedFairQueue, SharedJobWorker, Sharing

        class Worker(SharedJobWorker):
            async def _answer(self, job: Any) -> Any:
                lease = self.lease_of(job.id)
                assert lease is not None
                await FakeRun(folder, job.id).resume(lease.token)
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
                f"INSERT INTO tokens SELECT '{id_}', 1 FROM {self.prefix}workflow_status WHERE workflow_uuid = "
                f"'{id_}' AND owner_xid = '{owner}' "
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


class Trial:
    """A fresh database and folder for one engine, with its workers as processes."""

    def __init__(self, server: Any, name: str, calls: int = 5, **environment: str) -> None:
        self.server, self.name, self.kind = server, name, ENGINES[name]
        self.url: str = server.new_database(f"trial_{time.monotonic_ns()}")
        self.folder = Path(tempfile.mkdtemp(prefix="engines-"))
        (self.folder / "calls").write_text(str(calls))
        self.environment = {**os.environ, **environment}
        self.loop = asyncio.new_event_loop()
        os.environ.pop("ENGINE_PER_KEY", None)
        os.environ.update(environment)
        self.engine = self.kind(self.url)
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.jobs: list[str] = []

    def __enter__(self) -> Trial:
        return self

    def __exit__(self, *problem: object) -> None:
        for worker in self.workers.values():
            worker.kill()
            worker.wait()
        self.engine.close()
        shutil.rmtree(self.folder)

    def start(self, *names: str, **environment: str) -> None:
        for name in names:
            command = [sys.executable, __file__, "work", self.name, self.url, str(self.folder), name]
            with (self.folder / f"{name}.err").open("ab") as errors:
                self.workers[name] = subprocess.Popen(
                    command, env={**self.environment, **environment}, stdout=errors, stderr=errors
                )

    def submit(self, count: int = 1, key: str | None = None) -> list[str]:
        ids = [f"resp_{len(self.jobs) + number:048x}" for number in range(count)]
        self.jobs += ids
        for number, id_ in enumerate(ids):
            self.run(self.engine.submit(id_, key or f"k{number % 3}"))
        return ids

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    def done(self) -> int:
        return sum(any(line["event"] == "done" for line in self.run_of(id_).lines()) for id_ in self.jobs)

    def run_of(self, id_: str) -> FakeRun:
        return FakeRun(self.folder, id_)

    def called(self, pid: int | None = None) -> bool:
        """Whether a call has been stored, by this process if one is given."""
        lines = [line for id_ in self.jobs for line in self.run_of(id_).lines()]
        return any(line["event"] == "called" and pid in (None, line["pid"]) for line in lines)

    def until(self, met: Any, seconds: float = 30.0) -> float | None:
        """Wait until something is met; return the seconds, or None if it never was."""
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            if met():
                return round(time.monotonic() - began, 1)
            time.sleep(0.1)
        return None

    def sql(self, statement: str, url: str | None = None) -> list[Any]:
        import psycopg

        with psycopg.connect(url or self.url, autocommit=True) as connection:
            found = connection.execute(statement.encode())
            return found.fetchall() if found.description else []

    def statuses(self) -> dict[str, int]:
        return {str(status): count for status, count in self.sql(self.kind.STATUSES)}

    def fill(self, rows: int, keys: int) -> None:
        """Copy the one stored job until `rows` wait."""
        table, generated, changes = self.kind.CLONE
        table = f"{self.kind.SCHEMA}.{table}"
        names = self.sql(
            "SELECT column_name FROM information_schema.columns WHERE table_schema || '.' || table_name = "
            f"'{table}' ORDER BY ordinal_position"
        )
        columns = [name for (name,) in names if name != generated]
        values = ", ".join(changes.get(name, f"s.{name}").replace("KEYS", str(keys)) for name in columns)
        source = f"(SELECT * FROM {table} LIMIT 1) s, generate_series(1, {rows}) n"
        for trigger in ("DISABLE", "ENABLE"):
            self.sql(f"ALTER TABLE {table} {trigger} TRIGGER USER")
            if trigger == "DISABLE":
                self.sql(f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM {source}")
        self.sql(f"ANALYZE {table}")

    def repeated(self) -> int:
        log = (self.folder / "calls.log").read_text().splitlines()
        return sum(Counter(log).values()) - len(set(log))

    def refused(self) -> int:
        log = self.folder / "refused.log"
        return len(log.read_text().splitlines()) if log.exists() else 0


def kill(server: Any, name: str) -> str:
    """Kill one of four workers while it runs jobs."""
    with Trial(server, name, calls=15) as trial:
        trial.start("w1", "w2", "w3", "w4")
        trial.submit(24)
        trial.until(lambda: trial.called(trial.workers["w1"].pid))
        trial.workers["w1"].kill()
        at = time.time()
        trial.until(lambda: trial.done() == 24, 40)
        lost = [id_ for id_ in trial.jobs if trial.run_of(id_).lines()[-1]["event"] != "done"]
        dead = trial.workers["w1"].pid
        taken = [
            min((line["at"] for line in lines if line["at"] > at and line["pid"] != dead), default=0) - at
            for lines in (trial.run_of(id_).lines() for id_ in trial.jobs)
            if lines[0]["pid"] == dead and any(line["pid"] != dead for line in lines)
        ]
        worst = f"{max(taken):.1f}" if taken else "–"
        return f"lost {len(lost)}, repeated {trial.repeated()}, taken over after {worst} s, {trial.statuses()}"


def kill_without(server: Any, name: str) -> str:
    """The same without the reaper that we had to add."""
    with Trial(server, name, calls=15, ENGINE_WITHOUT="reaper") as trial:
        trial.start("w1", "w2")
        trial.submit(6)
        trial.until(lambda: trial.called(trial.workers["w1"].pid))
        trial.workers["w1"].kill()
        trial.until(lambda: trial.done() == 6, 20)
        os.environ.pop("ENGINE_WITHOUT")
        return f"after 20 s {trial.done()} of 6 done, {trial.statuses()}"


def pause(server: Any, name: str) -> str:
    """Pause a worker beyond its lease and wake it while its successor runs the job."""
    with Trial(server, name, calls=100) as trial:
        trial.start("w1")
        trial.submit(1)
        trial.until(trial.called)
        first = trial.workers["w1"]
        first.send_signal(signal.SIGSTOP)
        trial.start("w2")
        second = trial.workers["w2"]
        taken = trial.until(lambda: trial.called(second.pid))
        first.send_signal(signal.SIGCONT)
        time.sleep(1.5)
        soon = trial.statuses()
        trial.until(lambda: trial.done() == 1, 20)
        time.sleep(0.5)
        lines = trial.run_of(trial.jobs[0]).lines()
        stale = sum(one["token"] > two["token"] for one, two in zip(lines, lines[1:], strict=False))
        ends = sum(line["event"] == "done" for line in lines)
        return (
            f"taken after {taken} s; stale lines {stale}, refused {trial.refused()}, ends {ends}, "
            f"repeated {trial.repeated()}; 1.5 s after waking {soon}, in the end {trial.statuses()}"
        )


def read_only(server: Any, name: str) -> str:
    """Eight seconds of read-only Postgres, with jobs running and waiting."""
    with Trial(server, name, calls=20) as trial:
        trial.start("w1", "w2")
        trial.submit(12)
        trial.until(trial.called)
        trial.sql("ALTER SYSTEM SET default_transaction_read_only = on", server.url())
        trial.sql("SELECT pg_reload_conf()", server.url())
        time.sleep(8)
        trial.sql("SET default_transaction_read_only = off; ALTER SYSTEM RESET ALL", server.url()) if False else None
        make_writable(server)
        after = trial.until(lambda: trial.done() == 12, 40)
        late = trial.submit(3)
        fresh = trial.until(lambda: all(trial.run_of(id_).path.exists() for id_ in late), 15)
        alive = sum(worker.poll() is None for worker in trial.workers.values())
        return (
            f"{trial.done()} of 15 done, the old ones {after} s after, new ones begin after {fresh} s; "
            f"{alive} of 2 processes alive; {trial.statuses()}"
        )


def make_writable(server: Any) -> None:
    import psycopg

    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute("ALTER SYSTEM RESET default_transaction_read_only")
        connection.execute("SELECT pg_reload_conf()")


def restart(server: Any, name: str) -> str:
    """A restart of Postgres, four seconds long."""
    with Trial(server, name, calls=20) as trial:
        trial.start("w1", "w2")
        trial.submit(12)
        trial.until(trial.called)
        server.stop()
        time.sleep(4)
        server.start()
        after = trial.until(lambda: trial.done() == 12, 40)
        time.sleep(1)
        alive = sum(worker.poll() is None for worker in trial.workers.values())
        return f"all done {after} s after, repeated {trial.repeated()}, {alive} of 2 alive, {trial.statuses()}"


def away(server: Any, name: str) -> str:
    """What a submitter sees while Postgres is away for 90 s."""
    with Trial(server, name) as trial:
        trial.submit(1)
        server.stop()
        back = threading.Timer(90, server.start)
        back.start()
        began = time.monotonic()
        try:
            trial.submit(1)
            seen = "stored"
        except Exception as error:
            seen = f"{type(error).__name__}: {str(error)[:60]}"
        seconds = time.monotonic() - began
        back.join()
        return f"after {seconds:.0f} s: {seen}"


def limit(server: Any, name: str) -> str:
    """Two jobs of a key at once, over four workers."""
    with Trial(server, name, ENGINE_PER_KEY="2") as trial:
        trial.start("w1", "w2", "w3", "w4")
        trial.until(lambda: False, 5)
        trial.submit(16, key="one")
        took = trial.until(lambda: trial.done() == 16, 60)
        spans = [(lines[0]["at"], lines[-1]["at"]) for lines in (trial.run_of(id_).lines() for id_ in trial.jobs) if lines]
        most = max(sum(begin <= at < end for begin, end in spans) for at, _ in spans)
        return f"at most {most} at once; 16 jobs of 0.5 s took {took} s (ideal 4.0)"


def claims(server: Any, name: str) -> str:
    """Milliseconds to claim one job, with 1 key and with 1,000."""
    rows = []
    for keys in (1, 1000):
        for count in (1_000, 10_000, 100_000, 300_000):
            with Trial(server, name, ENGINE_PER_KEY="1000" if name != "procrastinate" else "1") as trial:
                trial.submit(1)
                trial.fill(count, keys)
                trial.run(asyncio.wait_for(trial.engine.claim(), 120))
                times = []
                for _ in range(3):
                    began = time.perf_counter()
                    trial.run(trial.engine.claim())
                    times.append(time.perf_counter() - began)
                rows.append(f"{statistics.median(times) * 1000:,.0f}")
    return " / ".join(rows[:4]) + " ms with 1 key; " + " / ".join(rows[4:]) + " ms with 1,000"


def fairness(server: Any, name: str) -> str:
    """Claims until the one job of another key begins behind 10,000 of a first."""
    with Trial(server, name, ENGINE_PER_KEY="1000") as trial:
        trial.submit(1, key="k0")
        trial.fill(10_000, 1)
        trial.submit(1, key="other")
        for number in range(1, 101):
            if trial.run(trial.engine.claim()) == "other":
                return f"claim {number}"
        return "not within 100 claims"


def submitting(server: Any, name: str) -> str:
    """Milliseconds for one durable submission, and submissions per second by 16 at once."""
    results = []
    for place in ("postgres", "sqlite"):
        if place == "sqlite" and name == "procrastinate":
            continue
        with Trial(server, name) as trial:
            if place == "sqlite":
                trial.engine.close()
                trial.engine = trial.kind(f"sqlite:///{trial.folder}/jobs.sqlite")
            trial.submit(5)
            times = []
            for _ in range(50):
                began = time.perf_counter()
                trial.submit(1)
                times.append(time.perf_counter() - began)
            new = iter(range(10**6, 10**7))

            async def many(each: int) -> None:
                for _ in range(each):
                    await trial.engine.submit(f"resp_{next(new):048x}", "k0")

            async def together() -> None:
                await asyncio.gather(*(many(20) for _ in range(16)))

            began = time.perf_counter()
            trial.run(together())
            rate = 320 / (time.perf_counter() - began)
            results.append(f"{place} {statistics.median(times) * 1000:.1f} ms, {rate:.0f}/s")
    return "; ".join(results)


def idle(server: Any, name: str) -> str:
    """Transactions per second of idle workers, and their connections."""
    found = []
    count = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
    for workers in (1, 4):
        with Trial(server, name) as trial:
            trial.start(*(f"w{number}" for number in range(workers)))
            time.sleep(8)
            began = trial.sql(count)[0][0]
            time.sleep(12)
            rate = (trial.sql(count)[0][0] - began - 1) / 12
            open_ = trial.sql("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")[0][0]
            found.append(f"{workers}: {rate:.1f}/s, {open_ - 1} connections (a submitter's included)")
    return "; ".join(found)


def startup(server: Any, name: str) -> str:
    """Seconds to import, to launch in a new process, and to launch and close again in this one."""
    imports = {
        "ours": "import interleave.service.documents.shared_jobs",
        "dbos": "import dbos",
        "procrastinate": "import procrastinate",
    }
    cold = min(timed(lambda: subprocess.run([sys.executable, "-c", imports[name]], check=True)) for _ in range(4))
    folder = Path(tempfile.mkdtemp(prefix="engines-"))
    again: list[float] = []
    for number in range(4 if name != "procrastinate" else 0):
        again.append(timed(lambda: ENGINES[name](f"sqlite:///{folder}/{number}.sqlite").close()))
    shutil.rmtree(folder)
    postgres = timed(lambda: Trial(server, name).engine.close())
    bare = min(timed(lambda: subprocess.run([sys.executable, "-c", ""], check=True)) for _ in range(4))
    launch = f"{min(again):.2f}" if again else "–"
    return (
        f"import {cold - bare:.2f} s; new tables and close: SQLite {launch} s, Postgres {postgres:.2f} s"
    )


def timed(work: Any) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


TESTS = {
    work.__name__: work
    for work in (
        kill, kill_without, pause, read_only, restart, away, limit, claims, fairness, submitting, idle, startup
    )
}  # fmt: skip


def main() -> None:
    from local_postgres import PostgresServer, find_postgres

    programs = find_postgres()
    assert programs is not None, "Postgres is not installed"
    logging.disable(logging.CRITICAL)
    installed = [name for name in ENGINES if name == "ours" or importlib.util.find_spec(name)]
    chosen = os.environ.get("ENGINES", ",".join(installed)).split(",")
    server = PostgresServer.new(programs)
    try:
        for test in sys.argv[1:] or TESTS:
            print(f"{test}: {TESTS[test].__doc__}", flush=True)
            for name in chosen:
                try:
                    print(f"  {name:14}{TESTS[test](server, name)}", flush=True)
                except Exception as error:
                    print(f"  {name:14}error: {type(error).__name__}: {error}"[:300], flush=True)
    finally:
        server.remove()


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        ENGINES[sys.argv[2]].work(sys.argv[3], Path(sys.argv[4]), sys.argv[5])
    else:
        main()
