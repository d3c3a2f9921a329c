"""A trainer in an environment of its own, and the rows and the model that it is given."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

DRIVERS = Path(__file__).parent / "drivers"
MARK = "the driver found: "
WITHIN_SECONDS = 900


@dataclass(frozen=True)
class Trainer:
    """An environment with a trainer in it."""

    name: str
    python: Path

    def drive(self, driver: str, *arguments: object, **variables: object) -> dict[str, Any]:
        """Run a driver; returns what it found."""
        command = [str(self.python), str(DRIVERS / driver), *map(str, arguments)]
        return self.find(command, variables)

    def start(self, script: Path, program: str, driver: str, **variables: object) -> dict[str, Any]:
        """Run a script whose `program` is a driver instead of the trainer; returns what it found."""
        folder = Path(str(variables["TMPDIR"])) / "bin"
        folder.mkdir(exist_ok=True)
        driving = f'exec "{self.python}" "{DRIVERS / driver}"'
        if program == "python":  # the script also asks it where our reward function is
            lines = f'if [ "$1" = -m ]; then shift 2; {driving} "$@"; fi\nexec "{self.python}" "$@"\n'
        else:
            lines = f'{driving} "$@"\n'
            self._write(folder / "python", f'exec "{self.python}" "$@"\n')
        self._write(folder / program, lines)
        path = f"{folder}{os.pathsep}{os.environ['PATH']}"
        return self.find([str(shutil.which("bash")), str(script)], {**variables, "PATH": path})

    @staticmethod
    def find(command: list[str], variables: Mapping[str, object]) -> dict[str, Any]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        settled = {"HF_HUB_OFFLINE": "1", "PYTHONPATH": str(DRIVERS), "TOKENIZERS_PARALLELISM": "false"}
        given = {name: str(value) for name, value in variables.items()}
        cwd = Path(given["IN"]) if "IN" in given else None
        done = subprocess.run(
            command,
            env={**kept, **settled, **given},
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=WITHIN_SECONDS,
            check=False,
        )
        found = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
        if done.returncode or not found:
            pytest.fail(f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
        return dict(json.loads(found[-1].removeprefix(MARK)))

    @staticmethod
    def _write(path: Path, lines: str) -> None:
        path.write_text(f"#!/usr/bin/env bash\n{lines}", "utf-8")
        path.chmod(0o755)


@dataclass(frozen=True)
class Material:
    """A tiny model that was trained by our own command, and an export in every format."""

    export: Path
    model: Path

    def rows(self, place: str) -> int:
        path = self.export / place
        if path.suffix == ".jsonl":
            return len(path.read_text("utf-8").splitlines())
        return len(json.loads(path.read_text("utf-8")))
