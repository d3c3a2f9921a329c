"""What the README says is executed, so that it cannot rot."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
MINIATURE = (ROOT / "docs" / "explanation" / "miniature.md").read_text("utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
CONFIGURATION = (ROOT / "docs" / "reference" / "configuration.md").read_text("utf-8")
COMMANDS = [
    line
    for block in re.findall(r"```bash\n(.*?)```", README, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("interleave ")
]


def test_it_is_short_enough_to_be_read() -> None:
    assert len(README.split()) <= 500


def test_the_miniatures_page_names_every_thing_and_colour_that_it_draws() -> None:
    from interleave_mini.language.words import plural
    from interleave_mini.world.kinds import COLOURS, KINDS

    names = [kind.replace("_", " ") for kind in KINDS]
    assert [each for each in names if not re.search(rf"\b({each}|{plural(each)})\b", MINIATURE)] == []
    assert [each for each in COLOURS if not re.search(rf"\b{each}\b", MINIATURE)] == []


def test_its_python_runs(capsys: pytest.CaptureFixture[str]) -> None:
    for block in PYTHON:
        exec(compile(block, "README.md", "exec"), {})
    assert "document.html" in capsys.readouterr().out


def test_the_python_and_the_profile_of_the_configuration_page_work() -> None:
    from interleave.cli.main import run

    for block in re.findall(r"```python\n(.*?)```", CONFIGURATION, re.DOTALL):
        exec(compile(block, "configuration.md", "exec"), {})
    assert Path("runs/pond/document.html").exists()
    (profile,) = re.findall(r"```toml\n(.*?)```", CONFIGURATION, re.DOTALL)
    Path("mine.toml").write_text(profile, "utf-8")
    assert run(["generate", "A frog in 1 picture", "--profile", "./mine.toml", "--out", "run"]) == 0


def test_the_first_example_is_eight_lines() -> None:
    assert len([line for line in PYTHON[0].splitlines() if line.strip()]) <= 8


def test_its_commands_run(monkeypatch: pytest.MonkeyPatch) -> None:
    from interleave.cli.main import run

    monkeypatch.setattr("webbrowser.open", lambda url: True)
    assert len(COMMANDS) >= 2
    for command in COMMANDS:
        words, _, target = command.partition(" > ")
        if target:
            script = [sys.executable, "-m", *shlex.split(words)]
            Path(target).write_bytes(subprocess.run(script, check=True, capture_output=True).stdout)
        else:
            assert run(shlex.split(words)[1:]) == 0


def test_its_make_targets_and_links_exist() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for target in re.findall(r"^make ([a-z-]+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for link in re.findall(r"\]\((?!https:)([^)#]+)\)", README):
        assert (ROOT / link).exists(), link


def test_the_project_names_no_registry_no_machine_and_no_secret() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    forbidden = re.compile(r"/root/|/home/\w+/|/opt/pypi|sk-[A-Za-z0-9]{20,}|AIza[0-9A-Za-z_-]{30,}")
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml", ".txt", ".json", ".j2", ""} and path.is_file():
            found = forbidden.search(path.read_text("utf-8", "replace"))
            assert not found or path == Path(__file__), f"{name}: {found and found.group()}"
