"""A lease: the right to write to a run for a while, granted by a job table that several machines share.

It is renewed while its holder lives. A holder that was paused for too long finds by its own clock that the
lease has run out, and makes no further call. Its fencing token keeps what it may still write from counting.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from interleave.errors import LeaseLost


def clock_that_never_stops() -> float:
    """Seconds that go on while the machine sleeps, where the system has such a clock."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Lease:
    """Held until its time is over or it is lost."""

    def __init__(
        self, token: int, until: float, *, clock: Callable[[], float] = clock_that_never_stops
    ) -> None:
        self.token = token
        """Higher than that of every earlier lease of the same run."""
        self.until = until
        """On this machine's clock, counted from before the lease was asked for."""
        self._clock = clock
        self._lost = False

    @property
    def held(self) -> bool:
        return not self._lost and self._clock() < self.until

    def renew(self, until: float) -> None:
        """Go on until later; a lease that has run out stays so: another holder may have begun."""
        if self.held:
            self.until = until

    def lose(self) -> None:
        self._lost = True

    def check(self) -> None:
        """Raise `LeaseLost` where it is no longer held."""
        if not self.held:
            self.lose()
            raise LeaseLost("the lease of the run has ended: another worker goes on with it")
