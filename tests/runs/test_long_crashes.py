"""Long documents killed with SIGKILL after every line of their journals, and taken up again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from crash_stories import REMEDIES
from crashing import KILLED, CrashServer, ledger_of

import interleave
from interleave.runs.folder import ImageStore
from interleave.runs.journal import ChapterPlanned, Drawn, Judged, RedrawDecided, Replied, read_journal
from interleave.runs.record import image_names

MOST_LINES = 300
AT_ONCE = 2
"""The lines of images in the plan: so many calls may be under way at a kill."""


@pytest.fixture(scope="module")
def server() -> Iterator[CrashServer]:
    running = CrashServer()
    yield running
    running.close()


def told(server: CrashServer, at: Path, kind: str, **where: Any) -> int:
    return server.run(folder=str(at / "run"), ledger=str(at / "ledger"), story=kind, **where)


def results_in(folder: Path) -> set[str]:
    """The calls whose results a journal has."""
    if not (folder / "journal.jsonl").exists():
        return set()
    entries = read_journal(folder)
    asked = {f"planner:{each.call}" for each in entries if isinstance(each, Replied)}
    drawn = {f"generator:{each.step}:{each.attempt}" for each in entries if isinstance(each, Drawn)}
    return (
        asked | drawn | {f"critic:{each.step}:{each.attempt}" for each in entries if isinstance(each, Judged)}
    )


def killed_everywhere(
    server: CrashServer, tmp_path: Path, kind: str, *, every: int, how: str = "kill_at_line"
) -> int:
    """Kill a run at every so-maniest place, and check that it ends as an undisturbed one."""
    (tmp_path / "whole").mkdir()
    assert told(server, tmp_path / "whole", kind) == 0
    whole = interleave.comparable(tmp_path / "whole" / "run")
    made = Counter(ledger_of(tmp_path / "whole" / "ledger"))
    for kills, at in enumerate(range(2, MOST_LINES * every, every)):
        scratch = tmp_path / f"at-{at}"
        scratch.mkdir()
        status = told(server, scratch, kind, **{how: at})
        if status == 0:
            return kills
        assert status == KILLED
        before, journalled = Counter(ledger_of(scratch / "ledger")), results_in(scratch / "run")
        assert told(server, scratch, kind) == 0
        assert interleave.comparable(scratch / "run") == whole, f"killed at {at}"
        again = Counter(ledger_of(scratch / "ledger")) - before
        assert not journalled & set(again), "a call whose result was in the journal was made again"
        repeated = Counter(ledger_of(scratch / "ledger")) - made
        assert repeated.total() <= AT_ONCE
        store = ImageStore(scratch / "run")
        names = image_names(interleave.read_record(scratch / "run"))
        assert all(store.has(name) for name in names)
    raise AssertionError("the run never ended before its kill")


@pytest.mark.slow
def test_the_stories_are_about_what_they_say(server: CrashServer, tmp_path: Path) -> None:
    causes = {}
    for kind in REMEDIES:
        (tmp_path / kind).mkdir()
        assert told(server, tmp_path / kind, kind) == 0
        entries = read_journal(tmp_path / kind / "run")
        chapters = sum(isinstance(each, ChapterPlanned) for each in entries)
        assert chapters == (2 if kind == "chapters" else 0)
        causes[kind] = {each.cause for each in entries if isinstance(each, RedrawDecided)}
    assert causes["rollback"] == {"rollback"}
    assert causes["audit"] == {"audit"}
    assert causes["drift"] == {"drift"}
    assert causes["all"] == {"rollback", "drift", "audit"}


@pytest.mark.parametrize("kind", [pytest.param("all", marks=pytest.mark.slow), "chapters"])
def test_a_long_document_killed_after_some_lines_of_its_journal(
    server: CrashServer, tmp_path: Path, kind: str
) -> None:
    assert killed_everywhere(server, tmp_path, kind, every=17) > 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", REMEDIES)
def test_a_long_document_killed_after_every_line_of_its_journal(
    server: CrashServer, tmp_path: Path, kind: str
) -> None:
    assert killed_everywhere(server, tmp_path, kind, every=1) > 25


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["all", "parallel"])
def test_a_long_document_killed_at_touches_of_the_disk(
    server: CrashServer, tmp_path: Path, kind: str
) -> None:
    assert killed_everywhere(server, tmp_path, kind, every=3, how="kill_at") > 40


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["all", "rollback"])
def test_killed_again_and_again_a_long_document_still_ends_right(
    server: CrashServer, tmp_path: Path, kind: str
) -> None:
    for name in ("whole", "cut"):
        (tmp_path / name).mkdir()
    assert told(server, tmp_path / "whole", kind) == 0
    kills = 0
    while told(server, tmp_path / "cut", kind, kill_at_line=6) == KILLED:
        kills += 1
        assert kills < 100, "no progress from one kill to the next"
    assert kills > 5
    assert interleave.comparable(tmp_path / "cut" / "run") == interleave.comparable(
        tmp_path / "whole" / "run"
    )
