"""An event loop whose clock is not the machine's: it jumps to the next timer whenever nothing else is to do.

Waiting takes no time in it, and how busy the machine is changes nothing. Threads and sockets do not fit in:
what they do would take no time either.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _NoWaiting(selectors.DefaultSelector):  # type: ignore[misc, valid-type]
    """A selector that moves the clock instead of waiting."""

    now = 1000.0

    def select(self, timeout: float | None = None) -> list[Any]:
        assert timeout is not None, "everybody waits, and for nothing"
        self.now += timeout
        return super().select(0)  # type: ignore[no-any-return]


class ClockworkLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.clock = _NoWaiting()
        super().__init__(self.clock)
        self._clock_resolution = 1e-6  # far from zero a float has no finer one

    def time(self) -> float:
        return self.clock.now


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run this to its end, by a clock of its own."""
    with asyncio.Runner(loop_factory=ClockworkLoop) as runner:
        return runner.run(work)


def now() -> float:
    return asyncio.get_running_loop().time()
