"""The packages that how-tos print: their files are taken from the page, built and put on the path."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
_FILE = re.compile(
    r"^`(?P<path>[\w./-]+\.\w+)`[^\n]*:\n\n(?:<!--[^>]*-->\n\n)?```\w+\n(?P<text>.*?)^```",
    re.DOTALL | re.MULTILINE,
)
_COMMANDS = re.compile(r"^```bash\n(.*?)^```", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class ExamplePackage:
    """The files and commands of a page."""

    files: dict[str, str]
    commands: list[list[str]]
    """Without the program's name."""

    def build(self, folder: Path) -> Path:
        """Build a wheel as `pip install .` does, and unpack it; returns what to put on the path."""
        for name, text in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
        subprocess.run(build, cwd=folder, check=True, capture_output=True, timeout=120)
        (wheel,) = (folder / "dist").glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder / "site")
        return folder / "site"


def example_package(page: str) -> ExamplePackage:
    """What a page of `docs/` prints: every block whose paragraph begins with a path is a file."""
    text = (DOCS / page).read_text("utf-8")
    lines = "\n".join(_COMMANDS.findall(text)).splitlines()
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("interleave ")]
    return ExamplePackage({found["path"]: found["text"] for found in _FILE.finditer(text)}, commands)


def put_on_path(site: Path, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a built package importable until the test ends."""
    for name in [name for name in sys.modules if name.split(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(site)
