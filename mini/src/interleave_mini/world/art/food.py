"""Food, whole and partly eaten."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

from interleave_mini.world.brush import CREAM, LEAF, SOIL, WHITE, WOOD, Brush, Point, arc_points, mix

WAFFLE = mix(CREAM, WOOD, 0.4)
FLATNESS = 0.2


def _apple_skin(start: float, end: float) -> list[Point]:
    """The outline of an apple between two angles, in degrees clockwise from the dip at its top."""
    points = []
    for step in range(61):
        degrees = start + (end - start) * step / 60
        angle = math.radians(degrees)
        from_top = (degrees + 180) % 360 - 180
        dip = 0.1 * math.exp(-((from_top / 26) ** 2)) - 0.03 * math.exp(-(((degrees - 180) / 20) ** 2))
        x = 0.5 + 0.42 * math.sin(angle) + 0.035 * math.sin(2 * angle)
        points.append((x, 0.6 - 0.345 * math.cos(angle) + dip))
    return points


def _stem(brush: Brush, top: float, bottom: float) -> None:
    brush.curve([(0.5, bottom), (0.5, (top + bottom) / 2), (0.56, top)], brush.ink, 0.075)
    brush.curve([(0.5, bottom), (0.5, (top + bottom) / 2), (0.56, top)], SOIL, 0.035)


def _apple_leaf(brush: Brush) -> None:
    brush.blob([(0.53, 0.24), (0.62, 0.11), (0.8, 0.08), (0.74, 0.21)], LEAF)


def _tooth_marks(corners: Sequence[Point]) -> list[Point]:
    """A line from corner to corner in hollows that open to the right when it runs down."""
    marks: list[Point] = []
    for (ax, ay), (bx, by) in pairwise(corners):
        half = math.hypot(ax - bx, ay - by) / 2
        turn = math.degrees(math.atan2(ay - by, ax - bx))
        marks += arc_points((ax + bx) / 2, (ay + by) / 2, half, half * 0.7, 0, -180, turn=turn)
    return marks


def apple(brush: Brush) -> None:
    _apple_leaf(brush)
    brush.polygon(_apple_skin(0, 360), brush.main)
    brush.ellipse(0.27, 0.47, 0.06, 0.11, brush.pale, turn=25, line=0)
    brush.arc(0.53, 0.56, 0.3, 0.3, 20, 80, brush.dark, 0.035)
    _stem(brush, 0.1, 0.36)


def bitten_apple(brush: Brush) -> None:
    skin = _apple_skin(115, 407)
    bite = _tooth_marks([skin[-1], (0.7, 0.5), (0.71, 0.66), skin[0]])
    last = len(bite) - 1
    flesh = [(x - 0.12 * math.sin(math.pi * i / last), y) for i, (x, y) in enumerate(bite)]
    _apple_leaf(brush)
    brush.polygon([*skin, *bite], brush.main, line=0)
    brush.polygon([*bite, *reversed(flesh)], CREAM, line=0)
    brush.stroke([*skin, *bite, skin[0]])
    brush.ellipse(0.25, 0.47, 0.055, 0.1, brush.pale, turn=25, line=0)
    _stem(brush, 0.1, 0.36)


def apple_core(brush: Brush) -> None:
    waist = [(0.74, 0.36), (0.65, 0.48), (0.64, 0.62), (0.7, 0.78)]
    brush.polygon([*waist, *_mirrored(waist)], brush.pale)
    cap = [(0.5, 0.25), (0.68, 0.17), (0.88, 0.26), (0.82, 0.4), (0.66, 0.41)]
    brush.blob([*cap, (0.5, 0.44), *_mirrored(cap[1:])], brush.main)
    foot = [(0.5, 0.71), (0.65, 0.73), (0.79, 0.75), (0.79, 0.86), (0.64, 0.95)]
    brush.blob([*foot, (0.5, 0.93), *_mirrored(foot[1:])], brush.main)
    for x, turn in ((0.455, 12), (0.545, -12)):
        brush.ellipse(x, 0.575, 0.025, 0.05, SOIL, turn=turn, line=0.014)
    brush.ellipse(0.28, 0.27, 0.045, 0.03, brush.pale, turn=-30, line=0)
    _stem(brush, 0.07, 0.28)


def _mirrored(points: Sequence[Point]) -> list[Point]:
    return [(1 - x, y) for x, y in reversed(points)]


def _plate(brush: Brush) -> None:
    brush.ellipse(0.5, 0.86, 0.46, 0.085, brush.main)
    brush.ellipse(0.5, 0.85, 0.4, 0.06, brush.light, line=0)


def _tier(brush: Brush, rx: float, top: float, bottom: float) -> None:
    """A round layer of cake with icing that runs down its side."""
    ry = rx * FLATNESS
    brush.polygon([(0.5 - rx, top), (0.5 + rx, top), *arc_points(0.5, bottom, rx, ry, 0, 180)], brush.main)
    rim = arc_points(0.5, top, rx, ry, 0, 360)
    brush.polygon([*rim[30:], *_drips(rim[:31])], WHITE)


def _drips(edge: Sequence[Point], period: int = 6) -> list[Point]:
    """Icing that runs down from this edge, a drop to every so many of its points."""
    fine = [
        (ax + (bx - ax) * part / 4, ay + (by - ay) * part / 4)
        for (ax, ay), (bx, by) in pairwise(edge)
        for part in range(4)
    ]
    drops = [0.015 + 0.065 * abs(math.sin(math.pi * i / (4 * period))) for i in range(len(fine))]
    return [(x, y + drop) for (x, y), drop in zip(fine, drops, strict=True)]


def cake(brush: Brush) -> None:
    _plate(brush)
    _tier(brush, 0.4, 0.58, 0.83)
    _tier(brush, 0.27, 0.29, 0.54)
    _cherry(brush, 0.5, 0.21)


def _cherry(brush: Brush, x: float, y: float) -> None:
    brush.curve([(x, y), (x + 0.02, y - 0.1), (x + 0.08, y - 0.15)])
    brush.circle(x, y, 0.075, brush.main)
    brush.circle(x - 0.025, y - 0.025, 0.02, WHITE, line=0)


def _cut_tier(brush: Brush, rx: float, top: float, bottom: float) -> None:
    """What is left of a round layer when its right half is gone, with the inside to be seen."""
    height = bottom - top
    rim = arc_points(0.5, top, rx, rx * FLATNESS, 120, 300)
    front = rim[:11]
    brush.polygon([*front, *((x, y + height) for x, y in reversed(front))], brush.main)
    (ax, ay), (bx, by) = rim[0], rim[-1]
    brush.polygon([(ax, ay), (bx, by), (bx, by + height), (ax, ay + height)], brush.main)
    low, high = height * 0.45, height * 0.65
    brush.polygon([(ax, ay + low), (bx, by + low), (bx, by + high), (ax, ay + high)], WHITE, line=0.014)
    brush.polygon([*rim[10:], *_drips(front, 5)], WHITE)


def half_eaten_cake(brush: Brush) -> None:
    _plate(brush)
    _cut_tier(brush, 0.4, 0.58, 0.83)
    _cut_tier(brush, 0.27, 0.29, 0.54)
    for x, y, r in ((0.83, 0.85, 0.045), (0.73, 0.9, 0.03)):
        brush.circle(x, y, r, brush.main, line=0.018)


def slice_of_cake(brush: Brush) -> None:
    tip, back, front = (0.05, 0.5), (0.62, 0.2), (0.94, 0.4)
    brush.polygon([tip, front, (0.94, 0.9), (0.05, 0.95)], brush.main)
    brush.polygon([(0.05, 0.71), (0.94, 0.63), (0.94, 0.71), (0.05, 0.78)], WHITE, line=0.018)
    edge = [
        (front[0] + (tip[0] - front[0]) * i / 24, front[1] + (tip[1] - front[1]) * i / 24) for i in range(25)
    ]
    brush.polygon([tip, back, *_drips(edge)], WHITE)
    _cherry(brush, 0.62, 0.28)


def banana(brush: Brush) -> None:
    outer = [(0.86, 0.16), (0.95, 0.42), (0.83, 0.73), (0.55, 0.92), (0.22, 0.89), (0.06, 0.76)]
    inner = [(0.09, 0.66), (0.32, 0.66), (0.52, 0.56), (0.65, 0.38), (0.72, 0.16)]
    brush.polygon([(0.73, 0.2), (0.74, 0.05), (0.86, 0.04), (0.87, 0.2)], SOIL)
    brush.blob([*outer, *inner], brush.main)
    brush.curve([(0.8, 0.2), (0.81, 0.44), (0.69, 0.66), (0.46, 0.78), (0.18, 0.77)], brush.dark, 0.03)
    brush.curve([(0.89, 0.36), (0.87, 0.54), (0.77, 0.7)], brush.light, 0.04)
    brush.ellipse(0.08, 0.71, 0.035, 0.055, brush.ink, turn=-20)


def carrot(brush: Brush) -> None:
    for x, y, turn in ((0.63, 0.175, -10), (0.82, 0.35, 100), (0.78, 0.2, 45)):
        brush.ellipse(x, y, 0.065, 0.135, LEAF, turn=turn)
    edge = [(0.05, 0.94), (0.2, 0.63), (0.39, 0.32), (0.53, 0.22), (0.69, 0.27), (0.77, 0.43), (0.68, 0.6)]
    brush.blob([*edge, (0.38, 0.81)], brush.main)
    for start, end in (
        ((0.36, 0.4), (0.49, 0.46)),
        ((0.66, 0.61), (0.55, 0.56)),
        ((0.22, 0.63), (0.33, 0.68)),
    ):
        brush.stroke([start, end], brush.dark, 0.035)
    brush.curve([(0.46, 0.32), (0.53, 0.28), (0.61, 0.3)], brush.pale, 0.04)


def strawberry(brush: Brush) -> None:
    outline = [(0.5, 0.95), (0.24, 0.76), (0.08, 0.46), (0.2, 0.28), (0.5, 0.27), (0.8, 0.28), (0.92, 0.46)]
    brush.blob([*outline, (0.76, 0.76)], brush.main)
    rows = ((0.47, (0.22, 0.41, 0.6, 0.79)), (0.61, (0.31, 0.5, 0.69)), (0.74, (0.41, 0.59)), (0.86, (0.5,)))
    for y, xs in rows:
        for x in xs:
            brush.ellipse(x, y, 0.022, 0.036, CREAM, line=0)
    crown = [(0.5, 0.2), (0.6, 0.17), (0.84, 0.22), (0.68, 0.29), (0.72, 0.4), (0.58, 0.33), (0.5, 0.44)]
    brush.polygon([*crown, *((1 - x, y) for x, y in reversed(crown[1:-1]))], LEAF)
    brush.curve([(0.5, 0.22), (0.51, 0.13), (0.57, 0.06)], brush.ink, 0.08)
    brush.curve([(0.5, 0.22), (0.51, 0.13), (0.57, 0.06)], LEAF, 0.035)


def _bread_slice(dx: float, dy: float, inset: float = 0) -> list[Point]:
    dome = arc_points(0.32 + dx, 0.46 + dy, 0.27 - inset, 0.2 - inset, 160, 380)
    right, left, bottom = 0.55 + dx - inset, 0.09 + dx + inset, 0.94 + dy - inset
    return [*dome, (right, 0.62 + dy), (right, bottom), (left, bottom), (left, 0.62 + dy)]


def bread(brush: Brush) -> None:
    depths = [(0.36 * step / 12, -0.12 * step / 12) for step in range(12, -1, -1)]
    for dx, dy in depths:
        brush.polygon(_bread_slice(dx, dy), brush.main, line=2 * brush.line)
    for dx, dy in depths:
        brush.polygon(_bread_slice(dx, dy), brush.main, line=0)
    for dx, dy in ((0.13, -0.045), (0.23, -0.08), (0.33, -0.11)):
        brush.stroke(_bread_slice(dx, dy)[18:36], brush.dark, 0.035)
    brush.polygon(_bread_slice(0, 0), brush.main)
    brush.polygon(_bread_slice(0, 0, 0.065), brush.pale, line=0)


def ice_cream(brush: Brush) -> None:
    brush.polygon([(0.25, 0.58), (0.75, 0.58), (0.5, 0.96)], WAFFLE)
    for start, end in (((0.4, 0.6), (0.59, 0.83)), ((0.6, 0.6), (0.41, 0.83))):
        brush.stroke([start, end], WOOD, 0.022)
    for x in (0.29, 0.71):
        brush.circle(x, 0.43, 0.21, brush.main)
    brush.circle(0.5, 0.26, 0.22, brush.main)
    skirt = [(0.5, 0.48), (0.72, 0.47), (0.9, 0.52), (0.85, 0.64), (0.72, 0.6), (0.62, 0.68)]
    brush.blob([*skirt, (0.5, 0.61), *_mirrored(skirt[1:])], brush.main, line=0)
    brush.curve([(0.91, 0.5), *skirt[3:], (0.5, 0.61), *_mirrored(skirt[3:]), (0.09, 0.5)])
    brush.ellipse(0.41, 0.16, 0.06, 0.04, brush.pale, turn=-35, line=0)
    for x, y, turn in (
        (0.56, 0.2, 40),
        (0.46, 0.33, -30),
        (0.24, 0.4, 30),
        (0.77, 0.38, -20),
        (0.6, 0.53, 70),
    ):
        brush.ellipse(x, y, 0.014, 0.036, WHITE, turn=turn, line=0)


DRAWINGS: dict[str, Callable[[Brush], None]] = {
    "apple": apple,
    "bitten apple": bitten_apple,
    "apple core": apple_core,
    "cake": cake,
    "half-eaten cake": half_eaten_cake,
    "slice of cake": slice_of_cake,
    "banana": banana,
    "carrot": carrot,
    "strawberry": strawberry,
    "bread": bread,
    "ice cream": ice_cream,
}
