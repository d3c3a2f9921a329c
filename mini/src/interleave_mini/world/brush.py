"""A brush that paints flat, outlined shapes on a unit square, and the cache of what is painted.

Every shape becomes a polygon before it is painted, so that drawings can be turned and curves are the same
everywhere. The square is painted large and reduced, which makes the edges smooth.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from threading import RLock
from typing import TypeVar, TypeVarTuple

from PIL import Image, ImageDraw

RGB = tuple[int, int, int]
Point = tuple[float, float]

Args = TypeVarTuple("Args")
T = TypeVar("T")

OVERSAMPLE = 4

INK: RGB = (48, 42, 54)
WHITE: RGB = (252, 252, 248)
CREAM: RGB = (250, 236, 206)
GREY: RGB = (150, 154, 164)
SILVER: RGB = (206, 210, 218)
STONE: RGB = (112, 114, 124)
WOOD: RGB = (160, 112, 66)
LEAF: RGB = (96, 158, 70)
SOIL: RGB = (112, 78, 56)
GLASS: RGB = (190, 226, 242)
GOLD: RGB = (240, 190, 70)
FLAME: RGB = (255, 176, 46)
BLUSH: RGB = (244, 150, 150)


def mix(first: RGB, second: RGB, share: float) -> RGB:
    """`first` mixed with this share of `second`."""
    return tuple(round(a + (b - a) * share) for a, b in zip(first, second, strict=True))  # type: ignore[return-value]


@dataclass(frozen=True)
class Shades:
    """The colour of a thing, and the darker and lighter ones that go with it."""

    main: RGB

    @property
    def dark(self) -> RGB:
        return mix(self.main, (30, 20, 50), 0.28)

    @property
    def light(self) -> RGB:
        return mix(self.main, (255, 255, 255), 0.36)

    @property
    def pale(self) -> RGB:
        return mix(self.main, (255, 255, 255), 0.66)


class Brush:
    """Paints on a square whose corners are (0, 0), top left, and (1, 1), bottom right.

    Shapes are outlined with `ink` unless `line=0`; `line` is the width of the outline in units of the square.
    """

    def __init__(
        self, pixels: int, colour: RGB, *, ink: RGB = INK, line: float = 0.026, fast: bool = False
    ) -> None:
        self.pixels = pixels
        self.side = pixels * OVERSAMPLE
        self.shades = Shades(colour)
        self.main, self.dark, self.light, self.pale = (
            self.shades.main,
            self.shades.dark,
            self.shades.light,
            self.shades.pale,
        )
        self.ink = ink
        self.line = line
        self.joint = None if fast else "curve"
        """Pillow's joints take most of the time, and the discs at the corners cover nearly all of them."""
        self.image = Image.new("RGBA", (self.side, self.side), (0, 0, 0, 0))
        self._draw = ImageDraw.Draw(self.image)

    # Filled shapes

    def polygon(self, points: Sequence[Point], fill: RGB, *, line: float | None = None) -> None:
        """A shape with straight sides."""
        corners = [(x * self.side, y * self.side) for x, y in points]
        self._draw.polygon(corners, fill=fill)
        width = self.line if line is None else line
        if width > 0:
            self._path([*corners, corners[0]], self.ink, width)

    def blob(self, points: Sequence[Point], fill: RGB, *, line: float | None = None) -> None:
        """A smooth closed shape through these points."""
        self.polygon(_closed_curve(points), fill, line=line)

    def ellipse(
        self,
        x: float,
        y: float,
        rx: float,
        ry: float,
        fill: RGB,
        *,
        turn: float = 0,
        line: float | None = None,
    ) -> None:
        """An ellipse around (x, y), turned clockwise by `turn` degrees."""
        self.polygon(arc_points(x, y, rx, ry, 0, 360, turn=turn)[:-1], fill, line=line)

    def circle(self, x: float, y: float, r: float, fill: RGB, *, line: float | None = None) -> None:
        self.ellipse(x, y, r, r, fill, line=line)

    def pie(
        self,
        x: float,
        y: float,
        rx: float,
        ry: float,
        start: float,
        end: float,
        fill: RGB,
        *,
        line: float | None = None,
    ) -> None:
        """A slice of an ellipse, through its centre; degrees clockwise from the right."""
        self.polygon([(x, y), *arc_points(x, y, rx, ry, start, end)], fill, line=line)

    def chord(
        self,
        x: float,
        y: float,
        rx: float,
        ry: float,
        start: float,
        end: float,
        fill: RGB,
        *,
        line: float | None = None,
    ) -> None:
        """A part of an ellipse cut off by a straight line: start=0, end=180 is its lower half."""
        self.polygon(arc_points(x, y, rx, ry, start, end), fill, line=line)

    def box(
        self,
        left: float,
        top: float,
        right: float,
        bottom: float,
        fill: RGB,
        *,
        round: float = 0,
        line: float | None = None,
    ) -> None:
        """A rectangle, with corners as round as this radius."""
        self.polygon(_box_points(left, top, right, bottom, round), fill, line=line)

    # Lines

    def stroke(self, points: Sequence[Point], colour: RGB | None = None, width: float = 0.026) -> None:
        """A line through these points."""
        self._path([(x * self.side, y * self.side) for x, y in points], colour or self.ink, width)

    def curve(self, points: Sequence[Point], colour: RGB | None = None, width: float = 0.026) -> None:
        """A smooth line through these points."""
        self.stroke(_open_curve(points), colour, width)

    def arc(
        self,
        x: float,
        y: float,
        rx: float,
        ry: float,
        start: float,
        end: float,
        colour: RGB | None = None,
        width: float = 0.026,
    ) -> None:
        """A part of the rim of an ellipse; degrees clockwise from the right (90 is down)."""
        self.stroke(arc_points(x, y, rx, ry, start, end), colour, width)

    def eye(self, x: float, y: float, r: float = 0.03) -> None:
        """A dark eye with a spark in it."""
        self.circle(x, y, r, self.ink, line=0)
        self.circle(x - r * 0.3, y - r * 0.35, r * 0.36, WHITE, line=0)

    def shadow(self, width: float = 0.36) -> None:
        """A soft shadow on the ground below."""
        layer = Image.new("RGBA", self.image.size, (0, 0, 0, 0))
        corners = [(x * self.side, y * self.side) for x, y in arc_points(0.5, 0.945, width, 0.045, 0, 360)]
        ImageDraw.Draw(layer).polygon(corners, fill=(*INK, 62))
        self.image.alpha_composite(layer)

    def _path(self, corners: list[Point], colour: RGB, width: float) -> None:
        thickness = max(1, round(width * self.side))
        self._draw.line(corners, fill=colour, width=thickness, joint=self.joint)
        radius = (
            thickness - 1
        ) / 2 - 0.25  # Pillow leaves specks at the joints of thick lines: a disc covers each
        for x, y in corners:
            self._draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour)

    def finished(self) -> Image.Image:
        """The painting at its real size, premultiplied by its opacity."""
        return self.image.convert("RGBa").reduce(OVERSAMPLE)


def arc_points(
    x: float, y: float, rx: float, ry: float, start: float, end: float, *, turn: float = 0
) -> list[Point]:
    """Points along the rim of an ellipse, from one angle to the other."""
    count = max(4, math.ceil(abs(end - start) / 6))
    cos, sin = math.cos(math.radians(turn)), math.sin(math.radians(turn))
    points = []
    for index in range(count + 1):
        angle = math.radians(start + (end - start) * index / count)
        dx, dy = rx * math.cos(angle), ry * math.sin(angle)
        points.append((x + dx * cos - dy * sin, y + dx * sin + dy * cos))
    return points


def star_points(x: float, y: float, outer: float, inner: float, tips: int = 5) -> list[Point]:
    """The corners of a star that stands on two of its tips."""
    points = []
    for index in range(tips * 2):
        angle = math.pi * index / tips - math.pi / 2
        radius = inner if index % 2 else outer
        points.append((x + radius * math.cos(angle), y + radius * math.sin(angle)))
    return points


def _box_points(left: float, top: float, right: float, bottom: float, radius: float) -> list[Point]:
    if radius <= 0:
        return [(left, top), (right, top), (right, bottom), (left, bottom)]
    radius = min(radius, (right - left) / 2, (bottom - top) / 2)
    corners = (
        (right - radius, top + radius, -90),
        (right - radius, bottom - radius, 0),
        (left + radius, bottom - radius, 90),
        (left + radius, top + radius, 180),
    )
    return [point for x, y, start in corners for point in arc_points(x, y, radius, radius, start, start + 90)]


def _closed_curve(points: Sequence[Point], pieces: int = 10) -> list[Point]:
    count = len(points)
    return [
        _between(
            points[index - 1],
            points[index],
            points[(index + 1) % count],
            points[(index + 2) % count],
            piece / pieces,
        )
        for index in range(count)
        for piece in range(pieces)
    ]


def _open_curve(points: Sequence[Point], pieces: int = 10) -> list[Point]:
    ends = [points[0], *points, points[-1]]
    inner = [
        _between(ends[index], ends[index + 1], ends[index + 2], ends[index + 3], piece / pieces)
        for index in range(len(points) - 1)
        for piece in range(pieces)
    ]
    return [*inner, points[-1]]


def _between(before: Point, start: Point, end: Point, after: Point, t: float) -> Point:
    """A point of the Catmull–Rom curve from `start` to `end`."""
    x, y = (
        0.5 * (2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t**2 + (3 * b - a - 3 * c + d) * t**3)
        for a, b, c, d in zip(before, start, end, after, strict=True)
    )
    return x, y


def mirrored(right: Sequence[Point]) -> list[Point]:
    """A whole outline from its right half, which begins and ends on the middle line x = 0.5."""
    return [*right, *((1 - x, y) for x, y in right[-2:0:-1])]


_paint_lock = RLock()


def painted_once(paint: Callable[[*Args], T]) -> Callable[[*Args], T]:
    """Cache the results of a painting function for ever, and let only one thread paint at a time.

    Its arguments are the few kinds, sizes and backgrounds of the world, so the cache stays small.
    """
    cache: dict[tuple[*Args], T] = {}

    @wraps(paint)
    def painted(*args: *Args) -> T:
        if args in cache:
            return cache[args]
        with _paint_lock:
            if args not in cache:
                cache[args] = paint(*args)
            return cache[args]

    return painted


def _reset_lock() -> None:
    global _paint_lock
    _paint_lock = RLock()


if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=_reset_lock)  # the thread that held it does not exist in the child
