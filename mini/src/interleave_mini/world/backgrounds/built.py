"""Places people made: kitchen, room, city."""

from __future__ import annotations

from interleave_mini.world.backgrounds.scenery import HORIZON, Place, cloud, fade, floor, growing, spread
from interleave_mini.world.brush import RGB, Brush

_FAR_TOWERS = (
    *((-0.02, 0.1, 0.1), (0.1, 0.14, 0.08), (0.22, 0.075, 0.09), (0.36, 0.12, 0.11)),
    *((0.52, 0.06, 0.08), (0.64, 0.13, 0.1), (0.79, 0.09, 0.09), (0.9, 0.12, 0.12)),
)
_NEAR_TOWERS = (
    *((-0.03, 0.165, 0.09), (0.15, 0.15, 0.08), (0.3, 0.175, 0.09), (0.44, 0.14, 0.09)),
    *((0.58, 0.17, 0.08), (0.72, 0.155, 0.08), (0.86, 0.145, 0.07), (0.95, 0.18, 0.08)),
)
"""Left edge, top and width of each."""


def kitchen(brush: Brush) -> None:
    _tiled_wall(brush)
    _shelf_with_dishes(brush)
    for x, length in ((0.74, 0.09), (0.8, 0.11), (0.86, 0.08)):
        brush.stroke([(x, 0.07), (x, 0.07 + length)], (226, 196, 172), 0.008)
        brush.ellipse(x, 0.075 + length, 0.015, 0.02, (226, 196, 172))
    brush.stroke([(0.69, 0.068), (0.92, 0.068)], (220, 190, 166), 0.009)
    checks: list[RGB] = [(251, 226, 219), (247, 211, 205), (242, 198, 193)]
    for column, row, corners in floor(11, growing(10)):
        brush.polygon(corners, checks[column % 2 + row % 2])
    brush.box(0, HORIZON - 0.006, 1, HORIZON + 0.006, (232, 184, 178))


def _tiled_wall(brush: Brush) -> None:
    brush.box(0, 0, 1, HORIZON, (249, 230, 208))
    for row in range(5):
        y = row * 0.0625
        brush.stroke([(0, y), (1, y)], (252, 238, 220), 0.005)
        for column in range(12):
            x = column * 0.0926 + (0.0463 if row % 2 else 0)
            brush.stroke([(x, y), (x, y + 0.0625)], (252, 238, 220), 0.005)


def _shelf_with_dishes(brush: Brush) -> None:
    for x in (0.13, 0.2, 0.27):
        brush.ellipse(x, 0.115, 0.038, 0.038, (253, 246, 236))
        brush.ellipse(x, 0.115, 0.024, 0.024, (246, 232, 216))
    for x, size, fill in ((0.4, 0.045, (196, 218, 208)), (0.5, 0.036, (206, 224, 216))):
        brush.chord(x, 0.152 - size, size, size, 0, 180, fill)
    brush.box(0.07, 0.15, 0.58, 0.164, (226, 194, 166))
    for x in (0.14, 0.51):
        brush.polygon([(x - 0.008, 0.164), (x + 0.008, 0.164), (x, 0.19)], (216, 184, 156))


def room(brush: Brush) -> None:
    brush.box(0, 0, 1, HORIZON, (209, 192, 232))
    for column in range(14):
        brush.box(column * 0.0741, 0, column * 0.0741 + 0.026, HORIZON, (215, 200, 236))
    _window(brush)
    for left, right in ((0.08, 0.2), (0.81, 0.93)):
        _image(brush, left, right)
    brush.box(0, 0.226, 1, HORIZON, (234, 225, 243))
    brush.box(0, HORIZON - 0.005, 1, HORIZON, (190, 170, 206))
    boards: list[RGB] = [(198, 177, 214), (194, 172, 211), (201, 181, 216)]
    for column, row, corners in floor(9, [0, 0.22, 0.55, 1]):
        brush.polygon(corners, boards[(column * 2 + row * 5 + column // 3) % 3])
    rug: list[tuple[float, RGB]] = [
        (1.0, (221, 200, 221)),
        (0.93, (233, 216, 230)),
        (0.86, (224, 205, 225)),
        (0.5, (228, 210, 228)),
    ]
    for share, fill in rug:
        brush.ellipse(0.5, 0.635, 0.43 * share, 0.315 * share, fill)


def _window(brush: Brush) -> None:
    brush.box(0.36, 0.02, 0.64, 0.195, (243, 237, 245))
    brush.box(0.375, 0.035, 0.625, 0.18, (208, 226, 240))
    brush.chord(0.44, 0.181, 0.1, 0.05, 180, 360, (206, 222, 206))
    brush.box(0.495, 0.035, 0.505, 0.18, (243, 237, 245))
    brush.box(0.375, 0.1, 0.625, 0.108, (243, 237, 245))
    brush.box(0.345, 0.19, 0.655, 0.204, (236, 228, 240))
    for side in (-1, 1):
        x = 0.5 + side * 0.15
        drape = [
            (x + side * 0.05, 0.01),
            (x - side * 0.07, 0.01),
            (x - side * 0.045, 0.09),
            (x + side * 0.0, 0.205),
            (x + side * 0.05, 0.205),
        ]
        brush.polygon(drape, (236, 208, 220))
        brush.stroke([(x + side * 0.01, 0.02), (x + side * 0.025, 0.2)], (228, 198, 212), 0.006)
    brush.stroke([(0.27, 0.012), (0.73, 0.012)], (206, 188, 206), 0.01)


def _image(brush: Brush, left: float, right: float) -> None:
    brush.box(left, 0.06, right, 0.165, (192, 172, 208))
    brush.box(left + 0.012, 0.072, right - 0.012, 0.153, (238, 231, 236))
    brush.polygon(
        [
            (left + 0.012, 0.153),
            (left + 0.05, 0.11),
            (left + 0.08, 0.14),
            (right - 0.012, 0.125),
            (right - 0.012, 0.153),
        ],
        (214, 210, 222),
    )


def city(brush: Brush) -> None:
    fade(brush, 0, 0.26, (204, 212, 224), (232, 228, 224))
    for x, y, width in ((0.3, 0.03, 0.2), (0.76, 0.05, 0.24)):
        cloud(brush, x, y, width, (222, 228, 235))
    for x, y, width in _FAR_TOWERS:
        _tower(brush, x, y, width, (192, 200, 212), (201, 208, 219))
    for x, y, width in _NEAR_TOWERS:
        _tower(brush, x, y, width, (174, 183, 197), (208, 208, 202))
    brush.box(0, 0.232, 1, 0.25, (170, 176, 184))
    brush.box(0, 0.25, 1, 0.262, (210, 209, 203))
    slabs: list[RGB] = [(194, 193, 187), (190, 189, 184), (198, 197, 191)]
    for column, row, corners in floor(7, growing(8), top=0.262):
        brush.polygon(corners, slabs[(column * 2 + row) % 3])
        brush.stroke([*corners, corners[0]], (182, 181, 176), 0.004)
    for x, y, size in ((0.36, 0.56, 0.05), (0.78, 0.83, 0.06)):
        brush.ellipse(x, y, size, size * 0.42, (181, 180, 175))
        brush.ellipse(x, y, size * 0.8, size * 0.32, (188, 187, 182))
    for x, y, size in spread(16, 0.31, start=9):
        brush.ellipse(x, y, 0.006 * size, 0.003 * size, (178, 177, 172))


def _tower(brush: Brush, x: float, y: float, width: float, fill: RGB, pane: RGB) -> None:
    brush.box(x, y, x + width, 0.25, fill)
    for column in range(3):
        for row in range(int((0.235 - y) / 0.024)):
            left, top = x + width * (0.16 + 0.26 * column), y + 0.012 + 0.024 * row
            if (column * 5 + row * 3 + round(x * 100)) % 4:
                brush.box(left, top, left + width * 0.15, top + 0.012, pane)


PLACES: dict[str, Place] = {"kitchen": kitchen, "room": room, "city": city}
