"""Runs that are killed with SIGKILL, at every touch of the disk and at random moments, and taken up again."""

from __future__ import annotations

import random
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

MOST_TOUCHES = 400
MOST_CALLS = 20_000
"""About as many functions as are called in a run."""


@pytest.fixture(scope="module")
def server() -> Iterator[CrashServer]:
    running = CrashServer()
    yield running
    running.close()


@pytest.fixture(scope="module")
def whole(server: CrashServer, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], list[str]]:
    """What an undisturbed run comes to, and the calls it makes."""
    folder = tmp_path_factory.mktemp("whole")
    assert server.run(folder=str(folder / "run"), ledger=str(folder / "ledger")) == 0
    return interleave.comparable(folder / "run"), ledger_of(folder / "ledger")


def results_in(folder: Path) -> set[str]:
    """The calls whose results a journal has."""
    if not (folder / "journal.jsonl").exists():
        return set()
    return {f"{e.role}:{e.call}" for e in read_journal(folder) if isinstance(e, Replied | Drawn)}


def check(folder: Path, ledger: Path, kills: int, whole: tuple[dict[str, Any], list[str]]) -> None:
    record, calls = whole
    assert interleave.comparable(folder) == record
    made = Counter(ledger_of(ledger))
    assert set(made) == set(calls)
    assert sum(made.values()) - len(calls) <= kills  # one open slot, so at most one repeat a kill
    store = ImageStore(folder)
    assert all(store.has(name) for name in image_names(interleave.read_record(folder)))
    assert not list(folder.rglob(".*.tmp"))
    # a kill may come between announcing a call and making it: then the journal counts one more
    assert sum(made.values()) - len(calls) <= interleave.read_record(folder).calls.repeated <= kills


def kill_and_resume(
    server: CrashServer, tmp_path: Path, whole: tuple[dict[str, Any], list[str]], **where: Any
) -> bool:
    """Kill a run once, resume it, check it; whether the kill came before the end."""
    folder, ledger = tmp_path / "run", tmp_path / "ledger"
    order = {"folder": str(folder), "ledger": str(ledger)}
    status = server.run(**order, **where)
    assert status in (0, KILLED)
    journalled, before = results_in(folder), Counter(ledger_of(ledger))
    assert server.run(**order) == 0
    again = Counter(ledger_of(ledger)) - before
    assert not journalled & set(again), "a call whose result was in the journal was made again"
    check(folder, ledger, int(status == KILLED), whole)
    return status == KILLED


def touches(step: int) -> Iterator[int]:
    yield from range(1, MOST_TOUCHES, step)


def kill_at_every(step: int, server: CrashServer, tmp_path: Path, whole: Any) -> int:
    kills = 0
    for at in touches(step):
        scratch = tmp_path / f"at-{at}"
        scratch.mkdir()
        if not kill_and_resume(server, scratch, whole, kill_at=at):
            break  # the run ended before its n-th touch: every point has had its turn
        kills += 1
    return kills


def test_A01_killed_at_some_touches_of_the_disk(server: CrashServer, tmp_path: Path, whole: Any) -> None:
    assert kill_at_every(29, server, tmp_path, whole) > 3


@pytest.mark.slow
def test_A01_killed_at_every_touch_of_the_disk(server: CrashServer, tmp_path: Path, whole: Any) -> None:
    assert kill_at_every(1, server, tmp_path, whole) > 100


def kill_at_random(count: int, server: CrashServer, tmp_path: Path, whole: Any) -> int:
    moments = random.Random(2606)
    kills = 0
    for number in range(count):
        scratch = tmp_path / f"moment-{number}"
        scratch.mkdir()
        kills += kill_and_resume(server, scratch, whole, kill_at_call=moments.randint(1, MOST_CALLS))
    return kills


def test_A02_killed_at_four_random_moments(server: CrashServer, tmp_path: Path, whole: Any) -> None:
    assert kill_at_random(4, server, tmp_path, whole) >= 2


@pytest.mark.slow
def test_A02_killed_at_300_random_moments(server: CrashServer, tmp_path: Path, whole: Any) -> None:
    assert kill_at_random(300, server, tmp_path, whole) >= 150


def test_A02_killed_again_and_again_a_run_still_ends_right(
    server: CrashServer, tmp_path: Path, whole: Any
) -> None:
    order = {"folder": str(tmp_path / "run"), "ledger": str(tmp_path / "ledger")}
    kills = 0
    while server.run(**order, kill_at=80) == KILLED:
        kills += 1
        assert kills < 100, "no progress from one kill to the next"
    check(tmp_path / "run", tmp_path / "ledger", kills, whole)


def test_B07_the_last_line_cut_at_every_byte(server: CrashServer, tmp_path: Path, whole: Any) -> None:
    order = {"folder": str(tmp_path / "run"), "ledger": str(tmp_path / "ledger")}
    server.run(**order, kill_at=60)
    journal = tmp_path / "run" / "journal.jsonl"
    data = journal.read_bytes()
    last = data.rstrip(b"\n").rfind(b"\n") + 1
    entries = len(read_journal(tmp_path / "run"))
    for cut in range(last + 1, len(data)):
        journal.write_bytes(data[:cut])
        assert len(read_journal(tmp_path / "run")) == entries - 1  # readers leave a torn line alone
    journal.write_bytes(data[: last + 10])
    assert server.run(**order) == 0
    assert interleave.comparable(tmp_path / "run") == whole[0]


def test_A14_resuming_a_finished_run_makes_no_call(server: CrashServer, tmp_path: Path, whole: Any) -> None:
    order = {"folder": str(tmp_path / "run"), "ledger": str(tmp_path / "ledger")}
    assert server.run(**order) == 0
    assert server.run(**order) == 0
    assert ledger_of(tmp_path / "ledger") == whole[1]


def test_A20_a_folder_copied_elsewhere_goes_on_there(server: CrashServer, tmp_path: Path, whole: Any) -> None:
    import shutil

    server.run(folder=str(tmp_path / "run"), ledger=str(tmp_path / "ledger"), kill_at=80)
    shutil.copytree(tmp_path / "run", tmp_path / "elsewhere" / "copy")
    assert server.run(folder=str(tmp_path / "elsewhere" / "copy"), ledger=str(tmp_path / "ledger")) == 0
    assert interleave.comparable(tmp_path / "elsewhere" / "copy") == whole[0]
