"""Measures the start-up of `interleave --help` and of an empty Python: medians of alternating runs.

    python perf/startup.py --results perf/results/startup.json

Part of `make bench`. docs/explanation/performance.md quotes the file.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

ROUNDS = 15
GOAL_SECONDS = 0.4
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "interleave --help": [sys.executable, "-m", "interleave", "--help"],
}


def seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--results", type=Path, metavar="FILE", help="Write the medians to this file.")
    results = parser.parse_args().results
    for command in COMMANDS.values():
        seconds(command)  # the first run reads files from disk and writes byte code
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS):
        for name, command in COMMANDS.items():
            taken[name].append(seconds(command))
    medians = {name: statistics.median(times) for name, times in taken.items()}
    empty, ours = medians["python -c pass"], medians["interleave --help"]
    for name, median in medians.items():
        print(f"{name:<20} {median:.3f} s  (×{median / empty:.1f}, slowest {max(taken[name]):.3f} s)")
    if results:
        rows = [{"what": name, "seconds": round(median, 4)} for name, median in medians.items()]
        results.write_text(json.dumps([*rows, {"what": "date", "date": str(date.today())}], indent=1) + "\n")
    print(f"goal: interleave --help ≤ {GOAL_SECONDS} s: {'met' if ours <= GOAL_SECONDS else 'MISSED'}")
    return 0 if ours <= GOAL_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
