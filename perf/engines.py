"""Tries job engines for the document service side by side, on the same faults.

Workers are processes on a real Postgres, killed and paused by signals. `engine_candidates` says what a job
is and what each engine needed. Install the candidates beside the project, not into it; name tests, or none
for all:

    pip install --target /tmp/engines dbos procrastinate
    PYTHONPATH=/tmp/engines python perf/engines.py [--results FILE.json] [TEST...]      (needs Postgres)
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import itertools
import json
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import engine_candidates
import psycopg
from engine_candidates import ENGINES, FakeRun, Settings

sys.path.insert(0, str(Path(__file__).parent.parent / "deploy"))

from local_postgres import PostgresServer, find_postgres

Found = dict[str, Any]
SIZES = (1_000, 10_000, 100_000, 300_000)


class Trial:
    """A fresh database and folder for one engine, with its workers as processes."""

    def __init__(self, server: PostgresServer, name: str, settings: Settings = Settings()) -> None:
        self.server, self.name, self.settings, self.kind = server, name, settings, ENGINES[name]
        self.url = server.new_database(f"trial_{time.monotonic_ns()}")
        self.folder = Path(tempfile.mkdtemp(prefix="engines-"))
        engine_candidates.store(settings, self.folder)
        self.loop = asyncio.new_event_loop()
        self.engine = self.kind(self.url, settings)
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

    def start(self, number: int) -> None:
        """Start so many more workers, and wait until they can claim jobs."""
        for name in (f"w{len(self.workers) + 1}" for _ in range(number)):
            command = [sys.executable, engine_candidates.__file__, self.name, self.url, str(self.folder)]
            with (self.folder / f"{name}.err").open("ab") as errors:
                self.workers[name] = subprocess.Popen([*command, name], stdout=errors, stderr=errors)
        self.until(lambda: len(list(self.folder.glob("*.ready"))) == len(self.workers), 120)
        time.sleep(2)  # until they have polled

    def submit(self, count: int, key: str | None = None) -> list[str]:
        ids = [f"resp_{len(self.jobs) + number:048x}" for number in range(count)]
        self.jobs += ids
        for number, id_ in enumerate(ids):
            self.run(self.engine.submit(id_, key or f"k{number % 3}"))
        return ids

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    def claim_milliseconds(self) -> float:
        times = []
        for _ in range(3):
            began = time.perf_counter()
            self.run(self.engine.claim())
            times.append((time.perf_counter() - began) * 1000)
        return round(statistics.median(times), 1)

    def journals(self) -> dict[str, list[dict[str, Any]]]:
        return {id_: lines for id_ in self.jobs if (lines := FakeRun(self.folder, id_).lines())}

    def done(self) -> int:
        return sum(lines[-1]["event"] == "done" for lines in self.journals().values())

    def has_called(self, pid: int | None = None) -> bool:
        """Return whether a call has been stored, by this process if one is given."""
        lines = itertools.chain.from_iterable(self.journals().values())
        return any(line["event"] == "called" and pid in (None, line["pid"]) for line in lines)

    def until(self, met: Callable[[], bool], seconds: float = 40.0) -> float | None:
        """Wait until something is met; return the seconds, or None if it never was."""
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            if met():
                return round(time.monotonic() - began, 1)
            time.sleep(0.1)
        return None

    def until_done(self, number: int) -> float | None:
        return self.until(lambda: self.done() == number)

    def sql(self, statement: str) -> list[Any]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            found = connection.execute(statement.encode())
            return found.fetchall() if found.description else []

    def statuses(self) -> Found:
        return dict(self.sql(f"SELECT status::text, count(*) FROM {self.kind.TABLE} GROUP BY 1"))

    def fill(self, rows: int, keys: int) -> None:
        """Copy the stored job until `rows` more wait."""
        table, new = self.kind.TABLE, self.kind.COPY
        columns = [
            column
            for (column,) in self.sql(
                "SELECT column_name FROM information_schema.columns "
                f"WHERE table_schema || '.' || table_name = '{table}'"
            )
            if column != self.kind.GENERATED
        ]
        values = ", ".join(new.get(column, f"first.{column}").format(keys=keys) for column in columns)
        self.sql(
            f"ALTER TABLE {table} DISABLE TRIGGER USER; INSERT INTO {table} ({', '.join(columns)}) "
            f"SELECT {values} FROM (SELECT * FROM {table} LIMIT 1) first, generate_series(1, {rows}) n; "
            f"ALTER TABLE {table} ENABLE TRIGGER USER; ANALYZE {table}"
        )

    def change_first(self, change: str, of_each_key: int) -> None:
        """Change the first rows of every key."""
        id_, key, order = self.kind.ROWS
        self.sql(
            f"UPDATE {self.kind.TABLE} SET {change} WHERE {id_} IN (SELECT {id_} FROM (SELECT {id_}, "
            f"row_number() OVER (PARTITION BY {key} ORDER BY {order}) AS rank FROM {self.kind.TABLE}) "
            f"AS ranked WHERE rank <= {of_each_key}); ANALYZE {self.kind.TABLE}"
        )

    def run_some(self) -> None:
        """Submit twelve jobs, and wait until two workers run some of them."""
        self.start(2)
        self.submit(12)
        self.until(self.has_called)

    def ends(self) -> Found:
        """Return what became of jobs and workers; the engine has a second to store the last end."""
        time.sleep(1)
        alive = sum(worker.poll() is None for worker in self.workers.values())
        jobs = f"{self.done()} of {len(self.jobs)}"
        return {"done": jobs, "rows": self.statuses(), "alive": f"{alive} of {len(self.workers)}"}

    def repeated(self) -> int:
        calls = (self.folder / "calls.log").read_text().splitlines()
        return len(calls) - len(set(calls))


def claims(server: PostgresServer, name: str) -> Found:
    """Milliseconds to claim one job, by waiting jobs and keys."""
    found: Found = {}
    for keys, rows in itertools.product((1, 1000), SIZES):
        with Trial(server, name, Settings(per_key=1 if name == "procrastinate" else 1000)) as trial:
            trial.submit(1)
            trial.fill(rows, keys)
            trial.run(trial.engine.claim())
            found.setdefault(f"{keys} keys", {})[str(rows)] = trial.claim_milliseconds()
    return found


def full(server: PostgresServer, name: str) -> Found:
    """Milliseconds of a claim that finds nothing, because all of 1,000 keys stand at their limit."""
    most = 1 if name == "procrastinate" else 2
    with Trial(server, name, Settings(per_key=most)) as trial:
        trial.submit(1)
        trial.fill(12_000, 1000)
        trial.change_first(trial.kind.RUNNING, most)
        return {"ms": trial.claim_milliseconds()}


def kill(server: PostgresServer, name: str, reaper: bool = True) -> Found:
    """One of four workers is killed while it runs jobs."""
    with Trial(server, name, Settings(calls=15, reaper=reaper)) as trial:
        trial.start(4)
        trial.submit(24)
        first = trial.workers["w1"]
        trial.until(lambda: trial.has_called(first.pid))
        first.kill()
        at = time.time()
        trial.until_done(24)
        own = [lines for lines in trial.journals().values() if lines[0]["pid"] == first.pid]
        others = [[line["at"] for line in lines if line["pid"] != first.pid] for lines in own]
        taken = max((round(times[0] - at, 1) for times in others if times), default=None)
        return {"repeated": trial.repeated(), "taken over after s": taken, **trial.ends()}


def kill_without(server: PostgresServer, name: str) -> Found:
    """The same without the reaper that had to be added."""
    return kill(server, name, reaper=False)


def pause(server: PostgresServer, name: str) -> Found:
    """A worker is paused beyond its lease and woken while its successor runs the job."""
    with Trial(server, name, Settings(calls=100)) as trial:
        trial.start(1)
        trial.submit(1)
        trial.until(trial.has_called)
        trial.workers["w1"].send_signal(signal.SIGSTOP)
        trial.start(1)
        trial.until(lambda: trial.has_called(trial.workers["w2"].pid))
        trial.workers["w1"].send_signal(signal.SIGCONT)
        time.sleep(1.5)
        soon = trial.statuses()
        trial.until_done(1)
        lines, refused = trial.journals()[trial.jobs[0]], trial.folder / "refused.log"
        return {
            "stale lines": sum(one["token"] > two["token"] for one, two in itertools.pairwise(lines)),
            "refused": len(refused.read_text().splitlines()) if refused.exists() else 0,
            "ends": sum(line["event"] == "done" for line in lines),
            "repeated": trial.repeated(),
            "row after waking": soon,
            **trial.ends(),
        }


def read_only(server: PostgresServer, name: str) -> Found:
    """Postgres is read-only for eight seconds, with jobs running and waiting; three come later."""
    with Trial(server, name, Settings(calls=20)) as trial:
        trial.run_some()
        server.read_only(True)
        time.sleep(8)
        server.read_only(False)
        after = trial.until_done(12)
        trial.submit(3)
        trial.until_done(15)
        return {"s": after, **trial.ends()}


def restart(server: PostgresServer, name: str) -> Found:
    """Postgres is away for four seconds."""
    with Trial(server, name, Settings(calls=20)) as trial:
        trial.run_some()
        server.stop()
        time.sleep(4)
        server.start()
        return {"s": trial.until_done(12), "repeated": trial.repeated(), **trial.ends()}


def away(server: PostgresServer, name: str) -> Found:
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
            seen = type(error).__name__
        seconds = round(time.monotonic() - began, 1)
        back.join()
        return {"seen": seen, "s": seconds, "rows": sum(trial.statuses().values())}


def limit(server: PostgresServer, name: str) -> Found:
    """Sixteen jobs of half a second, two of their key at once, over four workers: ideally 4.0 s."""
    with Trial(server, name, Settings(per_key=2)) as trial:
        trial.start(4)
        trial.submit(16, key="one")
        took = trial.until_done(16)
        spans = [(lines[0]["at"], lines[-1]["at"]) for lines in trial.journals().values()]
        most = max(sum(begin <= at < end for begin, end in spans) for at, _ in spans)
        return {"at once": most, "s": took}


def fairness(server: PostgresServer, name: str) -> Found:
    """Claims until the one job of another key begins, behind 10,000 of a first."""
    with Trial(server, name, Settings(per_key=1000)) as trial:
        trial.submit(1, key="k0")
        trial.fill(10_000, 1)
        trial.submit(1, key="other")
        keys = (trial.run(trial.engine.claim()) for _ in range(100))
        return {"claim": next((number for number, key in enumerate(keys, 1) if key == "other"), None)}


def submitting(server: PostgresServer, name: str) -> Found:
    """Milliseconds of one durable submission, and submissions per second by 16 at once."""
    found: Found = {}
    for place in ("postgres", "sqlite") if name != "procrastinate" else ("postgres",):
        with Trial(server, name) as trial:
            if place == "sqlite":
                trial.engine.close()
                trial.engine = trial.kind(f"sqlite:///{trial.folder}/jobs.sqlite", trial.settings)
            trial.submit(5)
            times = []
            for _ in range(50):
                began = time.perf_counter()
                trial.submit(1)
                times.append((time.perf_counter() - began) * 1000)
            began = time.perf_counter()
            trial.run(submit_together(trial))
            rate = round(320 / (time.perf_counter() - began))
            found[place] = {"ms": round(statistics.median(times), 1), "per s": rate}
    return found


async def submit_together(trial: Trial) -> None:
    """Submit 320 jobs, sixteen at a time."""
    new = itertools.count(10**6)

    async def some() -> None:
        for _ in range(20):
            await trial.engine.submit(f"resp_{next(new):048x}", "k0")

    await asyncio.gather(*(some() for _ in range(16)))


def idle(server: PostgresServer, name: str) -> Found:
    """Transactions per second and connections of one more idle worker."""
    counts = []
    for workers in (1, 4):
        with Trial(server, name) as trial:
            trial.start(workers)
            counter = (
                "SELECT xact_commit + xact_rollback, numbackends FROM pg_stat_database "
                "WHERE datname = current_database()"
            )
            before, _ = trial.sql(counter)[0]
            time.sleep(12)
            after, connections = trial.sql(counter)[0]
            counts.append(((after - before) / 12, connections))
    (one, few), (four, many) = counts
    return {"per s": round((four - one) / 3, 1), "connections": round((many - few) / 3)}


def versions(server: PostgresServer, name: str) -> Found:
    """Two rows of a newer version come first, then four others of the key, whose limit is two."""
    with Trial(server, name, Settings(per_key=1 if name == "procrastinate" else 2)) as trial:
        trial.submit(6, key="k")
        trial.change_first(trial.kind.NEWER, 2)
        trial.start(2)
        trial.until(lambda: trial.done() == 4, 15)
        return trial.ends()


WORKS = (claims, full, kill, kill_without, pause, read_only, restart, away, limit, fairness, submitting)
TESTS = {work.__name__: work for work in (*WORKS, idle, versions)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tests", nargs="*", metavar="TEST", help=", ".join(TESTS))
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--results", type=Path)
    chosen = parser.parse_args()
    programs = find_postgres()
    assert programs is not None, "Postgres is not installed: apt install postgresql, or set POSTGRES_BIN"
    logging.disable(logging.CRITICAL)
    engines = [name for name in chosen.engines if name == "ours" or importlib.util.find_spec(name)]
    for name in set(chosen.engines) - set(engines):
        print(f"not installed: {name}")
    results = chosen.results
    rows: Found = json.loads(results.read_text()) if results and results.exists() else {}
    server = PostgresServer.new(programs)
    try:
        for test in chosen.tests or TESTS:
            print(f"{test}: {TESTS[test].__doc__}", flush=True)
            for name in engines:
                try:
                    found = TESTS[test](server, name)
                except Exception as error:
                    found = {"error": f"{type(error).__name__}: {error}"[:200]}
                found["load"] = round(os.getloadavg()[0])
                print(f"  {name:14}{json.dumps(found)}", flush=True)
                rows.setdefault(test, {})[name] = found
                if results:
                    results.write_text(json.dumps(rows, indent=1) + "\n")
    finally:
        server.remove()


if __name__ == "__main__":
    main()
