"""Measures the whole command at full size: `interleave generate --profile klein`, in a separate process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from gpu_bench import GB, Bench
from random_models import TOY, verdict, write_hub

from interleave.local.tiny.vlms import PLAN, split_into_distinct

PLANNER = "InterleaveThinker/InterleaveThinker-Planner-8B"
CRITIC = "InterleaveThinker/InterleaveThinker-Critic-8B"
KLEIN = "black-forest-labs/FLUX.2-klein-9B"
CHECKPOINTS_GB = 56


def measure_profile_run(bench: Bench) -> None:
    """Run `interleave generate --profile klein` in a separate process, on checkpoints in a Hub cache."""
    home, weights = _place_for_checkpoints(bench)
    try:
        words = {PLANNER: split_into_distinct(PLAN), CRITIC: verdict(bench.tokens)}
        writing = bench.seconds(
            lambda: write_hub(
                home, bench.size, words=words, klein=KLEIN, weights=weights, device=bench.device
            )
        )
        bench.free()
        requests = home / "requests.jsonl"
        count = bench.options.requests
        requests.write_text(
            "".join(json.dumps({"request": f"Number {number}: a pond"}) + "\n" for number in range(count))
        )
        arguments = ["generate", "--requests", str(requests), "--out", str(home / "many")]
        arguments += ["--profile", "klein", "--concurrency", str(count), "--gallery", "--json"]
        begun, started = time.time(), time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "interleave", *arguments],
            env={**os.environ, "HF_HOME": str(home), "HF_HUB_OFFLINE": "1"},
            capture_output=True,
            text=True,
        )
        seconds = time.perf_counter() - started
        if done.returncode:
            raise SystemExit(f"the command failed ({done.returncode}):\n{done.stderr[-6000:]}")
        summary = json.loads(done.stdout.splitlines()[-1])
        documents = len(list((home / "many").rglob("document.html")))
        told = [
            json.loads(line)["time"]
            for journal in (home / "many").rglob("journal.jsonl")
            for line in journal.read_text("utf-8").splitlines()
        ]
        bench.note(
            "profile-run",
            command="interleave generate --requests … --profile klein",
            weights=weights,
            writing=writing,
            seconds=seconds,
            loading=min(told) - begun,
            working=max(told) - min(told),
            requests=count,
            done=summary["done"],
            calls=summary["calls"],
            documents=documents,
            journals=len(list((home / "many").rglob("journal.jsonl"))),
        )
        if bench.options.keep_runs:
            shutil.copytree(home / "many", bench.options.keep_runs, dirs_exist_ok=True)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _place_for_checkpoints(bench: Bench) -> tuple[Path, Any]:
    """Return a folder, and whether random weights fit into it; files of zeros need no space."""
    if bench.options.checkpoints:
        bench.options.checkpoints.mkdir(parents=True, exist_ok=True)
    places = [bench.options.checkpoints] if bench.options.checkpoints else [Path("/dev/shm"), None]
    rooms = [
        (shutil.disk_usage(place or tempfile.gettempdir()).free, place)
        for place in places
        if place is None or place.is_dir()
    ]
    free, place = max(rooms, key=lambda room: room[0])
    enough = bench.size is TOY or free > CHECKPOINTS_GB * GB
    weights = bench.options.weights or ("random" if enough else "sparse")
    return Path(tempfile.mkdtemp(prefix="interleave-", dir=place)), weights
