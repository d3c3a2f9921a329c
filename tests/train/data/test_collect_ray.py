"""`data collect --engine ray`: one worker, two workers and none come to the same; a dead one is no loss."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path

import pytest
from collections_made import MIXED, collect, comparables, write_requests, write_rows

from interleave.batches.batch import Batch, Ended, read_index
from interleave.batches.worker import WorkerOptions
from interleave.service.ray_executor import executor_on_ray
from interleave.train.data.collect import CollectConfig, CollectWork, Workload
from interleave.train.data.manifest import COLLECTION_MANIFEST

ray = pytest.importorskip("ray")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::Warning")]


def collect_with_ray(
    requests: str, out: str, workers: int, *options: str
) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, as a user runs it, with a cluster of its own."""
    command = [
        sys.executable,
        "-m",
        "interleave",
        "data",
        "collect",
        requests,
        "--out",
        out,
        "--dry-run",
        *MIXED,
    ]
    with_ray = ["--engine", "ray", "--workers", str(workers), "--concurrency", "4", "--json", *options]
    return subprocess.run([*command, *with_ray], capture_output=True, text=True, timeout=240)


def test_K13_one_worker_two_workers_and_no_ray_give_the_same_set_of_items() -> None:
    requests = write_requests(16)
    for workers in (1, 2):
        done = collect_with_ray(requests, f"workers-{workers}", workers)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)  # and nothing else is on standard output
        assert (told["done"], told["calls"]) == (16, 16 * 7)
    assert collect(requests, "whole", *MIXED) == 0
    for made in ("workers-1", "workers-2"):
        assert comparables(made) == comparables("whole")
        assert Path(made, COLLECTION_MANIFEST).read_bytes() == Path("whole", COLLECTION_MANIFEST).read_bytes()


def test_A02_the_requests_of_killed_workers_are_done_by_others() -> None:
    requests = write_requests(24)
    recipe = CollectConfig({}, ("solid?size=64&delay=0.2",))
    folder, killed = Path("made"), set[int]()

    async def kill_two_and_go_on() -> list[Ended]:
        all_ended = []
        async with aclosing(
            batch.run(Workload.read(Path(requests), recipe.assignment()).items, concurrency=8)
        ) as ending:
            async for ended in ending:
                all_ended.append(ended)
                if len(all_ended) in (1, 10):
                    killed.add(process := await executor.workers[0].process.remote())
                    os.kill(process, signal.SIGKILL)
        return all_ended

    with executor_on_ray(
        CollectWork(recipe, Path(requests).absolute()), folder, WorkerOptions(workers=2, concurrency=4)
    ) as executor:
        batch = Batch(folder, recipe.assignment(), executor)
        all_ended = asyncio.run(kill_two_and_go_on())
    assert len(killed) == 2
    assert len(executor.workers) == 2
    assert {ended.status for ended in all_ended} == {"done"}
    assert len(all_ended) == 24
    assert collect(requests, "whole", "--generator", "solid?size=64&delay=0.2") == 0
    assert comparables("made") == comparables("whole")
    assert len(read_index(folder)) == 24


def test_what_a_worker_finds_wrong_is_said_as_without_ray() -> None:
    requests = write_rows("requests.jsonl", {"request": "A cat in 1 picture"})
    told = collect_with_ray(requests, "made", 1, "--critic", "scripted:./missing.jsonl")
    assert told.returncode == 2
    assert "the script 'missing.jsonl' does not exist" in told.stderr
    assert "Traceback" not in told.stderr
