"""Plain shapes, without anything on them."""

from __future__ import annotations

import math
from collections.abc import Callable

from interleave_mini.world.brush import Brush, star_points


def circle(brush: Brush) -> None:
    brush.circle(0.5, 0.5, 0.43, brush.main)


def square(brush: Brush) -> None:
    brush.box(0.1, 0.1, 0.9, 0.9, brush.main)


def triangle(brush: Brush) -> None:
    brush.polygon([(0.5, 0.07), (0.95, 0.88), (0.05, 0.88)], brush.main)


def star(brush: Brush) -> None:
    brush.polygon(star_points(0.5, 0.53, 0.47, 0.205), brush.main)


def heart(brush: Brush) -> None:
    angles = [math.radians(degrees) for degrees in range(0, 360, 5)]
    brush.polygon([(0.5 + 0.45 * math.sin(a) ** 3, _heart_height(a)) for a in angles], brush.main)


def _heart_height(angle: float) -> float:
    waves = 13 * math.cos(angle) - 5 * math.cos(2 * angle) - 2 * math.cos(3 * angle) - math.cos(4 * angle)
    return 0.44 - 0.0285 * waves


DRAWINGS: dict[str, Callable[[Brush], None]] = {
    "circle": circle,
    "square": square,
    "triangle": triangle,
    "star": star,
    "heart": heart,
}
