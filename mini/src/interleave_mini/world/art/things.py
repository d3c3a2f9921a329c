"""Things people own: umbrella, phone, computer, key, hat, shoe, drum, guitar, shovel; and two more shapes."""

from __future__ import annotations

from interleave_mini.world.art.pieces import Drawing, turned
from interleave_mini.world.brush import CREAM, GOLD, RGB, SILVER, STONE, WHITE, WOOD, Brush, arc_points

_SCREEN: RGB = (150, 206, 240)


def _handle(brush: Brush, top: float) -> None:
    hook = [(0.5, top), (0.5, 0.84), (0.54, 0.92), (0.62, 0.92), (0.65, 0.84)]
    for colour, width in ((brush.ink, 0.09), (WOOD, 0.042)):
        brush.curve(hook, colour, width)


def umbrella(brush: Brush) -> None:
    _handle(brush, 0.4)
    brush.stroke([(0.5, 0.1), (0.5, 0.03)], brush.ink, 0.045)
    scallops = [point for x in (0.81, 0.6, 0.4, 0.19) for point in arc_points(x, 0.5, 0.11, 0.06, 0, -180)]
    brush.polygon([*arc_points(0.5, 0.5, 0.45, 0.42, 180, 360), *scallops], brush.main)
    brush.polygon([(0.5, 0.08), *arc_points(0.5, 0.48, 0.1, 0.05, 180, 360)], brush.light, line=0)
    for side in (-1, 1):
        brush.curve([(0.5, 0.08), (0.5 + side * 0.17, 0.22), (0.5 + side * 0.2, 0.47)], brush.dark, 0.03)


def closed_umbrella(brush: Brush) -> None:
    _handle(brush, 0.6)
    brush.stroke([(0.5, 0.1), (0.5, 0.03)], brush.ink, 0.05)
    brush.polygon(
        [(0.5, 0.07), (0.58, 0.14), (0.66, 0.62), (0.5, 0.73), (0.34, 0.62), (0.42, 0.14)], brush.main
    )
    brush.polygon([(0.5, 0.1), (0.57, 0.66), (0.5, 0.71), (0.43, 0.66)], brush.dark, line=0)
    brush.polygon([(0.37, 0.44), (0.63, 0.44), (0.65, 0.53), (0.35, 0.53)], brush.light, line=0.02)


def phone(brush: Brush) -> None:
    brush.box(0.23, 0.04, 0.77, 0.95, brush.main, round=0.09)
    brush.box(0.29, 0.14, 0.71, 0.79, _SCREEN, round=0.02, line=0.02)
    brush.stroke([(0.43, 0.09), (0.57, 0.09)], brush.pale, 0.034)
    brush.circle(0.5, 0.87, 0.04, brush.pale, line=0)
    icons: tuple[RGB, ...] = ((226, 80, 80), GOLD, (90, 180, 100), (110, 90, 190), WHITE, (244, 150, 190))
    for index, fill in enumerate(icons):
        x, y = 0.36 + index % 2 * 0.18, 0.21 + index // 2 * 0.19
        brush.box(x - 0.035, y, x + 0.135 - 0.035, y + 0.115, fill, round=0.03, line=0)


def computer(brush: Brush) -> None:
    """A laptop."""
    brush.box(0.12, 0.1, 0.88, 0.7, brush.main, round=0.05)
    brush.box(0.19, 0.17, 0.81, 0.62, _SCREEN, line=0.02)
    brush.polygon([(0.2, 0.61), (0.38, 0.38), (0.5, 0.52), (0.6, 0.42), (0.8, 0.61)], (104, 176, 110), line=0)
    brush.circle(0.67, 0.28, 0.065, GOLD, line=0)
    brush.polygon([(0.12, 0.7), (0.88, 0.7), (0.97, 0.92), (0.03, 0.92)], brush.light)
    for y, reach in ((0.76, 0.3), (0.82, 0.33)):
        brush.stroke([(0.5 - reach, y), (0.5 + reach, y)], brush.dark, 0.034)
    brush.box(0.4, 0.855, 0.6, 0.91, brush.dark, line=0)


def key(brush: Brush) -> None:
    def along(*points: tuple[float, float]) -> list[tuple[float, float]]:
        return turned(points, 0.5, 0.5, -38)

    bar = along(
        *((0.3, 0.45), (0.94, 0.45), (0.94, 0.7), (0.84, 0.7), (0.84, 0.56)),
        *((0.76, 0.56), (0.76, 0.66), (0.67, 0.66), (0.67, 0.56), (0.3, 0.56)),
    )
    brush.polygon(bar, brush.main)
    ((x, y),) = along((0.2, 0.5))
    brush.circle(x, y, 0.21, brush.main)
    brush.circle(x, y, 0.09, brush.pale)
    brush.arc(x, y, 0.15, 0.15, 160, 260, brush.light, 0.045)


def hat(brush: Brush) -> None:
    """A hat with a wide brim and a ribbon."""
    brush.ellipse(0.5, 0.78, 0.46, 0.14, brush.main)
    brush.blob(
        [
            *((0.22, 0.76), (0.25, 0.4), (0.34, 0.2), (0.5, 0.26)),
            *((0.66, 0.2), (0.75, 0.4), (0.78, 0.76), (0.5, 0.84)),
        ],
        brush.main,
    )
    brush.polygon(
        [
            (0.225, 0.6),
            *arc_points(0.5, 0.6, 0.275, 0.07, 180, 0),
            (0.775, 0.6),
            *arc_points(0.5, 0.74, 0.28, 0.07, 0, 180),
        ],
        (196, 62, 70),
        line=0.02,
    )
    brush.curve([(0.34, 0.32), (0.31, 0.42), (0.3, 0.52)], brush.light, 0.045)


def shoe(brush: Brush) -> None:
    """A lace-up boot that points to the left."""
    brush.box(0.05, 0.82, 0.95, 0.94, CREAM, round=0.05)
    upper = [(0.07, 0.84), (0.08, 0.68), (0.24, 0.58), (0.46, 0.52), (0.52, 0.3), (0.54, 0.18), (0.9, 0.18)]
    brush.blob([*upper, (0.92, 0.5), (0.93, 0.84), (0.5, 0.85)], brush.main)
    brush.blob([(0.08, 0.83), (0.09, 0.7), (0.2, 0.62), (0.28, 0.7), (0.28, 0.83)], brush.light, line=0.02)
    brush.box(0.5, 0.12, 0.94, 0.25, brush.dark, round=0.05)
    for x, y in ((0.55, 0.36), (0.52, 0.48), (0.4, 0.6)):
        brush.stroke([(x - 0.01, y), (x + 0.14, y + 0.06)], WHITE, 0.045)


def drum(brush: Brush) -> None:
    for x, tip in ((0.62, 0.9), (0.38, 0.1)):
        brush.stroke([(x, 0.3), (tip, 0.1)], brush.ink, 0.075)
        brush.stroke([(x, 0.3), (tip, 0.1)], WOOD, 0.03)
        brush.circle(tip, 0.11, 0.05, CREAM)
    brush.polygon([(0.08, 0.38), *arc_points(0.5, 0.8, 0.42, 0.13, 180, 0), (0.92, 0.38)], brush.main)
    zigzag = [(0.1, 0.52), (0.22, 0.82), (0.36, 0.56), (0.5, 0.86), (0.64, 0.56), (0.78, 0.82), (0.9, 0.52)]
    brush.stroke(zigzag, WHITE, 0.04)
    brush.arc(0.5, 0.8, 0.42, 0.13, 2, 178, GOLD, 0.07)
    brush.ellipse(0.5, 0.38, 0.42, 0.13, GOLD)
    brush.ellipse(0.5, 0.36, 0.36, 0.095, CREAM, line=0.02)


def guitar(brush: Brush) -> None:
    def along(*points: tuple[float, float]) -> list[tuple[float, float]]:
        return turned([(0.5 + (x - 0.5) * 0.86, 0.13 + y * 0.78) for x, y in points], 0.5, 0.5, 30)

    brush.polygon(along((0.46, -0.06), (0.54, -0.06), (0.54, 0.5), (0.46, 0.5)), WOOD)
    brush.polygon(along((0.43, -0.14), (0.57, -0.14), (0.56, 0.03), (0.44, 0.03)), STONE)
    right = [(0.5, 0.4), (0.64, 0.42), (0.68, 0.54), (0.64, 0.63), (0.74, 0.78), (0.7, 0.98), (0.5, 1.04)]
    brush.blob(along(*right, *((1 - x, y) for x, y in right[-2:0:-1])), brush.main)
    ((x, y),) = along((0.5, 0.66))
    brush.circle(x, y, 0.085, brush.ink, line=0)
    brush.stroke(along((0.4, 0.86), (0.6, 0.86)), brush.ink, 0.06)
    for shift in (-0.025, 0.025):
        brush.stroke(along((0.5 + shift, -0.04), (0.5 + shift, 0.86)), SILVER, 0.018)
    brush.curve(along((0.37, 0.76), (0.35, 0.86), (0.4, 0.95)), brush.light, 0.04)


def shovel(brush: Brush) -> None:
    def along(*points: tuple[float, float]) -> list[tuple[float, float]]:
        return turned([(x, 0.05 + y * 0.88) for x, y in points], 0.5, 0.5, 24)

    for colour, width in ((brush.ink, 0.12), (WOOD, 0.07)):
        brush.stroke(along((0.5, 0.06), (0.5, 0.6)), colour, width)
        brush.stroke(along((0.38, 0.03), (0.62, 0.03)), colour, width)
    blade = [(0.5, 0.55), (0.67, 0.56), (0.69, 0.76), (0.62, 0.92), (0.5, 1.0)]
    brush.blob(along(*blade, *((1 - x, y) for x, y in blade[-2:0:-1])), brush.main)
    brush.stroke(along((0.5, 0.62), (0.5, 0.84)), brush.dark, 0.05)
    brush.stroke(along((0.38, 0.66), (0.39, 0.8)), brush.light, 0.04)


def rectangle(brush: Brush) -> None:
    brush.box(0.05, 0.26, 0.95, 0.76, brush.main)


def diamond(brush: Brush) -> None:
    brush.polygon([(0.5, 0.05), (0.86, 0.5), (0.5, 0.95), (0.14, 0.5)], brush.main)


DRAWINGS: dict[str, Drawing] = {
    drawing.__name__.replace("_", " "): drawing
    for drawing in (
        *(umbrella, closed_umbrella, phone, computer, key, hat, shoe),
        *(drum, guitar, shovel, rectangle, diamond),
    )
}
