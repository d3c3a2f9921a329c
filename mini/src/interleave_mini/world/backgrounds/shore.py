"""Places by the water: beach and sea."""

from __future__ import annotations

from interleave_mini.world.backgrounds.scenery import HORIZON, Place, cloud, fade, ridge, ridge_line, spread
from interleave_mini.world.brush import RGB, Brush, arc_points


def beach(brush: Brush) -> None:
    fade(brush, 0, 0.16, (190, 228, 236), (224, 241, 240))
    for x, y, width in ((0.26, 0.07, 0.26), (0.72, 0.045, 0.2)):
        cloud(brush, x, y, width, (240, 248, 247))
    for x, y in ((0.5, 0.085), (0.545, 0.07), (0.88, 0.1)):
        _gull(brush, x, y, 0.02)
    fade(brush, 0.15, 0.27, (134, 202, 206), (172, 222, 216))
    for x, y, size in spread(20, 0.158, bottom=0.225):
        brush.stroke([(x - 0.03 * size, y), (x + 0.03 * size, y)], (160, 216, 214), 0.004)
    for level, fill in ((0.238, (248, 252, 248)), (0.252, (224, 204, 162)), (0.268, (236, 217, 172))):
        ridge(brush, level, [(0.008, 1.6, 0.1), (0.004, 4.2, 0.4)], fill)
    ridge(brush, 0.285, [(0.008, 1.6, 0.1), (0.004, 4.2, 0.4)], (246, 229, 182))
    fade(brush, 0.3, 1, (246, 229, 182), (242, 217, 158))
    for level, shift in ((0.45, 0.3), (0.64, 0.8), (0.86, 0.45)):
        brush.curve(ridge_line(level, [(0.02, 0.9, shift), (0.005, 2.2, shift)]), (238, 216, 163), 0.014)
    _footprints(brush)
    for x, y, size in spread(60, 0.31):
        brush.circle(x, y, 0.0045 * size, (227, 202, 148))
    for index, (x, y, size) in enumerate(spread(14, 0.33, start=33)):
        if index % 2:
            _scallop(brush, x, y, 0.024 * size)
        else:
            brush.ellipse(x, y, 0.017 * size, 0.009 * size, (222, 210, 188), turn=x * 90)


def _gull(brush: Brush, x: float, y: float, size: float) -> None:
    brush.curve(
        [(x - size, y - size * 0.2), (x - size * 0.5, y - size * 0.5), (x, y)], (252, 253, 252), 0.005
    )
    brush.curve(
        [(x, y), (x + size * 0.5, y - size * 0.5), (x + size, y - size * 0.2)], (252, 253, 252), 0.005
    )


def _footprints(brush: Brush) -> None:
    for step in range(12):
        y = 0.98 - 0.056 * step
        x = 0.3 + 0.035 * step + (0.024 if step % 2 else 0) + 0.04 * (1 - y)
        brush.ellipse(x, y, 0.008, 0.015, (231, 207, 153), turn=24)


def _scallop(brush: Brush, x: float, y: float, size: float) -> None:
    brush.polygon([(x, y + size * 0.6), *arc_points(x, y, size, size * 0.8, 190, 350)], (246, 214, 200))
    for lean in (-0.5, 0, 0.5):
        brush.stroke([(x, y + size * 0.5), (x + lean * size, y - size * 0.5)], (236, 198, 184), 0.003)


def sea(brush: Brush) -> None:
    fade(brush, 0, HORIZON, (206, 226, 240), (238, 243, 240))
    for x, y, width in ((0.17, 0.12, 0.28), (0.6, 0.065, 0.22), (0.87, 0.15, 0.2)):
        cloud(brush, x, y, width, (247, 249, 248))
    brush.ellipse(0.42, HORIZON, 0.1, 0.022, (176, 206, 214))
    brush.ellipse(0.5, HORIZON, 0.07, 0.034, (184, 211, 217))
    fade(brush, HORIZON, 1, (150, 203, 220), (104, 166, 204))
    for index, level in enumerate((0.3, 0.36, 0.44, 0.53, 0.64, 0.76, 0.9)):
        _swell(brush, level, index)
    for x, y, size in spread(34, 0.28):
        _wave(brush, x, y, 0.036 * size, (166, 211, 226) if y < 0.6 else (146, 198, 222))


def _swell(brush: Brush, level: float, index: int) -> None:
    shift, high = index * 0.37, 0.004 + 0.0016 * index
    upper = ridge_line(level, [(high, 2.5 - 0.15 * index, shift)])
    lower = ridge_line(level + 0.014 + 0.004 * index, [(high, 2.5 - 0.15 * index, shift + 0.1)])
    fills: list[RGB] = [
        (140, 196, 216),
        (133, 191, 214),
        (126, 186, 211),
        (119, 180, 209),
        (112, 174, 206),
        (105, 168, 203),
        (98, 161, 199),
    ]
    brush.polygon([*upper, *reversed(lower)], fills[index])


def _wave(brush: Brush, x: float, y: float, size: float, colour: RGB) -> None:
    for side in (-1, 1):
        brush.arc(x + side * size / 2, y, size / 2, size * 0.3, 20, 160, colour, 0.005)


PLACES: dict[str, Place] = {"beach": beach, "sea": sea}
