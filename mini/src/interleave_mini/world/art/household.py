"""Household things."""

from __future__ import annotations

from collections.abc import Callable

from interleave_mini.world.art.pieces import turned
from interleave_mini.world.brush import (
    CREAM,
    FLAME,
    GOLD,
    GREY,
    WHITE,
    Brush,
    Point,
    arc_points,
    star_points,
)

WATER = (96, 204, 232)
GLOW = (255, 244, 170)
BEAM = (255, 220, 84)


def _mug(brush: Brush, level: float) -> None:
    """A mug with a window in its front; `level` is how much of it is full."""
    for colour, width in ((brush.ink, 0.15), (brush.main, 0.098)):
        brush.arc(0.7, 0.53, 0.19, 0.19, -90, 90, colour, width)
    brush.polygon([(0.06, 0.18), (0.72, 0.18), *arc_points(0.39, 0.87, 0.3, 0.08, 0, 180)], brush.main)
    brush.ellipse(0.39, 0.18, 0.33, 0.1, brush.main)
    brush.ellipse(0.39, 0.185, 0.25, 0.06, WATER if level == 1 else brush.dark, line=0.018)
    left, top, right, bottom = 0.22, 0.39, 0.56, 0.82
    surface = bottom - (bottom - top) * level
    brush.box(left - 0.02, top - 0.02, right + 0.02, bottom + 0.02, brush.ink, round=0.07, line=0)
    brush.box(left, top, right, bottom, WATER if level else brush.pale, round=0.055, line=0)
    if 0 < level < 1:
        brush.box(left, top, right, surface, brush.pale, round=0.055, line=0)
        brush.box(left, top + 0.1, right, surface, brush.pale, line=0)
        brush.stroke([(left, surface), (right, surface)])
    brush.stroke([(0.28, 0.53), (0.36, 0.45)], WHITE, 0.03)
    brush.stroke([(0.3, 0.61), (0.43, 0.48)] if level == 0 else [(0.29, 0.77), (0.35, 0.71)], WHITE, 0.03)


def cup(brush: Brush) -> None:
    _mug(brush, 0)


def half_full_cup(brush: Brush) -> None:
    _mug(brush, 0.5)


def full_cup(brush: Brush) -> None:
    _mug(brush, 1)


def _table_lamp(brush: Brush, *, lit: bool) -> None:
    brush.box(0.46, 0.5, 0.54, 0.68, brush.dark)
    brush.ellipse(0.5, 0.54, 0.14, 0.1, GLOW if lit else WHITE)
    brush.ellipse(0.5, 0.78, 0.16, 0.13, brush.main)
    brush.chord(0.5, 0.95, 0.28, 0.1, 180, 360, brush.main)
    brush.arc(0.5, 0.78, 0.09, 0.07, 150, 230, brush.pale, 0.035)
    brush.polygon([(0.36, 0.13), (0.64, 0.13), (0.83, 0.54), (0.17, 0.54)], brush.main)
    brush.polygon([(0.2, 0.48), (0.8, 0.48), (0.83, 0.54), (0.17, 0.54)], brush.dark)


def lamp(brush: Brush) -> None:
    _table_lamp(brush, lit=False)
    brush.polygon([(0.4, 0.19), (0.46, 0.19), (0.4, 0.43), (0.29, 0.43)], brush.light, line=0)
    brush.stroke([(0.7, 0.55), (0.7, 0.68)], width=0.02)
    brush.circle(0.7, 0.7, 0.03, brush.light, line=0.018)


def glowing_lamp(brush: Brush) -> None:
    _table_lamp(brush, lit=True)
    brush.polygon([(0.45, 0.2), (0.55, 0.2), (0.62, 0.43), (0.38, 0.43)], GLOW, line=0)
    for side in (-1, 1):
        for x, y, far_x, far_y in (
            (0.21, 0.16, 0.28, 0.08),
            (0.3, 0.31, 0.42, 0.26),
            (0.4, 0.48, 0.43, 0.49),
        ):
            _ray(brush, (0.5 + side * x, y), (0.5 + side * far_x, far_y))
        _ray(brush, (0.5 + side * 0.28, 0.64), (0.5 + side * 0.36, 0.75))


def _ray(brush: Brush, near: Point, far: Point) -> None:
    for colour, width in ((brush.ink, 0.09), (BEAM, 0.045)):
        brush.stroke([near, far], colour, width)


def _burning(brush: Brush, top: float) -> None:
    """A candle on a dish, burned down to this height."""
    for colour, width in ((brush.ink, 0.1), (brush.main, 0.048)):
        brush.arc(0.86, 0.76, 0.06, 0.08, 0, 360, colour, width)
    brush.chord(0.46, 0.77, 0.37, 0.18, 0, 180, brush.main)
    brush.ellipse(0.46, 0.77, 0.42, 0.085, brush.light)
    brush.polygon([(0.26, top), (0.66, top), *arc_points(0.46, 0.77, 0.2, 0.045, 0, 180)], brush.main)


def _flame(brush: Brush, base: float) -> None:
    brush.stroke([(0.46, base + 0.02), (0.46, base - 0.05)], width=0.035)
    brush.blob([(0.46, base - 0.28), (0.565, base - 0.12), (0.46, base - 0.04), (0.355, base - 0.12)], FLAME)
    brush.ellipse(0.46, base - 0.1, 0.04, 0.05, GLOW, line=0)


def _molten_top(brush: Brush, top: float) -> None:
    edge = [
        (0.26, top),
        (0.46, top - 0.04),
        (0.66, top),
        (0.65, top + 0.11),
        (0.57, top + 0.11),
        (0.53, top + 0.05),
    ]
    brush.blob(
        [*edge, (0.43, top + 0.06), (0.39, top + 0.17), (0.31, top + 0.17), (0.27, top + 0.07)], brush.light
    )


def unlit_candle(brush: Brush) -> None:
    _burning(brush, 0.32)
    brush.ellipse(0.46, 0.32, 0.2, 0.05, brush.light)
    brush.stroke([(0.34, 0.44), (0.34, 0.66)], brush.pale, 0.045)
    brush.curve([(0.46, 0.32), (0.46, 0.25), (0.5, 0.2)], width=0.05)


def candle(brush: Brush) -> None:
    _burning(brush, 0.32)
    brush.ellipse(0.46, 0.32, 0.2, 0.05, brush.light)
    brush.stroke([(0.34, 0.44), (0.34, 0.66)], brush.pale, 0.045)
    _flame(brush, 0.32)


def half_burned_candle(brush: Brush) -> None:
    _burning(brush, 0.51)
    _molten_top(brush, 0.51)
    _flame(brush, 0.5)


def candle_stub(brush: Brush) -> None:
    _burning(brush, 0.72)
    mound = [(0.46, 0.63), (0.59, 0.66), (0.64, 0.74), (0.75, 0.79), (0.6, 0.83)]
    brush.blob([*mound, (0.46, 0.82), *((0.92 - x, y) for x, y in reversed(mound[1:]))], brush.main)
    brush.ellipse(0.46, 0.67, 0.11, 0.03, brush.light, line=0.016)
    _flame(brush, 0.67)


def _bow(brush: Brush, x: float, y: float, turn: float = 0) -> None:
    for side in (-1, 1):
        loop = [(x, y), (x + side * 0.1, y - 0.13), (x + side * 0.24, y - 0.12), (x + side * 0.2, y)]
        brush.blob(turned(loop, x, y, turn), WHITE)
    brush.circle(x, y - 0.02, 0.05, WHITE)


def gift(brush: Brush) -> None:
    brush.box(0.1, 0.42, 0.9, 0.95, brush.main)
    brush.box(0.113, 0.47, 0.887, 0.54, brush.dark, line=0)
    brush.box(0.43, 0.42, 0.57, 0.95, WHITE)
    brush.box(0.05, 0.27, 0.95, 0.47, brush.main, round=0.02)
    brush.box(0.43, 0.27, 0.57, 0.47, WHITE)
    _bow(brush, 0.5, 0.25)


def opened_gift(brush: Brush) -> None:
    brush.polygon([(0.08, 0.6), (0.18, 0.49), (0.82, 0.49), (0.92, 0.6)], brush.dark)
    brush.polygon(star_points(0.32, 0.48, 0.18, 0.085), GOLD)
    brush.box(0.08, 0.6, 0.92, 0.95, brush.main)
    brush.box(0.43, 0.6, 0.57, 0.95, WHITE)
    lid = [(0.3, 0.25), (0.94, 0.25), (0.94, 0.42), (0.3, 0.42)]
    brush.polygon(turned(lid, 0.62, 0.33, 20), brush.main)
    brush.polygon(turned([(0.55, 0.25), (0.67, 0.25), (0.67, 0.42), (0.55, 0.42)], 0.62, 0.33, 20), WHITE)
    _bow(brush, 0.64, 0.24, 20)


def chair(brush: Brush) -> None:
    for x in (0.24, 0.64):
        brush.box(x + 0.03, 0.68, x + 0.1, 0.85, brush.dark)
        brush.box(x, 0.1, x + 0.12, 0.58, brush.main)
    brush.box(0.26, 0.32, 0.74, 0.42, brush.main)
    brush.box(0.19, 0.05, 0.81, 0.23, brush.main, round=0.06)
    for x in (0.14, 0.74):
        brush.box(x, 0.66, x + 0.12, 0.95, brush.main)
    brush.polygon([(0.23, 0.51), (0.77, 0.51), (0.89, 0.63), (0.11, 0.63)], brush.light)
    brush.box(0.11, 0.62, 0.89, 0.72, brush.main, round=0.02)


def clock(brush: Brush) -> None:
    for side in (-1, 1):
        brush.stroke([(0.5 + side * 0.2, 0.8), (0.5 + side * 0.29, 0.92)], brush.ink, 0.11)
        brush.stroke([(0.5 + side * 0.2, 0.8), (0.5 + side * 0.29, 0.92)], brush.main, 0.06)
        brush.polygon(turned(arc_points(0.5, 0.17, 0.16, 0.13, 180, 360), 0.5, 0.57, side * 36), brush.main)
    brush.stroke([(0.5, 0.2), (0.5, 0.08)], brush.ink, 0.05)
    brush.circle(0.5, 0.57, 0.365, brush.main)
    brush.circle(0.5, 0.57, 0.26, brush.pale)
    for hour in range(12):
        mark = turned([(0.5, 0.36), (0.5, 0.39 if hour % 3 else 0.41)], 0.5, 0.57, 30 * hour)
        brush.stroke(mark, width=0.014 if hour % 3 else 0.03)
    brush.stroke([(0.5, 0.41), (0.5, 0.57), (0.61, 0.62)], width=0.04)


def book(brush: Brush) -> None:
    brush.box(0.11, 0.1, 0.89, 0.95, brush.dark, round=0.06)
    brush.box(0.17, 0.8, 0.87, 0.91, WHITE)
    for y in (0.85, 0.88):
        brush.stroke([(0.2, y), (0.85, y)], GREY, 0.012)
    brush.box(0.11, 0.05, 0.89, 0.82, brush.main, round=0.05)
    brush.box(0.11, 0.05, 0.26, 0.82, brush.dark, round=0.05)
    brush.box(0.37, 0.17, 0.78, 0.4, CREAM, round=0.03)
    brush.stroke([(0.45, 0.25), (0.7, 0.25)], width=0.03)
    brush.stroke([(0.5, 0.33), (0.65, 0.33)], width=0.03)
    brush.polygon(star_points(0.575, 0.6, 0.11, 0.05), brush.light, line=0)


DRAWINGS: dict[str, Callable[[Brush], None]] = {
    "cup": cup,
    "half-full cup": half_full_cup,
    "full cup": full_cup,
    "lamp": lamp,
    "glowing lamp": glowing_lamp,
    "candle": candle,
    "unlit candle": unlit_candle,
    "half-burned candle": half_burned_candle,
    "candle stub": candle_stub,
    "gift": gift,
    "opened gift": opened_gift,
    "chair": chair,
    "clock": clock,
    "book": book,
}
