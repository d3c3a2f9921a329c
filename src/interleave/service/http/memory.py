"""Memory budget of all requests, reserved before use.

Bodies are counted as they arrive, and refused when the budget is spent. Parsing a body and decoding its
images take many times its size. That memory is reserved in advance, and a request waits in a queue until it
is available. A request never holds one reservation while it waits for another, so the queue always moves.
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
"""Time before the rate of an arriving body counts."""
SLOW_BYTES_A_SECOND = 100_000
"""A body that arrives more slowly is cut off when another needs the memory."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h."""


class Body(Protocol):
    """A body that is still arriving."""

    began_at: float

    def rate(self, now: float) -> float:
        """Return the bytes per second over the last few seconds."""
        ...

    def cut_off(self) -> None:
        """End it and release its memory."""
        ...


class MemoryBudget:
    """Memory held by all requests of a server, and the queue of those waiting for it."""

    def __init__(self, limit: int, retry_after: Callable[[], float] = lambda: 1.0) -> None:
        self.max_for_bodies = limit // 4
        self.max_for_work = limit - limit // 4
        self.max_for_one = limit // 2
        """Maximum reservation of one request, and maximum bytes of source images in one worker."""
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
        """Number of requests waiting for memory."""
        return len(self._queue)

    def hold_body(self, size: int) -> None:
        """Count received bytes of a body. If the budget is spent, cut off the slowest other body."""
        while self.bodies + size > self.max_for_bodies and (slowest := self._slowest_body()) is not None:
            self.arriving.discard(slowest)
            slowest.cut_off()
        if self.bodies + size > self.max_for_bodies:
            raise Refusal(
                "the server has reached its memory limit for request bodies: try again later",
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
        """Wait in order for `size` bytes, until `ends_at` by the loop's clock. `release` returns them."""
        if size > self.max_for_one:
            raise Refusal(
                f"this request needs {_megabytes(size)} of memory to be read and decoded; the maximum is "
                f"{_megabytes(self.max_for_one)}: send fewer or smaller images, or start the server with "
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
                "the server has no memory for the images of this request: try again later",
                status=503,
                retry_after=self._retry_after(),
            ) from None

    def release(self, size: int) -> None:
        self.work -= size
        self._advance()

    def count(self, size: int) -> None:
        """Count generated images, which are already in memory and cannot be refused."""
        self.work += size

    def _fits(self, size: int) -> bool:
        return self.work + size <= self.max_for_work

    def _advance(self) -> None:
        while self._queue and self._fits(self._queue[0][0]):
            size, turn = self._queue.popleft()
            if not turn.done():
                self.work += size
                turn.set_result(None)

    def _leave(self, size: int, turn: asyncio.Future[None]) -> None:
        """Leave the queue, or return the memory if it was already granted."""
        if turn.done() and not turn.cancelled():
            self.release(size)
            return
        turn.cancel()
        self._queue = deque(each for each in self._queue if each[1] is not turn)
        self._advance()


class MemoryLease:
    """Share of the budget held by one request; `release` returns all of it, however the request ended."""

    def __init__(self, memory: MemoryBudget) -> None:
        self.memory = memory
        self._body = 0
        self._work = 0

    def hold_body(self, size: int) -> None:
        self.memory.hold_body(size)
        self._body += size

    def drop_body(self) -> None:
        """Release the memory of the body and its parsed values."""
        self.memory.release_body(self._body)
        self._body = 0

    async def reserve(self, size: int, ends_at: float) -> None:
        """Reserve memory for work, after returning an earlier reservation."""
        self.keep(0)
        await self.memory.reserve(size, ends_at)
        self._work = size

    def keep(self, size: int) -> None:
        """Change the reservation to `size` bytes."""
        self.memory.count(size)
        self.memory.release(self._work)
        self._work = size

    def release(self) -> None:
        self.drop_body()
        self.keep(0)


def trim_freed_memory() -> None:
    """Make malloc return large freed blocks to the system immediately."""
    with suppress(OSError, AttributeError):  # not the GNU C library
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_THRESHOLD, 8 * MEGABYTE)
        library.mallopt(_TRIM_THRESHOLD, 64 * MEGABYTE)


def _megabytes(size: int) -> str:
    return f"{-(-size // MEGABYTE):,} MB"
