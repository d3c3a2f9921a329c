"""Places to work on: a sheet of drawing paper, a workbench."""

from __future__ import annotations

import math

from interleave_mini.world.backgrounds.scenery import HORIZON, Place, fade, floor, ridge_line, spread
from interleave_mini.world.brush import RGB, Brush, Point


def paper(brush: Brush) -> None:
    brush.box(0, 0, 1, 1, (128, 182, 172))
    for mark in range(26):
        at = 0.02 + mark * 0.0384
        brush.stroke([(0, at), (0.012, at)], (156, 200, 190), 0.004)
        brush.stroke([(at, 0.988), (at, 1)], (156, 200, 190), 0.004)
    brush.box(0.032, 0.04, 0.98, 0.98, (112, 166, 158), round=0.012)
    brush.box(0.027, 0.03, 0.973, 0.973, (249, 246, 236), round=0.01)
    for x, y, size in spread(90, 0.05, bottom=0.97):
        brush.circle(0.04 + 0.92 * x, y, 0.0035 * size, (243, 239, 226))
    _crayon(brush, 0.06, 0.94, 0.085, 0.15, (228, 238, 243))
    _crayon(brush, 0.05, 0.95, 0.25, 0.29, (229, 238, 218))
    brush.curve(_within_sheet(ridge_line(0.248, [(0.006, 1.2, 0.1)])), (214, 220, 204), 0.006)
    for x, y, size in spread(14, 0.37, bottom=0.93, start=5):
        _hatching(brush, 0.1 + 0.8 * x, y, size, (237, 234, 225))
    for column in range(22):
        _ring(brush, 0.06 + column * 0.0419)


def _within_sheet(points: list[Point]) -> list[Point]:
    return [(x, y) for x, y in points if 0.045 < x < 0.955]


def _crayon(brush: Brush, left: float, right: float, top: float, bottom: float, colour: RGB) -> None:
    """A band of scribble, up and down, leaning to the right."""
    steps = round((right - left - 0.03) / 0.0085)
    zigzag = []
    for step in range(steps + 1):
        x = left + (right - left - 0.03) * step / steps
        swing = 0.012 * math.sin(step * 2.3) + 0.01 * math.sin(step * 0.31)
        zigzag.append((x, bottom + swing) if step % 2 else (x + 0.03, top + swing))
    brush.stroke(zigzag, colour, 0.006)


def _hatching(brush: Brush, x: float, y: float, size: float, colour: RGB) -> None:
    for line in range(4):
        left = x + line * 0.011 * size
        brush.stroke([(left, y), (left - 0.016 * size, y + 0.026 * size)], colour, 0.004)


def _ring(brush: Brush, x: float) -> None:
    brush.circle(x, 0.042, 0.008, (214, 204, 176))
    brush.stroke([(x, 0.042), (x, 0.006)], (196, 192, 184), 0.009)
    brush.stroke([(x - 0.001, 0.036), (x - 0.001, 0.01)], (222, 219, 212), 0.003)


def workbench(brush: Brush) -> None:
    _pegboard(brush)
    planks: list[RGB] = [(205, 168, 126), (200, 162, 120), (208, 172, 131)]
    for _, row, corners in floor(1, [0, 0.14, 0.31, 0.51, 0.74, 1], vanish=-3):
        brush.polygon(corners, planks[row % 3])
        brush.stroke(corners[:2], (184, 146, 105), 0.005)
    for index, (x, y, size) in enumerate(spread(58, 0.265, bottom=0.95)):
        _grain(brush, x, y, 0.1 * size, (192, 154, 112) if index % 3 else (212, 177, 137))
    for x, y in ((0.24, 0.46), (0.7, 0.72), (0.58, 0.32)):
        for size, fill in ((0.022, (194, 155, 113)), (0.013, (188, 148, 106))):
            brush.ellipse(x, y, size * 1.5, size * 0.6, fill)
    for x, y, size in spread(44, 0.28, bottom=0.95, start=101):
        brush.ellipse(x, y, 0.007 * size, 0.004 * size, (221, 189, 150), turn=x * 997 % 180)
    _ruler(brush)


def _pegboard(brush: Brush) -> None:
    fade(brush, 0, HORIZON, (186, 196, 196), (196, 205, 204))
    for row in range(6):
        for column in range(24):
            brush.circle(0.021 + column * 0.0417, 0.02 + row * 0.0417, 0.006, (172, 183, 184))
    for x in (0.19, 0.4, 0.6, 0.81):
        brush.curve([(x, 0.06), (x, 0.088), (x + 0.02, 0.092), (x + 0.022, 0.078)], (214, 220, 218), 0.007)
    brush.box(0, HORIZON - 0.03, 1, HORIZON, (190, 158, 122))
    brush.box(0, HORIZON - 0.03, 1, HORIZON - 0.022, (202, 172, 136))


def _grain(brush: Brush, x: float, y: float, size: float, colour: RGB) -> None:
    brush.curve(
        [(x - size, y), (x - size * 0.3, y - 0.003), (x + size * 0.4, y + 0.003), (x + size, y)],
        colour,
        0.004,
    )


def _ruler(brush: Brush) -> None:
    brush.box(0, 0.968, 1, 1, (226, 208, 160))
    for mark in range(64):
        x = 0.008 + mark * 0.0157
        brush.stroke([(x, 0.97), (x, 0.985 if mark % 5 == 0 else 0.977)], (186, 160, 112), 0.003)


PLACES: dict[str, Place] = {"paper": paper, "workbench": workbench}
