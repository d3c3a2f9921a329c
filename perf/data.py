"""Measures selecting and exporting: a million attempts by reference, and fewer with embedded images.

Run with: make bench        (or: python perf/data.py [attempts], e.g. 100000 for a tenth)
The collection is written directly to disk: runs of four steps and ten attempts with seeded scores.
All runs share a few images, each through a separate link, so that the files are opened a million times.
Memory is the peak of all processes together.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from random import Random
from typing import Any

from interleave.agents.prompts import load_pack
from interleave.config.run_config import PackConfig, RoleConfig, RunConfig
from interleave.runs.folder import ImageStore
from interleave.runs.journal import RequestPart
from interleave.runs.record import AttemptRecord, RunRecord, StepRecord
from interleave.types import Outcome, Plan, PlanStep, Request, Verdict
from interleave_mini.oracle import parse_request
from interleave_mini.world.drawing import draw
from miniature.grammar.tasks import sample_task

ATTEMPTS = 1_000_000
EMBEDDED_ATTEMPTS = 20_000
PER_RUN = 10
TRIES = (1, 2, 3, 4)
"""Attempts of the four steps of a run."""
WORKERS = 2
GOAL_SECONDS, GOAL_GIGABYTES = 300.0, 2.0


def report(what: str, measured: str, goal: str = "", met: bool = True) -> None:
    ending = f"   goal {goal:<10} {'met' if met else 'MISSED'}" if goal else ""
    print(f"  {what:<58} {measured:>16}{ending}", flush=True)


def main() -> None:
    attempts = int(sys.argv[1]) if sys.argv[1:] else ATTEMPTS
    # next to the project, not in /tmp, which may be memory
    scratch = Path(tempfile.mkdtemp(prefix=".bench-", dir=Path.cwd()))
    try:
        by_reference(scratch, attempts)
        embedded(scratch, min(attempts, EMBEDDED_ATTEMPTS))
    finally:
        shutil.rmtree(scratch)


def by_reference(scratch: Path, attempts: int) -> None:
    print(f"{attempts:,} attempts through select and export, images by reference, {WORKERS} processes")
    started = time.perf_counter()
    collection = write_collection(scratch / "collection", attempts)
    report("(writing the collection)", f"{time.perf_counter() - started:.0f} s")
    selecting = measured("select", str(collection), "--out", str(scratch / "selection"))
    exporting = measured(
        "export", str(scratch / "selection"), "--out", str(scratch / "rows"), "--images", "referenced"
    )
    report("select", str(selecting))
    report("export for TRL, four files", str(exporting))
    seconds = selecting.seconds + exporting.seconds
    gigabytes = max(selecting.gigabytes, exporting.gigabytes)
    goal = GOAL_SECONDS * attempts / ATTEMPTS
    report("both, time", f"{seconds:.0f} s", f"≤ {goal:.0f} s", seconds <= goal)
    processor = selecting.processor_seconds + exporting.processor_seconds
    print(f"  processor time {processor:.0f} s; the rest went to other processes or to the disk")
    report("both, memory", f"{gigabytes:.2f} GB", f"≤ {GOAL_GIGABYTES:.0f} GB", gigabytes <= GOAL_GIGABYTES)


def embedded(scratch: Path, attempts: int) -> None:
    print(f"{attempts:,} attempts exported with their images in the rows, {WORKERS} processes")
    collection = write_collection(scratch / "small", attempts)
    measured("select", str(collection), "--out", str(scratch / "small-selection"))
    out = scratch / "small-rows"
    cost = measured("export", str(scratch / "small-selection"), "--out", str(out))
    size = sum(path.stat().st_size for path in out.rglob("*.parquet")) / 1e6
    report("export for TRL, images embedded", str(cost))
    report("attempts per second", f"{attempts / cost.seconds:,.0f}/s")
    report("written", f"{size:,.0f} MB, {size / cost.seconds:.0f} MB/s")


class measured:
    """A completed command: its wall time, and the peak memory of all its processes."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "interleave", "data", *arguments, "--workers", str(WORKERS)]
        started, used = time.perf_counter(), _processor_seconds()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        self.gigabytes = 0.0
        watcher = threading.Thread(target=self._watch, args=(process,))
        watcher.start()
        code = process.wait()
        self.seconds = time.perf_counter() - started
        self.processor_seconds = _processor_seconds() - used
        watcher.join()
        if code:
            raise SystemExit(f"{' '.join(command)} ended with {code}")

    def __str__(self) -> str:
        return f"{self.seconds:.0f} s, {self.gigabytes:.2f} GB"

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        while process.poll() is None:
            self.gigabytes = max(self.gigabytes, _resident_gigabytes(process.pid))
            time.sleep(0.2)


def _processor_seconds() -> float:
    """Return the processor time of all ended child processes."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _resident_gigabytes(pid: int) -> float:
    """Return the resident memory of a process and its descendants; shared pages count more than once."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (OSError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e9 + sum(
        _resident_gigabytes(int(child)) for child in children
    )


def write_collection(folder: Path, attempts: int) -> Path:
    """Write run folders whose records resemble those of real runs, and the scores of all their attempts."""
    rng = Random(0)
    shared = ImageStore(folder / "shared")
    shared.folder.parent.mkdir(parents=True)
    plans = [_sampled_plan(rng) for _ in range(200)]
    names = [shared.put(draw(scene)) for _, scenes in plans for scene in scenes]
    config = _config()
    (folder / "scores").mkdir()
    with open(folder / "scores" / "made.jsonl", "w", encoding="utf-8") as scores:
        for number in range(attempts // PER_RUN):
            run = f"runs/{number % 256:02x}/{number:08d}"
            (folder / run).mkdir(parents=True)
            os.symlink(shared.folder, folder / run / "images")
            text, plan = plans[number % len(plans)][0]
            record, lines = _record(run, f"{text} ({number})", plan, config, names, rng)
            (folder / run / "run.json").write_text(record.model_dump_json(indent=1))
            scores.writelines(json.dumps(line) + "\n" for line in lines)
    return folder


def _sampled_plan(rng: Random) -> tuple[tuple[str, Plan], list[Any]]:
    while True:
        task = sample_task("story", rng)
        if len(task.steps) >= len(TRIES):
            steps = parse_request(Request.of(task.text)).plan().steps[: len(TRIES)]
            return (task.text, Plan(steps=steps)), [step.scene for step in task.steps[:2]]


def _config() -> RunConfig:
    pack = load_pack()
    prompts = PackConfig(name=pack.name, version=pack.description.version, digest=pack.digest)
    oracle = RoleConfig(spec="oracle")
    return RunConfig(planner=oracle, critic=oracle, generator=RoleConfig(spec="world"), prompts=prompts)


def _record(
    run: str, text: str, plan: Plan, config: RunConfig, names: list[str], rng: Random
) -> tuple[RunRecord, list[dict[str, Any]]]:
    steps, lines = [], []
    for step, tries in zip(plan.steps, TRIES, strict=True):
        attempts = tuple(_attempt(step, number, tries, names, rng) for number in range(1, tries + 1))
        steps.append(
            StepRecord(plan=step, attempts=attempts, shown=tries, accepted=True, forced=False, finished=True)
        )
        lines += [
            {
                "run": run,
                "step": step.number,
                "attempt": each.number,
                "semantics": float(rng.randint(0, 10) if each.number < tries else rng.randint(7, 10)),
                "quality": rng.randint(10, 20) / 2,
            }
            for each in attempts
        ]
    record = RunRecord(
        software="0",
        status="done",
        request=(RequestPart(text=text),),
        config=config,
        plan=plan,
        steps=tuple(steps),
    )
    return record, lines


def _attempt(step: PlanStep, number: int, tries: int, names: list[str], rng: Random) -> AttemptRecord:
    accepted = number == tries
    verdict = Verdict(
        outcome=Outcome.ACCEPTED if accepted else Outcome.REJECTED,
        reasoning="Everything is as asked." if accepted else "In the middle, the thing is missing.",
        refined_prompt=None if accepted else f"{step.prompt} Keep everything else exactly as it is.",
        confidence=1.0 if accepted else 0.3,
    )
    return AttemptRecord(
        number=number,
        prompt=step.prompt or "",
        seed=rng.getrandbits(31),
        image=rng.choice(names),
        verdict=verdict,
        draw_seconds=0.6,
    )


if __name__ == "__main__":
    main()
