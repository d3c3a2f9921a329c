"""What waits for the disk, away from the event loop, and shared by all runs of a process.

Whoever must have a journal on disk asks for it and goes on when it is there. While one round of syncs is
under way, those who ask meanwhile are gathered into the next, so that a hundred runs cost hardly more than
one: one handover to a thread and one wake-up for all. Pictures are compressed in threads of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from interleave.errors import StorageError
from interleave.runs.journal import Journal

T = TypeVar("T")
PICTURE_THREADS = 4


class Disk:
    """The threads that touch the disk."""

    def __init__(self) -> None:
        self._pictures = ThreadPoolExecutor(PICTURE_THREADS, thread_name_prefix="pictures")
        self._journals = ThreadPoolExecutor(1, thread_name_prefix="journals")
        self._waiting: list[tuple[Journal, asyncio.Future[None]]] = []
        self._round: asyncio.Task[None] | None = None

    async def do(self, work: Callable[..., T], *arguments: object) -> T:
        """The result of work on a picture, when it is done."""
        return await asyncio.get_running_loop().run_in_executor(self._pictures, work, *arguments)

    async def sync(self, journal: Journal) -> None:
        """Return when every line of the journal so far is on disk; raises `StorageError` when it is not."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((journal, done))
        if self._round is None or self._round.done():
            self._round = asyncio.create_task(self._work())
        await done

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            asked, self._waiting = self._waiting, []
            journals = [journal for journal, _ in asked]
            failures = await loop.run_in_executor(self._journals, _sync_all, journals)
            for (_, done), failure in zip(asked, failures, strict=True):
                if done.done():
                    continue  # whoever asked was cancelled
                if failure is None:
                    done.set_result(None)
                else:
                    done.set_exception(failure)


def _sync_all(journals: list[Journal]) -> list[StorageError | None]:
    return [_failure(journal) for journal in journals]


def _failure(journal: Journal) -> StorageError | None:
    try:
        journal.sync()
    except StorageError as error:
        return error
    return None
