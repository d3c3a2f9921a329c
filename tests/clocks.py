"""Event loops whose clock is the test's: deadlines pass when a test says, on any machine under any load."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from itertools import count
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

A_LONG_TIME = 10_000.0
"""On a clock that jumps: longer than anything that a test waits for."""
A_WAIT = 2.0
"""Seconds from which on a wait is one that can be skipped: pauses between two looks are shorter."""


class SkippingLoop(asyncio.SelectorEventLoop):
    """A loop on the real clock that can be told to let its next long wait take no time."""

    def __init__(self) -> None:
        self.ahead = 0.0
        self.skipping = False
        super().__init__(_SkippingSelector(self))

    def time(self) -> float:
        return super().time() + self.ahead

    def skip_a_wait(self) -> None:
        """From any thread: go straight to the next thing due, where nothing but a deadline is."""
        self.skipping = True
        self.call_soon_threadsafe(lambda: None)


class _SkippingSelector(selectors.DefaultSelector):  # type: ignore[misc,valid-type]
    def __init__(self, loop: SkippingLoop) -> None:
        super().__init__()
        self.loop = loop

    def select(self, timeout: float | None = None) -> Any:
        if self.loop.skipping and timeout is not None and timeout > A_WAIT:
            self.loop.skipping = False
            self.loop.ahead += timeout
            timeout = 0
        return super().select(timeout)


def run_skipping(loop: SkippingLoop, work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(work)


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop on which waiting takes no time: its clock goes straight to the next thing due."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        return self.now


class _JumpingSelector(selectors.SelectSelector):
    def __init__(self, loop: JumpingLoop) -> None:
        super().__init__()
        self.loop = loop

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            return super().select(None)
        self.loop.now += timeout
        return super().select(0)


def run_jumping(work: Coroutine[Any, Any, T]) -> T:
    """Only for work that waits for nothing but time: no sockets, no threads."""
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(asyncio.wait_for(work, timeout=A_LONG_TIME))


def now() -> float:
    """The time of the running loop."""
    return asyncio.get_running_loop().time()


def ticking(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """In this module every look at the clock is a second later than the one before: work is counted."""
    looks = count()
    monkeypatch.setattr(f"{module}.time", SimpleNamespace(monotonic=lambda: float(next(looks))))
