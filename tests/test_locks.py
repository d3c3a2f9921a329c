"""Locks: who holds one, and a platform that has none, as Windows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from interleave.locks import is_locked, lock, open_lock_file, unlock

SOURCES = Path(__file__).parent.parent / "src"

AS_ON_WINDOWS = """
import contextlib, io, json, os, signal, sys
for name in ("fcntl", "termios", "resource", "pwd", "grp"):
    sys.modules[name] = None
for name in ("O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_NOFOLLOW", "O_DIRECTORY", "fdatasync", "fork",
             "register_at_fork", "sched_getaffinity"):
    if hasattr(os, name):
        delattr(os, name)
del signal.SIGHUP
from interleave.cli.main import run
answers = []
for command in json.loads(sys.argv[1]):
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        answers.append([run(command), said.getvalue()])
print(json.dumps(answers))
"""


def answers_as_on_windows(folder: Path, *commands: str) -> list[tuple[int, str]]:
    """Exit code and standard error of each command, in a Python without what Windows lacks."""
    split = json.dumps([command.split() for command in commands])
    called = [sys.executable, "-c", AS_ON_WINDOWS, split]
    done = subprocess.run(called, cwd=folder, capture_output=True, text=True, check=True)
    return [tuple(answer) for answer in json.loads(done.stdout)]


def test_commands_that_write_runs_are_refused_in_one_sentence_without_locks(tmp_path: Path) -> None:
    (tmp_path / "requests.jsonl").write_text('{"request": "frog"}\n')
    for code, said in answers_as_on_windows(
        tmp_path,
        "generate --dry-run frog",
        "generate --dry-run --requests requests.jsonl --out many",
        "data collect requests.jsonl --profile dry-run --out collected",
        "serve documents --dry-run",
        "serve generator --generator solid",
        "serve keys add me",
        "studio --dry-run --no-open",
        "work --dry-run --jobs postgres://localhost/jobs --runs runs",
    ):
        assert code == 2, said
        assert "runs on Linux and macOS" in said
        assert "WSL" in said
        assert len(said.splitlines()) <= 2  # "loading models…" may stand before it


def test_commands_that_only_read_work_without_locks(tmp_path: Path) -> None:
    for code, said in answers_as_on_windows(
        tmp_path,
        "--help",
        "--version",
        "backends",
        "bench list",
        "prompts list",
        "plan frog --dry-run",
        "doctor --json",
    ):
        assert code == 0, said


def test_what_windows_lacks_is_imported_in_two_places_only() -> None:
    importing = {file.name for file in SOURCES.rglob("*.py") if "import fcntl" in file.read_text("utf-8")}
    assert importing == {"locks.py", "files.py"}  # the second on macOS only


def test_a_lock_is_seen_until_it_is_released(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    assert not is_locked(path)
    file = open_lock_file(path)
    lock(file)
    assert is_locked(path)
    second = open_lock_file(path)
    with pytest.raises(BlockingIOError):
        lock(second)
    unlock(file)
    assert not is_locked(path)
    lock(second)
    os.close(file)
    os.close(second)
