"""Plants, and what some of them were before they were grown."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from interleave_mini.world.brush import (
    BLUSH,
    CREAM,
    GOLD,
    LEAF,
    RGB,
    SOIL,
    WHITE,
    WOOD,
    Brush,
    Point,
    mirrored,
)

# Shared pieces


def _stem(brush: Brush, points: Sequence[Point], fill: RGB, width: float) -> None:
    brush.curve(points, brush.ink, width + 2 * brush.line)
    brush.curve(points, fill, width)


def _soil(brush: Brush, half: float = 0.3) -> None:
    brush.chord(0.5, 0.94, half, 0.1, 180, 360, SOIL)


def _leaf(
    brush: Brush, root: Point, length: float, breadth: float, turn: float, fill: RGB, vein: RGB | None = None
) -> None:
    """A pointed leaf from its root; `turn` is the way it points, clockwise from the right."""
    cos, sin = math.cos(math.radians(turn)), math.sin(math.radians(turn))

    def place(along: float, across: float) -> Point:
        x, y = along * length, across * breadth / 2
        return root[0] + x * cos - y * sin, root[1] + x * sin + y * cos

    sides = [(0.25, 0.75), (0.5, 1.0), (0.78, 0.6)]
    rim = [(0.0, 0.0), *sides, (1.0, 0.0), *((along, -across) for along, across in reversed(sides))]
    brush.blob([place(*spot) for spot in rim], fill)
    if vein is not None:
        brush.stroke([place(0.12, 0), place(0.78, 0)], vein, 0.03)


# From the seed to the flower


def flower_seed(brush: Brush) -> None:
    _soil(brush, 0.42)
    seed = [(0.5, 0.05), (0.6, 0.18), (0.75, 0.42), (0.77, 0.68), (0.64, 0.87), (0.5, 0.9)]
    brush.blob(mirrored(seed), brush.main)
    for bend in (-0.16, 0.0, 0.16):
        stripe = [(0.5 + bend * 0.3, 0.24), (0.5 + bend, 0.52), (0.5 + bend * 0.7, 0.78)]
        brush.curve(stripe, brush.dark, 0.044)


def flower_sprout(brush: Brush) -> None:
    _soil(brush)
    _stem(brush, [(0.5, 0.9), (0.52, 0.7), (0.5, 0.5)], brush.main, 0.06)
    for side in (-1, 1):
        lobe = [(0.0, 0.52), (0.06, 0.3), (0.24, 0.16), (0.42, 0.22), (0.45, 0.42), (0.3, 0.58), (0.12, 0.6)]
        brush.blob([(0.5 + side * x, y) for x, y in lobe], brush.main)
        vein = ((0.06, 0.5), (0.2, 0.42), (0.32, 0.32))
        brush.curve([(0.5 + side * x, y) for x, y in vein], brush.dark, 0.035)


def flower_bud(brush: Brush) -> None:
    _stem(brush, [(0.5, 0.93), (0.5, 0.66)], LEAF, 0.05)
    for turn in (-155, -25):
        _leaf(brush, (0.5, 0.92), 0.32, 0.12, turn, LEAF)
    bud = [(0.5, 0.05), (0.65, 0.16), (0.78, 0.36), (0.76, 0.58), (0.62, 0.72), (0.5, 0.74)]
    brush.blob(mirrored(bud), brush.main)
    brush.curve([(0.49, 0.07), (0.37, 0.22), (0.42, 0.42), (0.64, 0.56)], brush.ink, 0.026)
    brush.curve([(0.57, 0.15), (0.62, 0.3), (0.56, 0.48)], brush.ink, 0.026)
    sepals = [(0.5, 0.56), (0.6, 0.66), (0.73, 0.56), (0.64, 0.73), (0.5, 0.77)]
    brush.polygon(mirrored(sepals), LEAF)


def flower(brush: Brush) -> None:
    _stem(brush, [(0.5, 0.92), (0.51, 0.75), (0.5, 0.5)], LEAF, 0.05)
    for turn in (-155, -25):
        _leaf(brush, (0.5, 0.91), 0.36, 0.14, turn, LEAF)
    for step in range(8):
        angle = math.radians(22.5 + 45 * step)
        x, y = 0.5 + 0.235 * math.cos(angle), 0.38 + 0.235 * math.sin(angle)
        brush.ellipse(x, y, 0.13, 0.1, brush.main, turn=22.5 + 45 * step)
    brush.circle(0.5, 0.38, 0.13, GOLD)
    for dx, dy in ((-0.05, -0.03), (0.04, -0.05), (0.0, 0.03), (0.06, 0.03), (-0.05, 0.06)):
        brush.circle(0.5 + dx, 0.38 + dy, 0.014, WOOD, line=0)


# From the seedling to the tree


def seedling(brush: Brush) -> None:
    _soil(brush)
    _stem(brush, [(0.5, 0.9), (0.5, 0.5)], WOOD, 0.04)
    for y, turn in ((0.8, -162), (0.8, -18), (0.57, -142), (0.57, -38)):
        _leaf(brush, (0.5, y), 0.45, 0.23, turn, brush.main, brush.dark)
    _leaf(brush, (0.5, 0.54), 0.49, 0.27, -90, brush.main, brush.dark)


def sapling(brush: Brush) -> None:
    branches = [
        [(0.5, 0.92), (0.5, 0.3)],
        [(0.5, 0.72), (0.34, 0.64), (0.26, 0.5)],
        [(0.5, 0.8), (0.66, 0.72), (0.75, 0.56)],
    ]
    for width, fill in ((0.1, brush.ink), (0.05, WOOD)):
        for branch in branches:
            brush.curve(branch, fill, width)
    for x, y, r in ((0.5, 0.26, 0.21), (0.22, 0.46, 0.165), (0.78, 0.53, 0.165)):
        brush.circle(x, y, r, brush.main)
        brush.arc(x, y, r * 0.6, r * 0.6, 20, 110, brush.dark, 0.035)


def tree(brush: Brush) -> None:
    brush.polygon([(0.43, 0.6), (0.57, 0.6), (0.58, 0.84), (0.66, 0.94), (0.34, 0.94), (0.42, 0.84)], WOOD)
    crown = [(0.5, 0.24, 0.19), (0.28, 0.33, 0.17), (0.72, 0.33, 0.17), (0.2, 0.53, 0.15), (0.8, 0.53, 0.15)]
    crown += [(0.38, 0.58, 0.15), (0.62, 0.58, 0.15), (0.5, 0.45, 0.2)]
    for line in (2 * brush.line, 0):
        for x, y, r in crown:
            brush.circle(x, y, r, brush.main, line=line)
    for x, y in ((0.36, 0.28), (0.64, 0.34), (0.47, 0.5), (0.21, 0.53), (0.77, 0.56)):
        brush.arc(x, y, 0.075, 0.06, 20, 160, brush.dark, 0.032)


def cactus(brush: Brush) -> None:
    stem = (0.37, 0.14, 0.63, 0.94, 0.13)
    left = ((0.06, 0.34, 0.23, 0.74, 0.085), (0.06, 0.57, 0.45, 0.74, 0.085))
    right = ((0.77, 0.26, 0.94, 0.64, 0.085), (0.55, 0.47, 0.94, 0.64, 0.085))
    for line in (2 * brush.line, 0):
        for x, top, end, bottom, bend in (stem, *left, *right):
            brush.box(x, top, end, bottom, brush.main, round=bend, line=line)
    for x in (0.44, 0.56):
        brush.stroke([(x, 0.24), (x, 0.88)], brush.dark, 0.024)
    spines = [(0.5, 0.3), (0.5, 0.48), (0.5, 0.66), (0.5, 0.82)]
    spines += [(0.145, 0.44), (0.145, 0.6), (0.855, 0.36), (0.855, 0.52)]
    for x, y in spines:
        brush.stroke([(x - 0.02, y - 0.02), (x, y), (x + 0.02, y - 0.02)], brush.pale, 0.02)
    for step in range(5):
        angle = math.radians(step * 72 - 90)
        brush.circle(0.5 + 0.06 * math.cos(angle), 0.135 + 0.06 * math.sin(angle), 0.038, BLUSH, line=0.018)
    brush.circle(0.5, 0.135, 0.035, GOLD, line=0)


def mushroom(brush: Brush) -> None:
    foot = [(0.5, 0.5), (0.6, 0.52), (0.61, 0.74), (0.68, 0.9), (0.5, 0.95)]
    brush.blob(mirrored(foot), CREAM)
    cap = [(0.5, 0.06), (0.72, 0.12), (0.9, 0.32), (0.95, 0.56), (0.8, 0.66), (0.5, 0.68)]
    brush.blob(mirrored(cap), brush.main)
    for x, y, rx in ((0.4, 0.24, 0.085), (0.7, 0.34, 0.07), (0.2, 0.46, 0.05), (0.5, 0.52, 0.06)):
        brush.ellipse(x, y, rx, 0.065, WHITE, line=0)


DRAWINGS: dict[str, Callable[[Brush], None]] = {
    "flower seed": flower_seed,
    "flower sprout": flower_sprout,
    "flower bud": flower_bud,
    "flower": flower,
    "seedling": seedling,
    "sapling": sapling,
    "tree": tree,
    "cactus": cactus,
    "mushroom": mushroom,
}
