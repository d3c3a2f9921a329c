"""What is painted when first needed, and then kept: once, however many threads ask for it at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import TypeVar, TypeVarTuple

Asked = TypeVarTuple("Asked")
T = TypeVar("T")

_painting = RLock()


def painted_once(paint: Callable[[*Asked], T]) -> Callable[[*Asked], T]:
    """For functions of the world's few kinds, sizes and places: nothing is ever thrown away."""
    kept: dict[tuple[*Asked], T] = {}

    @wraps(paint)
    def painted(*asked: *Asked) -> T:
        if asked in kept:
            return kept[asked]
        with _painting:
            if asked not in kept:
                kept[asked] = paint(*asked)
            return kept[asked]

    return painted


def _free_lock() -> None:
    global _painting
    _painting = RLock()


os.register_at_fork(after_in_child=_free_lock)  # whoever held it has not come along
