"""Commands are imported when they are called, and a package that is broken stops only its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup

import interleave
from interleave.cli.main import COMMANDS, root_command, run


def commands_below(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(command, TyperGroup):
        for name in command.commands:
            yield from commands_below(command.commands[name], f"{path}{name} ")
    else:
        yield path.strip(), command


def test_every_command_can_be_loaded_and_takes_debug() -> None:
    found = dict(commands_below(root_command()))
    assert {"generate", "doctor", "bench list", "bench run", "bench mini", "data import", "serve keys add",
            "mini train all"} <= found.keys()  # fmt: skip
    assert [
        path for path, command in found.items() if "debug" not in {each.name for each in command.params}
    ] == []


IMPORTED = """
import json, sys
from interleave.cli.main import run
code = run(sys.argv[1:])
ours = [name for name in sys.modules if name.startswith("interleave")]
others = [name for name in ("torch", "numpy", "pydantic", "rich", "PIL") if name in sys.modules]
print(json.dumps([code, ours, others]), file=sys.stderr)
"""


def imported_by(*words: str) -> tuple[set[str], set[str]]:
    """What a command imports of this project, and of the libraries that take long."""
    ended = subprocess.run([sys.executable, "-c", IMPORTED, *words], capture_output=True, text=True)
    code, ours, others = json.loads(ended.stderr.splitlines()[-1])
    assert code == 0, ended.stderr
    return set(ours), set(others)


def test_the_version_imports_no_command_no_plugin_and_no_large_library() -> None:
    ours, others = imported_by("--version")
    assert not {name for name in ours if name.startswith("interleave_mini")}
    assert not ours & {row.load.args[0].partition(":")[0] for row in COMMANDS.values()}  # type: ignore[attr-defined]
    assert not others


def test_help_imports_no_command_of_ours_and_no_large_library() -> None:
    ours, others = imported_by("--help")
    assert not ours & {row.load.args[0].partition(":")[0] for row in COMMANDS.values()}  # type: ignore[attr-defined]
    assert not others


def test_a_dry_run_imports_no_command_but_its_own(tmp_path: Path) -> None:
    ours, others = imported_by(
        "generate", "A frog in 2 pictures", "--dry-run", "--out", str(tmp_path / "run")
    )
    assert {row.load.args[0].partition(":")[0] for row in COMMANDS.values()} & ours == {  # type: ignore[attr-defined]
        "interleave.cli.generate"
    }
    rooms = {file.parent.name for file in Path(interleave.__file__).parent.glob("*/README.md")}
    assert len(rooms) == 11
    assert not {name for name in ours if name.split(".")[1:2] and name.split(".")[1] in rooms}
    assert len(ours) <= 78
    assert "torch" not in others


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package whose entries name a module that it forgot."""
    folder = tmp_path / "site" / "half_done-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: half-done\nVersion: 1.0\n")
    groups = ("commands", "benchmarks", "generators", "vlms", "agents", "profiles", "prompt_packs", "recipes")
    points = "\n".join(f"[interleave.{group}]\nhalf = half_done.missing:thing" for group in groups)
    (folder / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(folder.parent)


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize(
    ("words", "warnings"),
    [
        (["--version"], 0),
        (["--help"], 1),
        (["bench", "--help"], 1),
        (["bench", "list"], 1),
        (["models", "list"], 3),  # a generator, a vision-language model and an agent
        (["models", "prompts", "list"], 0),
        (["train", "recipes"], 0),
        (["generate", "A frog in 2 pictures", "--dry-run", "--out", "run"], 0),
    ],
)
def test_a_package_that_cannot_be_loaded_is_a_warning(
    words: list[str], warnings: int, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert run(words) == 0
    said = [*capfd.readouterr().err.splitlines(), *caplog.messages]
    lines = [line for line in said if "half_done" in line]
    assert len(lines) == warnings
    assert all("of the package half-done cannot be loaded" in line and "(left out)" in line for line in lines)


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize(
    "words", [["half"], ["bench", "half"], ["models", "check", "half", "--role", "generator"]], ids=" ".join
)
def test_a_broken_command_says_what_is_wrong_when_it_is_called(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 2
    said = capsys.readouterr().err
    assert "cannot be loaded from 'half_done.missing:thing'" in said and len(said.splitlines()) == 1
