"""Images of the gripper while it moves: anywhere below the top edge, its arm reaching down to it.

A `Scene` knows the gripper at rest, in the top row. A `Frame` is what a camera sees between two such scenes:
the things on their cells, and the gripper at a place given in pixels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image

from interleave_mini.world.backgrounds import SIDE
from interleave_mini.world.drawing import (
    ARM_ROW,
    HAND_CODES,
    MARGIN,
    SCENE_CODES,
    Codes,
    Pixels,
    draw_pixels,
    gripper_row,
    scene_codes,
)
from interleave_mini.world.operations import Operation, Pick, Place
from interleave_mini.world.scene import GRID, Gripper, Scene
from interleave_mini.world.sprites import CELL, laid_over, sprite

REACH = (GRID - 1) * CELL
"""How far the gripper moves to the right and down, in pixels."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The gripper on its way: `across` and `down` in pixels from its place above the left column."""

    scene: Scene
    """The things on their cells, without a gripper."""
    across: int
    down: int
    holds: str | None = None

    def __post_init__(self) -> None:
        if not (0 <= self.across <= REACH and 0 <= self.down <= REACH):
            raise ValueError(
                f"the gripper moves up to {REACH} pixels each way, not {self.across}, {self.down}"
            )
        if self.scene.gripper is not None:
            raise ValueError("the scene of a frame has no gripper of its own")


Shot = Scene | Frame
"""What a camera sees: the gripper at rest, or on its way."""


def draw_shot(shot: Shot) -> Image.Image:
    """The image of a scene or a frame, 256×256."""
    return Image.fromarray(shot_pixels(shot))


def shot_pixels(shot: Shot) -> Pixels:
    """The pixels of a scene or a frame, 256×256×3."""
    if isinstance(shot, Scene):
        return draw_pixels(shot)
    pixels = draw_pixels(shot.scene)
    upper = np.zeros((SIDE, CELL, 4), np.uint8)
    hand, top = sprite(Gripper(0, shot.holds)), MARGIN + shot.down
    upper[MARGIN:top] = hand[ARM_ROW]
    height = min(CELL, SIDE - top)
    upper[top : top + height] = hand[:height]
    left = MARGIN + shot.across
    pixels[:, left : left + CELL] = laid_over(upper, pixels[:, left : left + CELL])
    return pixels


def shot_codes(shots: Sequence[Shot]) -> Codes:
    """Shots as numbers for `TorchPainter`: the codes of their scenes, and of a moving gripper."""
    codes = np.zeros((len(shots), SCENE_CODES + HAND_CODES), np.int16)
    codes[:, :SCENE_CODES] = scene_codes([shot if isinstance(shot, Scene) else shot.scene for shot in shots])
    for row, shot in enumerate(shots):
        if isinstance(shot, Frame):
            codes[row, SCENE_CODES:] = gripper_row(shot.holds), shot.across, shot.down
    return codes


def movement(operation: Operation, before: Scene, pace: int) -> Iterator[Shot]:
    """What a camera sees while the gripper picks or places, up to the scene where it is at rest again.

    It goes across above the things, down, closes or opens, and up; `pace` is in pixels from shot to shot.
    """
    if not isinstance(operation, Pick | Place) or before.gripper is None:
        raise ValueError(f"the gripper picks and places; it does not do {operation}")
    after = operation.apply(before)
    row, column = divmod(operation.cell, GRID)
    held_before, held_after = before.gripper.holds, after.gripper.holds if after.gripper else None
    start, end, depth = before.gripper.column * CELL, column * CELL, row * CELL
    standing, left_behind = replace(before, gripper=None), replace(after, gripper=None)
    for across in _way(start, end, pace):
        yield Frame(standing, across, 0, held_before)
    for down in _way(0, depth, pace):
        yield Frame(standing, end, down, held_before)
    for down in _way(depth, 0, pace):
        yield Frame(left_behind, end, down, held_after)
    yield after


def rest_of(frame: Frame) -> Scene:
    """The frame as if the gripper were at rest above the nearest column, with what it holds."""
    return replace(frame.scene, gripper=Gripper(round(frame.across / CELL), frame.holds))


def _way(start: int, end: int, pace: int) -> Iterator[int]:
    """The places from one to another, without the first."""
    steps = -(-abs(end - start) // pace)
    return (start + round((end - start) * step / steps) for step in range(1, steps + 1))
