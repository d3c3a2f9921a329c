"""How long `interleave --help` takes, beside an empty Python: medians of runs taken in turn.

Run with: make bench
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

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
    for command in COMMANDS.values():
        seconds(command)  # the first run reads files from disk and writes byte code
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS):
        for name, command in COMMANDS.items():
            taken[name].append(seconds(command))
    empty = statistics.median(taken["python -c pass"])
    for name, times in taken.items():
        median = statistics.median(times)
        print(f"{name:<20} {median:.3f} s  (×{median / empty:.1f}, slowest {max(times):.3f} s)")
    ours = statistics.median(taken["interleave --help"])
    print(f"goal: interleave --help ≤ {GOAL_SECONDS} s: {'met' if ours <= GOAL_SECONDS else 'MISSED'}")
    return 0 if ours <= GOAL_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
