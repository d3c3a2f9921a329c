"""The suites of `bench mini` on onnxruntime and on torch, with the same tasks and seeds.

python perf/onnx_suites.py --items 20 --results perf/results/onnx-suites.json
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any

from interleave_mini.bench.tasks import SUITES

RUNTIMES = ("onnx", "torch")


def bench(suite: str, runtime: str, items: int, out: Path) -> dict[str, Any]:
    """Return what `bench mini` reports for one suite, and its seconds."""
    specs = [f"--{role}=mini?runtime={runtime}" for role in ("planner", "critic", "generator")]
    command = [sys.executable, "-m", "interleave", "bench", "mini", "--suite", suite, "--items", str(items)]
    started = time.perf_counter()
    told = subprocess.run(
        [*command, "--profile", "mini", *specs, "--out", str(out), "--json"],
        check=False,  # a task that the planner refuses is scored 0, and ends with exit code 1
        stdout=subprocess.PIPE,
        text=True,
    )
    return {**json.loads(told.stdout), "wall_seconds": round(time.perf_counter() - started, 1)}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--items", type=int, default=10)
    parser.add_argument("--suites", nargs="*", default=list(SUITES))
    parser.add_argument("--results", type=Path, metavar="FILE", help="Write the figures to this file.")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for suite in arguments.suites:
            row: dict[str, Any] = {"what": suite, "items": arguments.items}
            for runtime in RUNTIMES:
                found = bench(suite, runtime, arguments.items, Path(folder) / f"{suite}-{runtime}")
                row[f"{runtime}_strict"] = found["scores"]["strict"]["mean"]
                row[f"{runtime}_seconds"] = found["wall_seconds"]
            rows.append(row)
            print(json.dumps(row), flush=True)
            if arguments.results:
                text = json.dumps([*rows, {"what": "date", "date": str(date.today())}], indent=1)
                arguments.results.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
