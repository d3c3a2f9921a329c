"""The environment of `make test-robots`: Python 3.12 with lerobot 0.6.1 and rerun-sdk, under `.robots/`.

lerobot needs Python 3.12 and pins libraries that exclude ours, so it is not in `.venv`. Where no Python 3.12
is found, or pip cannot install it, the reason is kept and the tests are skipped with it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = Path(os.environ.get("ROBOTS", ROOT / ".robots"))
PYTHON = FOLDER / "bin" / "python"
READY, WHY = FOLDER / "ready", FOLDER / "why-not"
REQUIREMENTS = (
    "lerobot[dataset]==0.6.1",
    "rerun-sdk>=0.24,<0.34",
    *("jinja2", "numpy", "pillow", "pydantic", "rich", "typer"),  # what `interleave` itself needs
)


def python_3_12() -> str | None:
    """A Python 3.12 that runs: the one that PYTHON312 names, one on the path, or one of pyenv's."""
    pyenv = sorted(
        Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/3.12*/bin/python")
    )
    for candidate in (os.environ.get("PYTHON312"), "python3.12", *map(str, pyenv), sys.executable):
        if candidate and _is_3_12(candidate):
            return candidate
    return None


def _is_3_12(python: str) -> bool:
    code = "import sys; sys.exit(sys.version_info[:2] != (3, 12))"
    try:
        return subprocess.run([python, "-c", code], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def why_not() -> str | None:
    """Why lerobot's own reader cannot be run here, or None where it can."""
    if READY.is_file():
        return None
    return WHY.read_text("utf-8").strip() if WHY.is_file() else "`make test-robots` makes its environment"


def make() -> str | None:
    """Make the environment; why it could not be made, or None. One that is there is left alone."""
    wanted = "\n".join(REQUIREMENTS)
    if READY.is_file() and READY.read_text("utf-8") == wanted:
        return None
    READY.unlink(missing_ok=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    python = python_3_12()
    if python is None:
        return _because("there is no Python 3.12 here: name one with PYTHON312=/path/to/python3.12")
    pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in (
        [python, "-m", "venv", "--clear", str(FOLDER)],
        [*pip, *REQUIREMENTS],
        [*pip, "--no-deps", "--editable", str(ROOT)],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            FOLDER.mkdir(parents=True, exist_ok=True)
            return _because((done.stderr.strip() or "pip ended without a word").splitlines()[-1][:400])
    WHY.unlink(missing_ok=True)
    READY.write_text(wanted, "utf-8")
    return None


def _because(reason: str) -> str:
    WHY.write_text(reason, "utf-8")
    return reason


if __name__ == "__main__":
    print(f"lerobot: {', '.join(REQUIREMENTS)}", flush=True)
    if said := make():
        print(f"lerobot cannot be tested here: {said}", flush=True)
