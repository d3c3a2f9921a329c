"""Wheels of this checkout, and environments that hold one."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent

ANSWERS = (
    ("--version",),
    ("--help",),
    ("generate", "--help"),
    ("bench", "--help"),
    ("bench", "list"),
    ("serve", "--help"),
    ("train", "--help"),
    ("train", "recipes"),
    ("backends",),
    ("prompts", "list"),
    ("plan", "How a frog grows up", "--profile", "dry-run"),
    ("generate", "How a frog grows up", "--dry-run", "--out", "run"),
    ("show", "run"),
    ("export", "run", "--to", "html"),
    ("doctor",),
)
"""Commands that every installation answers, in one folder, one after the other."""
REFUSALS = {
    (
        "generate",
        "a frog",
        "--generator",
        "openai-images:gpt-image-1",
        "--planner",
        "none",
        "--critic",
        "none",
    ): "api",
    ("export", "run", "--to", "pdf"): "books",
    ("studio", "--no-open"): "studio",
    ("serve", "documents"): "serve",
    ("serve", "generator", "--generator", "solid"): "serve",
    ("train", "sft", "planner", "--data", "rows", "--model", "m"): "train",
}
"""Commands that need an extra, and which."""


@dataclass(frozen=True)
class Installed:
    """An environment with a wheel of this checkout in it."""

    wheel: Path
    python: Path
    path: str = ""
    """Folders before the environment's own."""

    def run(self, *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run a command as a user with nothing set would."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "PYTHONPATH": self.path,
            "COLUMNS": "80",
        }
        return subprocess.run(
            [self.python, "-m", "interleave", *words],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )


def build_wheel(folder: Path, project: Path = ROOT) -> Path:
    """The wheel that `pip wheel` makes of a project of this checkout, without the network."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", folder, project], check=True, capture_output=True)
    (wheel,) = folder.glob("interleavethinker*.whl")
    return wheel


def unpacked(wheel: Path, site: Path, python: Path) -> Installed:
    """The wheel installed in a folder that this interpreter looks into first."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile"]
    subprocess.run([*command, "--target", site, wheel], check=True, capture_output=True)
    return Installed(wheel, python, str(site))
