"""Measures jobs per second with one, two and four workers on one Postgres and one folder.

Each worker has a few slots, and the fake waits for each image. So the figures show how workers share jobs,
not how fast this machine computes. All three run in every round, so that other work on the machine affects
all of them equally.

Run with: python perf/workers.py [ROUNDS]   (needs Postgres)
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import httpx
from documents import Running, submit

sys.path.insert(0, str(Path(__file__).parent.parent / "deploy"))

from local_postgres import PostgresServer, find_postgres

WORKERS = (1, 2, 4)
PLACES = 4
DELAY = 1.0
IMAGES = 3
"""Images per job: two steps, one of them drawn twice."""
JOBS_PER_WORKER = 12


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "interleave", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def ready(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def cpu_seconds(process: subprocess.Popen[str]) -> float:
    return Running("", process).cpu_seconds


def ended(url: str) -> int:
    """Count the ended jobs; a list has at most a hundred."""
    return httpx.get(f"{url}/v1/documents?limit=100", timeout=60).text.count('"completed"')


def one_round(workers: int, database: str, folder: Path) -> tuple[float, float]:
    """Return the jobs per second with `workers` workers, and their processor seconds per job."""
    generator = f"solid?size=64&delay={DELAY:g}&concurrency=1000"
    common = ["--dry-run", "--generator", generator, "--jobs", database, "--runs", str(folder)]
    with ExitStack() as ending:

        def begin(*arguments: str) -> subprocess.Popen[str]:
            process = start(*arguments)
            ending.callback(process.wait, 60)
            ending.callback(process.terminate)
            return process

        service = begin("serve", "documents", *common, "--concurrency", "0", "--port", "0")
        url = ready(service)
        started = [begin("work", *common, "--concurrency", str(PLACES)) for _ in range(workers)]
        for each in started:
            ready(each)
        before = sum(map(cpu_seconds, started))
        jobs, began = JOBS_PER_WORKER * workers, time.perf_counter()
        submit(url, jobs)
        while ended(url) < jobs:
            time.sleep(0.1)
        seconds = time.perf_counter() - began
        return jobs / seconds, (sum(map(cpu_seconds, started)) - before) / jobs


def main() -> None:
    programs = find_postgres()
    if programs is None:
        sys.exit("Postgres is not installed: apt install postgresql, or set POSTGRES_BIN")
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    rates: dict[int, list[float]] = {workers: [] for workers in WORKERS}
    costs: dict[int, list[float]] = {workers: [] for workers in WORKERS}
    server = PostgresServer.new(programs)
    try:
        with tempfile.TemporaryDirectory(prefix="interleave-perf-") as scratch:
            for number in range(rounds):
                for workers in WORKERS:
                    database = server.new_database(f"round_{number}_{workers}")
                    rate, cost = one_round(workers, database, Path(scratch) / f"{number}-{workers}")
                    rates[workers].append(rate)
                    costs[workers].append(cost)
    finally:
        server.remove()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.0f}, {rounds} rounds")
    for workers in WORKERS:
        limit = workers * PLACES / (IMAGES * DELAY)
        rate = statistics.median(rates[workers])
        spread = f"{min(rates[workers]):.2f} to {max(rates[workers]):.2f}"
        print(
            f"  {workers} workers: {rate:.2f} jobs/s ({spread}), {rate / limit:.0%} of the {limit:.2f} that "
            f"the fake allows · {statistics.median(costs[workers]) * 1000:.0f} ms of processor time per job"
        )


if __name__ == "__main__":
    main()
