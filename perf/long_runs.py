"""Measures runs of hundreds of steps: journal, memory and time per step, whole, in chapters, and resumed.

Run with: python perf/long_runs.py [500]
The miniature's world draws by rule and its oracle judges. So the time is that of the run itself and of
drawing, judging, measuring and storing an image of 256 pixels. Each kind runs in a separate process. Time is
processor time, which other work on the machine does not affect.
"""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import interleave
from interleave.events import StepFinished
from interleave.types import Plan, PlanStep, Request

REQUEST = "The life of a house in {count} pictures"
KINDS = ("whole plan", "chapters of 20", "four lines at once", "taken up again")


def plan_of(count: int, *, lines: int = 1) -> tuple[Plan, Any]:
    """Return a plan of exact edits in `lines` independent lines, and its first image."""
    from interleave_mini.bench.chains import MiniChains

    [chain] = MiniChains().chains("chain", 1, count // lines, 0)
    steps = []
    for number in range(1, count + 1):
        place = (number - 1) % (count // lines)
        link = chain.links[place]
        needs = () if lines > 1 and place == 0 else None
        steps.append(
            PlanStep(
                number=number, caption=f"step {number}", prompt=link.prompt, scene=link.whole, needs=needs
            )
        )
    return Plan(steps=tuple(steps)), chain.start


def options_of(kind: str, count: int) -> tuple[Request, dict[str, Any]]:
    if kind == "chapters of 20":
        request = Request.of(REQUEST.format(count=count))
        doubles = {"planner": "scripted", "critic": "scripted", "generator": "solid?size=256"}
        return request, {**doubles, "chapter_steps": 20}
    plan, start = plan_of(count, lines=4 if "at once" in kind else 1)
    return Request.of(["a long story", start]), {
        "plan": plan,
        "generator": "world",
        "critic": "oracle",
    }


async def run(folder: Path, request: Request, options: dict[str, Any], ends: list[float]) -> None:
    async for event in interleave.stream(request, out=folder, **options):
        if isinstance(event, StepFinished):
            ends.append(time.process_time())


def measure(kind: str, count: int) -> None:
    """Run one kind in this process and print a row."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "run")
        request, options = options_of(kind, count)
        options["max_steps"] = count
        if kind == "taken up again":
            asyncio.run(run(folder, request, {**options, "max_calls": 2 * count * 9 // 10}, []))
        started, ends = time.process_time(), list[float]()
        asyncio.run(run(folder, request, options, ends))
        whole = time.process_time() - started
        fifth = count // 5
        first, last = (ends[fifth] - ends[0]) / fifth, (ends[-1] - ends[-1 - fifth]) / fifth
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        journal = (folder / "journal.jsonl").stat().st_size
        page = (folder / "document.html").stat().st_size
        status = interleave.read_record(folder).status
        cells = [
            kind,
            f"{count}",
            f"{journal / 1e3:,.0f} kB ({journal / count:,.0f} B a step)",
            f"{peak:,.0f} MB",
            f"{first * 1000:.0f} / {last * 1000:.0f} ms",
            f"{whole:.1f} s",
            f"{page / 1e6:.1f} MB",
            status,
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    print("| run | steps | journal | peak memory | a step, first / last fifth | in all | page | |")
    print("|---|---:|---:|---:|---:|---:|---:|---|", flush=True)
    for kind in KINDS:
        for count in (most // 5, most) if kind == KINDS[0] else (most,):
            subprocess.run([sys.executable, __file__, kind, str(count)], check=True)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        measure(sys.argv[1], int(sys.argv[2]))
    else:
        main()
