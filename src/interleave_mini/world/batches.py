"""Many scenes at once on a GPU, with the same pixels as on a CPU.

A scene becomes ten numbers: its background, and for each cell a row of the atlas of all sprites. That is also
the compact form in which millions of scenes can be kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from interleave_mini.world.backgrounds import background
from interleave_mini.world.drawing import corner, occupants
from interleave_mini.world.kinds import BACKGROUNDS, COLOURS, KINDS
from interleave_mini.world.scene import CELLS, GRID, Gripper, Scene, Size, Thing
from interleave_mini.world.sprites import CELL, sprite

if TYPE_CHECKING:
    import torch

EMPTY = 0
Codes = NDArray[np.int16]
"""n × 10: background, then one row of the atlas per cell."""

THINGS: tuple[Thing, ...] = tuple(
    Thing(kind.name, colour, size, state)
    for kind in KINDS.values()
    for state in range(len(kind.states))
    for colour in COLOURS
    for size in Size
)
_HANDS: tuple[str | None, ...] = (None, *COLOURS)
ATLAS_SIZE = 1 + len(THINGS) + len(_HANDS)
_ROW = {thing: row for row, thing in enumerate(THINGS, start=1)}
_FIRST_HAND = 1 + len(THINGS)
_HAND_ROW = {holds: row for row, holds in enumerate(_HANDS, start=_FIRST_HAND)}


def scene_codes(scenes: Sequence[Scene]) -> Codes:
    """Scenes as numbers."""
    codes = np.zeros((len(scenes), 1 + CELLS), np.int16)
    for row, scene in enumerate(scenes):
        codes[row, 0] = BACKGROUNDS.index(scene.background)
        for cell, what in occupants(scene).items():
            codes[row, 1 + cell] = _HAND_ROW[what.holds] if isinstance(what, Gripper) else _ROW[what]
    return codes


def scene_of(codes: NDArray[np.integer]) -> Scene:
    """One scene from its ten numbers; a gripper outside the top row is left out, and so is a second one."""
    things, gripper = {}, None
    for cell, row in enumerate(int(code) for code in codes[1:]):
        if 1 <= row < _FIRST_HAND:
            things[cell] = THINGS[row - 1]
        elif row >= _FIRST_HAND and cell < GRID and gripper is None:
            gripper = Gripper(cell, _HANDS[row - _FIRST_HAND])
    return Scene.of(BACKGROUNDS[int(codes[0])], things, gripper)


@cache
def atlas() -> NDArray[np.uint8]:
    """All sprites, one per row; row 0 is empty."""
    everything: list[Thing | Gripper] = [*THINGS, *(Gripper(0, holds) for holds in _HANDS)]
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
        return pixels
