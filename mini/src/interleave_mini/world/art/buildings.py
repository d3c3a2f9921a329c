"""Buildings, and how a house is built."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from interleave_mini.world.brush import (
    CREAM,
    GLASS,
    GOLD,
    GREY,
    STONE,
    WHITE,
    WOOD,
    Brush,
    Point,
    arc_points,
    mix,
)

_BEAM = mix(GOLD, WHITE, 0.5)


def house_foundation(brush: Brush) -> None:
    brush.box(0.035, 0.84, 0.965, 0.95, GREY, round=0.02)
    for top, joints in ((0.71, (0.0, 0.22, 0.36)), (0.58, (0.0, 0.12, 0.36)), (0.45, (0.0, 0.22))):
        for near, far in pairwise(joints):
            _brick(brush, 0.07 + near, top, far - near)
            _brick(brush, 0.93 - far, top, far - near)


def unfinished_house(brush: Brush) -> None:
    _rafters(brush)
    _bricks(brush, 0.14, 0.46, 0.86, 0.93, rows=4)
    brush.box(0.24, 0.57, 0.42, 0.74, brush.ink, line=0.018)
    brush.box(0.56, 0.58, 0.74, 0.93, brush.ink, line=0.018)


def house(brush: Brush) -> None:
    roof = mix(brush.main, brush.dark, 0.65)
    brush.box(0.68, 0.12, 0.8, 0.4, brush.main)
    brush.box(0.65, 0.06, 0.83, 0.14, GREY, round=0.02)
    brush.box(0.14, 0.45, 0.86, 0.95, brush.main)
    brush.polygon([(0.5, 0.07), (0.965, 0.49), (0.9, 0.55), (0.1, 0.55), (0.035, 0.49)], roof)
    brush.circle(0.5, 0.36, 0.08, GLASS, line=0.022)
    brush.box(0.22, 0.63, 0.44, 0.83, GLASS, line=0.022)
    brush.stroke([(0.33, 0.63), (0.33, 0.83)], brush.ink, 0.018)
    brush.stroke([(0.22, 0.73), (0.44, 0.73)], brush.ink, 0.018)
    brush.box(0.56, 0.64, 0.76, 0.95, CREAM, round=0.02)
    brush.circle(0.61, 0.8, 0.022, brush.ink, line=0)


def castle(brush: Brush) -> None:
    brush.box(0.3, 0.34, 0.7, 0.7, brush.main)
    brush.stroke([(0.5, 0.14), (0.5, 0.04)], brush.ink, 0.024)
    brush.polygon([(0.5, 0.04), (0.66, 0.08), (0.5, 0.13)], GOLD, line=0.018)
    brush.polygon([(0.5, 0.12), (0.74, 0.36), (0.26, 0.36)], brush.dark)
    brush.box(0.46, 0.42, 0.54, 0.53, brush.ink, round=0.04, line=0)
    brush.polygon(_battlement(0.26, 0.58, 0.74, 0.95, 4), brush.main)
    for left in (0.05, 0.69):
        brush.polygon(_battlement(left, 0.34, left + 0.26, 0.95, 3), brush.main)
        brush.box(left + 0.02, 0.5, left + 0.24, 0.54, brush.dark, line=0)
        brush.box(left + 0.09, 0.6, left + 0.17, 0.72, brush.ink, round=0.04, line=0)
    brush.polygon([(0.4, 0.95), *arc_points(0.5, 0.82, 0.1, 0.1, 180, 360), (0.6, 0.95)], WOOD)
    brush.stroke([(0.5, 0.74), (0.5, 0.94)], brush.ink, 0.016)


def lighthouse(brush: Brush) -> None:
    for side in (-1, 1):
        beam = ((0.1, 0.21), (0.45, 0.11), (0.45, 0.33))
        brush.polygon([(0.5 + side * x, y) for x, y in beam], _BEAM, line=0)
    brush.blob([(0.1, 0.93), (0.18, 0.84), (0.5, 0.81), (0.82, 0.84), (0.9, 0.93), (0.5, 0.95)], STONE)
    brush.polygon([*_across(0.33), *reversed(_across(0.91))], brush.main)
    for top in (0.44, 0.67):
        brush.polygon([*_across(top), *reversed(_across(top + 0.085))], WHITE, line=0.018)
    brush.stroke([_across(0.33)[0], _across(0.91)[0]])
    brush.stroke([_across(0.33)[1], _across(0.91)[1]])
    brush.box(0.44, 0.78, 0.56, 0.92, brush.ink, round=0.05, line=0)
    brush.box(0.38, 0.13, 0.62, 0.32, GOLD)
    brush.stroke([(0.5, 0.14), (0.5, 0.3)], brush.ink, 0.018)
    brush.box(0.27, 0.29, 0.73, 0.36, brush.dark, round=0.02)
    brush.polygon([(0.5, 0.035), (0.7, 0.16), (0.3, 0.16)], brush.main)


def _brick(brush: Brush, left: float, top: float, width: float) -> None:
    brush.box(left, top, left + width, top + 0.13, brush.main, line=0.022)
    brush.stroke([(left + 0.035, top + 0.04), (left + width - 0.035, top + 0.04)], brush.light, 0.022)


def _across(y: float) -> tuple[Point, Point]:
    """The lighthouse's left and right side at this height: it is wider below."""
    reach = 0.16 + (y - 0.33) * 0.2
    return (0.5 - reach, y), (0.5 + reach, y)


def _bricks(brush: Brush, left: float, top: float, right: float, bottom: float, *, rows: int) -> None:
    """A wall with visible bricks."""
    brush.box(left, top, right, bottom, brush.main)
    height = (bottom - top) / rows
    for row in range(rows):
        y = top + row * height
        if row:
            brush.stroke([(left, y), (right, y)], brush.dark, 0.018)
        for joint in range(1, 5):
            x = left + (right - left) * (joint - 0.5 * (row % 2)) / 4.5
            brush.stroke([(x, y), (x, y + height)], brush.dark, 0.018)
    brush.stroke([(left, top), (right, top), (right, bottom), (left, bottom), (left, top)])


def _rafters(brush: Brush) -> None:
    for x in (0.3, 0.5, 0.7):
        top = 0.12 + abs(x - 0.5) * 0.85
        brush.box(x - 0.025, top, x + 0.025, 0.48, WOOD, line=0.018)
    for side in (-1, 1):
        for colour, width in ((brush.ink, 0.085), (WOOD, 0.048)):
            brush.stroke([(0.5, 0.1), (0.5 + side * 0.42, 0.47)], colour, width)


def _battlement(left: float, top: float, right: float, bottom: float, merlons: int) -> list[Point]:
    """A wall with battlements."""
    step = (right - left) / (2 * merlons - 1)
    teeth: list[Point] = []
    for index in range(2 * merlons - 1):
        y = top + 0.08 * (index % 2)
        teeth += [(left + index * step, y), (left + (index + 1) * step, y)]
    return [*teeth, (right, bottom), (left, bottom)]


DRAWINGS: dict[str, Callable[[Brush], None]] = {
    "house foundation": house_foundation,
    "unfinished house": unfinished_house,
    "house": house,
    "castle": castle,
    "lighthouse": lighthouse,
}
