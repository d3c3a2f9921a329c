"""Tools, and the block that the gripper moves."""

from __future__ import annotations

from collections.abc import Callable

from interleave_mini.world.brush import BLUSH, CREAM, SILVER, Brush, Point, arc_points, mix


def hammer(brush: Brush) -> None:
    def placed(*points: Point) -> list[Point]:
        """From (0, 0), where the handle meets the head, to the square; the hammer leans a little."""
        cos, sin = 0.966, 0.259
        return [(0.55 + dx * cos - dy * sin, 0.295 + dx * sin + dy * cos) for dx, dy in points]

    brush.polygon(placed((-0.075, 0.0), (0.075, 0.0), (0.105, 0.65), (-0.105, 0.65)), brush.main)
    brush.polygon(placed((-0.08, 0.36), (0.08, 0.36), (0.094, 0.64), (-0.094, 0.64)), brush.dark, line=0)
    claw = [(0.1, -0.14), (0.26, -0.11), (0.37, 0.0), (0.41, 0.15), (0.28, 0.08), (0.1, 0.11)]
    brush.polygon(placed((-0.26, -0.1), (-0.14, -0.14), *claw, (-0.14, 0.11), (-0.26, 0.08)), brush.main)
    brush.stroke(placed((-0.1, -0.08), (0.16, -0.08)), brush.light, 0.04)
    brush.polygon(placed((-0.38, -0.16), (-0.25, -0.16), (-0.25, 0.14), (-0.38, 0.14)), SILVER)


def pencil(brush: Brush) -> None:
    def along(*points: Point) -> list[Point]:
        """From the tip of the pencil, (0, 0), to the square: the first number runs along it."""
        half = 0.5**0.5
        return [(0.07 + (t + s) * half, 0.93 + (s - t) * half) for t, s in points]

    brush.polygon(along((0, 0), (0.28, -0.14), (0.28, 0.14)), CREAM)
    brush.polygon(along((0, 0), (0.1, -0.05), (0.1, 0.05)), brush.ink)
    brush.polygon(along((0.96, -0.14), (1.1, -0.13), (1.1, 0.13), (0.96, 0.14)), BLUSH)
    brush.polygon(along((0.27, -0.14), (0.92, -0.14), (0.92, 0.14), (0.27, 0.14)), brush.main)
    brush.polygon(along((0.28, -0.13), (0.92, -0.13), (0.92, -0.045), (0.28, -0.045)), brush.light, line=0)
    brush.polygon(along((0.28, 0.05), (0.92, 0.05), (0.92, 0.13), (0.28, 0.13)), brush.dark, line=0)
    brush.polygon(along((0.9, -0.145), (0.98, -0.145), (0.98, 0.145), (0.9, 0.145)), SILVER)


def bucket(brush: Brush) -> None:
    brush.ellipse(0.5, 0.34, 0.42, 0.11, brush.dark)
    for colour, width in ((brush.ink, 0.07), (SILVER, 0.032)):
        brush.arc(0.5, 0.36, 0.39, 0.3, 180, 360, colour, width)
    rim = arc_points(0.5, 0.34, 0.42, 0.11, 180, 0)
    base = arc_points(0.5, 0.86, 0.3, 0.08, 0, 180)
    brush.polygon([*rim, *base], brush.main)
    brush.arc(0.5, 0.39, 0.41, 0.11, 172, 8, brush.light, 0.05)
    brush.arc(0.5, 0.76, 0.32, 0.085, 175, 5, brush.dark, 0.04)
    brush.stroke([*rim])
    for x in (0.1, 0.9):
        brush.circle(x, 0.38, 0.045, SILVER, line=0.018)


def block(brush: Brush) -> None:
    draw_block(brush, 0.0, 0.0, 1.0)


def draw_block(brush: Brush, left: float, top: float, side: float) -> None:
    """A toy cube in the square with this corner and side."""
    line = brush.line * side
    panel = mix(brush.main, brush.light, 0.5)

    def placed(*points: Point) -> list[Point]:
        return [(left + x * side, top + y * side) for x, y in points]

    brush.polygon(placed((0.05, 0.25), (0.25, 0.06), (0.95, 0.06), (0.75, 0.25)), brush.light, line=line)
    brush.polygon(placed((0.75, 0.25), (0.95, 0.06), (0.95, 0.75), (0.75, 0.95)), brush.dark, line=line)
    brush.polygon(placed((0.05, 0.25), (0.75, 0.25), (0.75, 0.95), (0.05, 0.95)), brush.main, line=line)
    brush.polygon(placed((0.14, 0.34), (0.66, 0.34), (0.66, 0.86), (0.14, 0.86)), brush.dark, line=0)
    brush.polygon(placed((0.19, 0.39), (0.61, 0.39), (0.61, 0.81), (0.19, 0.81)), panel, line=0)


DRAWINGS: dict[str, Callable[[Brush], None]] = {
    "hammer": hammer,
    "pencil": pencil,
    "bucket": bucket,
    "block": block,
}
