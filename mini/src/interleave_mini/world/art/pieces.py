"""Pieces that several drawings are put together from."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from interleave_mini.world.brush import FLAME, GREY, RGB, SILVER, WHITE, Brush, Point, arc_points

Drawing = Callable[[Brush], None]

WATER: RGB = (126, 204, 244)


def joined(brush: Brush, parts: Sequence[Sequence[Point]], fill: RGB) -> None:
    """Smooth shapes that grow together into one, with one outline around all of them."""
    for part in parts:
        brush.blob(part, brush.ink, line=2 * brush.line)
    for part in parts:
        brush.blob(part, fill, line=0)


def oval(x: float, y: float, rx: float, ry: float, turn: float = 0) -> list[Point]:
    return arc_points(x, y, rx, ry, 0, 360, turn=turn)[:-1]


def leg(x: float, top: float, width: float, bottom: float = 0.94) -> list[Point]:
    """A stumpy leg around `x`, for `joined`."""
    half = width / 2
    corners = [(x - half, top), (x + half, top), (x + half, bottom - 0.05), (x + half * 0.7, bottom)]
    return [*corners, (x - half * 0.7, bottom), (x - half, bottom - 0.05)]


def limb(brush: Brush, points: Sequence[Point], fill: RGB, width: float) -> None:
    """A bendy tube."""
    brush.curve(points, brush.ink, width + 2 * brush.line)
    brush.curve(points, fill, width)


def goggle(brush: Brush, x: float, y: float, r: float, glance: float = 0) -> None:
    """A round white eye that looks to the left (glance < 0), ahead or to the right."""
    brush.circle(x, y, r, WHITE)
    brush.eye(x + glance * r, y + r * 0.08, r * 0.6)


def bird_feet(brush: Brush, top: float, *xs: float) -> None:
    for x in xs:
        toes = [(x - 0.08, 0.94), (x, 0.9), (x + 0.06, 0.94)]
        for width, colour in ((0.075, brush.ink), (0.038, FLAME)):
            brush.stroke([(x, top), (x, 0.9)], colour, width)
            brush.stroke(toes, colour, width)


def wheel(brush: Brush, x: float, y: float, r: float) -> None:
    brush.circle(x, y, r - 0.013, brush.ink)
    brush.circle(x, y, r * 0.5, SILVER, line=0)
    brush.circle(x, y, r * 0.18, GREY, line=0)


def turned(points: Sequence[Point], x: float, y: float, degrees: float) -> list[Point]:
    """These points, turned clockwise around (x, y)."""
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return [(x + (a - x) * cos - (b - y) * sin, y + (a - x) * sin + (b - y) * cos) for a, b in points]


def drop(brush: Brush, x: float, y: float, size: float) -> None:
    """A drop of water around (x, y)."""
    right = [(0.55, -0.15), (0.8, 0.45), (0.45, 0.95)]
    outline = [(0, -1.35), *right, *((-dx, dy) for dx, dy in reversed(right))]
    brush.blob([(x + dx * size, y + dy * size) for dx, dy in outline], WATER, line=0.02)
    brush.circle(x - size * 0.25, y + size * 0.3, size * 0.25, WHITE, line=0)
