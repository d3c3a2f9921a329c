"""Seconds from the start of `interleave studio` to its page, its models and the plan of a first request.

    python perf/studio_start.py --python .demo/bin/python --results perf/results/studio-start.json

Each round is a new process with the miniature and an empty folder. The request is sent as soon as the page
answers, as by a visitor who does not wait.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

GOAL_SECONDS = 3.0
POLL_SECONDS = 0.01
TEXT = "How a frog grows up, step by step, in four pictures"


def ask(url: str, body: object = None) -> Any:
    """Return the parsed answer to a GET, or to a POST with a body."""
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url, data, {"Content-Type": "application/json"}), timeout=60) as answer:
        text = answer.read()
        return json.loads(text) if "json" in answer.headers["Content-Type"] else text


def until(true: Callable[[], bool]) -> None:
    """Wait for a condition."""
    while not true():
        time.sleep(POLL_SECONDS)


def planned(url: str) -> bool:
    """Return whether a document has a plan: it is 404 before."""
    try:
        ask(url)
    except HTTPError:
        return False
    return True


def measure(python: str, folder: Path) -> dict[str, float]:
    """Start a studio, make a request, and stop it."""
    seconds: dict[str, float] = {}
    started = time.perf_counter()

    def reached(what: str) -> None:
        seconds[what] = time.perf_counter() - started

    command = [python, "-m", "interleave", "studio", "--profile", "mini", "--no-open", "--port", "0"]
    with subprocess.Popen(
        [*command, "--runs", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=folder.parent,
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        try:
            ask(f"{address}/")
            reached("page")
            ask(f"{address}/v1/studio/start")
            reached("examples")
            job = ask(f"{address}/v1/responses", {"input": TEXT, "background": True})
            reached("request_accepted")
            until(lambda: ask(f"{address}/v1/studio/start")["models_state"] == "ready")
            reached("models_loaded")
            until(lambda: planned(f"{address}/v1/documents/{job['id']}/plan"))
            reached("plan_shown")
        finally:
            process.terminate()
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", default=sys.executable, help="Interpreter of the environment to measure.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--results", type=Path, metavar="FILE", help="Write the medians to this file.")
    arguments = parser.parse_args()
    python = str(Path(arguments.python).absolute())
    with tempfile.TemporaryDirectory() as folder:
        measure(python, Path(folder) / "first")  # reads files from disk and writes byte code
        rounds = [measure(python, Path(folder) / str(number)) for number in range(arguments.rounds)]
    rows = [
        {"what": what, "seconds": round(statistics.median(each[what] for each in rounds), 2)}
        for what in rounds[0]
    ]
    for row in rows:
        print(json.dumps(row))
    if arguments.results:
        machine = {
            "what": "machine",
            "architecture": platform.machine(),
            "cores": os.cpu_count(),
            "load": [round(each, 1) for each in os.getloadavg()],
            "date": str(date.today()),
        }
        arguments.results.write_text(json.dumps([*rows, machine], indent=1) + "\n")
    loaded = next(float(row["seconds"]) for row in rows if row["what"] == "models_loaded")
    print(f"goal: models loaded ≤ {GOAL_SECONDS} s: {'met' if loaded <= GOAL_SECONDS else 'MISSED'}")
    return 0 if loaded <= GOAL_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
