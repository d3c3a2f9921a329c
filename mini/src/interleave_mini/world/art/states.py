"""What happens to anything: it gets wet, dirty, rotten, bitten or broken. Each changes a finished drawing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from PIL import Image, ImageChops, ImageDraw

from interleave_mini.world.art.pieces import WATER, Drawing, drop
from interleave_mini.world.brush import CREAM, GREY, RGB, STONE, WHITE, Brush, arc_points

_MUD: RGB = (126, 100, 62)
_WET_MUD: RGB = (72, 54, 38)
_MOULD: RGB = (92, 100, 62)
_FUZZ: RGB = (196, 204, 162)
_CLEAR = (0, 0, 0, 0)
Spots = Sequence[tuple[float, float, float]]
"""x, y and radius of each."""

_SPLASHES: Spots = (
    *((0.34, 0.62, 0.1), (0.6, 0.72, 0.12), (0.52, 0.5, 0.07)),
    *((0.78, 0.58, 0.075), (0.2, 0.78, 0.08)),
)
_PATCHES: Spots = ((0.34, 0.5, 0.11), (0.62, 0.68, 0.13), (0.66, 0.38, 0.08), (0.38, 0.78, 0.075))


def wet(brush: Brush, draw: Drawing) -> None:
    """In a puddle, dripping."""
    brush.ellipse(0.5, 0.905, 0.44, 0.05, WATER, line=0.02)
    draw(brush)
    for x, y, size in (
        *((0.3, 0.66, 0.065), (0.55, 0.74, 0.07), (0.75, 0.6, 0.06)),
        *((0.14, 0.5, 0.055), (0.88, 0.34, 0.055)),
    ):
        drop(brush, x, y, size)


def dirty(brush: Brush, draw: Drawing) -> None:
    """With splashes of mud."""
    before = _begin(brush)
    draw(brush)
    _stain(brush, _SPLASHES, _WET_MUD)
    _stain(brush, [(x, y, r * 0.68) for x, y, r in _SPLASHES], _MUD)
    _finish(brush, before)


def rotten(brush: Brush, draw: Drawing, *, spots: Spots = _PATCHES) -> None:
    """With mouldy patches, and flies around it."""
    before = _begin(brush)
    draw(brush)
    _stain(brush, spots, _MOULD)
    _stain(brush, [(x - r * 0.1, y - r * 0.1, r * 0.5) for x, y, r in spots], _FUZZ)
    _finish(brush, before)
    for x, y in ((0.14, 0.16), (0.87, 0.12), (0.87, 0.44)):
        for side in (-1, 1):
            brush.ellipse(x + side * 0.045, y - 0.035, 0.045, 0.03, WHITE, turn=side * -35, line=0.016)
        brush.ellipse(x, y, 0.035, 0.045, brush.ink, line=0)


def bitten(brush: Brush, draw: Drawing, *, bites: Spots, flesh: RGB = CREAM) -> None:
    """With pieces bitten off, and the inside to be seen at the edge."""
    before = _begin(brush)
    draw(brush)
    for grow, fill in ((0.085, flesh), (0.028, brush.ink)):
        _stain(brush, [(x, y, r + grow) for x, y, r in bites], fill, smooth=True)
    hole = ImageDraw.Draw(brush.image)
    for x, y, r in bites:
        hole.polygon([(a * brush.side, b * brush.side) for a, b in arc_points(x, y, r, r, 0, 360)], _CLEAR)
    _finish(brush, before)


def broken(brush: Brush, draw: Drawing, *, lean: float = -5) -> None:
    """In two pieces, which fall apart along a jagged line."""
    before = _begin(brush)
    draw(brush)
    crack = [
        *((0.52, -0.1), (0.52, 0.12), (0.42, 0.3), (0.58, 0.46)),
        *((0.42, 0.62), (0.57, 0.78), (0.5, 0.9), (0.5, 1.1)),
    ]
    _inside(brush, lambda: brush.stroke(crack, brush.ink, 0.056))
    whole = brush.image.copy()
    brush.image.paste(_CLEAR, (0, 0, *whole.size))
    for side in (-1, 1):
        mask = Image.new("L", whole.size, 0)
        half = [*crack, (0.5 + side, 1.1), (0.5 + side, -0.1)]
        ImageDraw.Draw(mask).polygon([(x * brush.side, y * brush.side) for x, y in half], fill=255)
        piece = Image.new("RGBA", whole.size, _CLEAR)
        piece.paste(whole, (0, 0), mask)
        piece = _placed(piece, 0.8, -side * lean, 0.5 + side * 0.03)
        brush.image.alpha_composite(piece)
    _finish(brush, before)


def broken_down(brush: Brush, draw: Drawing) -> None:
    """A vehicle that lost a piece, and smokes."""
    before = _begin(brush)
    draw(brush)
    dents = [(0.3, 0.52), (0.38, 0.6), (0.33, 0.66), (0.42, 0.76)], [(0.38, 0.6), (0.46, 0.57)]
    for dent in dents:
        _inside(brush, partial(brush.stroke, dent, brush.ink, 0.045))
    _finish(brush, before)
    for x, y, r in ((0.74, 0.4, 0.09), (0.82, 0.24, 0.12), (0.66, 0.2, 0.1)):
        brush.circle(x, y, r, STONE)
    for x, y, r in ((0.74, 0.4, 0.09), (0.82, 0.24, 0.12), (0.66, 0.2, 0.1)):
        brush.circle(x, y, r - 0.01, STONE, line=0)
    brush.arc(0.82, 0.24, 0.06, 0.06, 180, 270, GREY, 0.03)


def fitted(brush: Brush, draw: Drawing) -> None:
    """A drawing made a little smaller, so that its outline stays on the square."""
    before = _begin(brush)
    draw(brush)
    small = _placed(brush.image, 0.93, 0, 0.5)
    brush.image.paste(small)
    _finish(brush, before)


def _placed(piece: Image.Image, scale: float, turn: float, x: float) -> Image.Image:
    """A piece made smaller and turned around the middle of its foot, which comes to (x, 0.95)."""
    side = piece.width
    small = piece.resize((round(side * scale),) * 2, Image.Resampling.BOX)
    page = Image.new("RGBA", piece.size, _CLEAR)
    page.paste(small, (round(side * (x - scale / 2)), round(side * 0.93 * (1 - scale))))
    return page.rotate(-turn, Image.Resampling.BILINEAR, center=(x * side, 0.95 * side))


def _begin(brush: Brush) -> Image.Image:
    """Put away what is painted already (the shadow)."""
    before = brush.image.copy()
    brush.image.paste(_CLEAR, (0, 0, *before.size))
    return before


def _finish(brush: Brush, before: Image.Image) -> None:
    before.alpha_composite(brush.image)
    brush.image.paste(before)


def _stain(brush: Brush, spots: Spots, fill: RGB, *, smooth: bool = False) -> None:
    """Ragged or smooth round spots, on the drawing only."""
    ragged = [(1, 0), (0.6, 0.75), (-0.2, 1), (-0.9, 0.5), (-0.95, -0.4), (-0.1, -0.9), (0.75, -0.75)]

    def paint() -> None:
        for x, y, r in spots:
            if smooth:
                brush.circle(x, y, r, fill, line=0)
            else:
                brush.blob([(x + dx * r, y + dy * r) for dx, dy in ragged], fill, line=0)

    _inside(brush, paint)


def _inside(brush: Brush, paint: Callable[[], None]) -> None:
    """Paint without leaving the outline of what is there."""
    alpha = brush.image.getchannel("A")
    paint()
    brush.image.putalpha(ImageChops.darker(alpha, brush.image.getchannel("A")))
