"""A terminal that is closed, a connection that breaks: SIGHUP ends a run in order, unless it is ignored."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interleave.backends.fakes import SolidGenerator
from interleave.cli.main import run
from interleave.runs.journal import Ended, read_journal

SLOW = "solid?delay=0.15&size=64"
SINGLE = ["generate", "A frog, in 3 pictures", "--out", "run", "--generator", SLOW]
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def hung_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Somebody closes the terminal while the second image is drawn; gives what nobody has caught."""
    generate, missed = SolidGenerator.generate, list[int]()

    async def draw(self: Any, request: Any) -> Any:
        if request.slot.step == 2:
            os.kill(os.getpid(), signal.SIGHUP)
        return await generate(self, request)

    monkeypatch.setattr(SolidGenerator, "generate", draw)
    before = signal.signal(signal.SIGHUP, lambda number, _: missed.append(number))
    yield missed
    signal.signal(signal.SIGHUP, before)


def ended(folder: Path) -> str:
    last = read_journal(folder)[-1]
    assert isinstance(last, Ended)
    return last.status


def test_A05_a_run_that_is_hung_up_on_ends_in_order(hung_up: list[int], capsys: Captured) -> None:
    assert run(SINGLE) == 130
    assert not hung_up
    assert ended(Path("run")) == "interrupted"
    assert "interleave resume run" in capsys.readouterr().err


def test_A05_a_batch_that_is_hung_up_on_ends_in_order(hung_up: list[int], capsys: Captured) -> None:
    requests = [{"id": str(number), "request": f"Frog {number}, in 3 pictures"} for number in range(3)]
    Path("r.jsonl").write_text("".join(json.dumps(request) + "\n" for request in requests))
    assert run(["generate", "--requests", "r.jsonl", "--out", "many", "--generator", SLOW]) == 130
    assert not hung_up
    assert "same command again" in capsys.readouterr().err
    runs = [journal.parent for journal in Path("many").rglob("journal.jsonl")]
    assert [ended(each) for each in runs] == ["interrupted"] * 3


@pytest.mark.usefixtures("hung_up")
def test_under_nohup_a_run_goes_on() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    assert run(SINGLE) == 0
    assert ended(Path("run")) == "done"


def wait_for(journal: Path, event: str) -> None:
    ends = time.monotonic() + 60
    while not journal.exists() or f'"event":"{event}"' not in journal.read_text("utf-8"):
        assert time.monotonic() < ends, f"{event!r} never came"
        time.sleep(0.02)


@pytest.mark.slow
def test_a_run_whose_terminal_is_closed_ends_in_order() -> None:
    """What it says then goes to a terminal that is no longer there, which must not get in its way."""
    primary, secondary = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color"}
    process = subprocess.Popen(
        [sys.executable, "-c", AS_A_SHELL, sys.executable, "-m", "interleave", *SINGLE],
        stdin=secondary,
        stdout=secondary,
        stderr=secondary,
        start_new_session=True,
        env=environment,
    )
    os.close(secondary)
    wait_for(Path("run/journal.jsonl"), "drawn")
    os.close(primary)
    assert process.wait(timeout=60) == 130
    assert ended(Path("run")) == "interrupted"


AS_A_SHELL = """
import fcntl, os, signal, sys, termios
signal.signal(signal.SIGHUP, signal.SIG_DFL)
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # the terminal is that of this session, as in a window
os.execv(sys.argv[1], sys.argv[1:])
"""
