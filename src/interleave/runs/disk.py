"""Disk work in threads, off the event loop, shared by all runs of a process.

Journals are synced by group commit: requests that arrive while one round of syncs runs are gathered into the
next round. A hundred runs then cost hardly more than one: one handover to a thread and one wake-up for all.
Pictures are compressed in threads of their own.
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

    async def run(self, work: Callable[[], T]) -> T:
        """The result of work on a picture, done in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._pictures, work)

    async def sync(self, journal: Journal) -> None:
        """Return when every line of the journal so far is on disk; raises `StorageError` when it is not."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((journal, done))
        if self._round is None or self._round.done():
            self._round = asyncio.create_task(self._sync_rounds())
        await done

    async def _sync_rounds(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, self._waiting = self._waiting, []
            journals = [journal for journal, _ in batch]
            failures = await loop.run_in_executor(self._journals, _sync_all, journals)
            for (_, done), failure in zip(batch, failures, strict=True):
                if done.done():
                    continue  # the call that waited was cancelled
                if failure is None:
                    done.set_result(None)
                else:
                    done.set_exception(failure)


def _sync_all(journals: list[Journal]) -> list[StorageError | None]:
    return [_sync(journal) for journal in journals]


def _sync(journal: Journal) -> StorageError | None:
    try:
        journal.sync()
    except StorageError as error:
        return error
    return None
