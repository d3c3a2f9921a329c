"""Tries job engines for the document service side by side, on the same faults.

Workers are real processes on a real Postgres, killed and paused by signals. `engine_candidates` says what a
job is and what each engine needed. Install the candidates beside the project, not into it, then name tests,
or none for all:

    pip install --target /tmp/engines dbos procrastinate
    PYTHONPATH=/tmp/engines python perf/engines.py [TEST...]      (needs Postgres)
"""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import logging
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import engine_candidates
from engine_candidates import ENGINES, FakeRun

sys.path.insert(0, str(Path(__file__).parent.parent / "deploy"))


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
            command = [
                sys.executable,
                engine_candidates.__file__,
                self.name,
                self.url,
                str(self.folder),
                name,
            ]
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
        return (
            f"lost {len(lost)}, repeated {trial.repeated()}, taken over after {worst} s, {trial.statuses()}"
        )


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
        stale = sum(one["token"] > two["token"] for one, two in itertools.pairwise(lines))
        ends = sum(line["event"] == "done" for line in lines)
        return (
            f"taken after {taken} s; stale lines {stale}, refused {trial.refused()}, ends {ends}, "
            f"repeated {trial.repeated()}; 1.5 s after waking {soon}, in the end {trial.statuses()}"
        )


def read_only(server: Any, name: str) -> str:
    """Eight seconds of read-only Postgres, with jobs running and waiting."""
    with Trial(server, name, calls=20) as trial:
        trial.start("w1", "w2")
        time.sleep(5)  # until both are up
        trial.submit(12)
        trial.until(trial.called)
        trial.sql("ALTER SYSTEM SET default_transaction_read_only = on", server.url())
        trial.sql("SELECT pg_reload_conf()", server.url())
        time.sleep(8)
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
        time.sleep(5)  # until both are up
        trial.submit(12)
        trial.until(trial.called)
        server.stop()
        time.sleep(4)
        server.start()
        after = trial.until(lambda: trial.done() == 12, 40)
        time.sleep(1)
        alive = sum(worker.poll() is None for worker in trial.workers.values())
        return (
            f"all done {after} s after, repeated {trial.repeated()}, {alive} of 2 alive, {trial.statuses()}"
        )


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
        spans = [
            (lines[0]["at"], lines[-1]["at"])
            for lines in (trial.run_of(id_).lines() for id_ in trial.jobs)
            if lines
        ]
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
            began = time.perf_counter()
            trial.run(submit_together(trial))
            rate = 320 / (time.perf_counter() - began)
            results.append(f"{place} {statistics.median(times) * 1000:.1f} ms, {rate:.0f}/s")
    return "; ".join(results)


async def submit_together(trial: Trial) -> None:
    """Submit 320 jobs, sixteen at a time."""
    new = itertools.count(10**6)

    async def some() -> None:
        for _ in range(20):
            await trial.engine.submit(f"resp_{next(new):048x}", "k0")

    await asyncio.gather(*(some() for _ in range(16)))


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
            open_ = trial.sql("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")[0][
                0
            ]
            found.append(f"{workers}: {rate:.1f}/s, {open_ - 1} connections (a submitter's included)")
    return "; ".join(found)


WORKS = (kill, kill_without, pause, read_only, restart, away, limit, claims, fairness, submitting, idle)
TESTS = {work.__name__: work for work in WORKS}


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
    main()
