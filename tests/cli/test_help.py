"""Help at 80 columns, completion, and the options that every command has."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup

from interleave.cli.main import root_command, run

Captured = pytest.CaptureFixture[str]
SMALL = ["generate", "A frog in 2 pictures", "--dry-run", "--generator", "solid?size=64"]


def paths_below(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, TyperGroup):
        for name in command.commands:
            yield from paths_below(command.commands[name], (*path, name))


@pytest.mark.parametrize("path", paths_below(root_command()), ids=lambda path: " ".join(path) or "interleave")
def test_help_fits_in_eighty_columns_and_is_not_cut(
    path: tuple[str, ...], capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    words = ["edit", "RUN", *path[1:]] if path[:1] == ("edit",) and path[1:] else list(path)
    assert run([*words, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 80] == []
    assert [line for line in lines if "..." in line and not line.startswith(("Usage:", " " * 8))] == []
    assert "-q, --quiet" in "\n".join(lines)


def test_commands_and_options_are_listed_in_sections(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    run(["--help"])
    listed = capsys.readouterr().out.splitlines()
    headings = [line for line in listed if line.endswith(":") and not line.startswith(" ")]
    assert headings[:2] == ["Make documents:", "Measure and train:"]
    assert headings[-3:] == ["Other commands:", "Options:", "Common options:"]
    run(["generate", "--help"])
    listed = capsys.readouterr().out.splitlines()
    start = listed.index("Options:")
    first = [
        line.split()[0] for line in listed[start + 1 : listed.index("", start)] if line.startswith("  --")
    ]
    assert first == ["--image", "--profile", "--max-attempts", "--out", "--open"]
    assert [line for line in listed[start:] if line.endswith(":") and not line.startswith(" ")] == [
        "Options:",
        "Models:",
        "Rules:",
        "Input:",
        "Limits:",
        "Many requests:",
        "Output:",
        "Common options:",
    ]


COMPLETE = r"""
PATH="{path}:$PATH"
eval "$(interleave --show-completion)"
COMP_WORDS=({words}); COMP_CWORD={place}
_interleave_completion interleave
printf '%s\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("interleave gen", ["generate"]),
        ("interleave bench run ue", ["ueval"]),
        ("interleave generate --pro", ["--profile", "--prompts"]),
        ("interleave generate --profile dry", ["dry-run"]),
        ("interleave plan --planner scr", ["scripted"]),
        ("interleave serve wor", ["worker"]),
    ],
)
def test_bash_completes(words: str, expected: list[str]) -> None:
    script = COMPLETE.format(path=Path(sys.executable).parent, words=words, place=len(words.split()) - 1)
    ended = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert ended.stdout.split() == expected, ended.stderr


def test_completing_commands_imports_none_of_them() -> None:
    code = "import sys, atexit; from interleave.cli.main import main\n"
    code += "atexit.register(lambda: print(*sys.modules, file=sys.stderr)); main([])"
    words = {"COMP_WORDS": "interleave ", "COMP_CWORD": "1", "_INTERLEAVE_COMPLETE": "complete_bash"}
    ended = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | words, capture_output=True, text=True
    )
    assert {"generate", "edit", "bench", "models", "mini"} <= set(ended.stdout.split())
    assert not {"torch", "interleave.cli.generate", "interleave.bench"} & set(ended.stderr.split())


@pytest.mark.parametrize("place", [0, 2, len(SMALL)])
def test_quiet_shows_the_result_alone(place: int, capfd: pytest.CaptureFixture[str]) -> None:
    assert run([*SMALL[:place], "-q", *SMALL[place:], "--out", "run"]) == 0
    assert capfd.readouterr() == ("run/document.html\n", "")


def test_quiet_shows_errors(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["show", "nowhere", "--quiet"]) == 2
    assert "is not a run folder" in capfd.readouterr().err
    assert (
        run(["generate", "-q", "A frog in 1 picture", "--max-calls", "1", "--out", "run", "--dry-run"]) == 1
    )
    assert "interleave: " in capfd.readouterr().err
    assert run(["show", "run"]) == 0  # the next command is not quiet
    assert "(short)" in capfd.readouterr().err


def test_verbose_logs_at_level_info_until_the_command_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    levels = []
    monkeypatch.setattr("interleave.cli.run_command._report", lambda *given: levels.append(level()) or 0)
    before = level()
    for words in (["-v", *SMALL], [*SMALL, "--verbose"], SMALL):
        assert run([*words, "--out", "run"]) == 0
    assert levels == [logging.INFO, logging.INFO, before]
    assert level() == before


def level() -> int:
    return logging.getLogger().level
