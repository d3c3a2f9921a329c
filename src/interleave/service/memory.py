"""How much memory requests may take, counted before it is used.

Bodies are counted as they arrive, and refused when there is no room. Parsing a body and decoding its pictures
take many times its size: what they will take is reserved beforehand, and a request that finds no room waits
in line. A request never holds one reservation while it waits for another, so the line always moves.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from interleave.service.messages import Refusal

MEGABYTE = 1_000_000
GRACE_SECONDS = 5.0
"""How long a body may have been arriving before its pace is judged."""
SLOW_BYTES_A_SECOND = 100_000
"""A body that arrives more slowly has to go when there is no room for another."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h."""


class Body(Protocol):
    """A body that is still arriving."""

    began_at: float

    def pace(self, now: float) -> float:
        """Bytes a second, lately."""
        ...

    def cut_off(self) -> None:
        """End it, and give back what it holds."""
        ...


class Memory:
    """What all requests of a server hold together, and who waits for room."""

    def __init__(self, limit: int, retry_after: Callable[[], float] = lambda: 1.0) -> None:
        self.most_for_bodies = limit // 4
        self.most_for_work = limit - limit // 4
        self.most_for_one = limit // 2
        """What one request may reserve. A worker may hold as much of source pictures."""
        self.bodies = 0
        self.work = 0
        self.arriving: set[Body] = set()
        self._retry_after = retry_after
        self._line: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def held(self) -> int:
        return self.bodies + self.work

    @property
    def waiting(self) -> int:
        """How many requests wait for room."""
        return len(self._line)

    def hold_body(self, size: int) -> None:
        """Count bytes of a body that has arrived; where there is no room the slowest other one has to go."""
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
        judged = [body for body in self.arriving if now - body.began_at > GRACE_SECONDS]
        slowest = min(judged, key=lambda body: body.pace(now), default=None)
        return slowest if slowest is not None and slowest.pace(now) < SLOW_BYTES_A_SECOND else None

    def release_body(self, size: int) -> None:
        self.bodies -= size

    async def reserve(self, size: int, ends_at: float) -> None:
        """Wait for this much room, in order, until a time of the loop's clock; `release` gives it back."""
        if size > self.most_for_one:
            raise Refusal(
                f"this request needs {_megabytes(size)} of memory to be read and decoded, and one may take "
                f"{_megabytes(self.most_for_one)}: send fewer or smaller pictures, or start the server with "
                "a larger --memory",
                status=413,
            )
        if not self._line and self._fits(size):
            self.work += size
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append((size, turn))
        try:
            async with asyncio.timeout_at(ends_at):
                await turn
        except BaseException as error:
            self._leave(size, turn)
            if not isinstance(error, TimeoutError):
                raise
            raise Refusal(
                "there was no room in memory for the pictures of this request: try again later",
                status=503,
                retry_after=self._retry_after(),
            ) from None

    def release(self, size: int) -> None:
        self.work -= size
        self._advance()

    def count(self, size: int) -> None:
        """Count what is already there and cannot be refused any more: pictures that were drawn."""
        self.work += size

    def _fits(self, size: int) -> bool:
        return self.work + size <= self.most_for_work

    def _advance(self) -> None:
        while self._line and self._fits(self._line[0][0]):
            size, turn = self._line.popleft()
            if not turn.done():
                self.work += size
                turn.set_result(None)

    def _leave(self, size: int, turn: asyncio.Future[None]) -> None:
        """Give up a place in the line, or the room that was granted while nobody waited for it any more."""
        if turn.done() and not turn.cancelled():
            self.release(size)
            return
        turn.cancel()
        self._line = deque(each for each in self._line if each[1] is not turn)
        self._advance()


class Share:
    """What one request holds of the memory; `let_go` gives all of it back, however the request ended."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self._body = 0
        self._work = 0

    def hold_body(self, size: int) -> None:
        self.memory.hold_body(size)
        self._body += size

    def drop_body(self) -> None:
        """The body, and what was read out of it, is in nobody's memory any more."""
        self.memory.release_body(self._body)
        self._body = 0

    async def reserve(self, size: int, ends_at: float) -> None:
        """Reserve room for work; whoever holds some already must give it back first."""
        self.keep(0)
        await self.memory.reserve(size, ends_at)
        self._work = size

    def keep(self, size: int) -> None:
        """Of what was reserved only so much is needed from now on."""
        self.memory.count(size)
        self.memory.release(self._work)
        self._work = size

    def let_go(self) -> None:
        self.drop_body()
        self.keep(0)


def return_memory() -> None:
    """Have large blocks given back to the system when they are freed; the C library would keep some."""
    with suppress(OSError, AttributeError):  # another C library than GNU's
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_THRESHOLD, 8 * MEGABYTE)
        library.mallopt(_TRIM_THRESHOLD, 64 * MEGABYTE)


def _megabytes(size: int) -> str:
    return f"{-(-size // MEGABYTE):,} MB"
