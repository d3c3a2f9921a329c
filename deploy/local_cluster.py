"""A cluster of processes on one machine: `make cluster` starts it, `make cluster-down` stops it.

It has Postgres, three generators that register themselves, nginx as their balancer, a document service and
two workers. All use fake models, so it needs no weights. All ports but the service's are chosen freely.

    python deploy/local_cluster.py up [--port 8020] [--workers 2] | down | status
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from local_postgres import PostgresServer, find_postgres, free_port

FOLDER = Path("runs") / "cluster"
GENERATORS = 3
STARTS_WITHIN = 180.0


class Cluster:
    """The processes of a cluster by name, saved in a state file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.state = self.folder / "state.json"
        self.processes: dict[str, int] = {}
        self.postgres: PostgresServer | None = None

    def up(self, port: int, workers: int) -> None:
        if self.state.exists():
            sys.exit(f"{self.folder} already has a cluster: stop it with 'make cluster-down'")
        programs = find_postgres()
        if programs is None:
            sys.exit("Postgres is not installed: apt install postgresql, or set POSTGRES_BIN")
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        servers, runs = self.folder / "endpoints.txt", self.folder / "shared"
        servers.write_text("# generators register themselves here\n")
        self.postgres = PostgresServer.new(programs)
        self._save()
        jobs = self.postgres.new_database("jobs")
        for number in range(1, GENERATORS + 1):
            options = ["--generator", "solid?size=256&delay=0.2", "--port", "0", "--register", str(servers)]
            self.start(f"generator-{number}", "serve", "generator", *options)
        if shutil.which(os.environ.get("NGINX", "nginx")) or Path("/usr/sbin/nginx").exists():
            balanced = ["--port", str(free_port())]
            self.start("balancer", "serve", "balancer", str(servers), *balanced)
        common = ["--dry-run", "--generator", f"http:{servers}", "--jobs", jobs, "--runs", str(runs)]
        until(lambda: servers.read_text().count("http://") == GENERATORS, "the generators are not ready")
        served = ["--port", str(port), "--concurrency", "0"]
        address = self.start("documents", "serve", "documents", *common, *served)
        for number in range(1, workers + 1):
            self.start(f"worker-{number}", "serve", "worker", *common)
        print(f"documents at {address}, logs and runs in {self.folder}")
        print(
            f'try: curl -s {address}/v1/responses -d \'{{"input": "A frog in four pictures"}}\' '
            "-H 'Content-Type: application/json'"
        )

    def start(self, name: str, *arguments: str) -> str:
        """Start one process; return its first output, its address or its name."""
        with (self.folder / f"{name}.log").open("wb") as log, (self.folder / f"{name}.out").open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "interleave", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
                start_new_session=True,
            )
        self.processes[name] = process.pid
        self._save()
        until(
            lambda: process.poll() is not None or (self.folder / f"{name}.out").read_text().endswith("\n"),
            f"{name} does not start",
        )
        if process.poll() is not None:
            sys.exit(f"{name} exited: {(self.folder / f'{name}.log').read_text()[-1000:]}")
        said = (self.folder / f"{name}.out").read_text().strip()
        print(f"{name:<12} {said}", flush=True)
        return said

    def down(self) -> None:
        if not self.state.exists():
            print("no cluster is running")
            return
        self._load()
        running = {name: pid for name, pid in reversed(self.processes.items()) if is_ours(pid)}
        for pid in running.values():
            os.kill(pid, signal.SIGTERM)
        ends = time.monotonic() + 60
        while any(map(is_ours, running.values())) and time.monotonic() < ends:
            time.sleep(0.1)
        for name, pid in running.items():
            if is_ours(pid):
                print(f"{name} did not exit and is killed")
                os.kill(pid, signal.SIGKILL)
        if self.postgres is not None:
            self.postgres.remove()
        self.state.unlink()
        print(f"stopped {len(running)} processes and Postgres; the runs stay in {self.folder}")

    def status(self) -> None:
        if not self.state.exists():
            sys.exit("no cluster is running")
        self._load()
        for name, pid in self.processes.items():
            said = (self.folder / f"{name}.out").read_text().strip()
            print(f"{name:<12} {'running' if is_ours(pid) else 'GONE':<8} {said}")
        address = (self.folder / "documents.out").read_text().strip()
        with urllib.request.urlopen(f"{address}/health", timeout=10) as answer:
            print(answer.read().decode())

    def _save(self) -> None:
        server = self.postgres
        where = {"folder": str(server.folder), "port": server.port} if server else None
        self.state.write_text(json.dumps({"processes": self.processes, "postgres": where}))

    def _load(self) -> None:
        stored = json.loads(self.state.read_text())
        self.processes = stored["processes"]
        programs = find_postgres()
        if stored["postgres"] and programs is not None:
            where = stored["postgres"]
            self.postgres = PostgresServer(programs, Path(where["folder"]), where["port"])


def is_ours(pid: int) -> bool:
    """Return whether a process is one of the cluster's: its id may have been reused."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z" and b"interleave" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def until(fact: object, complaint: str) -> None:
    ends = time.monotonic() + STARTS_WITHIN
    while not fact():  # type: ignore[operator]
        if time.monotonic() > ends:
            sys.exit(complaint)
        time.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description="A cluster on this machine.")
    parser.add_argument("what", choices=("up", "down", "status"))
    parser.add_argument("--port", type=int, default=8020, help="port of the document service")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    given = parser.parse_args()
    cluster = Cluster(given.folder)
    if given.what == "up":
        cluster.up(given.port, given.workers)
    elif given.what == "down":
        cluster.down()
    else:
        cluster.status()


if __name__ == "__main__":
    main()
