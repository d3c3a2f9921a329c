"""The miniature's world: a background and things on a grid of three by three, drawn by rule.

`kinds` (what exists) ← `scene` (a picture as a value) ← `drawing` (scene → pixels, with `sprites`, `art/` and
`backgrounds/`), `operations` (what changes a scene) ← `mistakes` (wrong pictures made on purpose).
"""

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
