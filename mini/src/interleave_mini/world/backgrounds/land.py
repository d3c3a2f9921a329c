"""Places on land: meadow, forest, night, snow, desert."""

from __future__ import annotations

import math

from interleave_mini.world.backgrounds.scenery import (
    HORIZON,
    Place,
    cloud,
    fade,
    ridge,
    ridge_line,
    spread,
    tuft,
)
from interleave_mini.world.brush import RGB, Brush, Point, mix


def meadow(brush: Brush) -> None:
    fade(brush, 0, 0.3, (182, 217, 240), (228, 241, 240))
    for x, y, width in ((0.2, 0.085, 0.24), (0.79, 0.125, 0.28), (0.5, 0.035, 0.14)):
        cloud(brush, x, y, width, (240, 247, 248))
    ridge(brush, 0.215, [(0.025, 1.3, 0.1), (0.008, 3.1, 0.4)], (190, 217, 196))
    ridge(brush, 0.24, [(0.02, 1.1, 0.55), (0.006, 2.7, 0)], (184, 216, 172))
    for x in (0.02, 0.07, 0.11, 0.62, 0.655, 0.7, 0.94, 0.99):
        brush.ellipse(x, 0.25, 0.03, 0.022, (166, 204, 156))
    fade(brush, HORIZON, 1, (196, 223, 156), (174, 210, 132))
    for level, shift, fill in ((0.5, 0.2, (186, 217, 146)), (0.8, 0.65, (178, 212, 138))):
        brush.curve(ridge_line(level, [(0.025, 0.9, shift), (0.006, 2.3, shift)]), fill, 0.022)
    _path_through_grass(brush)
    for x, y, size in spread(46, 0.29):
        tuft(brush, x, y, 0.026 * size, (154, 194, 112))
    for index, (x, y, size) in enumerate(spread(44, 0.28, start=61)):
        petal: RGB = ((250, 250, 238), (248, 238, 176), (246, 222, 224))[index % 3]
        brush.circle(x, y, 0.0075 * size, petal)


def _path_through_grass(brush: Brush) -> None:
    left = [(0.6, HORIZON), (0.63, 0.32), (0.5, 0.46), (0.42, 0.6), (0.46, 0.8), (0.36, 1.06)]
    right = [(0.62, HORIZON), (0.67, 0.32), (0.57, 0.46), (0.53, 0.6), (0.62, 0.8), (0.6, 1.06)]
    brush.blob([*left, *reversed(right)], (215, 221, 172))


def forest(brush: Brush) -> None:
    fade(brush, 0, 0.3, (178, 203, 190), (208, 221, 200))
    for x, width in (
        (0.04, 0.03),
        (0.19, 0.022),
        (0.33, 0.03),
        (0.44, 0.02),
        (0.6, 0.028),
        (0.74, 0.02),
        (0.9, 0.03),
    ):
        _trunk(brush, x, width, 0.255, (164, 188, 172))
    ridge(brush, 0.235, [(0.01, 3.2, 0.1), (0.006, 7.3, 0.3)], (158, 184, 150))
    for x, width in ((0.115, 0.05), (0.52, 0.044), (0.82, 0.052), (0.985, 0.05)):
        _trunk(brush, x, width, 0.28, (152, 164, 142))
    for x, y, size in spread(26, -0.03, bottom=0.06):
        brush.circle(x, y, 0.07 * size, (150, 182, 152))
    for x, y, size in spread(22, -0.05, bottom=0.03, start=70):
        brush.circle(x, y, 0.065 * size, (140, 173, 142))
    ridge(brush, 0.265, [(0.007, 2.1, 0.6), (0.004, 5.3, 0.1)], (154, 180, 132))
    fade(brush, 0.285, 1, (154, 180, 132), (134, 164, 114))
    for x, y, size in spread(9, 0.38, start=4):
        brush.ellipse(x, y, 0.14 * size, 0.034 * size, (157, 183, 132))
    for x, y, size in spread(52, 0.3, start=20):
        brush.ellipse(x, y, 0.014 * size, 0.006 * size, (174, 174, 124), turn=x * 997 % 180)
    for x, y, size in spread(17, 0.33, start=90):
        _fern(brush, x, y, 0.05 * size, (124, 156, 110))


def _trunk(brush: Brush, x: float, width: float, foot: float, fill: RGB) -> None:
    half = width / 2
    brush.polygon(
        [
            (x - half, -0.01),
            (x + half, -0.01),
            (x + half, foot - 0.03),
            (x + width, foot),
            (x - width, foot),
            (x - half, foot - 0.03),
        ],
        fill,
    )


def _fern(brush: Brush, x: float, y: float, size: float, colour: RGB) -> None:
    """A fan of fronds, each with short leaves on both sides."""
    for degrees in (-62, -22, 22, 62):
        across, up = math.sin(math.radians(degrees)), -math.cos(math.radians(degrees))
        brush.stroke([(x, y), (x + across * size, y + up * size)], colour, 0.004)
        for along in (0.4, 0.6, 0.8):
            wide = size * (0.3 - 0.22 * along)
            middle = (x + across * size * along, y + up * size * along)
            brush.ellipse(*middle, wide * 1.3, size * 0.05, colour, turn=degrees)


def night(brush: Brush) -> None:
    fade(brush, 0, 0.28, (82, 92, 154), (132, 138, 190))
    for index, (x, y, size) in enumerate(spread(54, 0.008, bottom=0.2)):
        brush.circle(
            x, y, (0.0035, 0.0045, 0.006)[index % 3], mix((222, 222, 232), (132, 138, 190), size - 0.5)
        )
    ridge(brush, 0.215, [(0.022, 1.2, 0.35), (0.009, 2.9, 0.1)], (112, 122, 178))
    ridge(brush, 0.245, [(0.014, 1.6, 0.85), (0.006, 3.7, 0.5)], (104, 118, 170))
    for x, y in ((0.13, 0.235), (0.155, 0.228), (0.6, 0.236), (0.63, 0.242), (0.87, 0.232)):
        brush.circle(x, y, 0.0045, (220, 206, 164))
    fade(brush, 0.262, 1, (108, 126, 174), (92, 108, 160))
    for level, shift, fill in (
        (0.4, 0.1, (109, 127, 175)),
        (0.66, 0.5, (106, 122, 171)),
        (0.88, 0.8, (100, 116, 167)),
    ):
        brush.curve(ridge_line(level, [(0.02, 1.1, shift), (0.005, 2.6, shift)]), fill, 0.02)
    for x, y, size in spread(40, 0.3, start=12):
        tuft(brush, x, y, 0.026 * size, (84, 101, 150))
    for x, y, size in spread(17, 0.3, start=80):
        brush.circle(x, y, 0.012 * size, (126, 140, 174))
        brush.circle(x, y, 0.005 * size, (214, 212, 168))


def snow(brush: Brush) -> None:
    fade(brush, 0, 0.28, (196, 209, 230), (228, 234, 243))
    for x, y, wide in ((0.16, 0.1, 0.2), (0.47, 0.13, 0.17), (0.83, 0.085, 0.22)):
        _mountain(brush, x, y, wide)
    ridge(brush, 0.235, [(0.012, 1.4, 0.2), (0.005, 3.3, 0.6)], (214, 224, 238))
    for x, size in (
        (0.03, 0.05),
        (0.065, 0.036),
        (0.34, 0.04),
        (0.375, 0.052),
        (0.64, 0.04),
        (0.955, 0.05),
        (0.99, 0.04),
    ):
        _fir(brush, x, 0.252, size)
    ridge(brush, 0.25, [(0.006, 1.2, 0.7)], (234, 240, 248))
    fade(brush, 0.262, 1, (234, 240, 248), (244, 247, 251))
    for level, shift in ((0.36, 0.05), (0.52, 0.6), (0.7, 0.3), (0.9, 0.85)):
        _drift(brush, level, shift)
    for step in range(13):
        x, y = 0.15 + 0.055 * step, 0.62 - 0.022 * step + 0.02 * (step % 2)
        brush.ellipse(x, y, 0.008, 0.005, (222, 231, 243))
    for index, (x, y, _) in enumerate(spread(46, 0.005, bottom=0.24)):
        brush.circle(x, y, 0.004 + 0.0015 * (index % 3), (248, 250, 253))
    for x, y, size in spread(22, 0.3, start=50):
        brush.circle(x, y, 0.005 * size, (222, 232, 246))


def _mountain(brush: Brush, x: float, y: float, wide: float) -> None:
    brush.polygon([(x, y), (x + wide, 0.27), (x - wide, 0.27)], (204, 215, 233))
    brush.polygon(
        [(x, y), (x + wide, 0.27), (x + wide * 0.1, 0.27), (x + wide * 0.14, y + 0.08)], (196, 208, 229)
    )
    cap = [(0, 0), (0.3, 0.05), (0.17, 0.044), (0.06, 0.062), (-0.08, 0.044), (-0.2, 0.056), (-0.3, 0.05)]
    brush.polygon([(x + dx * wide * 0.98, y + dy) for dx, dy in cap], (236, 241, 248))


def _fir(brush: Brush, x: float, y: float, size: float) -> None:
    for rise, wide in ((0, 0.36), (0.3, 0.28), (0.58, 0.2)):
        foot = y - size * rise
        brush.polygon(
            [(x, foot - size * 0.5), (x + size * wide, foot), (x - size * wide, foot)], (184, 202, 216)
        )


def _drift(brush: Brush, level: float, shift: float) -> None:
    upper = ridge_line(level, [(0.022, 0.8, shift), (0.006, 2.1, shift)])
    lower = ridge_line(level + 0.02, [(0.03, 0.8, shift + 0.03), (0.006, 2.1, shift)])
    brush.polygon([*upper, *reversed(lower)], (228, 236, 246))


def desert(brush: Brush) -> None:
    fade(brush, 0, 0.28, (247, 220, 196), (253, 236, 208))
    for x, y, wide in ((0.12, 0.15, 0.11), (0.27, 0.185, 0.06), (0.76, 0.135, 0.09), (0.93, 0.175, 0.08)):
        _mesa(brush, x, y, wide)
    ridge(brush, 0.238, [(0.014, 1.1, 0.3), (0.005, 2.4, 0.8)], (232, 186, 152))
    for x, size in ((0.42, 0.06), (0.475, 0.04), (0.62, 0.048), (0.9, 0.05)):
        _far_cactus(brush, x, 0.258, size)
    ridge(brush, 0.256, [(0.008, 1.3, 0.9)], (234, 190, 148))
    fade(brush, 0.27, 1, (234, 190, 148), (224, 172, 128))
    for level, shift in ((0.38, 0.1), (0.57, 0.55), (0.8, 0.2)):
        _dune(brush, level, shift)
    for x, y, size in spread(26, 0.3):
        _ripple(brush, x, y, 0.06 * size, (214, 164, 122))
    for x, y, size in spread(15, 0.31, start=40):
        brush.ellipse(x, y, 0.012 * size, 0.007 * size, (204, 154, 120))
        brush.ellipse(x - 0.002, y - 0.002, 0.008 * size, 0.004 * size, (216, 170, 136))


def _mesa(brush: Brush, x: float, y: float, wide: float) -> None:
    for grow, fill in ((1.0, (226, 182, 158)), (0.55, (231, 190, 166))):
        left, top = x - wide * 0.6, x + wide * (1.2 * grow - 0.6)
        brush.polygon([(left, y), (top, y), (top + wide * 0.4 * grow, 0.27), (left - wide * 0.4, 0.27)], fill)


def _far_cactus(brush: Brush, x: float, y: float, size: float) -> None:
    fill = (190, 180, 142)
    brush.stroke([(x, y), (x, y - size)], fill, size * 0.18)
    for side, low in ((-1, 0.4), (1, 0.55)):
        arm = [
            (x, y - size * low),
            (x + side * size * 0.26, y - size * low),
            (x + side * size * 0.26, y - size * (low + 0.28)),
        ]
        brush.stroke(arm, fill, size * 0.14)


def _dune(brush: Brush, level: float, shift: float) -> None:
    upper = ridge_line(level, [(0.03, 0.9, shift), (0.006, 1.9, shift)])
    lower = ridge_line(level + 0.03, [(0.045, 0.9, shift + 0.04), (0.006, 1.9, shift)])
    brush.polygon([*upper, *reversed(lower)], (222, 173, 131))


def _ripple(brush: Brush, x: float, y: float, size: float, colour: RGB) -> None:
    points: list[Point] = [
        (x + (step - 1.5) * size / 1.5, y + (0.004 if step % 2 else -0.004)) for step in range(4)
    ]
    brush.curve(points, colour, 0.004)


PLACES: dict[str, Place] = {
    "meadow": meadow,
    "forest": forest,
    "night": night,
    "snow": snow,
    "desert": desert,
}
