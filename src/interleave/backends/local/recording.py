"""Nobody computes on a device while a CUDA graph is recorded there.

Models with lanes of their own compute side by side. A recording breaks when another thread waits for the
whole device meanwhile, as compilers do. So whoever computes says so, and whoever records waits until it is
alone; recordings take a moment and are rare.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache


class Room:
    """Where the models of one device work."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._waiting = 0
        """How many want to be alone; nobody enters before they have been."""
        self._alone = False
        self._this_thread = threading.local()

    @contextmanager
    def working(self) -> Iterator[None]:
        """In company with others that work."""
        self._enter()
        try:
            yield
        finally:
            self._leave()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Without anybody else. One that is working stops for as long."""
        was_working = getattr(self._this_thread, "works", False)
        if was_working:
            self._leave()
        with self._changed:
            self._waiting += 1
            self._changed.wait_for(lambda: self._inside == 0 and not self._alone)
            self._waiting -= 1
            self._alone = True
        try:
            yield
        finally:
            with self._changed:
                self._alone = False
                self._changed.notify_all()
            if was_working:
                self._enter()

    def _enter(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._alone and not self._waiting)
            self._inside += 1
        self._this_thread.works = True

    def _leave(self) -> None:
        self._this_thread.works = False
        with self._changed:
            self._inside -= 1
            self._changed.notify_all()


@cache
def room_of(device: str) -> Room:
    """The one room of a device."""
    return Room()
