"""Measures the overhead of the document service: many concurrent jobs, submissions, and a restart.

The service, its clients and the fakes share this machine.

Run with: make bench, or python perf/documents.py [crowd|restart]
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from interleave.runs.journal import Entry, read_journal

SECTIONS: dict[str, Callable[[Path], None]] = {}
JOBS = 1000
DELAY = 10.0
"""Seconds per image of the fake: a thousand jobs then request a hundred images per second."""
CLIENTS = 32


def section(work: Callable[[Path], None]) -> Callable[[Path], None]:
    SECTIONS[work.__name__] = work
    return work


def report(what: str, measured: str, goal: str, met: bool) -> None:
    print(f"  {what:<58} {measured:>14}   goal {goal:<12} {'met' if met else 'MISSED'}", flush=True)


@dataclass
class Running:
    url: str
    process: subprocess.Popen[str]

    @property
    def peak_megabytes(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024

    @property
    def cpu_seconds(self) -> float:
        """Processor time of the process so far; other programs on the machine hardly affect it."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[Running]:
    command = [sys.executable, "-m", "interleave", "serve", "documents", "--dry-run", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--runs", str(folder), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield Running(process.stdout.readline().strip(), process)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def submit(url: str, jobs: int) -> list[float]:
    """Return the seconds of each submission. The client is minimal and computes less than the service."""
    at = url.removeprefix("http://")

    def some(first: int) -> list[float]:
        connection, taken = http.client.HTTPConnection(at, timeout=120), []
        for number in range(first, jobs, CLIENTS):
            body = json.dumps({"input": f"Frog {number} in two pictures", "background": True})
            began = time.perf_counter()
            connection.request("POST", "/v1/responses", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            taken.append(time.perf_counter() - began)
            assert answer.status == 200, answer.status
        connection.close()
        return taken

    with ThreadPoolExecutor(CLIENTS) as clients:
        return [seconds for taken in clients.map(some, range(CLIENTS)) for seconds in taken]


def wait_for_all(url: str) -> None:
    while True:
        state = httpx.get(f"{url}/health", timeout=60).json()
        if not state["queued"] and not state["in_progress"]:
            return
        time.sleep(0.5)


def percentiles(values: list[float]) -> tuple[float, float]:
    return statistics.median(values) * 1000, sorted(values)[int(len(values) * 0.99)] * 1000


def own_seconds(entries: list[Entry]) -> list[float]:
    """Return, for every step of a run, the seconds beyond its model calls."""
    found, began, calls = [], 0.0, 0.0
    for entry in entries:
        if entry.event == "planned":
            began, calls = entry.time, 0.0
        elif entry.event in ("drawn", "replied"):
            calls += entry.seconds
        elif entry.event == "step_finished":
            found.append(max(0.0, entry.time - began - calls))
            began, calls = entry.time, 0.0
    return found


def synced_write(scratch: Path) -> float:
    began = time.perf_counter()
    with (scratch / "bare").open("ab") as file:
        file.write(bytes(1000))
        file.flush()
        os.fsync(file.fileno())
    return time.perf_counter() - began


@section
def crowd(scratch: Path) -> None:
    """A thousand concurrent jobs, two steps and three images each; the fake takes ten seconds per image."""
    with serving(
        scratch / "crowd",
        "--generator",
        f"solid?size=64&delay={DELAY:g}&concurrency={JOBS}",
        "--concurrency",
        str(JOBS),
    ) as service:
        httpx.get(f"{service.url}/health", timeout=60)
        began, computed = time.perf_counter(), service.cpu_seconds
        taken = submit(service.url, JOBS)
        rate = JOBS / (time.perf_counter() - began)
        wait_for_all(service.url)
        wall, peak = time.perf_counter() - began, service.peak_megabytes
        computed = service.cpu_seconds - computed
    runs = (scratch / "crowd" / "runs").glob("*/*")
    steps = [seconds for folder in runs for seconds in own_seconds(read_journal(folder))]
    p50, p99 = percentiles(taken)
    report("submissions per second, while all start", f"{rate:.0f}/s", "≥ 200/s", rate >= 200)
    report("a submission, 99th percentile", f"{p99:.0f} ms", "≤ 500 ms", p99 <= 500)
    own50, own99 = percentiles(steps)
    report(f"own time per step, median of {len(steps)}", f"{own50:.0f} ms", "≤ 100 ms", own50 <= 100)
    report("own time per step, 99th percentile", f"{own99:.0f} ms", "≤ 1000 ms", own99 <= 1000)
    report("peak memory", f"{peak:.0f} MB", "≤ 1000 MB", peak <= 1000)
    bare = statistics.median(synced_write(scratch) for _ in range(50)) * 1000
    print(f"  for comparison: a synced write of 1 kB takes {bare:.1f} ms, and an attempt needs about five")
    print(f"  the service computed {computed / JOBS * 1000:.1f} ms per job, including the fakes")
    ideal = 3 * DELAY
    print(
        f"  {JOBS} jobs in {wall:.1f} s; the fake alone takes {ideal:.0f} s · a submission p50 {p50:.0f} ms"
    )


@section
def restart(scratch: Path) -> None:
    """Restart of a service killed with thousands of queued jobs: time to the first answer and first job."""
    folder, jobs = scratch / "restart", 5000
    with serving(folder, "--generator", "solid?size=64&delay=1000", "--concurrency", "8") as service:
        submit(service.url, jobs)
        service.process.kill()
    before = list((folder / "runs").glob("*/*/journal.jsonl"))
    began = time.perf_counter()
    with serving(folder, "--generator", "solid?size=64&delay=1000", "--concurrency", "8") as service:
        state = httpx.get(f"{service.url}/health", timeout=60).json()
        answered = time.perf_counter() - began
        while not any("continued" in path.read_text() for path in before):
            time.sleep(0.01)
        resumed = time.perf_counter() - began
    kept = state["queued"] + state["in_progress"]
    report("jobs kept", str(kept), f"{jobs}", kept == jobs)
    report("from process start to the first answer", f"{answered:.1f} s", "≤ 5 s", answered <= 5)
    report("to the first resumed job", f"{resumed:.1f} s", "≤ 5 s", resumed <= 5)


def main() -> None:
    for name in sys.argv[1:] or SECTIONS:
        work = SECTIONS[name]
        print(f"{name}: {(work.__doc__ or '').strip()}", flush=True)
        with tempfile.TemporaryDirectory(prefix="interleave-perf-") as scratch:
            work(Path(scratch))


if __name__ == "__main__":
    main()
