"""Image → where the gripper is and what it holds, also while it moves, by template matching.

It moves across at the top, and up and down above a column, so that few places are possible. Its head looks
the same whatever it holds: first the head is found, then what hangs below it. Things are read by the scene
reader, except where the gripper or its arm covers them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from interleave_mini.world.backgrounds import SIDE
from interleave_mini.world.drawing import MARGIN
from interleave_mini.world.kinds import COLOURS
from interleave_mini.world.motion import REACH
from interleave_mini.world.scene import GRID, Gripper
from interleave_mini.world.sprites import CELL, sprite

Floats = NDArray[np.float32]
MAX_ERROR = 35.0
"""The error (RMS, of 255) from which no gripper is there."""
_HEAD = (slice(13, 25, 2), slice(22, 58, 3))
"""Lines and columns of the gripper's image with its head: some of them are enough."""
_CLOSED_FROM = 30
"""The line below which fingers and block hang."""


@dataclass(frozen=True)
class Hand:
    """Where the gripper is, in pixels from its place above the left column, and what it holds."""

    across: int
    down: int
    holds: str | None

    @property
    def cell(self) -> int:
        """The cell it is nearest to."""
        return round(self.down / CELL) * GRID + round(self.across / CELL)


def read_hands(images: Sequence[Image.Image]) -> list[Hand | None]:
    """The gripper in each image; None where there is none."""
    return [_read(np.asarray(_sized(image), np.float32)) for image in images]


def _sized(image: Image.Image) -> Image.Image:
    image = image.convert("RGB")
    return image if image.size == (SIDE, SIDE) else image.resize((SIDE, SIDE))


@cache
def _places() -> NDArray[np.int64]:
    """Every place of the gripper: at the top, or above a column."""
    at_top = [(across, 0) for across in range(REACH + 1)]
    lowered = [(column * CELL, down) for column in range(GRID) for down in range(1, REACH + 1)]
    return np.array(at_top + lowered)


@cache
def _head() -> tuple[Floats, Floats]:
    """The colours of the head, and where it hides what is behind it."""
    whole = sprite(Gripper(0)).astype(np.float32)[_HEAD]
    return whole[..., :3], (whole[..., 3] == 255).astype(np.float32)


@cache
def _below() -> list[tuple[str | None, Floats, Floats]]:
    """What can hang below the head: open fingers, or a block of each colour between closed ones."""
    found = []
    for holds in (None, *COLOURS):
        whole = sprite(Gripper(0, holds)).astype(np.float32)[_CLOSED_FROM:]
        found.append((holds, whole[..., :3], (whole[..., 3] == 255).astype(np.float32)))
    return found


def _read(pixels: Floats) -> Hand | None:
    places, (head, opaque) = _places(), _head()
    lines = MARGIN + places[:, 1, None] + np.arange(*_HEAD[0].indices(CELL))
    columns = MARGIN + places[:, 0, None] + np.arange(*_HEAD[1].indices(CELL))
    seen = pixels[lines[:, :, None], columns[:, None, :]]
    errors = (np.square(seen - head).mean(axis=-1) * opaque).sum(axis=(1, 2)) / opaque.sum()
    best = int(errors.argmin())
    if errors[best] ** 0.5 > MAX_ERROR:
        return None
    across, down = (int(each) for each in places[best])
    return Hand(across, down, _held(pixels, across, down))


def _held(pixels: Floats, across: int, down: int) -> str | None:
    top, left = MARGIN + down + _CLOSED_FROM, MARGIN + across
    seen = pixels[top : MARGIN + down + CELL, left : left + CELL]
    errors = {
        holds: float((np.square(seen - colours).mean(axis=-1) * opaque).sum() / opaque.sum())
        for holds, colours, opaque in _below()
    }
    return min(errors, key=lambda holds: errors[holds])
