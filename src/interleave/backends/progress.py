"""Progress of a picture while it is drawn: backends report denoising steps, listeners show them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from interleave.types import Slot

Listener = Callable[[Slot, int, int], None]
"""Called with the slot of the picture in its run, the steps done and all steps; from any thread."""

_listeners: list[Listener] = []


def report_progress(slot: Slot, done: int, total: int) -> None:
    """Tell all listeners that `done` of `total` steps of a picture are done."""
    for listener in tuple(_listeners):
        listener(slot, done, total)


@contextmanager
def progress_listener(listener: Listener) -> Iterator[None]:
    """While the block runs, call a listener for every step of every picture."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
