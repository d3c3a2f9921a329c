"""Toys."""

from __future__ import annotations

import math
from collections.abc import Callable

from interleave_mini.world.brush import CREAM, WHITE, Brush, Point, arc_points


def _seam(angle: float) -> list[Point]:
    """From the pole of the ball to its rim, as the ball bulges."""
    pole_x, pole_y, bend = 0.38, 0.36, math.radians(angle - 24)
    rim_x, rim_y = arc_points(0.5, 0.52, 0.43, 0.43, angle, angle + 1)[0]
    by_x, by_y = (
        0.5 * (pole_x + rim_x) + 0.09 * math.cos(bend),
        0.5 * (pole_y + rim_y) + 0.09 * math.sin(bend),
    )
    seam = []
    for step in range(11):
        t = step / 10
        first, middle, last = (1 - t) ** 2, 2 * t * (1 - t), t**2
        seam.append(
            (first * pole_x + middle * by_x + last * rim_x, first * pole_y + middle * by_y + last * rim_y)
        )
    return seam


def ball(brush: Brush) -> None:
    brush.circle(0.5, 0.52, 0.43, brush.main)
    for start, end in ((-70, -30), (45, 85), (165, 205)):
        panel = [*_seam(start), *arc_points(0.5, 0.52, 0.43, 0.43, start, end), *reversed(_seam(end))]
        brush.polygon(panel, WHITE)
    brush.circle(0.38, 0.36, 0.07, brush.light)


def kite(brush: Brush) -> None:
    brush.curve([(0.42, 0.68), (0.42, 0.84), (0.58, 0.92), (0.74, 0.8), (0.93, 0.86)], width=0.03)
    for x, y, turn in ((0.47, 0.865, 40), (0.73, 0.81, -30)):
        for side in (-1, 1):
            lean = math.radians(turn)
            brush.ellipse(
                x + side * 0.065 * math.cos(lean),
                y + side * 0.065 * math.sin(lean),
                0.07,
                0.045,
                brush.main,
                turn=turn,
            )
    top, right, bottom, left, middle = (0.54, 0.03), (0.93, 0.34), (0.41, 0.74), (0.07, 0.22), (0.5, 0.28)
    for first, second, fill in (
        (top, right, brush.main),
        (right, bottom, brush.light),
        (bottom, left, brush.main),
        (left, top, brush.light),
    ):
        brush.polygon([middle, first, second], fill)


def teddy(brush: Brush) -> None:
    for side in (-1, 1):
        brush.ellipse(0.5 + side * 0.3, 0.62, 0.1, 0.15, brush.main, turn=side * -40)
    brush.ellipse(0.5, 0.7, 0.27, 0.24, brush.main)
    brush.ellipse(0.5, 0.72, 0.16, 0.15, brush.light, line=0)
    for side in (-1, 1):
        brush.ellipse(0.5 + side * 0.27, 0.84, 0.13, 0.11, brush.main)
        brush.ellipse(0.5 + side * 0.28, 0.85, 0.065, 0.055, brush.pale, line=0)
        brush.circle(0.5 + side * 0.25, 0.15, 0.11, brush.main)
        brush.circle(0.5 + side * 0.25, 0.15, 0.055, brush.pale, line=0)
    brush.ellipse(0.5, 0.31, 0.31, 0.25, brush.main)
    brush.ellipse(0.5, 0.4, 0.15, 0.11, brush.pale, line=0.014)
    for side in (-1, 1):
        brush.eye(0.5 + side * 0.14, 0.28, 0.042)
        brush.arc(0.5 + side * 0.035, 0.42, 0.035, 0.03, 0, 180, width=0.018)
        brush.polygon([(0.5, 0.575), (0.5 + side * 0.12, 0.52), (0.5 + side * 0.12, 0.64)], CREAM, line=0.02)
    brush.circle(0.5, 0.575, 0.035, CREAM, line=0.02)
    brush.ellipse(0.5, 0.365, 0.05, 0.035, brush.ink, line=0)


def balloon(brush: Brush) -> None:
    brush.curve([(0.5, 0.74), (0.56, 0.82), (0.45, 0.89), (0.51, 0.955)], width=0.03)
    brush.polygon([(0.5, 0.68), (0.57, 0.78), (0.43, 0.78)], brush.main)
    outline = [(0.5, 0.036), (0.74, 0.12), (0.84, 0.34), (0.72, 0.58), (0.5, 0.72)]
    brush.blob([*outline, *((1 - x, y) for x, y in reversed(outline[1:-1]))], brush.main)
    brush.ellipse(0.35, 0.24, 0.06, 0.11, WHITE, turn=28, line=0)
    brush.arc(0.5, 0.36, 0.25, 0.28, 10, 70, brush.dark, 0.035)


DRAWINGS: dict[str, Callable[[Brush], None]] = {
    "ball": ball,
    "kite": kite,
    "teddy": teddy,
    "balloon": balloon,
}
