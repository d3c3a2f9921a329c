"""`make cluster` and `make cluster-down`: everything on one machine, as real processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
from local_cluster import is_ours
from local_postgres import free_port

SCRIPT = Path(__file__).parent.parent.parent / "deploy" / "local_cluster.py"


def test_it_comes_up_answers_and_goes_down(postgres: Any, tmp_path: Path) -> None:
    folder = tmp_path / "cluster"

    def run(*arguments: str) -> str:
        command = [sys.executable, str(SCRIPT), *arguments, "--folder", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    port = free_port()
    try:
        said = run("up", "--port", str(port))
        assert f"documents at http://127.0.0.1:{port}" in said
        body = {"input": "A frog in two pictures"}
        answer = httpx.post(f"http://127.0.0.1:{port}/v1/responses", json=body, timeout=120).json()
        assert answer["status"] == "completed"
        assert "GONE" not in run("status")
        processes = json.loads((folder / "state.json").read_text())["processes"]
        assert {"generator-3", "documents", "worker-2"} <= set(processes)
    finally:
        run("down")
    assert not any(map(is_ours, processes.values()))
    assert run("down") == "no cluster is running\n"
