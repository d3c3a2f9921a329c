"""Runs under leases: who takes over has a journal of its own, and the earlier worker counts no more."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

import interleave
from interleave.config.run_config import Limits
from interleave.errors import LeaseLost, RunError
from interleave.runs import journal as lines
from interleave.runs.folder import comparable, open_journal
from interleave.runs.journal import JournalReader, read_journal
from interleave.runs.journal_files import Lease, journal_path
from interleave.runs.record import is_current, read_record, read_stored
from interleave.runs.resolve import Choices, load_models, resolve
from interleave.runs.run import Run, RunResult
from interleave.types import Request

REQUEST = "How a frog grows up, in four pictures"
CHOSEN = Choices(profile="dry-run", generator="solid?size=64")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def lease(token: int, clock: Clock | None = None) -> Lease:
    return Lease(token, 30.0, clock=clock or Clock())


def opened(folder: Path, held: Lease | None) -> Run:
    config, pack = resolve(CHOSEN)
    return Run.open(
        folder,
        Request.of(REQUEST),
        config,
        Limits(),
        lambda: load_models(config, pack, CHOSEN),
        lease=held,
    )


async def work(run: Run, events: int = 1_000_000) -> RunResult | None:
    async with aclosing(run.stream()) as coming:
        async for event in coming:
            events -= 1
            if isinstance(event, RunResult):
                return event
            if not events:
                break
    return None


def note(text: str) -> lines.Continued:
    return lines.Continued(software=text)


def test_J12_a_paused_worker_that_wakes_up_writes_nothing_that_counts() -> None:
    """Worker 1 stands still in the middle of the run with its folder locked; worker 2 ends the run."""
    interleave.generate(REQUEST, out="undisturbed", profile="dry-run", generator="solid?size=64")
    folder, clock = Path("run"), Clock()

    async def both() -> None:
        paused = opened(folder, lease(1, clock))
        async with aclosing(paused.stream()) as coming:
            for _ in range(5):
                await anext(coming)
            result = await work(opened(folder, lease(2)))
            assert result is not None and result.status == "done"
            ended = (journal_path(folder).read_bytes(), (folder / "run.json").read_bytes())
            clock.now = 31.0
            last = [event async for event in coming][-1]
            assert isinstance(last, RunResult) and isinstance(last.error, LeaseLost)
        assert (journal_path(folder).read_bytes(), (folder / "run.json").read_bytes()) == ended

    asyncio.run(both())
    assert comparable(folder) == comparable("undisturbed")
    stored = read_stored(folder)
    assert stored is not None and is_current(stored[0], folder)


def test_what_an_earlier_lease_still_writes_is_not_read(tmp_path: Path) -> None:
    """Its own clock may not tell it yet: the file alone decides."""
    first = open_journal(tmp_path, lease=lease(1))
    first.append(note("a"))
    first.sync()
    second = open_journal(tmp_path, lease=lease(2))
    first.append(note("late"))
    with pytest.raises(RunError):
        first.sync()  # its file was removed
    second.append(note("b"))
    second.sync()
    first.close()
    (tmp_path / "journal.jsonl").write_bytes(b'{"event":"continued","software":"late"}\n')
    assert [entry.software for entry in read_journal(tmp_path)] == ["a", "b"]  # type: ignore[union-attr]
    second.close()


def test_a_worker_that_comes_too_late_opens_nothing(tmp_path: Path) -> None:
    open_journal(tmp_path, lease=lease(3)).close()
    with pytest.raises(LeaseLost):
        open_journal(tmp_path, lease=lease(2))
    assert journal_path(tmp_path).name == "journal.3.jsonl"


def test_a_torn_line_is_not_taken_over(tmp_path: Path) -> None:
    first = open_journal(tmp_path, lease=lease(1))
    first.append(note("a"))
    first.sync()
    with journal_path(tmp_path).open("ab") as file:
        file.write(b'{"event":"contin')
    second = open_journal(tmp_path, lease=lease(2))
    second.append(note("b"))
    second.sync()
    assert [entry.software for entry in read_journal(tmp_path)] == ["a", "b"]  # type: ignore[union-attr]
    assert [path.name for path in tmp_path.iterdir()] == ["journal.2.jsonl"]
    first.close()
    second.close()


def test_a_reader_follows_a_run_that_is_taken_over(tmp_path: Path) -> None:
    first = open_journal(tmp_path, lease=lease(1))
    first.append(note("a"))
    first.sync()
    reader = JournalReader(tmp_path)
    assert len(reader.read_new()) == 1
    second = open_journal(tmp_path, lease=lease(2))
    second.append(note("b"))
    second.sync()
    assert [entry.software for entry in reader.read_new()] == ["b"]  # type: ignore[union-attr]
    first.close()
    second.close()


def test_a_reader_says_so_where_it_has_read_what_does_not_count(tmp_path: Path) -> None:
    first = open_journal(tmp_path, lease=lease(1))
    first.append(note("a"))
    first.sync()
    before = journal_path(tmp_path).read_bytes()
    first.append(note("late"))
    first.sync()
    reader = JournalReader(tmp_path)
    assert len(reader.read_new()) == 2
    first.close()
    (tmp_path / "journal.jsonl").write_bytes(before)
    open_journal(tmp_path, lease=lease(2)).close()
    with pytest.raises(RunError, match="read the run again"):
        reader.read_new()


def test_a_lease_is_over_by_its_holders_own_clock() -> None:
    clock = Clock()
    held = lease(1, clock)
    clock.now = 29.0
    held.renew(59.0)
    clock.now = 58.0
    held.check()
    clock.now = 59.0
    with pytest.raises(LeaseLost):
        held.check()
    held.renew(100.0)
    assert not held.held, "another worker may have begun"


def test_a_finished_run_under_a_lease_is_read_and_continued_as_any_other() -> None:
    folder = Path("run")

    async def both() -> None:
        await work(opened(folder, lease(1)), events=4)
        await work(opened(folder, lease(2)))

    asyncio.run(both())
    assert not (folder / "journal.jsonl").exists()
    assert read_record(folder).status == "done"
    again = interleave.resume(folder)
    assert again.status == "done" and read_record(folder).calls == again.record.calls
