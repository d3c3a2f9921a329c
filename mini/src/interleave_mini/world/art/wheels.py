"""More vehicles that go to the right, and a skateboard."""

from __future__ import annotations

from interleave_mini.world.art.pieces import Drawing, wheel
from interleave_mini.world.brush import GLASS, GOLD, GREY, SILVER, STONE, WOOD, Brush, arc_points


def truck(brush: Brush) -> None:
    """With a flat open bed behind its cabin."""
    brush.box(0.05, 0.7, 0.94, 0.8, STONE)
    brush.box(0.04, 0.44, 0.6, 0.74, brush.main, round=0.02)
    for x in (0.16, 0.3, 0.44):
        brush.stroke([(x, 0.5), (x, 0.69)], brush.dark, 0.036)
    brush.box(0.03, 0.4, 0.61, 0.48, brush.light, round=0.02)
    cabin = [(0.62, 0.22), (0.8, 0.22), (0.88, 0.46), (0.96, 0.52), (0.96, 0.78), (0.62, 0.78)]
    brush.polygon(cabin, brush.main)
    brush.polygon([(0.69, 0.29), (0.78, 0.29), (0.84, 0.48), (0.69, 0.48)], GLASS, line=0.018)
    brush.stroke([(0.7, 0.58), (0.76, 0.58)], brush.ink, 0.026)
    brush.ellipse(0.93, 0.62, 0.034, 0.045, GOLD, line=0.018)
    for x in (0.2, 0.42, 0.8):
        wheel(brush, x, 0.83, 0.115)


def bicycle(brush: Brush) -> None:
    for x in (0.23, 0.77):
        for colour, width in ((brush.ink, 0.085), (SILVER, 0.024)):
            brush.arc(x, 0.73, 0.18, 0.18, 0, 360, colour, width)
        brush.circle(x, 0.73, 0.04, brush.ink, line=0)
    frame = [(0.23, 0.73), (0.4, 0.46), (0.66, 0.42), (0.48, 0.73), (0.23, 0.73)]
    fork = [(0.62, 0.28), (0.67, 0.44), (0.77, 0.73)]
    post = [(0.36, 0.34), (0.48, 0.73)]
    for colour, width in ((brush.ink, 0.115), (brush.main, 0.066)):
        for line in (post, frame, fork):
            brush.stroke(line, colour, width)
    brush.curve([(0.62, 0.28), (0.72, 0.24), (0.8, 0.28), (0.78, 0.36)], brush.ink, 0.065)
    brush.blob([(0.24, 0.32), (0.3, 0.26), (0.46, 0.28), (0.44, 0.35), (0.3, 0.37)], STONE)
    brush.circle(0.48, 0.73, 0.06, SILVER)


def tractor(brush: Brush) -> None:
    brush.box(0.74, 0.2, 0.8, 0.48, STONE)
    brush.box(0.46, 0.44, 0.93, 0.74, brush.main, round=0.06)
    brush.stroke([(0.6, 0.52), (0.6, 0.66)], brush.dark, 0.036)
    brush.stroke([(0.68, 0.52), (0.68, 0.66)], brush.dark, 0.036)
    brush.circle(0.89, 0.55, 0.04, GOLD, line=0.018)
    brush.box(0.15, 0.14, 0.56, 0.66, brush.main)
    brush.box(0.22, 0.21, 0.5, 0.46, GLASS, round=0.03, line=0.018)
    brush.box(0.09, 0.07, 0.62, 0.16, brush.dark, round=0.035)
    wheel(brush, 0.8, 0.81, 0.14)
    wheel(brush, 0.28, 0.71, 0.24)
    brush.circle(0.28, 0.71, 0.12, GOLD)


def helicopter(brush: Brush) -> None:
    for x in (0.5, 0.74):
        brush.stroke([(x, 0.76), (x, 0.9)], brush.ink, 0.04)
    brush.stroke([(0.36, 0.91), (0.86, 0.91), (0.92, 0.86)], brush.ink, 0.06)
    brush.polygon([(0.08, 0.42), (0.5, 0.44), (0.5, 0.62), (0.08, 0.5)], brush.main)
    brush.polygon([(0.03, 0.26), (0.14, 0.28), (0.17, 0.5), (0.07, 0.52)], brush.dark)
    brush.box(0.58, 0.16, 0.66, 0.34, STONE)
    brush.blob(
        [(0.34, 0.58), (0.42, 0.36), (0.64, 0.3), (0.86, 0.4), (0.94, 0.62), (0.82, 0.78), (0.52, 0.8)],
        brush.main,
    )
    brush.polygon([*arc_points(0.7, 0.58, 0.2, 0.22, -80, 0), (0.7, 0.58)], GLASS, line=0.02)
    brush.box(0.46, 0.44, 0.6, 0.58, GLASS, round=0.03, line=0.018)
    brush.stroke([(0.44, 0.69), (0.86, 0.69)], brush.dark, 0.05)
    brush.ellipse(0.62, 0.16, 0.36, 0.04, GREY)
    brush.circle(0.62, 0.15, 0.05, STONE)


def skateboard(brush: Brush) -> None:
    for x in (0.28, 0.72):
        brush.box(x - 0.05, 0.64, x + 0.05, 0.78, SILVER)
        wheel(brush, x, 0.82, 0.13)
    for colour, width in ((brush.ink, 0.17), (brush.main, 0.118)):
        brush.curve([(0.1, 0.5), (0.22, 0.62), (0.5, 0.63), (0.78, 0.62), (0.9, 0.5)], colour, width)
    brush.curve([(0.11, 0.48), (0.22, 0.59), (0.5, 0.6), (0.78, 0.59), (0.89, 0.48)], brush.light, 0.036)
    brush.stroke([(0.4, 0.645), (0.6, 0.645)], WOOD, 0.03)


DRAWINGS: dict[str, Drawing] = {
    drawing.__name__: drawing for drawing in (truck, bicycle, tractor, helicopter, skateboard)
}
