"""`show` where nothing can be written: a disc, somebody else's folder, a disk that is full."""

from __future__ import annotations

import errno
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import interleave
from interleave.cli.main import run
from interleave.render.markdown import render_markdown

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished run in a folder that can no longer be written to."""
    interleave.generate("A frog in two pictures", out="run", generator="solid?size=64")
    forbid_writing(monkeypatch)
    return Path("run")


def forbid_writing(monkeypatch: pytest.MonkeyPatch, number: int = errno.EROFS) -> None:
    opened = os.open

    def only_reading(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        if flags & WRITING:
            raise OSError(number, os.strerror(number))
        return opened(path, flags, *arguments, **options)

    monkeypatch.setattr(os, "open", only_reading)


def test_a_page_that_is_there_is_shown(made: Path, capsys: Captured) -> None:
    assert run(["show", "run"]) == 0
    out, err = capsys.readouterr()
    assert out == "run/document.html\n"
    assert "cannot be written" not in err


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_without_a_page_the_steps_are_shown_and_why_there_is_none(
    made: Path, number: int, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    (made / "document.html").unlink()
    forbid_writing(monkeypatch, number)
    assert run(["show", "run"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "  1  " in err and "  2  " in err
    [line] = [line for line in err.splitlines() if "cannot be written" in line]
    assert line.startswith(f"run/document.html cannot be written ({os.strerror(number)}): copy the run")


def test_a_page_that_is_older_than_its_run_is_shown_and_said_to_be(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    interleave.generate("A frog in four pictures", out="run", generator="solid?size=64", max_calls=4)
    before = Path("run/run.json").read_bytes()
    interleave.generate("A frog in four pictures", out="run", generator="solid?size=64", max_calls=6)
    Path("run/run.json").write_bytes(before)  # as if killed before the pages were written
    forbid_writing(monkeypatch)
    assert run(["show", "run"]) == 0
    out, err = capsys.readouterr()
    assert out == "run/document.html\n"
    assert "the one that is there is older than the run" in err


def test_markdown_goes_to_standard_output(made: Path, capsys: Captured) -> None:
    assert run(["show", "run", "--markdown"]) == 0
    out, err = capsys.readouterr()
    assert out == render_markdown(interleave.read_record(made))
    assert "run/document.md cannot be written (Read-only file system): here is what would be in it" in err


def test_everything_that_only_reads_works(made: Path, capsys: Captured) -> None:
    assert run(["show", "run", "--json"]) == 0
    assert run(["show", "run", "--follow"]) == 0
    assert run(["show", "run", "--open", "--json"]) == 0


@pytest.mark.slow
def test_on_a_file_system_that_is_mounted_read_only(tmp_path: Path) -> None:
    interleave.generate("A frog in two pictures", out="run", generator="solid?size=64")
    Path("run/document.html").unlink()
    mounting = "mount --bind run run && mount -o remount,ro,bind run run"
    if subprocess.run(["unshare", "-rm", "sh", "-c", mounting], capture_output=True).returncode != 0:
        pytest.skip("nothing can be mounted here")
    show = shlex.join([sys.executable, "-m", "interleave", "show", "run"])
    shown = subprocess.run(
        ["unshare", "-rm", "sh", "-c", f"{mounting} && {show} && {show} --markdown"],
        capture_output=True,
        text=True,
    )
    assert shown.returncode == 0, shown.stderr
    assert shown.stderr.count("cannot be written (Read-only file system)") == 2
    assert "](images/" in shown.stdout
