"""Bounds on work that are the same on every machine and under any load, as seconds on a clock are not."""

from __future__ import annotations

import cProfile
import signal
from collections.abc import Iterator
from contextlib import contextmanager

HANGS_AFTER = 120
"""Seconds on the clock after which something waits for ever and is not merely slow."""
NEVER_ENDS_AFTER = 30
"""Seconds of computing after which a work of tenths of a second has become another kind of work."""


@contextmanager
def at_most_calls(most: int) -> Iterator[None]:
    """Within it at most so many functions are called, of Python and of C; and none that never ends."""
    profile = cProfile.Profile()
    with that_ends():
        profile.enable()
        try:
            yield
        finally:
            profile.disable()
    made = sum(entry.callcount for entry in profile.getstats())
    assert made <= most, f"{made:,} calls where {most:,} are enough"


@contextmanager
def that_ends() -> Iterator[None]:
    """Work that ends: bounded in the time this process computes, a hundred times what is needed."""
    with _alarm(signal.SIGVTALRM, signal.ITIMER_VIRTUAL, NEVER_ENDS_AFTER, "computed for"):
        yield


@contextmanager
def that_does_not_wait() -> Iterator[None]:
    """Work that waits for nothing: bounded on the clock, far beyond what a busy machine needs."""
    with _alarm(signal.SIGALRM, signal.ITIMER_REAL, HANGS_AFTER, "hung for"):
        yield


@contextmanager
def _alarm(signal_number: signal.Signals, timer: int, seconds: float, verb: str) -> Iterator[None]:
    def give_up(*_: object) -> None:
        raise AssertionError(f"{verb} {seconds} s")

    before = signal.signal(signal_number, give_up)
    signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        signal.setitimer(timer, 0)
        signal.signal(signal_number, before)
