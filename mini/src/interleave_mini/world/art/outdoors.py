"""What stands outdoors: tent, bridge, door and fence, rainbow, volcano, fire and rock."""

from __future__ import annotations

from interleave_mini.world.art.pieces import Drawing, joined, oval
from interleave_mini.world.brush import (
    FLAME,
    GOLD,
    GREY,
    LEAF,
    RGB,
    SILVER,
    SOIL,
    STONE,
    WHITE,
    WOOD,
    Brush,
    arc_points,
    mirrored,
)

_EMBER: RGB = (232, 86, 36)
_RAINBOW: tuple[RGB, ...] = ((244, 150, 50), (250, 214, 70), (92, 178, 90), (70, 130, 220))


def tent(brush: Brush) -> None:
    for side in (-1, 1):
        brush.stroke([(0.5, 0.16), (0.5 + side * 0.08, 0.06)], WOOD, 0.04)
    brush.polygon([(0.5, 0.12), (0.95, 0.92), (0.05, 0.92)], brush.main)
    brush.polygon([(0.5, 0.12), (0.63, 0.92), (0.95, 0.92)], brush.dark, line=0)
    brush.stroke([(0.5, 0.12), (0.95, 0.92), (0.05, 0.92), (0.5, 0.12)])
    brush.polygon([(0.5, 0.3), (0.72, 0.92), (0.28, 0.92)], brush.ink, line=0)
    brush.polygon([(0.5, 0.3), (0.34, 0.92), (0.2, 0.92)], brush.light, line=0.02)
    brush.polygon([(0.5, 0.3), (0.66, 0.92), (0.8, 0.92)], brush.light, line=0.02)
    for x in (0.06, 0.94):
        brush.stroke([(x, 0.9), (x, 0.96)], brush.ink, 0.045)


def bridge(brush: Brush) -> None:
    """An arch of stones, with room below it."""
    arch = arc_points(0.5, 0.95, 0.3, 0.4, 0, -180)
    top = [(0.03, 0.6), (0.24, 0.46), (0.5, 0.4), (0.76, 0.46), (0.97, 0.6)]
    brush.polygon([(0.97, 0.95), *arch, (0.03, 0.95), *top], brush.main)
    for angle in (200, 230, 260, 290, 320, 340):
        near, far = (arc_points(0.5, 0.95, 0.3 * k, 0.4 * k, angle, angle + 1)[0] for k in (1.04, 1.3))
        brush.stroke([near, far], brush.dark, 0.03)
    rail = [(0.05, 0.42), (0.24, 0.28), (0.5, 0.22), (0.76, 0.28), (0.95, 0.42)]
    for (x, y), (_, foot) in zip(rail, top, strict=True):
        brush.box(x - 0.035, y, x + 0.035, foot, brush.main, line=0.022)
    for colour, width in ((brush.ink, 0.12), (brush.light, 0.07)):
        brush.curve(rail, colour, width)


def _doorway(brush: Brush, fill: RGB) -> None:
    brush.box(0.16, 0.04, 0.84, 0.95, SILVER, round=0.02)
    brush.box(0.24, 0.11, 0.76, 0.95, fill, line=0.022)


def door(brush: Brush) -> None:
    _doorway(brush, brush.main)
    for left in (0.31, 0.53):
        brush.box(left, 0.19, left + 0.16, 0.45, brush.dark, round=0.02, line=0)
        brush.box(left, 0.55, left + 0.16, 0.86, brush.dark, round=0.02, line=0)
    brush.circle(0.69, 0.51, 0.045, GOLD, line=0.02)


def open_door(brush: Brush) -> None:
    _doorway(brush, (255, 244, 196))
    brush.polygon([(0.24, 0.95), (0.24, 0.8), (0.76, 0.8), (0.76, 0.95)], (232, 206, 150), line=0)
    brush.polygon([(0.76, 0.11), (0.96, 0.04), (0.96, 0.96), (0.76, 0.95)], brush.main)
    brush.polygon([(0.81, 0.19), (0.92, 0.15), (0.92, 0.46), (0.81, 0.46)], brush.dark, line=0)
    brush.polygon([(0.81, 0.56), (0.92, 0.57), (0.92, 0.88), (0.81, 0.86)], brush.dark, line=0)
    brush.stroke([(0.24, 0.95), (0.24, 0.11), (0.76, 0.11)])


def fence(brush: Brush) -> None:
    for y in (0.44, 0.7):
        brush.box(0.03, y, 0.97, y + 0.11, brush.dark)
    for x in (0.14, 0.38, 0.62, 0.86):
        brush.polygon(
            [(x - 0.085, 0.34), (x, 0.2), (x + 0.085, 0.34), (x + 0.085, 0.94), (x - 0.085, 0.94)], brush.main
        )
        brush.stroke([(x - 0.035, 0.4), (x - 0.035, 0.86)], brush.light, 0.036)


def rainbow(brush: Brush) -> None:
    """Its outer band has the colour."""
    brush.chord(0.5, 0.78, 0.46, 0.6, 180, 360, brush.main)
    for index, colour in enumerate(_RAINBOW):
        shrink = 0.125 + 0.058 * index
        brush.chord(0.5, 0.78, 0.46 - shrink, 0.6 - shrink * 1.2, 180, 360, colour, line=0)
    brush.chord(0.5, 0.78, 0.1, 0.17, 180, 360, (232, 242, 250))
    for side in (-1, 1):
        parts = [oval(0.5 + side * x, y, 0.105, 0.08) for x, y in ((0.2, 0.82), (0.36, 0.82), (0.28, 0.76))]
        joined(brush, parts, WHITE)


def _mountain(brush: Brush) -> None:
    slope = [(0.03, 0.94), (0.18, 0.74), (0.3, 0.46), (0.36, 0.32), (0.64, 0.32), (0.7, 0.46), (0.82, 0.74)]
    brush.polygon([*slope, (0.97, 0.94)], brush.main)
    brush.polygon(
        [(0.56, 0.36), (0.64, 0.34), (0.8, 0.72), (0.94, 0.92), (0.66, 0.92), (0.62, 0.6)], brush.dark, line=0
    )
    brush.stroke([(0.28, 0.62), (0.2, 0.8)], brush.light, 0.045)
    brush.ellipse(0.5, 0.33, 0.15, 0.055, STONE)


def volcano(brush: Brush) -> None:
    _mountain(brush)


def erupting_volcano(brush: Brush) -> None:
    for x, y, r in ((0.3, 0.13, 0.09), (0.7, 0.12, 0.09), (0.5, 0.1, 0.07)):
        brush.circle(x, y, r, GREY)
    _mountain(brush)
    jet = [
        *((0.4, 0.34), (0.34, 0.2), (0.2, 0.26), (0.32, 0.1)),
        *((0.46, 0.14), (0.5, 0.03), (0.55, 0.14), (0.68, 0.1)),
    ]
    brush.blob([*jet, (0.8, 0.26), (0.66, 0.2), (0.6, 0.34)], _EMBER)
    brush.blob([(0.45, 0.33), (0.46, 0.2), (0.5, 0.13), (0.54, 0.2), (0.55, 0.33)], GOLD, line=0)
    flow = [(0.38, 0.33), (0.62, 0.33), (0.64, 0.5), (0.72, 0.62), (0.66, 0.68), (0.58, 0.54), (0.54, 0.78)]
    brush.blob([*flow, (0.47, 0.78), (0.46, 0.5), (0.36, 0.6), (0.3, 0.54)], _EMBER)
    brush.stroke([(0.5, 0.38), (0.5, 0.7)], FLAME, 0.05)


def _logs(brush: Brush) -> None:
    for x in (0.16, 0.84):
        brush.ellipse(x, 0.91, 0.1, 0.055, GREY)
    for first, last in (((0.2, 0.86), (0.8, 0.74)), ((0.8, 0.86), (0.2, 0.74))):
        brush.stroke([first, last], brush.ink, 0.15)
        brush.stroke([first, last], SOIL, 0.096)
        brush.circle(*first, 0.042, WOOD, line=0)


def fire(brush: Brush) -> None:
    left = [(0.4, 0.06), (0.5, 0.2), (0.6, 0.26), (0.68, 0.16), (0.78, 0.4), (0.8, 0.62), (0.66, 0.8)]
    brush.blob([*left, (0.34, 0.8), (0.2, 0.62), (0.24, 0.4), (0.34, 0.28)], brush.main)
    brush.blob(mirrored([(0.5, 0.36), (0.6, 0.5), (0.65, 0.66), (0.58, 0.78), (0.5, 0.8)]), GOLD, line=0)
    brush.ellipse(0.5, 0.7, 0.075, 0.1, WHITE, line=0)
    _logs(brush)


def smoking_fire(brush: Brush) -> None:
    puffs = [(0.5, 0.6, 0.1), (0.42, 0.42, 0.12), (0.56, 0.26, 0.14), (0.4, 0.13, 0.09)]
    joined(brush, [oval(x, y, r, r * 0.85) for x, y, r in puffs], GREY)
    brush.arc(0.56, 0.26, 0.08, 0.07, 180, 290, SILVER, 0.036)
    _logs(brush)
    for x, y in ((0.36, 0.77), (0.64, 0.77), (0.26, 0.87), (0.5, 0.87), (0.74, 0.87)):
        brush.ellipse(x, y, 0.135, 0.085, brush.main)


def rock(brush: Brush) -> None:
    brush.polygon(
        [(0.05, 0.92), (0.1, 0.62), (0.3, 0.36), (0.56, 0.28), (0.8, 0.46), (0.94, 0.72), (0.95, 0.92)],
        brush.main,
    )
    brush.polygon([(0.56, 0.28), (0.8, 0.46), (0.62, 0.54), (0.4, 0.5), (0.3, 0.36)], brush.light, line=0)
    brush.polygon([(0.62, 0.54), (0.8, 0.46), (0.94, 0.72), (0.95, 0.91), (0.7, 0.91)], brush.dark, line=0)
    brush.stroke([(0.26, 0.64), (0.36, 0.7), (0.32, 0.8)], brush.dark, 0.034)
    brush.stroke(
        [
            *((0.05, 0.92), (0.1, 0.62), (0.3, 0.36), (0.56, 0.28)),
            *((0.8, 0.46), (0.94, 0.72), (0.95, 0.92), (0.05, 0.92)),
        ]
    )
    brush.blob([(0.06, 0.94), (0.12, 0.82), (0.18, 0.9), (0.24, 0.84), (0.28, 0.94)], LEAF, line=0.02)


DRAWINGS: dict[str, Drawing] = {
    "tent": tent,
    "bridge": bridge,
    "door": door,
    "open door": open_door,
    "fence": fence,
    "rainbow": rainbow,
    "volcano": volcano,
    "erupting volcano": erupting_volcano,
    "fire": fire,
    "smoking fire": smoking_fire,
    "rock": rock,
}
