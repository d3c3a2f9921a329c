"""From an empty environment to the first document: the miniature without torch, beside torch's path.

    python perf/onnx_install.py --results perf/results/onnx-install.json

Makes two environments in a temporary folder, installs this clone into each, and answers one request twice:
the first run also compiles byte code and reads files from disk. Needs pip and an index (or its cache).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
REQUEST = "How a frog grows up, step by step, in four pictures"
TORCH = [f"--{role}=mini?runtime=torch" for role in ("planner", "critic", "generator")]
PATHS: dict[str, tuple[list[str], list[str]]] = {
    "onnx": ([".", "./mini"], []),
    "torch": ([".[local]", "./mini"], TORCH),
}
"""What is installed, and the options of the request."""


def timed(command: list[str], **options: Any) -> tuple[float, float]:
    """Run a command; returns its seconds and the most memory, in MB, that its process held."""
    started = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options
    ) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"failed with {process.returncode}: {' '.join(command)}")
    scale = 1024**2 if sys.platform == "darwin" else 1024
    return time.perf_counter() - started, usage.ru_maxrss / scale


def size_of(folder: Path) -> float:
    """Return the megabytes (10⁶ bytes) of all files in a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def measure(name: str, folder: Path) -> dict[str, Any]:
    """Install one path into an empty environment and answer the request."""
    packages, options = PATHS[name]
    environment = folder / name
    made, _ = timed([sys.executable, "-m", "venv", str(environment)])
    python = str(environment / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "-c", "constraints.txt", *packages]
    installed, _ = timed(install, cwd=ROOT)
    megabytes = size_of(environment)
    command = [python, "-m", "interleave", "generate", REQUEST, "--profile", "mini", *options, "--out"]
    plain = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    first, memory = timed([*command, str(folder / f"{name}-1")], cwd=folder, env=plain)
    second, again = timed([*command, str(folder / f"{name}-2")], cwd=folder, env=plain)
    return {
        "what": name,
        "environment_seconds": round(made, 1),
        "install_seconds": round(installed, 1),
        "installed_megabytes": round(megabytes),
        "first_document_seconds": round(first, 1),
        "second_document_seconds": round(second, 1),
        "empty_to_document_seconds": round(made + installed + first, 1),
        "peak_memory_mib": round(max(memory, again)),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--results", type=Path, metavar="FILE", help="Write the figures to this file.")
    results = parser.parse_args().results
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(name, Path(folder)) for name in PATHS]
    for row in rows:
        print(json.dumps(row))
    if results:
        machine = {
            "what": "machine",
            "architecture": platform.machine(),
            "cores": os.cpu_count(),
            "load": [round(each, 1) for each in os.getloadavg()],
            "date": str(date.today()),
        }
        results.write_text(json.dumps([*rows, machine], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
