"""What is seen in the sky, and a snowman that melts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from interleave_mini.world.brush import BLUSH, RGB, WHITE, WOOD, Brush, Point, arc_points

_NIGHT: RGB = (34, 32, 62)
_CARROT: RGB = (246, 132, 40)
_MOON = (0.5, 0.5, 0.42)


def sun(brush: Brush) -> None:
    for index in range(10):
        angle = math.radians(index * 36 - 90)
        ray = [_polar(angle - 0.26, 0.29), _polar(angle, 0.465), _polar(angle + 0.26, 0.29)]
        brush.polygon(ray, brush.main, line=0.022)
    brush.circle(0.5, 0.5, 0.31, brush.main)
    brush.arc(0.5, 0.5, 0.25, 0.25, 190, 260, brush.light, 0.04)
    _face(brush, 0.5, 0.5)


def cloud(brush: Brush) -> None:
    puffs = [(0.22, 0.62, 0.17), (0.38, 0.42, 0.2), (0.62, 0.4, 0.19), (0.79, 0.62, 0.16), (0.5, 0.64, 0.2)]
    for x, y, r in puffs:
        brush.circle(x, y, r, brush.main)
    brush.box(0.2, 0.6, 0.8, 0.8, brush.main, round=0.1)
    for x, y, r in puffs:
        brush.circle(x, y, r - 0.012, brush.main, line=0)
    brush.box(0.2, 0.6, 0.8, 0.788, brush.main, round=0.1, line=0)
    brush.arc(0.38, 0.42, 0.14, 0.14, 190, 270, brush.light, 0.045)
    brush.arc(0.62, 0.4, 0.13, 0.13, 220, 290, brush.light, 0.045)
    brush.arc(0.22, 0.62, 0.11, 0.11, 170, 250, brush.light, 0.045)
    _face(brush, 0.5, 0.58)


def new_moon(brush: Brush) -> None:
    _dark_moon(brush)
    for side in (-1, 1):
        brush.arc(0.5 + side * 0.14, 0.46, 0.07, 0.05, 10, 170, brush.pale, 0.03)
    brush.ellipse(0.5, 0.65, 0.035, 0.04, brush.pale, line=0)


def crescent_moon(brush: Brush) -> None:
    _dark_moon(brush)
    x, y, r = _MOON
    brush.polygon([*arc_points(x, y, r, r, -90, 90), *arc_points(x, y, r * 0.4, r, 90, -90)], brush.main)


def half_moon(brush: Brush) -> None:
    _dark_moon(brush)
    x, y, r = _MOON
    brush.polygon(arc_points(x, y, r, r, -90, 90), brush.main)
    _crater(brush, 0.66, 0.32, 0.08)
    _crater(brush, 0.78, 0.52, 0.05)
    _crater(brush, 0.63, 0.69, 0.065)


def moon(brush: Brush) -> None:
    brush.circle(*_MOON, brush.main)
    for x, y, r in ((0.3, 0.28, 0.075), (0.7, 0.24, 0.05), (0.79, 0.68, 0.06), (0.24, 0.7, 0.05)):
        _crater(brush, x, y, r)
    _crater(brush, 0.52, 0.82, 0.045)
    _face(brush, 0.5, 0.5)


def snowman(brush: Brush) -> None:
    for side in (-1, 1):
        _stick(brush, [(0.5 + side * 0.16, 0.58), (0.5 + side * 0.44, 0.42)])
        _stick(brush, [(0.5 + side * 0.35, 0.47), (0.5 + side * 0.37, 0.37)])
    brush.ellipse(0.5, 0.755, 0.31, 0.2, brush.main)
    brush.ellipse(0.5, 0.54, 0.23, 0.16, brush.main)
    brush.ellipse(0.5, 0.755, 0.29, 0.185, brush.main, line=0)
    brush.ellipse(0.5, 0.33, 0.19, 0.165, brush.main)
    brush.arc(0.5, 0.755, 0.24, 0.13, 185, 225, brush.light, 0.04)
    for y in (0.6, 0.71, 0.82):
        brush.circle(0.5, y, 0.028, brush.ink, line=0)
    brush.box(0.35, 0.465, 0.65, 0.52, WHITE, round=0.03, line=0.018)
    _snow_face(brush, 0.5, 0.33)
    _hat(brush, 0.5, 0.205, 0)


def melting_snowman(brush: Brush) -> None:
    _puddle(brush, 0.85, 0.1)
    for side in (-1, 1):
        _stick(brush, [(0.5 + side * 0.2, 0.66), (0.5 + side * 0.44, 0.76)])
        _stick(brush, [(0.5 + side * 0.35, 0.72), (0.5 + side * 0.42, 0.66)])
    body = [(0.18, 0.86), (0.25, 0.7), (0.4, 0.6), (0.62, 0.6), (0.76, 0.7), (0.82, 0.86)]
    brush.blob([*body, (0.66, 0.91), (0.56, 0.86), (0.44, 0.92), (0.32, 0.87)], brush.main)
    brush.ellipse(0.47, 0.5, 0.22, 0.16, brush.main, turn=-8)
    brush.circle(0.57, 0.72, 0.028, brush.ink, line=0)
    brush.circle(0.61, 0.81, 0.028, brush.ink, line=0)
    _snow_face(brush, 0.46, 0.5, sad=True)
    _hat(brush, 0.41, 0.36, -16)


def melted_snowman(brush: Brush) -> None:
    _puddle(brush, 0.77, 0.175)
    brush.arc(0.5, 0.77, 0.36, 0.12, 20, 65, brush.light, 0.04)
    brush.arc(0.5, 0.77, 0.36, 0.12, 185, 230, brush.light, 0.04)
    _stick(brush, [(0.16, 0.8), (0.36, 0.87)])
    _hat(brush, 0.56, 0.68, 8, size=1.15)
    _carrot(brush, 0.5, 0.83, 0.2)


def _polar(angle: float, radius: float) -> Point:
    return 0.5 + radius * math.cos(angle), 0.5 + radius * math.sin(angle)


def _face(brush: Brush, x: float, y: float) -> None:
    """A friendly face around (x, y)."""
    for side in (-1, 1):
        brush.ellipse(x + side * 0.17, y + 0.07, 0.042, 0.03, BLUSH, line=0)
        brush.eye(x + side * 0.1, y - 0.03, 0.038)
    brush.arc(x, y + 0.045, 0.07, 0.06, 15, 165, brush.ink, 0.024)


def _dark_moon(brush: Brush) -> None:
    """The part without light is as dark as the night in every colour; its rim says which colour it has."""
    x, y, r = _MOON
    brush.circle(x, y, r, brush.main)
    brush.circle(x, y, r - 0.1, _NIGHT, line=0)


def _crater(brush: Brush, x: float, y: float, r: float) -> None:
    brush.circle(x, y, r, brush.light, line=0)
    brush.circle(x + r * 0.12, y + r * 0.15, r * 0.78, brush.pale, line=0)


def _stick(brush: Brush, points: Sequence[Point]) -> None:
    brush.stroke(points, brush.ink, 0.05)
    brush.stroke(points, WOOD, 0.024)


def _carrot(brush: Brush, x: float, y: float, length: float) -> None:
    half = length * 0.25
    brush.polygon([(x, y - half), (x + length, y + half / 2), (x, y + half)], _CARROT, line=0.016)


def _snow_face(brush: Brush, x: float, y: float, *, sad: bool = False) -> None:
    for side in (-1, 1):
        brush.circle(x + side * 0.065, y - 0.03, 0.026, brush.ink, line=0)
    if sad:
        brush.arc(x, y + 0.11, 0.05, 0.04, 200, 340, brush.ink, 0.02)
    else:
        brush.arc(x, y + 0.045, 0.085, 0.065, 20, 160, brush.ink, 0.02)
    _carrot(brush, x, y + 0.02, 0.13)


def _hat(brush: Brush, x: float, y: float, turn: float, *, size: float = 1) -> None:
    """A top hat whose brim is centred on (x, y)."""
    cos, sin = size * math.cos(math.radians(turn)), size * math.sin(math.radians(turn))

    def placed(*points: Point) -> list[Point]:
        return [(x + dx * cos - dy * sin, y + dx * sin + dy * cos) for dx, dy in points]

    brush.polygon(placed((-0.1, 0), (-0.11, -0.15), (0.11, -0.15), (0.1, 0)), brush.ink)
    brush.polygon(placed((-0.1, -0.02), (-0.105, -0.06), (0.105, -0.06), (0.1, -0.02)), WHITE, line=0)
    brush.stroke(placed((-0.18, 0), (0.18, 0)), brush.ink, 0.04)


def _puddle(brush: Brush, y: float, height: float) -> None:
    back = [(-0.45, 0.05), (-0.36, -0.65), (-0.12, -0.85), (0.14, -0.95), (0.36, -0.7), (0.45, 0.0)]
    rim = [*back, (0.36, 0.65), (0.18, 0.98), (0.0, 0.85), (-0.2, 1.0), (-0.38, 0.65)]
    brush.blob([(0.5 + dx, y + dy * height) for dx, dy in rim], brush.main)


DRAWINGS: dict[str, Callable[[Brush], None]] = {
    "sun": sun,
    "cloud": cloud,
    "new moon": new_moon,
    "crescent moon": crescent_moon,
    "half moon": half_moon,
    "moon": moon,
    "snowman": snowman,
    "melting snowman": melting_snowman,
    "melted snowman": melted_snowman,
}
