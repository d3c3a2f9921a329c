"""The memory budget of all requests, reserved before it is used.

Bodies are counted as they arrive, and refused when the budget is spent. Parsing a body and decoding its
images take many times its size: that is reserved beforehand, and a request that finds no room waits in a
queue. A request never holds one reservation while it waits for another, so the queue always moves.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from interleave.service.http.refusals import Refusal

MEGABYTE = 1_000_000
GRACE_SECONDS = 5.0
"""How long a body may have been arriving before its rate counts."""
SLOW_BYTES_A_SECOND = 100_000
"""A body that arrives more slowly is cut off when there is no room for another."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h."""


class Body(Protocol):
    """A body that is still arriving."""

    began_at: float

    def rate(self, now: float) -> float:
        """Bytes a second, over the last few seconds."""
        ...

    def cut_off(self) -> None:
        """End it and release what it holds."""
        ...


class MemoryBudget:
    """The bytes that all requests of a server hold, and the queue of those that wait for room."""

    def __init__(self, limit: int, retry_after: Callable[[], float] = lambda: 1.0) -> None:
        self.most_for_bodies = limit // 4
        self.most_for_work = limit - limit // 4
        self.most_for_one = limit // 2
        """What one request may reserve; also the most bytes of source images in one worker."""
        self.bodies = 0
        self.work = 0
        self.arriving: set[Body] = set()
        self._retry_after = retry_after
        self._queue: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def held(self) -> int:
        return self.bodies + self.work

    @property
    def waiting(self) -> int:
        """How many requests wait for room."""
        return len(self._queue)

    def hold_body(self, size: int) -> None:
        """Count received bytes of a body; where there is no room, cut off the slowest other body."""
        while self.bodies + size > self.most_for_bodies and (slowest := self._slowest_body()) is not None:
            self.arriving.discard(slowest)
            slowest.cut_off()
        if self.bodies + size > self.most_for_bodies:
            raise Refusal(
                "the server holds as many bytes of requests as it may: try again later",
                status=429,
                retry_after=self._retry_after(),
            )
        self.bodies += size

    def _slowest_body(self) -> Body | None:
        now = asyncio.get_running_loop().time()
        past_grace = [body for body in self.arriving if now - body.began_at > GRACE_SECONDS]
        slowest = min(past_grace, key=lambda body: body.rate(now), default=None)
        return slowest if slowest is not None and slowest.rate(now) < SLOW_BYTES_A_SECOND else None

    def release_body(self, size: int) -> None:
        self.bodies -= size

    async def reserve(self, size: int, ends_at: float) -> None:
        """Wait in order for this much room, until `ends_at` by the loop's clock; `release` returns it."""
        if size > self.most_for_one:
            raise Refusal(
                f"this request needs {_megabytes(size)} of memory to be read and decoded, and one may take "
                f"{_megabytes(self.most_for_one)}: send fewer or smaller images, or start the server with "
                "a larger --memory",
                status=413,
            )
        if not self._queue and self._fits(size):
            self.work += size
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((size, turn))
        try:
            async with asyncio.timeout_at(ends_at):
                await turn
        except BaseException as error:
            self._leave(size, turn)
            if not isinstance(error, TimeoutError):
                raise
            raise Refusal(
                "there was no room in memory for the images of this request: try again later",
                status=503,
                retry_after=self._retry_after(),
            ) from None

    def release(self, size: int) -> None:
        self.work -= size
        self._advance()

    def count(self, size: int) -> None:
        """Count what is already in memory and cannot be refused: drawn images."""
        self.work += size

    def _fits(self, size: int) -> bool:
        return self.work + size <= self.most_for_work

    def _advance(self) -> None:
        while self._queue and self._fits(self._queue[0][0]):
            size, turn = self._queue.popleft()
            if not turn.done():
                self.work += size
                turn.set_result(None)

    def _leave(self, size: int, turn: asyncio.Future[None]) -> None:
        """Leave the queue, or return the room that was granted when the wait had already ended."""
        if turn.done() and not turn.cancelled():
            self.release(size)
            return
        turn.cancel()
        self._queue = deque(each for each in self._queue if each[1] is not turn)
        self._advance()


class MemoryLease:
    """What one request holds of the budget; `release` returns all of it, however the request ended."""

    def __init__(self, memory: MemoryBudget) -> None:
        self.memory = memory
        self._body = 0
        self._work = 0

    def hold_body(self, size: int) -> None:
        self.memory.hold_body(size)
        self._body += size

    def drop_body(self) -> None:
        """The body, and what was parsed from it, is freed."""
        self.memory.release_body(self._body)
        self._body = 0

    async def reserve(self, size: int, ends_at: float) -> None:
        """Reserve room for work; an earlier reservation is returned first."""
        self.keep(0)
        await self.memory.reserve(size, ends_at)
        self._work = size

    def keep(self, size: int) -> None:
        """Shrink the reservation to what is still needed."""
        self.memory.count(size)
        self.memory.release(self._work)
        self._work = size

    def release(self) -> None:
        self.drop_body()
        self.keep(0)


def trim_freed_memory() -> None:
    """Let malloc return large freed blocks to the system at once."""
    with suppress(OSError, AttributeError):  # another C library than GNU's
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_THRESHOLD, 8 * MEGABYTE)
        library.mallopt(_TRIM_THRESHOLD, 64 * MEGABYTE)


def _megabytes(size: int) -> str:
    return f"{-(-size // MEGABYTE):,} MB"
