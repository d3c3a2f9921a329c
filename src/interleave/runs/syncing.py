"""Making writes durable without making anybody wait in line: many runs share the same syncs.

Whoever has written asks for a sync and goes on when it is done. While one round of syncs is under way, those
who ask meanwhile are gathered into the next, so that a hundred runs cost hardly more than one, and the event
loop never waits for a disk.
"""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor

DISK_THREADS = 8
"""A file system commits what several threads ask for at once in one go."""


class GroupSync:
    """Shared by all runs of a process."""

    def __init__(self) -> None:
        self.disk = ThreadPoolExecutor(DISK_THREADS, thread_name_prefix="disk")
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._round: asyncio.Task[None] | None = None

    async def sync(self, file: int) -> None:
        """Return when everything written to this file so far is on disk; raises `OSError` when it is not."""
        done = self._waiting.get(file)
        if done is None:
            done = self._waiting[file] = asyncio.get_running_loop().create_future()
        if self._round is None or self._round.done():
            self._round = asyncio.create_task(self._work())
        # Shielded: a run that is cancelled must not cancel the sync that others wait for.
        await asyncio.shield(done)

    async def _work(self) -> None:
        while self._waiting:
            asked, self._waiting = self._waiting, {}
            await asyncio.gather(*(self._sync_one(file, done) for file, done in asked.items()))

    async def _sync_one(self, file: int, done: asyncio.Future[None]) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(self.disk, os.fdatasync, file)
        except OSError as error:
            if not done.cancelled():
                done.set_exception(error)
                done.exception()  # a run that was cancelled meanwhile will not come to read it
        else:
            if not done.cancelled():
                done.set_result(None)
