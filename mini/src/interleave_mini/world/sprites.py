"""Sprites: every thing as an RGBA image of one cell, painted on first use and cached.

All shades of a drawing are linear mixtures of the thing's colour with fixed colours, so a pixel in any colour
lies between its values in black and in white. Each drawing is painted twice and tinted for all its colours.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from interleave_mini.world.art import DRAWINGS
from interleave_mini.world.art.tools import draw_gripper
from interleave_mini.world.brush import RGB, Brush, painted_once
from interleave_mini.world.kinds import NOUNS
from interleave_mini.world.scene import Gripper, Size, Thing
from interleave_mini.world.wider import ALL_COLOURS, ALL_KINDS, ALL_NOUNS

CELL = 80
"""The side of a cell in pixels; no sprite is larger."""
PIXELS = {Size.LARGE: 76, Size.SMALL: 44}
_BOTTOM = 2
_BLACK, _WHITE = (0, 0, 0), (255, 255, 255)
_FLOATERS = {"plane", "rocket", "butterfly", "chrysalis", "kite", "balloon"}
_FLOATING_KINDS = {"plane", "rocket", "kite", "bee", "bird", "helicopter", "ghost"}

Sprite = NDArray[np.uint8]
"""CELL × CELL × 4: red, green, blue already multiplied by the opacity, and the opacity."""


@painted_once
def sprite(what: Thing | Gripper) -> Sprite:
    """The image of the gripper or of a thing that carries nothing, in place in its cell."""
    if isinstance(what, Gripper):
        black, white = _gripper(what.holds is not None)
        colour = ALL_COLOURS[what.holds or "blue"]
    else:
        black, white = _drawing(what.noun, what.size)
        colour = ALL_COLOURS[what.colour]
    return _tinted(black, white, colour)


def in_all_colours(noun: str, size: Size) -> NDArray[np.uint8]:
    """The images of a thing in all colours, colours × CELL × CELL × 4."""
    black, white = _drawing(noun, size)
    return np.stack([_tinted(black, white, colour) for colour in ALL_COLOURS.values()])


def _tinted(black: Sprite, white: Sprite, colour: RGB) -> Sprite:
    """Interpolate between black and white by each channel of the colour, rounded to the nearest."""
    share = np.array([*colour, 0], np.uint16)
    pixels = black * (255 - share) + white * share + np.uint16(127)
    tinted: Sprite = ((pixels + 1 + (pixels >> 8)) >> 8).astype(np.uint8)  # divided by 255
    tinted.setflags(write=False)
    return tinted


@painted_once
def _drawing(noun: str, size: Size) -> tuple[Sprite, Sprite]:
    side = PIXELS[size]

    def paint(colour: RGB) -> Image.Image:
        brush = Brush(side, colour, fast=noun not in NOUNS)
        if _stands(noun):
            brush.shadow()
        DRAWINGS[noun](brush)
        cell = Image.new("RGBa", (CELL, CELL))
        cell.paste(brush.finished(), ((CELL - side) // 2, CELL - side - _BOTTOM))
        return cell

    return _in_black_and_white(paint)


@painted_once
def _gripper(holds: bool) -> tuple[Sprite, Sprite]:
    def paint(colour: RGB) -> Image.Image:
        brush = Brush(CELL, colour)
        draw_gripper(brush, holds=holds)
        return brush.finished()

    return _in_black_and_white(paint)


def _in_black_and_white(paint: Callable[[RGB], Image.Image]) -> tuple[Sprite, Sprite]:
    black, white = (np.asarray(paint(colour), dtype=np.uint8) for colour in (_BLACK, _WHITE))
    return black, white


def _stands(noun: str) -> bool:
    """Things on the ground have a small shadow."""
    kind = ALL_KINDS[ALL_NOUNS[noun][0]]
    floats = kind.category in {"weather", "shape"} and kind.name != "snowman"
    return not floats and noun not in _FLOATERS and kind.name not in _FLOATING_KINDS


def laid_over(upper: Sprite, lower: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A premultiplied sprite over opaque pixels, or over another sprite, rounded to the nearest."""
    see_through = 255 - upper[..., 3:].astype(np.uint16)
    return upper[..., : lower.shape[-1]] + ((lower * see_through + 127) // 255).astype(np.uint8)
