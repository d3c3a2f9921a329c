"""How large the pictures of a document stand, and how many side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

PIXEL_ART_SIDE = 128
"""Pictures up to this wide are enlarged pixel by pixel; smoothed, they would be a blur."""
SMALL_SIDE = 400
"""Pictures up to this wide are enlarged a little; larger ones stand at their real size or below."""


@dataclass(frozen=True)
class Layout:
    """The grid of a document."""

    columns: int
    """At most so many side by side; narrow windows have fewer."""
    tile: int
    """The largest width of a picture, in CSS pixels."""
    ratio: str
    """Width to height of a cell without a picture: that of the pictures around it."""


def layout_of(sizes: Sequence[tuple[int, int]], steps: int) -> Layout:
    """The grid for so many steps with pictures of these sizes."""
    if not sizes:
        return Layout(1, 720, "auto")
    columns = 1 if steps == 1 else 2 if steps in (2, 4) else 3
    room = {1: 1024, 2: 560, 3: 400}[columns]
    width, height = max(sizes)
    return Layout(columns, min(room, enlarged(width, columns)), f"{width} / {height}")


def enlarged(width: int, columns: int) -> int:
    """The width at which a picture still looks sharp."""
    if width <= PIXEL_ART_SIDE:
        return width * max(1, 384 // width)
    if width <= SMALL_SIDE:
        return round(width * {1: 2, 2: 1.75, 3: 1.5}[columns])
    return width
