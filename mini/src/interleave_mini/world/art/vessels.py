"""Things that hold other things: boxes, bags, bowls, vases, bottles."""

from __future__ import annotations

from functools import partial

from interleave_mini.world.art.pieces import WATER, Drawing, joined, oval
from interleave_mini.world.brush import (
    CREAM,
    FLAME,
    GOLD,
    LEAF,
    RGB,
    WHITE,
    WOOD,
    Brush,
    arc_points,
    mirrored,
)

_STEW: RGB = (236, 138, 60)


def box(brush: Brush) -> None:
    brush.box(0.07, 0.4, 0.93, 0.95, brush.main)
    brush.polygon([(0.07, 0.4), (0.2, 0.24), (0.8, 0.24), (0.93, 0.4)], brush.light)
    brush.polygon([(0.42, 0.4), (0.45, 0.24), (0.55, 0.24), (0.58, 0.4)], CREAM, line=0)
    brush.box(0.42, 0.41, 0.58, 0.58, CREAM, line=0)
    brush.stroke([(0.07, 0.4), (0.93, 0.4)])
    brush.stroke([(0.68, 0.86), (0.84, 0.86)], brush.dark, 0.05)


def open_box(brush: Brush) -> None:
    brush.polygon([(0.12, 0.5), (0.24, 0.34), (0.76, 0.34), (0.88, 0.5)], brush.ink)
    brush.polygon([(0.24, 0.34), (0.3, 0.2), (0.7, 0.2), (0.76, 0.34)], brush.dark)
    for side in (-1, 1):
        flap = ((0.38, 0.5), (0.27, 0.34), (0.42, 0.22), (0.47, 0.4))
        brush.polygon([(0.5 + side * x, y) for x, y in flap], brush.light)
    brush.box(0.12, 0.5, 0.88, 0.95, brush.main)
    brush.polygon([(0.12, 0.5), (0.88, 0.5), (0.95, 0.64), (0.05, 0.64)], brush.light)
    brush.stroke([(0.64, 0.86), (0.8, 0.86)], brush.dark, 0.05)


def basket(brush: Brush) -> None:
    for colour, width in ((brush.ink, 0.11), (brush.main, 0.056)):
        brush.arc(0.5, 0.5, 0.33, 0.4, 180, 360, colour, width)
    brush.polygon([(0.08, 0.52), (0.92, 0.52), (0.8, 0.94), (0.2, 0.94)], brush.main)
    for y, count in ((0.67, 4), (0.77, 3), (0.87, 4)):
        for column in range(count):
            x = 0.5 + (column - (count - 1) / 2) * 0.16
            brush.stroke([(x - 0.04, y), (x + 0.04, y)], brush.dark, 0.042)
    brush.box(0.04, 0.47, 0.96, 0.6, brush.light, round=0.05)


def bag(brush: Brush) -> None:
    """A backpack."""
    brush.arc(0.5, 0.16, 0.12, 0.11, 180, 360, brush.ink, 0.06)
    for x in (0.12, 0.88):
        brush.box(x - 0.08, 0.56, x + 0.08, 0.86, brush.dark, round=0.06)
    body = [(0.5, 0.12), (0.68, 0.15), (0.8, 0.32), (0.82, 0.6), (0.8, 0.9), (0.66, 0.94), (0.5, 0.94)]
    brush.blob(mirrored(body), brush.main)
    brush.box(0.28, 0.6, 0.72, 0.88, brush.dark, round=0.05)
    brush.stroke([(0.34, 0.68), (0.66, 0.68)], GOLD, 0.036)
    brush.blob(mirrored([(0.5, 0.12), (0.7, 0.16), (0.8, 0.32), (0.74, 0.48), (0.5, 0.52)]), brush.light)
    brush.box(0.45, 0.45, 0.55, 0.57, GOLD, round=0.02, line=0.02)


def open_bag(brush: Brush) -> None:
    for x in (0.12, 0.88):
        brush.box(x - 0.08, 0.56, x + 0.08, 0.86, brush.dark, round=0.06)
    brush.blob(mirrored([(0.5, 0.05), (0.7, 0.09), (0.78, 0.22), (0.76, 0.4), (0.5, 0.46)]), brush.light)
    brush.box(0.45, 0.04, 0.55, 0.15, GOLD, round=0.02, line=0.02)
    body = [(0.5, 0.42), (0.82, 0.36), (0.83, 0.6), (0.8, 0.9), (0.66, 0.94), (0.5, 0.94)]
    brush.polygon(mirrored(body), brush.main)
    brush.ellipse(0.5, 0.38, 0.32, 0.095, brush.ink)
    brush.box(0.28, 0.6, 0.72, 0.88, brush.dark, round=0.05)
    brush.stroke([(0.34, 0.68), (0.66, 0.68)], GOLD, 0.036)


def bottle(brush: Brush) -> None:
    brush.box(0.4, 0.03, 0.6, 0.13, WOOD, round=0.02)
    right = [
        *((0.5, 0.12), (0.59, 0.12), (0.6, 0.28), (0.7, 0.4)),
        *((0.73, 0.54), (0.73, 0.9), (0.7, 0.95), (0.5, 0.95)),
    ]
    brush.polygon(mirrored(right), brush.main)
    brush.box(0.28, 0.53, 0.72, 0.79, CREAM, line=0.02)
    brush.circle(0.5, 0.66, 0.075, brush.dark, line=0)
    brush.stroke([(0.36, 0.42), (0.44, 0.3)], brush.pale, 0.045)


def bowl(brush: Brush, *, full: bool = False) -> None:
    brush.ellipse(0.5, 0.52, 0.45, 0.12, _STEW if full else brush.dark)
    if full:
        joined(brush, [oval(x, y, 0.12, 0.08) for x, y in ((0.3, 0.48), (0.5, 0.44), (0.7, 0.48))], _STEW)
        for x, y, fill in ((0.3, 0.45, LEAF), (0.5, 0.4, GOLD), (0.66, 0.46, LEAF), (0.42, 0.5, FLAME)):
            brush.circle(x, y, 0.04, fill, line=0.016)
        for x in (0.34, 0.5, 0.66):
            for colour, width in ((brush.ink, 0.075), (WHITE, 0.035)):
                brush.curve([(x, 0.32), (x - 0.05, 0.25), (x + 0.04, 0.17), (x, 0.08)], colour, width)
    brush.polygon(
        [*arc_points(0.5, 0.52, 0.45, 0.12, 180, 0), *arc_points(0.5, 0.52, 0.45, 0.4, 0, 180)], brush.main
    )
    brush.box(0.34, 0.88, 0.66, 0.95, brush.dark)
    brush.arc(0.5, 0.58, 0.36, 0.13, 20, 160, brush.light, 0.06)
    brush.arc(0.5, 0.53, 0.36, 0.32, 20, 70, brush.dark, 0.04)


def vase(brush: Brush) -> None:
    right = [
        *((0.5, 0.28), (0.62, 0.28), (0.6, 0.38), (0.74, 0.52)),
        *((0.78, 0.7), (0.68, 0.88), (0.62, 0.95), (0.5, 0.95)),
    ]
    brush.blob(mirrored(right), brush.main)
    brush.ellipse(0.5, 0.27, 0.17, 0.06, brush.dark)
    for x in (0.36, 0.5, 0.64):
        brush.polygon([(x, 0.58), (x + 0.065, 0.67), (x, 0.76), (x - 0.065, 0.67)], brush.pale, line=0)
    brush.stroke([(0.34, 0.83), (0.66, 0.83)], brush.dark, 0.04)


def full_bucket(brush: Brush, bucket: Drawing) -> None:
    bucket(brush)
    brush.ellipse(0.5, 0.34, 0.37, 0.085, WATER, line=0.018)
    brush.stroke([(0.3, 0.34), (0.5, 0.34)], WHITE, 0.034)


DRAWINGS: dict[str, Drawing] = {
    "box": box,
    "open box": open_box,
    "basket": basket,
    "bag": bag,
    "open bag": open_bag,
    "bottle": bottle,
    "bowl": bowl,
    "full bowl": partial(bowl, full=True),
    "vase": vase,
}
