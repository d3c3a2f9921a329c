"""How fast something arrives, lately."""

from __future__ import annotations

WINDOW_SECONDS = 5.0
SHORTEST_SECONDS = 0.1


class Meter:
    """Bytes a second over the current window and the one before."""

    def __init__(self, now: float) -> None:
        self.began_at = now
        self._window_began_at = now
        self._windows = (0, 0)
        """Bytes in the last window and in this one."""

    def count(self, size: int, now: float) -> None:
        self._turn(now)
        self._windows = self._windows[0], self._windows[1] + size

    def pace(self, now: float) -> float:
        self._turn(now)
        since = max(self._window_began_at - WINDOW_SECONDS, self.began_at)
        return sum(self._windows) / max(now - since, SHORTEST_SECONDS)

    def _turn(self, now: float) -> None:
        passed = now - self._window_began_at
        if passed >= WINDOW_SECONDS:
            self._windows = (self._windows[1] if passed < 2 * WINDOW_SECONDS else 0), 0
            self._window_began_at = now
