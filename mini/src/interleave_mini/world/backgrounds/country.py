"""Places in the country: road, mountain, farm, garden, lake, river."""

from __future__ import annotations

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
from interleave_mini.world.brush import RGB, Brush

_SKY: tuple[RGB, RGB] = ((190, 220, 240), (230, 240, 240))
_WHITE: RGB = (244, 248, 248)


def road(brush: Brush) -> None:
    fade(brush, 0, 0.28, (198, 224, 238), (240, 240, 226))
    for x, y, width in ((0.14, 0.07, 0.2), (0.66, 0.1, 0.26)):
        cloud(brush, x, y, width, _WHITE)
    ridge(brush, 0.225, [(0.018, 1.4, 0.3), (0.006, 3.1, 0.7)], (204, 212, 176))
    fade(brush, HORIZON, 1, (216, 216, 158), (202, 204, 138))
    for x, y, size in spread(30, 0.3, start=7):
        tuft(brush, x, y, 0.026 * size, (184, 186, 112))
    brush.polygon([(0.4, HORIZON), (0.6, HORIZON), (1.02, 1.01), (-0.02, 1.01)], (192, 192, 190))
    for side in (-1, 1):
        brush.stroke([(0.5 + side * 0.088, HORIZON), (0.5 + side * 0.45, 1.01)], (226, 226, 218), 0.014)
    for top, bottom, width in (
        (0.28, 0.33, 0.01),
        (0.38, 0.46, 0.015),
        (0.54, 0.66, 0.02),
        (0.78, 0.94, 0.028),
    ):
        brush.box(0.5 - width / 2, top, 0.5 + width / 2, bottom, (236, 234, 214))


def mountain(brush: Brush) -> None:
    fade(brush, 0, 0.3, (186, 208, 236), (232, 236, 242))
    for x, top, half, fill in (
        (0.18, 0.05, 0.26, (190, 194, 212)),
        (0.84, 0.02, 0.28, (184, 188, 208)),
        (0.5, 0.09, 0.24, (176, 182, 200)),
    ):
        brush.polygon([(x - half, 0.3), (x, top), (x + half, 0.3)], fill)
        cap = [(x - half * 0.24, top + 0.06), (x, top), (x + half * 0.24, top + 0.06)]
        brush.polygon([*cap, (x + half * 0.08, top + 0.045), (x - half * 0.06, top + 0.07)], (240, 243, 248))
    ridge(brush, 0.26, [(0.014, 1.7, 0.2), (0.006, 4.3, 0.5)], (176, 186, 168))
    fade(brush, 0.29, 1, (188, 192, 172), (168, 172, 156))
    for level, shift in ((0.44, 0.2), (0.63, 0.7), (0.83, 0.4)):
        brush.curve(ridge_line(level, [(0.03, 1.2, shift), (0.01, 3.1, shift)]), (176, 180, 162), 0.024)
    for x, y, size in spread(26, 0.32, start=11):
        brush.polygon(
            [(x - 0.03 * size, y), (x - 0.012 * size, y - 0.024 * size), (x + 0.026 * size, y)],
            (156, 158, 152),
        )
    for x, y, size in spread(18, 0.33, start=50):
        tuft(brush, x, y, 0.022 * size, (146, 162, 124))


def farm(brush: Brush) -> None:
    fade(brush, 0, 0.28, *_SKY)
    cloud(brush, 0.52, 0.08, 0.26, _WHITE)
    ridge(brush, 0.23, [(0.02, 1.1, 0.8)], (206, 218, 166))
    brush.box(0.06, 0.13, 0.28, 0.255, (214, 164, 152))
    brush.polygon([(0.04, 0.135), (0.17, 0.05), (0.3, 0.135)], (190, 142, 136))
    brush.box(0.13, 0.18, 0.21, 0.255, (236, 214, 200))
    brush.box(0.83, 0.08, 0.92, 0.255, (206, 206, 204))
    brush.chord(0.875, 0.085, 0.045, 0.05, 180, 360, (182, 186, 188))
    fade(brush, HORIZON, 1, (226, 206, 150), (212, 186, 124))
    for row in range(9):
        y = 0.3 + 0.72 * (row / 9) ** 1.4
        brush.curve(ridge_line(y, [(0.006, 1.3, row * 0.2)]), (206, 180, 120), 0.008 + 0.002 * row)
    for x in range(13):
        brush.box(0.03 + x * 0.08, 0.232, 0.044 + x * 0.08, 0.29, (240, 234, 220))
    for y in (0.244, 0.266):
        brush.box(0, y, 1, y + 0.008, (240, 234, 220))


def garden(brush: Brush) -> None:
    fade(brush, 0, 0.26, (196, 224, 236), (236, 242, 232))
    brush.box(0, 0.1, 1, 0.26, (196, 170, 140))
    for plank in range(18):
        left = plank / 18
        top = [(left, 0.27), (left, 0.1), (left + 0.026, 0.07), (left + 0.05, 0.1), (left + 0.05, 0.27)]
        brush.polygon(top, (222, 202, 172))
    petals: tuple[RGB, ...] = ((240, 190, 196), (246, 222, 150), (206, 186, 230))
    for index, (x, _, size) in enumerate(spread(26, 0, start=5)):
        brush.circle(x, 0.245 + 0.012 * (index % 3), 0.032 * size, (160, 198, 140))
        brush.circle(x, 0.235 + 0.012 * (index % 3), 0.01, petals[index % 3])
    fade(brush, 0.27, 1, (186, 214, 140), (168, 202, 122))
    for row in range(5):
        y = 0.33 + 0.15 * row
        brush.box(0, y, 1, y + 0.045 + 0.01 * row, (180, 209, 134))
    for x, y, size in ((0.5, 0.42, 0.06), (0.46, 0.56, 0.075), (0.52, 0.72, 0.09), (0.47, 0.9, 0.105)):
        brush.ellipse(x, y, size, size * 0.42, (206, 206, 196))
    for x, y, size in spread(30, 0.3, start=21):
        tuft(brush, x, y, 0.024 * size, (150, 184, 106))


def lake(brush: Brush) -> None:
    fade(brush, 0, 0.26, (200, 222, 240), (238, 242, 238))
    cloud(brush, 0.3, 0.06, 0.24, _WHITE)
    ridge(brush, 0.2, [(0.03, 1.0, 0.15), (0.008, 2.7, 0.3)], (176, 204, 184))
    ridge(brush, 0.232, [(0.008, 2.6, 0.3)], (160, 194, 164))
    fade(brush, 0.245, 0.86, (176, 216, 224), (142, 194, 210))
    for x, y, size in spread(40, 0.27, bottom=0.82, start=3):
        brush.stroke([(x - 0.04 * size, y), (x + 0.04 * size, y)], (196, 228, 232), 0.005)
    for x, y, size in ((0.2, 0.42, 0.05), (0.84, 0.56, 0.06), (0.34, 0.72, 0.065)):
        brush.pie(x, y, size, size * 0.4, 20, 330, (150, 196, 150))
    ridge(brush, 0.86, [(0.016, 1.1, 0.6), (0.006, 2.9, 0.2)], (220, 208, 168))
    ridge(brush, 0.9, [(0.016, 1.1, 0.6), (0.006, 2.9, 0.2)], (184, 210, 142))
    for x in (0.03, 0.06, 0.1, 0.9, 0.94, 0.97):
        brush.stroke([(x, 0.93), (x + 0.006, 0.78)], (140, 176, 118), 0.008)
        brush.ellipse(x + 0.006, 0.78, 0.01, 0.03, (170, 136, 104))


def river(brush: Brush) -> None:
    fade(brush, 0, 0.28, (194, 222, 236), (236, 242, 230))
    cloud(brush, 0.78, 0.07, 0.24, _WHITE)
    ridge(brush, 0.22, [(0.024, 1.2, 0.5), (0.008, 3.3, 0.1)], (192, 214, 172))
    fade(brush, HORIZON, 1, (190, 218, 152), (174, 206, 132))
    for x, y, size in spread(30, 0.3, start=31):
        tuft(brush, x, y, 0.026 * size, (152, 188, 108))
    left = [(0.5, HORIZON), (0.44, 0.32), (0.52, 0.42), (0.34, 0.56), (0.3, 0.74), (0.02, 1.04)]
    right = [(0.54, HORIZON), (0.54, 0.32), (0.68, 0.42), (0.62, 0.58), (0.72, 0.76), (0.68, 1.04)]
    for grow, fill in ((0.025, (222, 210, 168)), (0.0, (156, 206, 222))):
        bank = [(x - grow, y) for x, y in left] + [(x + grow, y) for x, y in reversed(right)]
        brush.blob(bank, fill)
    for x, y, size in (
        (0.5, 0.36, 0.03),
        (0.52, 0.5, 0.05),
        (0.44, 0.64, 0.06),
        (0.52, 0.78, 0.07),
        (0.34, 0.92, 0.08),
    ):
        brush.curve([(x - size, y), (x, y - 0.01), (x + size, y)], (194, 226, 234), 0.008)


PLACES: dict[str, Place] = {
    "road": road,
    "mountain": mountain,
    "farm": farm,
    "garden": garden,
    "lake": lake,
    "river": river,
}
