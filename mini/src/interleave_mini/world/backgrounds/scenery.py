"""What several places share: skies, ridges, clouds, tufts, and floors that run away from the eye."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from interleave_mini.world.brush import RGB, Brush, Point, mix

Place = Callable[[Brush], None]

HORIZON = 0.25
"""How far down the ground begins: high, so that the things of all three rows stand on it."""


def fade(brush: Brush, top: float, bottom: float, first: RGB, last: RGB) -> None:
    """A band across the image that goes softly from one colour to another."""
    rows = max(1, round((bottom - top) * brush.pixels))
    for row in range(rows):
        upper = top + (bottom - top) * row / rows
        brush.box(0, upper, 1, bottom, mix(first, last, row / max(1, rows - 1)))


def ridge(brush: Brush, level: float, waves: Sequence[tuple[float, float, float]], fill: RGB) -> None:
    """Everything below a wavy line; a wave is how high, how many across the image, how far shifted."""
    brush.polygon([*ridge_line(level, waves), (1.01, 1.01), (-0.01, 1.01)], fill)


def ridge_line(level: float, waves: Sequence[tuple[float, float, float]]) -> list[Point]:
    """The wavy line itself, from the left edge to the right one."""
    return [
        (x, level - sum(high * math.sin(math.tau * (many * x + shift)) for high, many, shift in waves))
        for x in (step / 96 - 0.01 for step in range(99))
    ]


def spread(
    count: int, top: float = HORIZON, *, bottom: float = 0.99, start: int = 1
) -> list[tuple[float, float, float]]:
    """Places on the ground, evenly strewn: x, y, and a size that grows from 0.5 far away to 1 up close."""
    places = []
    for index in range(start, start + count):
        x, depth = (index * 0.7548776662) % 1, (index * 0.5698402910) % 1
        places.append((x, top + (bottom - top) * depth, 0.5 + 0.5 * depth))
    return places


def cloud(brush: Brush, x: float, y: float, width: float, fill: RGB) -> None:
    """A long flat streak of cloud with a few soft humps."""
    height = width * 0.13
    brush.box(x - width / 2, y - height / 2, x + width / 2, y + height / 2, fill, round=height / 2)
    for along, share in ((-0.2, 0.8), (0.03, 1.25), (0.22, 0.7)):
        brush.ellipse(x + along * width, y - height * 0.3, width * 0.16, height * share, fill)


def tuft(brush: Brush, x: float, y: float, size: float, colour: RGB) -> None:
    """Three blades of grass."""
    for lean in (-0.6, 0.05, 0.65):
        tip = (x + lean * size, y - size * (1.25 - 0.6 * abs(lean)))
        brush.curve(
            [(x + lean * size * 0.25, y), (x + lean * size * 0.4, y - size * 0.6), tip], colour, 0.005
        )


def floor(
    columns: int, depths: Sequence[float], *, vanish: float = -0.5, top: float = HORIZON
) -> Iterator[tuple[int, int, list[Point]]]:
    """The tiles of a floor seen from the front: column, row and the four corners of each.

    `depths` are the lines between the rows, 0 for the far edge and 1 for the lower edge of the image; the
    lines between the columns meet at the height `vanish`. At the lower edge the tiles are 1 / columns wide.
    """
    half = math.ceil(columns / 2 * (1 - vanish) / (top - vanish))

    def corner(column: int, depth: float) -> Point:
        y = top + (1 - top) * depth
        return 0.5 + column / columns * (y - vanish) / (1 - vanish), y

    for row, (far, near) in enumerate(pairwise(depths)):
        for column in range(-half, half):
            yield (
                column,
                row,
                [
                    corner(column, far),
                    corner(column + 1, far),
                    corner(column + 1, near),
                    corner(column, near),
                ],
            )


def growing(rows: int, stretch: float = 2.2) -> list[float]:
    """Lines from 0 to 1, the last gap `stretch` times as wide as the first."""
    gaps = [1 + (stretch - 1) * row / max(1, rows - 1) for row in range(rows)]
    return [sum(gaps[:row]) / sum(gaps) for row in range(rows + 1)]
