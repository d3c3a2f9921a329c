"""Document services and workers as processes, on one job table and one folder, and their models on a server.

The server keeps every request: the ledger of calls that were really made.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from running import DocumentServer

from interleave.batches.batch import run_folder
from interleave.runs.folder import comparable
from loopback import Loopback

T = TypeVar("T")
HANGS_AFTER = 120.0
REQUEST = "How a frog grows up, in four pictures"
SLOW_DISK = Path(__file__).parent / "slow_disk"


def until(fact: Callable[[], T], seconds: float = HANGS_AFTER) -> T:
    """Wait for what must come."""
    ends = time.monotonic() + seconds
    while not (found := fact()):
        assert time.monotonic() < ends, "it never came true"
        time.sleep(0.02)
    return found


class Process:
    """`interleave work` in a process of its own, which can be paused and killed."""

    def __init__(self, folder: Path, *arguments: str, slow_disk: float = 0.0) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.errors = folder / f"stderr-{time.monotonic_ns()}.txt"
        path = [str(SLOW_DISK)] if slow_disk else []
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("INTERLEAVE")},
            "PYTHONPATH": os.pathsep.join(filter(None, (*path, os.environ.get("PYTHONPATH")))),
            "SLOW_DISK": str(slow_disk),
        }
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "interleave", "work", *arguments],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment,
                cwd=folder,
            )
        assert self.process.stdout is not None
        self.name = self.process.stdout.readline().strip()
        assert self.name, self.errors.read_text()

    def signal(self, number: int) -> None:
        self.process.send_signal(number)
        if number == signal.SIGKILL:
            self.process.wait()

    def says(self, words: str) -> bool:
        return words in self.errors.read_text()

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
        code = self.process.wait(60)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code


class Machines:
    """A service without workers of its own, and as many workers as a test starts."""

    def __init__(self, folder: Path, database: str) -> None:
        self.folder, self.runs, self.database = folder, folder / "shared", database
        self.models = Loopback()
        url = self.models.url
        self.specs = ["--generator", url, "--critic", f"openai:m@{url}/v1", "--planner", f"openai:m@{url}/v1"]
        self.workers: list[Process] = []
        self.services: list[DocumentServer] = []

    @property
    def common(self) -> list[str]:
        return ["--jobs", self.database, "--runs", str(self.runs), *self.specs]

    def service(self, *arguments: str) -> DocumentServer:
        started = DocumentServer(
            self.folder / f"service-{len(self.services)}", *self.common, "--concurrency", "0", *arguments
        )
        self.services.append(started)
        return started

    def worker(self, *arguments: str, lease: float = 6.0, slow_disk: float = 0.0) -> Process:
        given = [*self.common, "--lease", str(lease), *arguments]
        started = Process(self.folder / f"worker-{len(self.workers)}", *given, slow_disk=slow_disk)
        self.workers.append(started)
        return started

    def stop(self) -> None:
        self.models.free.set()
        for each in (*self.workers, *self.services):
            each.stop()
        self.models.stop()

    def submit(self, jobs: int, request: str = REQUEST) -> list[str]:
        client = self.services[0].client
        body = {"input": request, "background": True}
        return [client.post("/v1/responses", json=body).json()["id"] for _ in range(jobs)]

    def response(self, job: str) -> dict[str, Any]:
        return self.services[0].client.get(f"/v1/responses/{job}").json()  # type: ignore[no-any-return]

    def wait_for(self, jobs: list[str]) -> None:
        """Until all have ended, and every one of them well."""
        for job in jobs:
            until(lambda job=job: self.response(job)["status"] not in ("queued", "in_progress"))  # type: ignore[misc]
        assert {job: self.response(job)["status"] for job in jobs} == dict.fromkeys(jobs, "completed")

    def run(self, job: str) -> Path:
        return self.runs / run_folder(job)

    def calls(self) -> Counter[tuple[str, bytes]]:
        """What the models were really asked, and how often."""
        return Counter((each.path, each.body) for each in self.models.asked if each.method == "POST")

    def undisturbed(self) -> tuple[dict[str, Any], int]:
        """The record of a job that nothing happens to, and the number of calls that it makes."""
        before = self.calls().total()
        (job,) = self.submit(1)
        self.wait_for([job])
        return comparable(self.run(job)), self.calls().total() - before

    @contextmanager
    def holding(self, calls: int, after: int = 0) -> Iterator[None]:
        """Let so many calls through, then keep answers back until that many wait; all go on at the end."""
        asked = len(self.models.asked)
        if after:
            until(lambda: len(self.models.asked) >= asked + after)
        self.models.free.clear()
        until(lambda: self.models.in_flight == calls)
        try:
            yield
        finally:
            self.models.free.set()
