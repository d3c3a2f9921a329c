"""Scene → pixels: with numpy one at a time, or with torch in batches on a GPU.

The arithmetic is in integers, so both give the same pixels. For batches a scene is encoded as ten numbers:
its background, and for each cell a row of the atlas of all sprites.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from interleave_mini.world.backgrounds import SIDE, background
from interleave_mini.world.kinds import BACKGROUNDS, COLOURS, KINDS
from interleave_mini.world.scene import CELLS, GRID, Gripper, Scene, Size, Thing
from interleave_mini.world.sprites import CELL, sprite

if TYPE_CHECKING:
    import torch

Pixels = NDArray[np.uint8]
MARGIN = (SIDE - GRID * CELL) // 2
ARM_ROW = 3
"""A line of the gripper's sprite that crosses its arm, which looks the same further up."""

EMPTY = 0
Codes = NDArray[np.int16]
"""n × 10: background, then one row of the atlas per cell. With three more numbers a gripper is on its way:
its row of the atlas (0: none), and how far to the right and down it is."""
SCENE_CODES, HAND_CODES = 1 + CELLS, 3

THINGS: tuple[Thing, ...] = tuple(
    Thing(kind.name, colour, size, state)
    for kind in KINDS.values()
    for state in range(len(kind.states))
    for colour in COLOURS
    for size in Size
)
_GRIPPERS: tuple[str | None, ...] = (None, *COLOURS)
ATLAS_SIZE = 1 + len(THINGS) + len(_GRIPPERS)
_ROW = {thing: row for row, thing in enumerate(THINGS, start=1)}
_FIRST_GRIPPER = 1 + len(THINGS)
_GRIPPER_ROW = {holds: row for row, holds in enumerate(_GRIPPERS, start=_FIRST_GRIPPER)}


def draw(scene: Scene) -> Image.Image:
    """The image of a scene, 256×256."""
    return Image.fromarray(draw_pixels(scene))


def draw_pixels(scene: Scene) -> Pixels:
    """The pixels of a scene, 256×256×3."""
    pixels = background(scene.background).copy()
    for cell, what in occupants(scene).items():
        top, left = corner(cell)
        spot = pixels[top : top + CELL, left : left + CELL]
        spot[...] = laid_over(sprite(what), spot)
    return pixels


def draw_many(scenes: Sequence[Scene]) -> Pixels:
    """The pixels of many scenes, n×256×256×3."""
    pixels = np.empty((len(scenes), SIDE, SIDE, 3), np.uint8)
    for index, scene in enumerate(scenes):
        pixels[index] = draw_pixels(scene)
    return pixels


def occupants(scene: Scene) -> dict[int, Thing | Gripper]:
    """Everything visible by cell, the gripper included."""
    seen: dict[int, Thing | Gripper] = dict(scene.things)
    if scene.gripper is not None:
        seen[scene.gripper.column] = scene.gripper
    return seen


def corner(cell: int) -> tuple[int, int]:
    """The top and left edge of a cell in pixels."""
    row, column = divmod(cell, GRID)
    return MARGIN + row * CELL, MARGIN + column * CELL


def laid_over(upper: Pixels, lower: Pixels) -> Pixels:
    """A premultiplied sprite over opaque pixels, rounded to the nearest."""
    see_through = 255 - upper[..., 3:].astype(np.uint16)
    return upper[..., :3] + ((lower * see_through + 127) // 255).astype(np.uint8)


# Batches of scene codes


def scene_codes(scenes: Sequence[Scene]) -> Codes:
    """Encode scenes as numbers."""
    codes = np.zeros((len(scenes), SCENE_CODES), np.int16)
    for row, scene in enumerate(scenes):
        codes[row, 0] = BACKGROUNDS.index(scene.background)
        for cell, what in occupants(scene).items():
            codes[row, 1 + cell] = _GRIPPER_ROW[what.holds] if isinstance(what, Gripper) else _ROW[what]
    return codes


def scene_of(codes: NDArray[np.integer]) -> Scene:
    """Decode one scene; a gripper outside the top row is left out, and so is a second one."""
    things, gripper = {}, None
    for cell, row in enumerate(int(code) for code in codes[1:]):
        if 1 <= row < _FIRST_GRIPPER:
            things[cell] = THINGS[row - 1]
        elif row >= _FIRST_GRIPPER and cell < GRID and gripper is None:
            gripper = Gripper(cell, _GRIPPERS[row - _FIRST_GRIPPER])
    return Scene.of(BACKGROUNDS[int(codes[0])], things, gripper)


def gripper_row(holds: str | None) -> int:
    """The row of the atlas with the gripper that holds a block of this colour, or none."""
    return _GRIPPER_ROW[holds]


@cache
def atlas() -> NDArray[np.uint8]:
    """All sprites, one per row; row 0 is empty."""
    everything: list[Thing | Gripper] = [*THINGS, *(Gripper(0, holds) for holds in _GRIPPERS)]
    empty = np.zeros((CELL, CELL, 4), np.uint8)
    return np.stack([empty, *map(sprite, everything)])


class TorchPainter:
    """Paints batches of scene codes as tensors."""

    def __init__(self, device: str | torch.device = "cpu") -> None:
        import torch

        self.device = torch.device(device)
        self.atlas = torch.from_numpy(atlas()).to(self.device)
        everything = np.stack([background(name) for name in BACKGROUNDS])
        self.backgrounds = torch.from_numpy(everything).to(self.device)

    def paint(self, codes: torch.Tensor) -> torch.Tensor:
        """n×10 codes → n×256×256×3 pixels (uint8), equal to what `draw_many` makes of the same scenes."""
        import torch

        codes = codes.to(self.device, torch.long)
        pixels = self.backgrounds[codes[:, 0]].clone()
        for cell in range(CELLS):
            top, left = corner(cell)
            spot = pixels[:, top : top + CELL, left : left + CELL]
            upper = self.atlas[codes[:, 1 + cell]]
            see_through = 255 - upper[..., 3:].to(torch.int32)
            spot.copy_(upper[..., :3] + ((spot * see_through + 127) // 255).to(torch.uint8))
        if codes.shape[1] > SCENE_CODES:
            self._paint_hands(pixels, codes[:, SCENE_CODES:])
        return pixels

    def _paint_hands(self, pixels: torch.Tensor, hands: torch.Tensor) -> None:
        """Paint the grippers that are on their way over the things, with the arm above them."""
        import torch

        moving = hands[:, 0].nonzero()[:, 0]
        if not len(moving):
            return
        row, across, down = hands[moving].T[..., None]
        lines = torch.arange(SIDE, device=self.device)
        columns = MARGIN + across + torch.arange(CELL, device=self.device)
        depth = lines - MARGIN - down  # the line of the sprite at each line of the image
        shown = (lines >= MARGIN) & (depth < CELL)
        upper = self.atlas[row, torch.where(depth < 0, ARM_ROW, depth).clamp(0, CELL - 1)]
        upper = upper * shown[..., None, None]
        where = (moving[:, None, None], lines[None, :, None], columns[:, None, :])
        see_through = 255 - upper[..., 3:].to(torch.int32)
        pixels[where] = upper[..., :3] + ((pixels[where] * see_through + 127) // 255).to(torch.uint8)
