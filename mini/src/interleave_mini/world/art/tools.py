"""Tools, the block that the gripper moves, and the gripper, which hangs from the top of its cell."""

from __future__ import annotations

from collections.abc import Callable

from interleave_mini.world.brush import (
    BLUSH,
    CREAM,
    GOLD,
    GREY,
    SILVER,
    STONE,
    WHITE,
    Brush,
    Point,
    arc_points,
    mix,
)

_BLOCK = 0.55
"""The side of a small thing, as a part of a cell."""


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


def draw_gripper(brush: Brush, *, holds: bool) -> None:
    """An arm with two jointed fingers; closed around a block of the brush's colour when it holds one."""
    brush.box(0.43, 0.0, 0.57, 0.16, GREY)
    brush.stroke([(0.43, 0.07), (0.57, 0.07)], brush.ink, 0.018)
    if holds:
        draw_block(brush, 0.5 - _BLOCK / 2, 0.4, _BLOCK)
    for side in (-1, 1):
        _finger(brush, side, opened=not holds)
    brush.box(0.26, 0.13, 0.74, 0.31, SILVER, round=0.07)
    brush.box(0.29, 0.24, 0.71, 0.29, GREY, line=0, round=0.03)
    brush.circle(0.5, 0.205, 0.05, GOLD, line=0.018)
    brush.circle(0.485, 0.19, 0.015, WHITE, line=0)


def _finger(brush: Brush, side: int, *, opened: bool) -> None:
    knee, tip = ((0.4, 0.5), (0.3, 0.74)) if opened else ((0.335, 0.46), (0.285, 0.7))

    def placed(*points: Point) -> list[Point]:
        return [(0.5 + side * x, y) for x, y in points]

    bones = placed((0.17, 0.28), knee, tip)
    brush.stroke(bones, brush.ink, 0.115)
    brush.stroke(bones, STONE, 0.068)
    brush.stroke(_towards(bones[2], bones[1]), brush.ink, 0.07)
    brush.circle(*bones[1], 0.055, SILVER, line=0.02)


def _towards(start: Point, end: Point) -> list[Point]:
    """A short way from one point to another: the rubber on a fingertip."""
    return [start, (start[0] + (end[0] - start[0]) * 0.28, start[1] + (end[1] - start[1]) * 0.28)]


DRAWINGS: dict[str, Callable[[Brush], None]] = {
    "hammer": hammer,
    "pencil": pencil,
    "bucket": bucket,
    "block": block,
}
