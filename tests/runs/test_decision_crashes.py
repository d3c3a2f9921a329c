"""Decisions about runs that are killed with SIGKILL at touches of the disk, and taken up again."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from crashing import KILLED, CrashServer, ledger_of

import interleave
from interleave.runs.folder import ImageStore
from interleave.runs.journal import Drawn, Replied, read_journal
from interleave.runs.record import image_names
from interleave.types import Plan, PlanStep

STORY = Plan(steps=tuple(PlanStep(number=n, caption=f"part {n}", prompt=f"add part {n}") for n in (1, 2, 3)))
REDRAW = ("--from-step", "2", "--prompt", "add a toad")
MOST_TOUCHES = 400


@pytest.fixture(scope="module")
def server() -> Iterator[CrashServer]:
    running = CrashServer()
    yield running
    running.close()


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("begun") / "run"
    interleave.generate("A story", out=folder, plan=STORY, generator="solid?size=64")
    return folder


def redrawn(server: CrashServer, begun: Path, at: Path, **where: Any) -> int:
    """Redraw a step of a copy; whether the command was killed. What is left of it is then carried out."""
    folder, ledger = Path(shutil.copytree(begun, at / "run")), str(at / "ledger")
    command = ["resume", str(folder), *REDRAW]
    status = server.run(ledger=ledger, arguments=command, **where)
    assert status in (0, KILLED)
    known = {entry.fingerprint for entry in read_journal(folder) if isinstance(entry, Replied | Drawn)}
    before = Counter(ledger_of(at / "ledger"))
    is_decided = bool(interleave.read_record(folder).decisions)
    assert server.run(ledger=ledger, arguments=command[:2] if is_decided else command) == 0
    again = Counter(ledger_of(at / "ledger")) - before
    assert not known & {call.split(":")[2] for call in again}, "a journalled result was paid for again"
    return int(status == KILLED)


def branched(server: CrashServer, begun: Path, at: Path, **where: Any) -> int:
    """Branch off into a new folder; a command that is repeated goes on where it was killed."""
    folder, ledger = at / "run", str(at / "ledger")
    command = ["resume", str(begun), "--branch-from", "2", "--prompt", "add a toad", "--out", str(folder)]
    status = server.run(ledger=ledger, arguments=command, **where)
    assert status in (0, KILLED)
    is_begun = (folder / "journal.jsonl").exists()
    assert server.run(ledger=ledger, arguments=["resume", str(folder)] if is_begun else command) == 0
    return int(status == KILLED)


def check_all(work: Any, server: CrashServer, begun: Path, tmp_path: Path, every: int) -> int:
    (tmp_path / "whole").mkdir()
    work(server, begun, tmp_path / "whole")
    whole = interleave.comparable(tmp_path / "whole" / "run")
    made = len(ledger_of(tmp_path / "whole" / "ledger"))
    kills = 0
    for at in range(1, MOST_TOUCHES, every):
        scratch = tmp_path / f"at-{at}"
        scratch.mkdir()
        killed = work(server, begun, scratch, kill_at=at)
        folder = scratch / "run"
        assert interleave.comparable(folder) == whole
        assert len(ledger_of(scratch / "ledger")) <= made + killed
        store = ImageStore(folder)
        assert all(store.has(name) for name in image_names(interleave.read_record(folder)))
        assert not list(folder.rglob(".*.tmp"))
        if not killed:
            break
        kills += killed
    return kills


@pytest.mark.parametrize("work", [pytest.param(redrawn, marks=pytest.mark.slow), branched])
def test_a_decision_killed_at_some_touches_of_the_disk(
    work: Any, server: CrashServer, begun: Path, tmp_path: Path
) -> None:
    assert check_all(work, server, begun, tmp_path, 89) > 0


@pytest.mark.slow
@pytest.mark.parametrize("work", [redrawn, branched])
def test_a_decision_killed_at_every_touch_of_the_disk(
    work: Any, server: CrashServer, begun: Path, tmp_path: Path
) -> None:
    assert check_all(work, server, begun, tmp_path, 1) > 40
