"""Small collections for the tests of data construction, made by the real commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import interleave
from interleave.cli.main import run
from interleave.runs.journal import Drawn, Replied, read_journal
from interleave.train.data.trajectories import run_names

SMALL = "solid?size=64"
OTHER = "solid?size=80"
MIXED = ["--generator", SMALL, "--weight", "1", "--generator", OTHER, "--weight", "2"]


def write_requests(count: int, path: str = "requests.jsonl", *, steps: int = 2) -> str:
    """A file of so many requests."""
    rows = [{"id": f"r{n}", "request": f"Story {n}, in {steps} pictures"} for n in range(count)]
    return write_rows(path, *rows)


def write_rows(path: str, *rows: dict[str, Any]) -> str:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def collect(requests: str, out: str, *options: str) -> int:
    """`interleave data collect` with the doubles."""
    models = [] if "--generator" in options else ["--generator", SMALL]
    return run(["data", "collect", requests, "--out", out, "--dry-run", *models, *options])


def comparables(folder: str | Path) -> dict[str, dict[str, Any]]:
    """Every run of a collection as it must be in every equal collection."""
    return {name: interleave.comparable(Path(folder, name)) for name in run_names(Path(folder))}


def results_in(folder: str | Path) -> set[str]:
    """The calls whose results the journals of a collection have, as a crash ledger names them."""
    journals = Path(folder).glob("runs/*/*/journal.jsonl")
    entries = [entry for journal in journals for entry in read_journal(journal.parent)]
    return {f"{e.role}:{e.call}:{e.fingerprint}" for e in entries if isinstance(e, Replied | Drawn)}
