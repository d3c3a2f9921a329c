"""More food, and what grows beside it: leaf and pumpkin."""

from __future__ import annotations

from interleave_mini.world.art.pieces import Drawing, joined, oval
from interleave_mini.world.brush import GOLD, LEAF, RGB, SOIL, WOOD, Brush, mix

_CRUMB: RGB = (92, 58, 44)
_HAM: RGB = (212, 74, 62)


def pizza(brush: Brush) -> None:
    """A slice: the cheese has the colour."""
    brush.polygon([(0.1, 0.24), (0.9, 0.24), (0.52, 0.95)], brush.main)
    for x in (0.26, 0.68):
        brush.blob(
            [(x - 0.06, 0.26), (x + 0.06, 0.26), (x + 0.04, 0.36), (x, 0.4), (x - 0.04, 0.36)],
            brush.light,
            line=0,
        )
    brush.box(0.04, 0.1, 0.96, 0.29, mix(WOOD, GOLD, 0.4), round=0.09)
    brush.stroke([(0.14, 0.16), (0.6, 0.16)], GOLD, 0.036)
    for x, y, r in ((0.38, 0.42, 0.095), (0.64, 0.44, 0.095), (0.52, 0.66, 0.09)):
        brush.circle(x, y, r, _HAM, line=0.02)
        brush.circle(x - 0.025, y - 0.025, 0.025, (244, 150, 130), line=0)
    for x, y in ((0.5, 0.35), (0.42, 0.57), (0.53, 0.82)):
        brush.ellipse(x, y, 0.035, 0.026, LEAF, turn=30, line=0)


def cookie(brush: Brush) -> None:
    edge = [(0.5, 0.07), (0.72, 0.11), (0.9, 0.3), (0.93, 0.52), (0.86, 0.76), (0.66, 0.92), (0.44, 0.93)]
    brush.blob([*edge, (0.2, 0.84), (0.07, 0.62), (0.09, 0.38), (0.26, 0.14)], brush.main)
    brush.arc(0.5, 0.5, 0.35, 0.35, 185, 245, brush.light, 0.05)
    for x, y in ((0.34, 0.34), (0.6, 0.26), (0.72, 0.5), (0.46, 0.56), (0.28, 0.64), (0.6, 0.76)):
        brush.ellipse(x, y, 0.08, 0.066, _CRUMB, turn=x * 90, line=0)
        brush.circle(x - 0.02, y - 0.02, 0.02, brush.pale, line=0)


def cheese(brush: Brush) -> None:
    brush.polygon([(0.05, 0.54), (0.62, 0.16), (0.95, 0.42), (0.95, 0.54)], brush.light)
    brush.polygon([(0.05, 0.5), (0.95, 0.42), (0.95, 0.88), (0.05, 0.94)], brush.main)
    for x, y, r in ((0.24, 0.66, 0.085), (0.5, 0.8, 0.1), (0.62, 0.58, 0.06), (0.8, 0.7, 0.09)):
        brush.ellipse(x, y, r, r * 0.9, brush.dark, line=0.018)
    brush.ellipse(0.58, 0.35, 0.075, 0.04, brush.main, line=0.018)


def pear(brush: Brush) -> None:
    brush.blob([(0.54, 0.17), (0.64, 0.05), (0.84, 0.05), (0.76, 0.17)], LEAF)
    for colour, width in ((brush.ink, 0.09), (SOIL, 0.04)):
        brush.curve([(0.5, 0.24), (0.5, 0.14), (0.46, 0.06)], colour, width)
    right = [(0.5, 0.18), (0.64, 0.26), (0.68, 0.44), (0.82, 0.62), (0.8, 0.84), (0.62, 0.95), (0.5, 0.93)]
    brush.blob([*right, *((1 - x, y) for x, y in right[-2:0:-1])], brush.main)
    brush.ellipse(0.33, 0.66, 0.055, 0.12, brush.pale, turn=18, line=0)
    brush.arc(0.52, 0.7, 0.22, 0.19, 10, 80, brush.dark, 0.04)


def bone(brush: Brush) -> None:
    ends = [(0.16, 0.62), (0.3, 0.8), (0.7, 0.2), (0.84, 0.38)]
    bar = [(0.2, 0.62), (0.64, 0.26), (0.78, 0.4), (0.34, 0.76)]
    joined(brush, [*(oval(x, y, 0.115, 0.115) for x, y in ends), bar], brush.main)
    brush.stroke([(0.36, 0.58), (0.62, 0.37)], brush.pale, 0.045)
    brush.stroke([(0.4, 0.68), (0.68, 0.45)], brush.dark, 0.04)


def leaf(brush: Brush) -> None:
    edge = [
        *((0.2, 0.82), (0.14, 0.5), (0.3, 0.22), (0.6, 0.1)),
        *((0.93, 0.07), (0.9, 0.4), (0.78, 0.7), (0.5, 0.86)),
    ]
    brush.curve([(0.06, 0.95), (0.18, 0.84), (0.3, 0.72)], brush.ink, 0.08)
    brush.blob(edge, brush.main)
    brush.stroke([(0.2, 0.82), (0.8, 0.2)], brush.dark, 0.045)
    for x, y, dx, dy in (
        *((0.38, 0.64, 0.0, -0.24), (0.55, 0.46, 0.02, -0.24)),
        *((0.4, 0.62, 0.24, 0.06), (0.57, 0.44, 0.22, 0.04)),
    ):
        brush.stroke([(x, y), (x + dx, y + dy)], brush.dark, 0.034)
    brush.curve([(0.24, 0.5), (0.34, 0.3), (0.54, 0.19)], brush.light, 0.04)


def pumpkin(brush: Brush) -> None:
    for colour, width in ((brush.ink, 0.16), (LEAF, 0.1)):
        brush.curve([(0.5, 0.34), (0.5, 0.2), (0.6, 0.12)], colour, width)
    for x, rx in ((0.22, 0.17), (0.78, 0.17), (0.36, 0.18), (0.64, 0.18)):
        brush.ellipse(x, 0.62, rx, 0.29, brush.main)
    brush.ellipse(0.5, 0.63, 0.16, 0.31, brush.main)
    brush.arc(0.3, 0.6, 0.1, 0.19, 190, 250, brush.light, 0.045)
    brush.blob([(0.6, 0.28), (0.74, 0.16), (0.9, 0.24), (0.78, 0.34)], LEAF)


DRAWINGS: dict[str, Drawing] = {
    drawing.__name__: drawing for drawing in (pizza, cookie, cheese, pear, bone, leaf, pumpkin)
}
