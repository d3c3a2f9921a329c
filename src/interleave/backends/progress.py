"""Progress of a picture: a backend may report it, and listeners may show it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from interleave.types import Slot

Listener = Callable[[Slot, int, int], None]
"""Called with the slot of the picture, the steps done and the total; from any thread."""

_listeners: list[Listener] = []


def report(slot: Slot, done: int, total: int) -> None:
    """Report that `done` of `total` denoising steps of a picture are done."""
    for listener in tuple(_listeners):
        listener(slot, done, total)


def has_listeners() -> bool:
    """Whether anybody listens: where progress has a cost, it is only asked for then."""
    return bool(_listeners)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call a listener for every picture that is being drawn."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
