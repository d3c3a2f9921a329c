"""The backgrounds: places with a little life, each always the same, calm enough for things to stand out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interleave_mini.world.backgrounds import built, country, land, shore, surfaces, town
from interleave_mini.world.backgrounds.scenery import spread
from interleave_mini.world.brush import RGB, WHITE, Brush, painted_once
from interleave_mini.world.wider import NIGHT

SIDE = 256

_PLACES = land.PLACES | shore.PLACES | built.PLACES | surfaces.PLACES | country.PLACES | town.PLACES
_WITHOUT_SKY = {"kitchen", "room", "forest", "paper", "workbench", "classroom", "bedroom", "sea floor"}
_MOONLIGHT = np.array([20, 25, 56], np.uint16)
_LEFT_OF_DAY = np.array([106, 114, 138], np.uint16)
"""Of 256, what night leaves of red, green and blue."""
_STAR: RGB = (250, 246, 214)


@painted_once
def background(name: str) -> NDArray[np.uint8]:
    """The pixels of a background, SIDE × SIDE × 3, not to be written to."""
    place = name.removesuffix(NIGHT)
    if place == name:
        brush = Brush(SIDE, WHITE, line=0)
        _PLACES[name](brush)
        pixels = np.array(brush.finished().convert("RGBA").convert("RGB"), dtype=np.uint8)
    else:
        pixels = _at_night(background(place), has_sky=place not in _WITHOUT_SKY)
    pixels.setflags(write=False)
    return pixels


def _at_night(day: NDArray[np.uint8], *, has_sky: bool) -> NDArray[np.uint8]:
    """The same place, dark and blue, under stars if there is a sky."""
    dark = ((day.astype(np.uint16) * _LEFT_OF_DAY >> 8) + _MOONLIGHT).astype(np.uint8)
    if not has_sky:
        return dark
    brush = Brush(SIDE, WHITE, line=0)
    for x, y, size in spread(40, 0.006, bottom=0.16, start=25):
        brush.circle(x, y, 0.005 * size, _STAR)
    brush.circle(0.93, 0.062, 0.042, _STAR)
    stars = np.asarray(brush.finished(), np.uint16)
    return (stars[..., :3] + (dark * (255 - stars[..., 3:]) + 127) // 255).astype(np.uint8)
