"""Places of people, and the floor of the sea: street, park, playground, classroom, bedroom."""

from __future__ import annotations

from interleave_mini.world.backgrounds.scenery import (
    HORIZON,
    Place,
    cloud,
    fade,
    floor,
    growing,
    ridge,
    ridge_line,
    spread,
    tuft,
)
from interleave_mini.world.brush import RGB, Brush

_WALLS: tuple[RGB, ...] = (
    (236, 206, 190),
    (206, 220, 226),
    (240, 226, 186),
    (216, 208, 228),
    (210, 226, 204),
)


def street(brush: Brush) -> None:
    fade(brush, 0, 0.2, (200, 220, 236), (232, 238, 240))
    for index, fill in enumerate(_WALLS):
        left = index * 0.2
        top = (0.07, 0.04, 0.085, 0.05, 0.075)[index]
        brush.box(left, top, left + 0.198, 0.25, fill)
        brush.polygon([(left - 0.005, top), (left + 0.1, top - 0.05), (left + 0.203, top)], (194, 172, 168))
        for x in (0.035, 0.125):
            brush.box(left + x, top + 0.03, left + x + 0.038, top + 0.085, (246, 246, 240))
        brush.box(left + 0.08, 0.185, left + 0.12, 0.25, (186, 164, 150))
    brush.box(0, 0.25, 1, 0.36, (220, 214, 206))
    for x in range(12):
        brush.stroke([(x / 11, 0.25), (x / 11 * 1.2 - 0.1, 0.36)], (206, 200, 192), 0.005)
    brush.box(0, 0.36, 1, 0.38, (190, 188, 186))
    brush.box(0, 0.38, 1, 0.86, (174, 176, 182))
    for x in range(5):
        brush.box(0.04 + x * 0.21, 0.61, 0.15 + x * 0.21, 0.63, (232, 230, 216))
    brush.box(0, 0.86, 1, 0.88, (190, 188, 186))
    brush.box(0, 0.88, 1, 1, (220, 214, 206))
    for x in range(9):
        brush.stroke([(x / 8, 0.88), (x / 8 * 1.1 - 0.05, 1)], (206, 200, 192), 0.006)


def park(brush: Brush) -> None:
    fade(brush, 0, 0.28, (196, 224, 240), (236, 244, 238))
    cloud(brush, 0.5, 0.06, 0.22, (244, 249, 248))
    for x, y, r in ((0.08, 0.12, 0.085), (0.28, 0.16, 0.06), (0.72, 0.15, 0.065), (0.92, 0.11, 0.09)):
        brush.box(x - 0.012, y, x + 0.012, 0.26, (190, 170, 146))
        for dx, dy in ((-0.5, 0.2), (0.5, 0.2), (0, -0.3)):
            brush.circle(x + dx * r, y + dy * r, r * 0.72, (174, 208, 150))
    ridge(brush, 0.25, [(0.008, 1.5, 0.4)], (170, 206, 146))
    fade(brush, 0.265, 1, (180, 216, 156), (160, 202, 138))
    for grow, fill in ((0.02, (204, 214, 170)), (0.0, (228, 216, 186))):
        brush.ellipse(0.5, 0.66, 0.4 + grow, 0.26 + grow, fill)
    brush.ellipse(0.5, 0.66, 0.24, 0.14, (168, 208, 144))
    for x, y, size in spread(34, 0.29, start=17):
        if ((x - 0.5) / 0.44) ** 2 + ((y - 0.66) / 0.3) ** 2 > 1:
            tuft(brush, x, y, 0.024 * size, (136, 182, 112))
    for x in (0.4, 0.48, 0.56, 0.6):
        tuft(brush, x, 0.66 + 0.3 * (x - 0.5), 0.02, (140, 186, 116))


def playground(brush: Brush) -> None:
    fade(brush, 0, 0.26, (204, 226, 242), (240, 244, 240))
    cloud(brush, 0.18, 0.05, 0.2, (246, 250, 250))
    ridge(brush, 0.235, [(0.01, 2.1, 0.3)], (176, 210, 160))
    for x in (0.34, 0.62):
        brush.stroke([(x - 0.03, 0.26), (x, 0.06), (x + 0.03, 0.26)], (214, 176, 168), 0.014)
    brush.stroke([(0.34, 0.065), (0.62, 0.065)], (214, 176, 168), 0.014)
    for x in (0.42, 0.52):
        for side in (0, 0.05):
            brush.stroke([(x + side, 0.07), (x + side, 0.19)], (190, 190, 196), 0.006)
        brush.box(x - 0.008, 0.19, x + 0.058, 0.202, (206, 166, 130))
    brush.stroke([(0.76, 0.08), (0.94, 0.25)], (230, 204, 130), 0.026)
    for y in (0.12, 0.17, 0.22):
        brush.stroke([(0.72, y), (0.76, y)], (182, 190, 204), 0.01)
    for x in (0.72, 0.76):
        brush.stroke([(x, 0.07), (x, 0.26)], (182, 190, 204), 0.01)
    fade(brush, HORIZON, 1, (240, 220, 176), (232, 206, 154))
    for radius, fill in (
        (0.46, (226, 178, 160)),
        (0.4, (234, 192, 172)),
        (0.2, (226, 178, 160)),
        (0.16, (240, 206, 188)),
    ):
        brush.ellipse(0.5, 0.66, radius, radius * 0.66, fill)
    for x, y, size in spread(40, 0.3, start=9):
        brush.circle(x, y, 0.004 * size, (222, 194, 146))


def classroom(brush: Brush) -> None:
    brush.box(0, 0, 1, HORIZON, (246, 236, 206))
    brush.box(0.2, 0.02, 0.8, 0.2, (196, 166, 132))
    brush.box(0.216, 0.034, 0.784, 0.186, (126, 164, 140))
    for y, end in ((0.07, 0.52), (0.1, 0.66), (0.13, 0.44)):
        brush.curve([(0.26, y), (0.34, y - 0.01), (0.42, y + 0.006), (end, y)], (188, 212, 194), 0.006)
    brush.circle(0.1, 0.1, 0.05, (226, 216, 196))
    brush.circle(0.1, 0.1, 0.04, (252, 250, 244))
    brush.stroke([(0.1, 0.075), (0.1, 0.1), (0.118, 0.108)], (170, 160, 150), 0.006)
    for index, fill in enumerate(((226, 178, 170), (176, 200, 222), (196, 214, 168))):
        brush.box(0.84 + 0.045 * index, 0.08, 0.875 + 0.045 * index, 0.19, fill)
    brush.box(0.83, 0.19, 0.985, 0.204, (196, 166, 132))
    brush.box(0, 0.238, 1, HORIZON, (214, 192, 158))
    boards: list[RGB] = [(222, 190, 150), (216, 183, 143), (228, 197, 158)]
    for column, row, corners in floor(10, [0, 0.16, 0.4, 0.68, 1]):
        brush.polygon(corners, boards[(column * 2 + row * 5 + column // 3) % 3])


def bedroom(brush: Brush) -> None:
    brush.box(0, 0, 1, HORIZON, (196, 214, 232))
    for index, (x, y, _) in enumerate(spread(26, 0.01, bottom=0.22, start=2)):
        brush.circle(x, y, 0.007 + 0.002 * (index % 2), (214, 228, 240))
    brush.box(0.08, 0.03, 0.3, 0.2, (246, 246, 244))
    brush.box(0.095, 0.045, 0.285, 0.185, (218, 232, 220))
    brush.box(0.186, 0.045, 0.194, 0.185, (246, 246, 244))
    for x in (0.07, 0.275):
        brush.polygon([(x, 0.02), (x + 0.045, 0.02), (x + 0.03, 0.2), (x, 0.2)], (240, 216, 176))
    brush.box(0.62, 0.09, 0.92, 0.24, (204, 178, 154))
    for y in (0.1, 0.17):
        brush.box(0.635, y, 0.905, y + 0.06, (222, 198, 174))
        brush.circle(0.77, y + 0.03, 0.009, (180, 154, 130))
    brush.box(0, 0.238, 1, HORIZON, (228, 234, 240))
    tones: list[RGB] = [(216, 200, 188), (209, 192, 180), (222, 207, 196)]
    for column, row, corners in floor(8, growing(6)):
        brush.polygon(corners, tones[(column + row * 2) % 3])
    for share, fill in ((1.0, (176, 200, 214)), (0.92, (196, 216, 226)), (0.6, (184, 207, 220))):
        brush.box(
            0.5 - 0.38 * share, 0.62 - 0.26 * share, 0.5 + 0.38 * share, 0.62 + 0.26 * share, fill, round=0.08
        )


def sea_floor(brush: Brush) -> None:
    fade(brush, 0, 0.8, (150, 208, 222), (112, 172, 204))
    for x, width in ((0.16, 0.06), (0.42, 0.09), (0.74, 0.07)):
        brush.polygon(
            [(x, 0), (x + width, 0), (x + width * 2.6, 0.78), (x + width * 0.6, 0.78)], (140, 198, 218)
        )
    fade(brush, 0.5, 0.8, (124, 184, 208), (112, 172, 204))
    ridge(brush, 0.76, [(0.02, 1.3, 0.2), (0.006, 3.1, 0.6)], (206, 204, 178))
    ridge(brush, 0.82, [(0.02, 1.1, 0.7)], (224, 216, 182))
    for x, high, fill in (
        (0.04, 0.3, (120, 178, 160)),
        (0.09, 0.2, (136, 190, 166)),
        (0.93, 0.34, (120, 178, 160)),
        (0.97, 0.22, (136, 190, 166)),
    ):
        points = [(x + 0.014 * (-1) ** step, 0.84 - high * step / 6) for step in range(7)]
        brush.curve(points, fill, 0.022)
    for x, y, size in spread(26, 0.05, bottom=0.72, start=14):
        brush.circle(x, y, 0.011 * size, (178, 222, 230))
    for level, shift in ((0.88, 0.2), (0.94, 0.6)):
        brush.curve(ridge_line(level, [(0.008, 2.3, shift)]), (212, 202, 166), 0.008)
    for x, y, size in spread(9, 0.86, start=6):
        brush.ellipse(x, y, 0.016 * size, 0.01 * size, (236, 196, 188))


PLACES: dict[str, Place] = {
    "street": street,
    "park": park,
    "playground": playground,
    "classroom": classroom,
    "bedroom": bedroom,
    "sea floor": sea_floor,
}
