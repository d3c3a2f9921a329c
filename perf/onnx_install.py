"""From an empty environment to the first document: the miniature without torch, beside torch's path.

    python perf/onnx_install.py --results perf/results/onnx-install.json

`onnx` and `torch` make an environment in a temporary folder, install this clone with pip, and answer one
request twice. `uvx` does so in one command, with an empty cache; it needs the program uv. `demo` is
`make demo`, with three documents. All need an index, or pip's cache of it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
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
PIP: dict[str, tuple[list[str], list[str]]] = {
    "onnx": ([".", "./mini"], []),
    "torch": ([".[local]", "./mini"], TORCH),
}
"""What pip installs, and the options of the request."""
PLAIN = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


def timed(command: list[str], **options: Any) -> tuple[float, float]:
    """Run a command; return its seconds and its peak memory in MiB."""
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


def size_of(folder: Path) -> int:
    """Return the megabytes (10⁶ bytes) of all files in a folder; uv links some of them twice."""
    files = [path.lstat() for path in folder.rglob("*") if path.is_file()]
    return round(sum({file.st_ino: file.st_size for file in files}.values()) / 1e6)


def with_pip(name: str, folder: Path) -> dict[str, Any]:
    """Install one path into an empty environment and answer the request."""
    packages, options = PIP[name]
    environment = folder / name
    made, _ = timed([sys.executable, "-m", "venv", str(environment)])
    own = size_of(environment)
    python = str(environment / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "-c", "constraints.txt", *packages]
    installed, _ = timed(install, cwd=ROOT)
    megabytes = size_of(environment)
    command = [python, "-m", "interleave", "generate", REQUEST, "--profile", "mini", *options, "--out"]
    first, memory = timed([*command, str(folder / f"{name}-1")], cwd=folder, env=PLAIN)
    second, again = timed([*command, str(folder / f"{name}-2")], cwd=folder, env=PLAIN)
    return {
        "environment_seconds": round(made, 1),
        "install_seconds": round(installed, 1),
        "installed_megabytes": megabytes,
        "of_which_pip_megabytes": own,
        "first_document_seconds": round(first, 1),
        "second_document_seconds": round(second, 1),
        "empty_to_document_seconds": round(made + installed + first, 1),
        "peak_memory_mib": round(max(memory, again)),
    }


def with_uvx(name: str, folder: Path) -> dict[str, Any]:
    """Answer the request with the command of the README, which installs into a cache."""
    cache = folder / "cache"
    command = ["uvx", "--python", sys.executable, "--from", ".", "--with", "./mini", "interleave", "generate"]
    out = ["--out", str(folder / name)]
    seconds, _ = timed([*command, REQUEST, *out], cwd=ROOT, env={**PLAIN, "UV_CACHE_DIR": str(cache)})
    return {"installed_megabytes": size_of(cache), "empty_to_document_seconds": round(seconds, 1)}


def with_make(name: str, folder: Path) -> dict[str, Any]:
    """Run `make demo` with an environment elsewhere than in the clone."""
    environment = folder / name
    seconds, _ = timed(["make", "-s", f"PYTHON={sys.executable}", f"DEMO={environment}", "demo"], cwd=ROOT)
    return {"installed_megabytes": size_of(environment), "empty_to_documents_seconds": round(seconds, 1)}


PATHS = {"onnx": with_pip, "uvx": with_uvx, "demo": with_make, "torch": with_pip}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--paths", nargs="*", default=list(PATHS), choices=list(PATHS))
    parser.add_argument("--results", type=Path, metavar="FILE", help="Write the figures to this file.")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in arguments.paths:
        if name == "uvx" and not shutil.which("uvx"):
            print("uvx is not installed: left out", file=sys.stderr)
            continue
        load = round(os.getloadavg()[0], 1)
        with tempfile.TemporaryDirectory() as folder:
            rows.append({"what": name, **PATHS[name](name, Path(folder)), "load_before": load})
        print(json.dumps(rows[-1]), flush=True)
    if arguments.results:
        machine = {
            "what": "machine",
            "architecture": platform.machine(),
            "cores": os.cpu_count(),
            "date": str(date.today()),
        }
        arguments.results.write_text(json.dumps([*rows, machine], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
