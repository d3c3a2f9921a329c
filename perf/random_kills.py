"""Kills the parts of a document cluster at random, and counts what was lost, failed or done twice.

A client submits equal documents at a steady rate and retries, with the same Idempotency-Key, until one of
two services acknowledges them. Meanwhile workers are killed, paused for longer than a lease or ended,
services are killed, and Postgres is restarted, made read-only or loses its connections, all for a moment.

Run with: python perf/random_kills.py [SECONDS] [--seed N] [--results FILE.json]   (needs Postgres)
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from document_cluster import Cluster, Part

from interleave.batches.batch import run_folder
from interleave.runs.folder import comparable

SERVICES, WORKERS, PLACES, LEASE = 2, 4, 4, 6.0
SECONDS_BETWEEN_DOCUMENTS = 2.0
SECONDS_BETWEEN_KILLS = (3.0, 9.0)
PATIENCE = 600.0  # seconds in which all documents must end after the last kill
END_CONNECTIONS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
)
HELD = "SELECT id, token FROM interleave.jobs WHERE status = 'in_progress' AND worker <> ''"


class Kills:
    """Does harm to parts that are well, one kind at random each time."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster, self.random = cluster, random.Random(seed)
        self.postgres_busy = threading.Lock()
        self.done: list[dict[str, Any]] = []

    def one(self) -> None:
        worker, service = map(self.random.choice, (self.cluster.workers, self.cluster.services))
        everywhere = PLACES * WORKERS
        kinds: dict[str, tuple[int, int, Part | None, Callable[[], object]]] = {  # weight, open slots
            "worker killed": (4, PLACES, worker, lambda: worker.end(signal.SIGKILL)),
            "worker paused": (3, PLACES, worker, lambda: self.pause(worker)),
            "worker ended": (2, PLACES, worker, lambda: worker.end(signal.SIGTERM)),
            "service killed": (3, 0, service, lambda: service.end(signal.SIGKILL)),
            "Postgres restarted": (2, everywhere, None, self.restart_postgres),
            "Postgres read-only": (2, everywhere, None, self.read_only),
            "connections ended": (2, 0, None, lambda: self.cluster.sql(END_CONNECTIONS)),
        }
        kind = self.random.choices(list(kinds), [weight for weight, *_ in kinds.values()])[0]
        _, slots, part, harm = kinds[kind]
        if (part.busy if part else self.postgres_busy).acquire(blocking=False):
            kill = {"kind": kind, "slots": slots, "at": time.time(), "load": os.getloadavg()[0]}
            self.cluster.begin(self.carry_out, kill, part, harm)

    def carry_out(self, kill: dict[str, Any], part: Part | None, harm: Callable[[], object]) -> None:
        self.done.append(kill)
        print(time.strftime("%H:%M:%S"), kill["kind"], part.name if part else "", flush=True)
        try:
            if part in self.cluster.workers:
                held = set(self.cluster.sql(f"{HELD} AND worker = '{part.announced}'"))
                self.cluster.begin(self.watch, kill, held)
            harm()
            if part is not None and part.has_ended:
                time.sleep(2)
                part.start()
        finally:
            (part.busy if part else self.postgres_busy).release()

    def watch(self, kill: dict[str, Any], held: set[tuple[str, int]]) -> None:
        """Note when all jobs of a disturbed worker have ended or been claimed again."""
        began = time.monotonic()
        while held and self.cluster.open:
            if not held & set(self.cluster.sql(HELD)):
                kill["taken over"] = time.monotonic() - began
                return
            time.sleep(0.3)

    def pause(self, worker: Part) -> None:
        worker.process.send_signal(signal.SIGSTOP)
        time.sleep(LEASE + self.random.uniform(1, 4))
        worker.process.send_signal(signal.SIGCONT)

    def restart_postgres(self) -> None:
        self.cluster.postgres.stop("immediate")
        time.sleep(self.random.uniform(1, 8))
        self.cluster.postgres.start()

    def read_only(self) -> None:
        self.cluster.postgres.read_only(True)
        time.sleep(self.random.uniform(2, 8))
        self.cluster.postgres.read_only(False)


def disturb(cluster: Cluster, kills: Kills, seconds: float) -> int:
    """Submit documents and do harm for so long; return the number of documents."""
    began = next_kill = time.monotonic()
    number = 0
    while (now := time.monotonic()) < began + seconds:
        if now >= began + number * SECONDS_BETWEEN_DOCUMENTS:
            number += 1
            cluster.begin(cluster.submit, number)
        if now >= next_kill:
            next_kill = now + kills.random.uniform(*SECONDS_BETWEEN_KILLS)
            kills.one()
        time.sleep(0.05)
    return number


def documents(cluster: Cluster) -> dict[str, Any]:
    """Compare all documents with the first one, which nothing disturbed."""
    folders = {id_: cluster.runs / run_folder(id_) for id_ in cluster.acknowledged.values()}
    first, *ids = folders
    ends = {id_: cluster.status(id_) for id_ in ids}
    whole = comparable(folders[first])
    equal = [id_ for id_ in ids if ends[id_] == "completed" and comparable(folders[id_]) == whole]
    return {
        "acknowledged": len(ids),
        "stored beyond those": cluster.sql("SELECT count(*) FROM interleave.jobs")[0][0] - len(ids) - 1,
        "lost, or open in the end": sum(end not in ("completed", "failed") for end in ends.values()),
        "ends": Counter(ends.values()),
        "equal to the undisturbed one": len(equal),
        "submissions refused or broken off": cluster.refusals,
    }


def calls(cluster: Cluster, kills: Kills) -> dict[str, Any]:
    asked = Counter(digest for _, digest in cluster.models.asked)
    copies = len(cluster.acknowledged)
    return {
        "calls": asked.total(),
        "calls made again": sum(max(0, times - copies) for times in asked.values()),
        "open slots of all kills": sum(kill["slots"] for kill in kills.done),
    }


def waits(cluster: Cluster, kills: Kills) -> dict[str, Any]:
    """Summarize the seconds from each kill to the next call, and to the take-over of the jobs."""
    found = {"start of a part": [seconds for part in cluster.parts for seconds in part.starts]}
    for kill in kills.done:
        later = [at - kill["at"] for at, _ in cluster.models.asked if at > kill["at"]]
        found.setdefault(f"{kill['kind']}, next call of any job", []).extend(sorted(later)[:1])
        if "taken over" in kill:
            found.setdefault(f"{kill['kind']}, its jobs taken over", []).append(kill["taken over"])
    return {
        what: {"times": len(each), "median": round(statistics.median(each), 1), "most": round(max(each), 1)}
        for what, each in sorted(found.items())
        if each
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("seconds", nargs="?", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path)
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="interleave-kills-"))
    print(f"runs and logs are kept in {folder}", flush=True)
    cluster = Cluster(folder, services=SERVICES, workers=WORKERS, places=PLACES, lease=LEASE)
    try:
        cluster.submit(0)
        cluster.until_all_ended(PATIENCE)
        alone, kills = len(cluster.models.asked), Kills(cluster, chosen.seed)
        submitted = disturb(cluster, kills, chosen.seconds)
        while len(cluster.acknowledged) <= submitted:
            time.sleep(0.5)
        cluster.until_all_ended(PATIENCE)
        found = {
            "seconds": chosen.seconds,
            "load": round(statistics.mean(kill["load"] for kill in kills.done), 1),
            "kills": Counter(kill["kind"] for kill in kills.done),
            "submitted": submitted,
            **documents(cluster),
            "calls of one document": alone,
            **calls(cluster, kills),
            "seconds after a kill": waits(cluster, kills),
            "parts that ended by themselves": cluster.ended,
        }
    finally:
        cluster.close()
    print(json.dumps(found, indent=1))
    if chosen.results is not None:
        chosen.results.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
