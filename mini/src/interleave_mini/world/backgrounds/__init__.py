"""The backgrounds: places with a little life, each always the same, calm enough for things to stand out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from interleave_mini.world.backgrounds import built, land, shore, surfaces
from interleave_mini.world.brush import WHITE, Brush, painted_once

SIDE = 256

_PLACES = land.PLACES | shore.PLACES | built.PLACES | surfaces.PLACES


@painted_once
def background(name: str) -> NDArray[np.uint8]:
    """The pixels of a background, SIDE × SIDE × 3, not to be written to."""
    brush = Brush(SIDE, WHITE, line=0)
    _PLACES[name](brush)
    pixels = np.array(brush.finished().convert("RGBA").convert("RGB"), dtype=np.uint8)
    pixels.setflags(write=False)
    return pixels
