"""A cluster of document services, workers and Postgres as processes on this machine, and its client."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psycopg
from stub_server import StubServer

sys.path.insert(0, str(Path(__file__).parent.parent / "deploy"))

from local_postgres import PostgresServer, find_postgres, free_port

BODY = {"input": "How a frog grows up", "background": True}


class Part:
    """A service or a worker."""

    def __init__(self, folder: Path, name: str, *arguments: str) -> None:
        self.name, self.log, self.busy = name, folder / f"{name}.log", threading.Lock()
        self.command = [sys.executable, "-m", "interleave", "serve", *arguments]
        self.starts: list[float] = []
        """Seconds of each start."""

    def start(self) -> None:
        began = time.monotonic()
        with self.log.open("a") as log:
            self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout is not None
        self.announced = self.process.stdout.readline().strip()
        """Address of a service, name of a worker; empty if it could not start."""
        self.starts.append(time.monotonic() - began)

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def end(self, number: int) -> None:
        self.process.send_signal(number)
        self.process.wait(60)


class Cluster:
    def __init__(self, folder: Path, *, services: int, workers: int, places: int, lease: float) -> None:
        programs = find_postgres()
        assert programs is not None, "Postgres is not installed: apt install postgresql, or set POSTGRES_BIN"
        self.models, self.runs = StubServer(delay=0.3), folder / "runs"
        self.postgres = PostgresServer.new(programs)
        self.database = self.postgres.new_database("cluster")
        common = ["--jobs", self.database, "--runs", str(self.runs), "--lease", str(lease)]
        common += self.models.specs
        ports = [str(free_port()) for _ in range(services)]
        serving, working = ["--concurrency", "0", "--port"], ["--concurrency", str(places)]
        self.urls = [f"http://127.0.0.1:{port}/v1/responses" for port in ports]
        self.services = [Part(folder, f"service-{at}", "documents", *common, *serving, at) for at in ports]
        self.workers = [Part(folder, f"worker-{n}", "worker", *common, *working) for n in range(workers)]
        self.parts = self.services + self.workers
        self.acknowledged: dict[int, str] = {}
        self.refusals: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        """How often a part ended without being killed."""
        self.threads: list[threading.Thread] = []
        self.open = True
        with ThreadPoolExecutor() as starting:
            list(starting.map(Part.start, self.parts))
        self.begin(self.supervise)

    def close(self) -> None:
        self.open = False
        for thread in self.threads:
            thread.join()
        for part in self.parts:
            part.end(signal.SIGKILL)
        self.models.close()
        self.postgres.remove()

    def begin(self, work: Callable[..., None], *arguments: Any) -> None:
        self.threads.append(threading.Thread(target=work, args=arguments))
        self.threads[-1].start()

    def supervise(self) -> None:
        """Start every part again that ended without being killed."""
        while self.open:
            for part in self.parts:
                if part.has_ended and part.busy.acquire(blocking=False):
                    if part.has_ended:
                        self.ended["running" if part.announced else "at its start"] += 1
                        part.start()
                    part.busy.release()
            time.sleep(1)

    def submit(self, number: int) -> None:
        """Submit a document, at one service after the other, until it is acknowledged."""
        attempt = number
        while number not in self.acknowledged and self.open:
            attempt += 1
            try:
                url, key = self.urls[attempt % len(self.urls)], {"Idempotency-Key": f"document-{number}"}
                answer = httpx.post(url, json=BODY, headers=key, timeout=30)
                if answer.status_code == 200:
                    self.acknowledged[number] = answer.json()["id"]
                    return
                self.refusals[str(answer.status_code)] += 1
            except httpx.HTTPError as error:
                self.refusals[type(error).__name__] += 1
            time.sleep(0.5)

    def status(self, id_: str) -> str:
        answer = httpx.get(f"{self.urls[0]}/{id_}", timeout=60)
        return str(answer.json()["status"]) if answer.status_code == 200 else "lost"

    def sql(self, query: str) -> list[Any]:
        """Return the rows of a query; wait while the database is away."""
        while True:
            with (
                suppress(psycopg.OperationalError),
                psycopg.connect(self.database, autocommit=True, connect_timeout=2) as connection,
            ):
                return list(connection.execute(query.encode()))
            time.sleep(0.3)

    def until_all_ended(self, seconds: float) -> None:
        ends_at = time.monotonic() + seconds
        query = "SELECT count(*) FROM interleave.jobs WHERE status IN ('queued', 'in_progress')"
        while self.sql(query)[0][0] and time.monotonic() < ends_at:
            time.sleep(1)
