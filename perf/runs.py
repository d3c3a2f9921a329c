"""Measures the overhead of runs: durable calls, shared syncs, busy generators, memory, restarts.

Run with: make bench        (or: python perf/runs.py durable group busy memory scan soak)
Every section prints its measurement, the goal, and a number for comparison.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from stubs import StubCritic, StubGenerator, plan_of

import interleave
from interleave.batches.batch import Ended, run_folder

SECTIONS: dict[str, Callable[[Path], None]] = {}


def section(function: Callable[[Path], None]) -> Callable[[Path], None]:
    SECTIONS[function.__name__] = function
    return function


def report(what: str, measured: str, goal: str, met: bool) -> None:
    print(f"  {what:<58} {measured:>16}   goal {goal:<14} {'met' if met else 'MISSED'}", flush=True)


@section
def durable(scratch: Path) -> None:
    """One run with models that take no time: our own cost per call, with every result synced."""
    generator, critic = StubGenerator(), StubCritic()
    started = time.perf_counter()
    interleave.generate(
        "x", out=scratch / "run", plan=plan_of(300), max_steps=300, generator=generator, critic=critic
    )
    wall = time.perf_counter() - started
    entered = sorted([*generator.entered, *critic.entered])
    left = sorted([*generator.left, *critic.left])
    between = sorted(later - earlier for earlier, later in zip(left, entered[1:], strict=False))
    p50, p99 = statistics.median(between), between[int(len(between) * 0.99)]
    bare = _bare_synced_writes(scratch, 600)
    report("own cost per durable call, median", f"{p50 * 1000:.2f} ms", "≤ 5 ms", p50 <= 0.005)
    report("own cost per durable call, 99th percentile", f"{p99 * 1000:.2f} ms", "≤ 25 ms", p99 <= 0.025)
    report("calls per second, one whole run", f"{600 / wall:.0f}/s", "≥ 300/s", 600 / wall >= 300)
    print(f"  for comparison: a bare 1.5 kB append with fdatasync takes {bare * 1000:.2f} ms (median)")


def _bare_synced_writes(scratch: Path, count: int) -> float:
    file = os.open(scratch / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    times = []
    for _ in range(count):
        started = time.perf_counter()
        os.write(file, b"x" * 1500)
        os.fdatasync(file)
        times.append(time.perf_counter() - started)
    os.close(file)
    return statistics.median(times)


@section
def group(scratch: Path) -> None:
    """128 concurrent runs that share their syncs, compared with sequential runs."""
    rates = {}
    for name, concurrency in (("together", 128), ("one after another", 1)):
        requests = [f"request {number}" for number in range(128)]
        started = time.perf_counter()
        summary = interleave.generate_many(
            requests,
            out=scratch / name,
            concurrency=concurrency,
            plan=plan_of(20),
            generator=StubGenerator(),
            critic=StubCritic(),
        )
        rates[name] = summary.calls / (time.perf_counter() - started)
    together = rates["together"]
    report("calls per second, 128 runs sharing syncs", f"{together:.0f}/s", "≥ 1500/s", together >= 1500)
    alone = rates["one after another"]
    print(f"  for comparison: sequentially {alone:.0f}/s, ×{together / alone:.1f}")


@section
def busy(scratch: Path) -> None:
    """64 trajectories of 5 steps over 4 generators: share of the time that the generators are drawing."""
    draw, judge, replicas, trajectories, steps = 0.25, 0.15, 4, 64, 5
    generator = StubGenerator(delay=draw, replicas=replicas)
    critic = StubCritic(delay=judge, refuse_every=4)
    started = time.perf_counter()
    interleave.generate_many(
        [f"request {number}" for number in range(trajectories)],
        out=scratch / "ours",
        plan=plan_of(steps),
        generator=generator,
        critic=critic,
    )
    wall = time.perf_counter() - started
    ours = generator.busy_seconds / (wall * replicas)
    theirs = asyncio.run(_one_after_another(draw, judge, replicas, trajectories // 4, steps))
    report("generators busy, 64 trajectories on 4 replicas", f"{ours * 100:.1f} %", "≥ 97 %", ours >= 0.97)
    print(f"  for comparison: sequentially per generator {theirs * 100:.1f} %, ×{ours / theirs:.2f}")


async def _one_after_another(
    draw: float, judge: float, replicas: int, trajectories: int, steps: int
) -> float:
    """Run as the reference describes: every process has a generator and processes its share."""
    generator, critic = StubGenerator(delay=draw), StubCritic(delay=judge, refuse_every=4)
    shares = iter(range(trajectories))

    async def process() -> None:
        from interleave.backends.protocols import ImageRequest, Sampling

        for _ in shares:
            for _ in range(steps):
                for attempt in range(3):
                    await generator.generate(ImageRequest("x", attempt))
                    reply = await critic.complete([], Sampling())
                    if "true" in reply.text:
                        break

    started = time.perf_counter()
    await asyncio.gather(*(process() for _ in range(replicas)))
    return generator.busy_seconds / ((time.perf_counter() - started) * replicas)


@section
def memory(scratch: Path) -> None:
    """512 trajectories with one call in flight each: peak memory of the process."""
    small, large = _peak_memory(scratch / "small", 256), _peak_memory(scratch / "large", 512)
    report("memory with 512 calls in flight, 256×256 images", f"{small:.2f} GB", "≤ 1 GB", small <= 1.0)
    pair = 2 * 512 * 512 * 4 * 512 / 1e9
    print(f"  for comparison: 512×512 images take {large:.2f} GB, {pair:.2f} GB of it for the judged pairs")


def _peak_memory(out: Path, side: int) -> float:
    script = (
        "import sys, resource; sys.path.insert(0, sys.argv[1])\n"
        "from stubs import *; import interleave\n"
        "generator = StubGenerator(delay=2.0, side=int(sys.argv[3]))\n"
        "requests = [f'request {n}' for n in range(512)]\n"
        "summary = interleave.generate_many(requests, out=sys.argv[2], concurrency=512, plan=plan_of(3),\n"
        "    generator=generator, critic=StubCritic(delay=1.0))\n"
        "assert summary.done == 512\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    command = [sys.executable, "-c", script, str(Path(__file__).parent), str(out), str(side)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout) / 1e6


@section
def scan(scratch: Path) -> None:
    """40,000 finished requests: time of the same command to find that there is nothing to do."""
    count, opened = 40_000, 500
    rows = [f"Request number {number}, in 1 picture" for number in range(count)]
    file = scratch / "requests.jsonl"
    file.write_text("".join(json.dumps({"request": row}) + "\n" for row in rows))
    made = interleave.generate_many(
        rows[:opened], out=scratch / "many", generator="solid?size=64", profile="dry-run"
    )
    assert made.done == opened
    (scratch / "many" / "index.jsonl").write_text(
        "".join(
            Ended(id=item.id, digest=item.digest, folder=run_folder(item.id), status="done").model_dump_json()
            + "\n"
            for item in _file_items(file)
        )
    )
    arguments = [
        "generate",
        "--requests",
        str(file),
        "--out",
        str(scratch / "many"),
        "--generator",
        "solid?size=64",
    ]
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "interleave", *arguments, "--json"], check=True, capture_output=True, text=True
    )
    taken = time.perf_counter() - started
    assert json.loads(done.stdout)["already"] == count
    report("40,000 finished requests, whole command", f"{taken:.1f} s", "≤ 10 s", taken <= 10)
    (scratch / "many" / "index.jsonl").unlink()
    started = time.perf_counter()
    interleave.generate_many(rows[:opened], out=scratch / "many", generator="solid?size=64")
    each = (time.perf_counter() - started) / opened
    print(f"  for comparison: without the index, opening a run folder takes {each**1000:.1f} ms")


def _file_items(file: Path) -> list[object]:
    from interleave.batches.requests import read_requests

    return read_requests(file)[0]  # type: ignore[return-value]


@section
def soak(scratch: Path) -> None:
    """200,000 calls in one process: memory, open files and threads must not grow."""
    samples: list[tuple[int, float, int, int]] = []
    calls = int(os.environ.get("SOAK_CALLS", "200000"))
    steps = 10
    requests = (f"request {number}" for number in range(calls // (2 * steps)))

    async def work() -> None:
        import threading

        done = 0
        stream = interleave.stream_many(
            requests,
            out=scratch / "many",
            plan=plan_of(steps),
            generator=Forgetful(),
            critic=ForgetfulCritic(),
            concurrency=64,
        )
        async for ended in stream:
            done += ended.calls
            shutil.rmtree(scratch / "many" / ended.folder)  # the disk is not measured
            if not samples or done >= samples[-1][0] + calls // 10:
                files = len(os.listdir("/proc/self/fd"))
                samples.append((done, _resident(), files, threading.active_count()))

    started = time.perf_counter()
    asyncio.run(work())
    wall = time.perf_counter() - started
    for done, resident, files, threads in samples:
        print(f"  {done:>8} calls   {resident:6.1f} MB   {files:4d} open files   {threads:3d} threads")
    settled = samples[len(samples) // 3 :]
    growth = (settled[-1][1] - settled[0][1]) / settled[0][1]
    report(
        f"{calls:,} calls ({calls / wall:.0f}/s), memory growth after a third",
        f"{growth * 100:+.1f} %",
        "< 5 %",
        growth < 0.05,
    )
    most = max(files for _, _, files, _ in samples)
    report("most open files, 64 requests in flight", str(most), "≤ 64 + 24", most <= 88)
    threads = {count for _, _, _, count in samples}
    report("threads, from start to end", str(max(threads)), "constant", len(threads) == 1)


class Forgetful(StubGenerator):
    """Records no times, which would make memory grow."""

    async def generate(self, request: object) -> object:  # type: ignore[override]
        self.entered.clear()
        self.left.clear()
        return await super().generate(request)  # type: ignore[arg-type]


class ForgetfulCritic(StubCritic):
    async def complete(self, messages: object, sampling: object) -> object:  # type: ignore[override]
        self.entered.clear()
        self.left.clear()
        return await super().complete(messages, sampling)  # type: ignore[arg-type]


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def main() -> None:
    for name in sys.argv[1:] or SECTIONS:
        print(f"{name}: {SECTIONS[name].__doc__}", flush=True)
        # next to the project, not in /tmp, which may be memory and would make every sync free
        scratch = Path(tempfile.mkdtemp(prefix=".bench-", dir=Path.cwd()))
        try:
            SECTIONS[name](scratch)
        finally:
            shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
