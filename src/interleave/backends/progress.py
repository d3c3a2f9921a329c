"""How far a picture is: backends tell, whoever shows progress listens. Nobody need do either."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from interleave.types import Slot

Listener = Callable[[Slot, int, int], None]
"""Called with the place of the picture in its run, the steps done and all steps; from any thread."""

_listeners: list[Listener] = []


def tell(slot: Slot, done: int, total: int) -> None:
    """So many of so many steps of this picture are done."""
    for listener in tuple(_listeners):
        listener(slot, done, total)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Be told about every picture that is being drawn."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
