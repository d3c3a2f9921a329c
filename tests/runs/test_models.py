"""The limit on calls to a model, and shared syncs: no call is forgotten, and one failure is not another's."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from interleave.backends.concurrency import CallLimit
from interleave.errors import StorageError
from interleave.runs.journal import Continued, Journal
from interleave.runs.models import Disk
from interleave.types import Slot
from work import HANGS_AFTER


def test_calls_take_turns_in_the_order_in_which_they_came() -> None:
    async def order() -> list[int]:
        limit, served = CallLimit(1), []

        async def call(number: int) -> None:
            async with limit.acquire(Slot(1, 1)):
                served.append(number)
                await asyncio.sleep(0)

        await asyncio.gather(*(call(number) for number in range(6)))
        return served

    assert asyncio.run(order()) == [0, 1, 2, 3, 4, 5]


def test_redrawing_goes_first() -> None:
    async def order() -> list[int]:
        limit, served = CallLimit(1), []

        async def call(attempt: int) -> None:
            async with limit.acquire(Slot(1, attempt)):
                served.append(attempt)
                await asyncio.sleep(0)

        await asyncio.gather(*(call(attempt) for attempt in (1, 1, 1, 3, 2)))
        return served

    assert asyncio.run(order()) == [1, 3, 2, 1, 1]  # the first had its turn before the others came


@pytest.mark.parametrize("cancelled", [[0], [1], [2], [1, 2], [0, 1, 2, 3]], ids=str)
def test_a_cancelled_call_never_takes_a_turn_with_it(cancelled: list[int]) -> None:
    async def served() -> int:
        limit, done = CallLimit(1), 0

        async def call() -> None:
            nonlocal done
            async with limit.acquire(Slot(1, 1)):
                await asyncio.sleep(0.001)
                done += 1

        tasks = [asyncio.create_task(call()) for _ in range(6)]
        await asyncio.sleep(0)
        for number in cancelled:
            tasks[number].cancel()
        await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), timeout=HANGS_AFTER)
        async with asyncio.timeout(HANGS_AFTER), limit.acquire(Slot(1, 1)):  # the limit still has its place
            return done

    assert asyncio.run(served()) == 6 - len(cancelled)


def test_a_call_cancelled_in_the_moment_of_its_turn_passes_it_on() -> None:
    async def served() -> bool:
        limit = CallLimit(1)
        holding = limit.acquire(Slot(1, 1))
        await holding.__aenter__()

        async def call() -> None:
            async with limit.acquire(Slot(1, 1)):
                pass

        waiting = asyncio.create_task(call())
        await asyncio.sleep(0)
        await holding.__aexit__(None, None, None)  # the turn is given to the one who waits,
        waiting.cancel()  # who is cancelled before it can take it
        await asyncio.gather(waiting, return_exceptions=True)
        async with asyncio.timeout(HANGS_AFTER), limit.acquire(Slot(1, 1)):
            return True

    assert asyncio.run(served())


def test_without_a_limit_nobody_waits() -> None:
    async def at_once() -> int:
        limit, inside, most = CallLimit(None), 0, 0

        async def call() -> None:
            nonlocal inside, most
            async with limit.acquire(Slot(1, 1)):
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0)
                inside -= 1

        await asyncio.gather(*(call() for _ in range(20)))
        return most

    assert asyncio.run(at_once()) == 20


def journals(folder: Path, count: int) -> list[Journal]:
    return [Journal(folder / f"{number}.jsonl") for number in range(count)]


def test_many_journals_share_a_few_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = 0
    sync_all = Disk._sync_rounds

    async def counted(self: Disk) -> None:
        nonlocal rounds
        rounds += 1
        await sync_all(self)

    monkeypatch.setattr(Disk, "_sync_rounds", counted)
    opened = journals(tmp_path, 20)

    async def all_at_once() -> None:
        disk = Disk()
        for journal in opened:
            journal.append(Continued(software="x"))
        await asyncio.gather(*(disk.sync(journal) for journal in opened))

    asyncio.run(all_at_once())
    assert rounds == 1
    assert all(journal.path.read_bytes().endswith(b"}\n") for journal in opened)
    for journal in opened:
        journal.close()


def test_one_journal_that_cannot_be_synced_is_its_own_affair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad, other = opened = journals(tmp_path, 3)
    sync = os.fdatasync

    def failing(file: int) -> None:
        if file == bad._file:
            raise OSError(5, "Input/output error")
        sync(file)

    monkeypatch.setattr(os, "fdatasync", failing)

    async def outcomes() -> list[object]:
        disk = Disk()
        for journal in opened:
            journal.append(Continued(software="x"))
        return await asyncio.gather(*(disk.sync(journal) for journal in opened), return_exceptions=True)

    first, second, third = asyncio.run(outcomes())
    assert (first, third) == (None, None)
    assert isinstance(second, StorageError)
    with pytest.raises(StorageError):
        bad.append(Continued(software="x"))
    good.append(Continued(software="x"))
    for journal in opened:
        journal.close()
    assert other.path.exists()


def test_a_disk_serves_one_event_loop_after_another(tmp_path: Path) -> None:
    disk = Disk()
    (journal,) = journals(tmp_path, 1)

    async def sync(*, give_up: bool) -> None:
        journal.append(Continued(software="x"))
        task = asyncio.create_task(disk.sync(journal))
        await asyncio.sleep(0)
        if give_up:
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(sync(give_up=True))
    asyncio.run(asyncio.wait_for(sync(give_up=False), timeout=HANGS_AFTER))
    assert len(journal.path.read_bytes().splitlines()) == 2
    journal.close()


def test_a_closed_journal_takes_nothing_more(tmp_path: Path) -> None:
    (journal,) = journals(tmp_path, 1)
    journal.append(Continued(software="x"))
    journal.close()
    with pytest.raises(StorageError, match="closed"):
        journal.sync()
