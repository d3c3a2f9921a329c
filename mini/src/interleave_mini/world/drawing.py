"""Scene → pixels: with numpy one at a time, or with torch in batches on a GPU.

The arithmetic is in integers, so both give the same pixels. For batches a scene is encoded as nineteen
numbers: its background, for each cell a row of the atlas of all sprites, and for each what is carried there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from interleave_mini.world.backgrounds import SIDE, background
from interleave_mini.world.carrying import layers, layout
from interleave_mini.world.scene import CELLS, GRID, Gripper, Load, Relation, Scene, Size, Thing
from interleave_mini.world.sprites import CELL, Sprite, in_all_colours, laid_over, sprite
from interleave_mini.world.wider import ALL_BACKGROUNDS, ALL_COLOURS, ALL_KINDS, ALL_NOUNS

if TYPE_CHECKING:
    import torch

Pixels = NDArray[np.uint8]
MARGIN = (SIDE - GRID * CELL) // 2
ARM_ROW = 3
"""A line of the gripper's sprite that crosses its arm, which looks the same further up."""

EMPTY = 0
Codes = NDArray[np.int16]
"""n × 19: background, one row of the atlas per cell, and one number per cell for what is carried there: four
times its row, plus the number of the relation. With three more numbers a gripper is on its way: its row of
the atlas (0: none), and how far to the right and down it is."""
LOAD_CODES = 1 + CELLS
SCENE_CODES, HAND_CODES = LOAD_CODES + CELLS, 3
RELATIONS: tuple[Relation, ...] = tuple(Relation)

THINGS: tuple[Thing, ...] = tuple(
    Thing(kind.name, colour, size, state)
    for kind in ALL_KINDS.values()
    for state in range(len(kind.states))
    for colour in ALL_COLOURS
    for size in Size
)
GRIPPERS: tuple[str | None, ...] = (None, *ALL_COLOURS)
ATLAS_SIZE = 1 + len(THINGS) + len(GRIPPERS)
ROW_OF = {thing: row for row, thing in enumerate(THINGS, start=1)}
_FIRST_GRIPPER = 1 + len(THINGS)
_GRIPPER_ROW = {holds: row for row, holds in enumerate(GRIPPERS, start=_FIRST_GRIPPER)}


def draw(scene: Scene) -> Image.Image:
    """The image of a scene, 256×256."""
    return Image.fromarray(draw_pixels(scene))


def draw_pixels(scene: Scene) -> Pixels:
    """The pixels of a scene, 256×256×3."""
    pixels = background(scene.background).copy()
    for cell, what in occupants(scene).items():
        top, left = corner(cell)
        spot = pixels[top : top + CELL, left : left + CELL]
        spot[...] = laid_over(appearance(what), spot)
    return pixels


def appearance(what: Thing | Gripper) -> Sprite:
    """A thing with what it carries, or the gripper, as one sprite."""
    if isinstance(what, Gripper) or what.load is None:
        return sprite(what)
    first, second = layers(what)
    return laid_over(second, first)


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


# Batches of scene codes


def scene_codes(scenes: Sequence[Scene]) -> Codes:
    """Encode scenes as numbers."""
    codes = np.zeros((len(scenes), SCENE_CODES), np.int16)
    for row, scene in enumerate(scenes):
        codes[row, 0] = ALL_BACKGROUNDS.index(scene.background)
        for cell, what in occupants(scene).items():
            if isinstance(what, Gripper):
                codes[row, 1 + cell] = _GRIPPER_ROW[what.holds]
                continue
            codes[row, 1 + cell] = ROW_OF[what.alone]
            if what.load is not None:
                codes[row, LOAD_CODES + cell] = load_code(what.load)
    return codes


def load_code(load: Load) -> int:
    """What a thing carries as one number."""
    return ROW_OF[load.thing] * len(RELATIONS) + RELATIONS.index(load.relation)


def scene_of(codes: NDArray[np.integer]) -> Scene:
    """Decode one scene; a gripper outside the top row is left out, and so is a second one."""
    things, gripper = {}, None
    loads = [int(code) for code in codes[LOAD_CODES:SCENE_CODES]]
    for cell, row in enumerate(int(code) for code in codes[1:LOAD_CODES]):
        if 1 <= row < _FIRST_GRIPPER:
            things[cell] = thing_of(row, loads[cell] if loads else EMPTY)
        elif row >= _FIRST_GRIPPER and cell < GRID and gripper is None:
            gripper = Gripper(cell, GRIPPERS[row - _FIRST_GRIPPER])
    return Scene.of(ALL_BACKGROUNDS[int(codes[0])], things, gripper)


def thing_of(row: int, code: int) -> Thing:
    """The thing of a row of the atlas, with what it carries."""
    carried, relation = divmod(code, len(RELATIONS))
    load = Load(RELATIONS[relation], THINGS[carried - 1]) if code else None
    return replace(THINGS[row - 1], load=load)


def gripper_row(holds: str | None) -> int:
    """The row of the atlas with the gripper that holds a block of this colour, or none."""
    return _GRIPPER_ROW[holds]


def atlas_blocks() -> Iterator[NDArray[np.uint8]]:
    """The rows of the atlas, some at a time: all sprites, one per row; row 0 is empty."""
    yield np.zeros((1, CELL, CELL, 4), np.uint8)
    for noun in ALL_NOUNS:  # in the order of `THINGS`
        sizes = np.stack([in_all_colours(noun, size) for size in Size], axis=1)
        yield sizes.reshape(-1, CELL, CELL, 4)
    yield np.stack([sprite(Gripper(0, holds)) for holds in GRIPPERS])


@cache
def atlas() -> NDArray[np.uint8]:
    """All sprites, one per row."""
    return np.concatenate([*atlas_blocks()])


@cache
def layouts() -> NDArray[np.int64]:
    """For every row and relation: the row drawn for the carrier, and the numbers of its `Layout`."""
    found = np.zeros((ATLAS_SIZE, len(RELATIONS), 6), np.int64)
    for thing, row in ROW_OF.items():
        for number, relation in enumerate(RELATIONS):
            if thing.size is Size.LARGE and relation.is_possible_with(thing.noun):
                drawn, *numbers = layout(thing, relation)
                found[row, number] = ROW_OF[drawn], *numbers
    return found.reshape(-1, 6)


class TorchPainter:
    """Paints batches of scene codes as tensors."""

    def __init__(self, device: str | torch.device = "cpu") -> None:
        import torch

        self.device = torch.device(device)
        self.atlas = torch.from_numpy(atlas()).to(self.device)
        everything = np.stack([background(name) for name in ALL_BACKGROUNDS])
        self.backgrounds = torch.from_numpy(everything).to(self.device)
        self.layouts = torch.from_numpy(layouts()).to(self.device)

    def paint(self, codes: torch.Tensor) -> torch.Tensor:
        """n×19 codes → n×256×256×3 pixels (uint8), equal to what `draw_many` makes of the same scenes."""
        import torch

        codes = codes.to(self.device, torch.long)
        pixels = self.backgrounds[codes[:, 0]].clone()
        for cell in range(CELLS):
            top, left = corner(cell)
            spot = pixels[:, top : top + CELL, left : left + CELL]
            upper = self.atlas[codes[:, 1 + cell]]
            self._load(upper, codes[:, 1 + cell], codes[:, LOAD_CODES + cell])
            spot.copy_(_over(upper, spot))
        if codes.shape[1] > SCENE_CODES:
            self._paint_hands(pixels, codes[:, SCENE_CODES:])
        return pixels

    def _load(self, upper: torch.Tensor, rows: torch.Tensor, loads: torch.Tensor) -> None:
        """Paint what things carry into their sprites."""
        import torch

        which = loads.nonzero()[:, 0]
        if not len(which):
            return
        count = len(RELATIONS)
        where = self.layouts[rows[which] * count + loads[which] % count]
        drawn, aside, across, down, cut, is_behind = where.T
        nothing = torch.zeros_like(aside)
        carrier = self._shifted(drawn, aside, nothing, nothing + CELL)
        load = self._shifted(loads[which] // count, across, down, cut)
        is_behind = is_behind.bool()[:, None, None, None]
        upper[which] = _over(torch.where(is_behind, carrier, load), torch.where(is_behind, load, carrier))

    def _shifted(
        self, rows: torch.Tensor, across: torch.Tensor, down: torch.Tensor, cut: torch.Tensor
    ) -> torch.Tensor:
        """Sprites moved in their cells, and nothing of them from the line `cut` on."""
        import torch

        along = torch.arange(CELL, device=self.device)
        columns, lines = along - across[:, None], along - down[:, None]
        shown = ((lines >= 0) & (lines < CELL) & (along < cut[:, None]))[:, :, None]
        shown = shown & ((columns >= 0) & (columns < CELL))[:, None, :]
        lines, columns = lines.clamp(0, CELL - 1), columns.clamp(0, CELL - 1)
        return self.atlas[rows[:, None, None], lines[:, :, None], columns[:, None, :]] * shown[..., None]

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
        pixels[where] = _over(upper, pixels[where])


def _over(upper: torch.Tensor, lower: torch.Tensor) -> torch.Tensor:
    """`laid_over` for tensors."""
    import torch

    see_through = 255 - upper[..., 3:].to(torch.int32)
    return upper[..., : lower.shape[-1]] + ((lower * see_through + 127) // 255).to(torch.uint8)
