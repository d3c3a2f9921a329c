"""What enters an image, a commit or a source archive: all that a wheel is made of, and no secrets.

There is no Docker engine here, so the rules of `.dockerignore` are evaluated as its manual defines them: one
pattern a line, matched against a path and its parent folders, and the last line that matches decides.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from itertools import chain
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parent.parent
SECRETS = [
    ".env",
    "deploy/.env",
    "deploy/.env.production",
    "deploy/tls.key",
    "server.pem",
    "src/interleave/.env",
    "src/interleave/service/generator/server.pem",
]
NOT_SOURCES = [
    ".git/config",
    ".venv/bin/python",
    "runs/documents/keys.json",
    "tests/conftest.py",
    "docs/index.md",
    "studio/node_modules/x/index.js",
    "src/interleave/__pycache__/api.cpython-312.pyc",
    "src/interleavethinker.egg-info/PKG-INFO",
]


def pattern_of(line: str) -> re.Pattern[str]:
    """A pattern of `.dockerignore`: `*` and `?` stay within a name, `**` is any number of folders."""
    parts = re.split(r"(\*\*/?|\*|\?)", line.strip("/"))
    regex = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(regex.get(part, re.escape(part)) for part in parts))


RULES = [
    (not line.startswith("!"), pattern_of(line.removeprefix("!")))
    for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]


def enters(path: str) -> bool:
    """Whether a file is part of the build context."""
    names = [path, *map(str, Path(path).parents)]
    ignored = False
    for ignores, pattern in RULES:
        if any(pattern.fullmatch(name) for name in names):
            ignored = ignores
    return not ignored


def sources() -> list[str]:
    """The files that wheels are built from, as hatchling finds them."""
    from hatchling.builders.wheel import WheelBuilder

    return [
        os.path.relpath(each.path, ROOT)
        for root in (ROOT, ROOT / "mini")
        for each in WheelBuilder(str(root)).recurse_included_files()
    ]


@pytest.mark.parametrize("path", [*SECRETS, *NOT_SOURCES])
def test_what_an_image_is_not_made_of_stays_outside_its_build(path: str) -> None:
    assert not enters(path)


def test_all_that_a_wheel_is_made_of_enters() -> None:
    needed = ["pyproject.toml", "hatch_build.py", "README.md", "LICENSE", *sources()]
    needed += ["mini/pyproject.toml", "mini/README.md"]
    assert [path for path in needed if not enters(path)] == []


@pytest.mark.parametrize("dockerfile", ["deploy/Dockerfile", "deploy/space/Dockerfile"])
def test_a_dockerfile_copies_by_name_what_enters(dockerfile: str) -> None:
    text = (ROOT / dockerfile).read_text("utf-8")
    copied = [
        name
        for words in re.findall(r"^(?:COPY|ADD) +(.+)$", text, re.MULTILINE)
        for name in words.split()[:-1]
        if not name.startswith("--")
    ]
    assert {"pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "src", "mini"} <= set(copied)
    assert all(enters(name) and name != "." for name in copied)


@pytest.mark.parametrize("path", SECRETS)
def test_secrets_are_never_committed(path: str) -> None:
    ignored = ["git", "check-ignore", "--quiet", "--no-index", path]
    assert subprocess.run(ignored, cwd=ROOT, check=False).returncode == 0


def test_a_source_archive_holds_sources_only() -> None:
    from hatchling.builders.sdist import SdistBuilder

    found = SdistBuilder(str(ROOT)).recurse_included_files()
    tops = {os.path.relpath(each.path, ROOT).partition(os.sep)[0] for each in found}
    assert tops <= {"src", "hatch_build.py", "pyproject.toml", "README.md", "LICENSE", ".gitignore"}


@pytest.mark.slow
def test_a_wheel_is_built_of_the_context_alone(tmp_path: Path) -> None:
    context = tmp_path / "context"
    everything = (ROOT / "src").rglob("*"), (ROOT / "mini").rglob("*"), ROOT.glob("*")
    for file in filter(Path.is_file, chain(*everything)):
        path = str(file.relative_to(ROOT))
        if not enters(path):
            continue
        (context / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, context / path)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", str(tmp_path), ".", "./mini"], cwd=context, check=True)
    names = [name for wheel in tmp_path.glob("*.whl") for name in ZipFile(wheel).namelist()]
    assert {path.removeprefix("mini/").removeprefix("src/") for path in sources()} <= set(names)
