"""The miniature's world: scenes as values, how they are drawn, and what can happen between them."""

from interleave_mini.world.drawing import draw, draw_many, draw_pixels
from interleave_mini.world.kinds import BACKGROUNDS, COLOURS, KINDS, NOUNS
from interleave_mini.world.scene import CELLS, GRID, MIDDLE, Gripper, Scene, Size, Thing

__all__ = [
    "BACKGROUNDS",
    "CELLS",
    "COLOURS",
    "GRID",
    "KINDS",
    "MIDDLE",
    "NOUNS",
    "Gripper",
    "Scene",
    "Size",
    "Thing",
    "draw",
    "draw_many",
    "draw_pixels",
]
