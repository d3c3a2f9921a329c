"""Furniture, and a ladder."""

from __future__ import annotations

from functools import partial

from interleave_mini.world.art.pieces import WATER, Drawing
from interleave_mini.world.brush import CREAM, GREY, SILVER, WHITE, WOOD, Brush, arc_points


def table(brush: Brush) -> None:
    for x in (0.2, 0.8):
        brush.box(x - 0.05, 0.5, x + 0.05, 0.76, brush.dark)
    brush.polygon([(0.17, 0.3), (0.83, 0.3), (0.97, 0.46), (0.03, 0.46)], brush.light)
    for x in (0.11, 0.89):
        brush.box(x - 0.06, 0.5, x + 0.06, 0.95, brush.main)
    brush.box(0.03, 0.45, 0.97, 0.57, brush.main, round=0.02)


def bed(brush: Brush) -> None:
    """Seen from the side: the blanket has the colour."""
    for x in (0.08, 0.92):
        brush.box(x - 0.045, 0.8, x + 0.045, 0.94, WOOD)
    brush.box(0.03, 0.26, 0.15, 0.88, WOOD, round=0.04)
    brush.box(0.85, 0.5, 0.97, 0.88, WOOD, round=0.04)
    brush.box(0.12, 0.6, 0.88, 0.84, CREAM)
    brush.box(0.16, 0.46, 0.42, 0.62, WHITE, round=0.07)
    brush.blob([(0.4, 0.6), (0.46, 0.5), (0.86, 0.52), (0.87, 0.8), (0.4, 0.8)], brush.main)
    brush.curve([(0.46, 0.56), (0.46, 0.68), (0.45, 0.76)], brush.pale, 0.06)
    for x in (0.6, 0.74):
        brush.circle(x, 0.66, 0.036, brush.light, line=0)


def sofa(brush: Brush) -> None:
    for x in (0.14, 0.86):
        brush.box(x - 0.04, 0.84, x + 0.04, 0.95, WOOD)
    brush.box(0.12, 0.26, 0.88, 0.74, brush.main, round=0.1)
    brush.stroke([(0.5, 0.3), (0.5, 0.58)], brush.dark, 0.036)
    brush.box(0.16, 0.58, 0.84, 0.76, brush.light, round=0.05)
    brush.stroke([(0.5, 0.6), (0.5, 0.74)], brush.ink, 0.024)
    brush.box(0.1, 0.73, 0.9, 0.88, brush.main)
    for left in (0.03, 0.79):
        brush.box(left, 0.46, left + 0.18, 0.89, brush.main, round=0.08)
        brush.circle(left + 0.09, 0.55, 0.045, brush.dark, line=0)


def bathtub(brush: Brush, *, full: bool = False) -> None:
    for x in (0.22, 0.78):
        brush.ellipse(x, 0.9, 0.07, 0.05, GREY)
    for colour, width in ((brush.ink, 0.1), (SILVER, 0.05)):
        brush.curve([(0.88, 0.5), (0.88, 0.32), (0.78, 0.28), (0.74, 0.38)], colour, width)
    brush.ellipse(0.47, 0.52, 0.4, 0.09, WATER if full else brush.dark)
    if full:
        foam = ((0.2, 0.47, 0.085), (0.34, 0.42, 0.11), (0.5, 0.46, 0.09), (0.62, 0.48, 0.07))
        for x, y, r in foam:
            brush.circle(x, y, r, WHITE, line=0.02)
        for x, y, r in foam:
            brush.circle(x, y, r - 0.01, WHITE, line=0)
        for x, y in ((0.2, 0.26), (0.5, 0.22), (0.38, 0.12)):
            brush.circle(x, y, 0.05, WATER, line=0.02)
    brush.polygon([(0.05, 0.54), *arc_points(0.5, 0.56, 0.45, 0.34, 180, 0), (0.95, 0.54)], brush.main)
    brush.arc(0.5, 0.58, 0.36, 0.24, 110, 170, brush.light, 0.05)
    brush.box(0.02, 0.5, 0.98, 0.6, brush.main, round=0.05)


def ladder(brush: Brush) -> None:
    for y in (0.2, 0.38, 0.56, 0.74):
        brush.box(0.24, y, 0.76, y + 0.085, brush.light)
    for x in (0.24, 0.76):
        lean = 0.06 if x < 0.5 else -0.06
        side = [(x + lean - 0.055, 0.04), (x + lean + 0.055, 0.04), (x + 0.055, 0.95), (x - 0.055, 0.95)]
        brush.polygon(side, brush.main)


DRAWINGS: dict[str, Drawing] = {
    "table": table,
    "bed": bed,
    "sofa": sofa,
    "bathtub": bathtub,
    "full bathtub": partial(bathtub, full=True),
    "ladder": ladder,
}
