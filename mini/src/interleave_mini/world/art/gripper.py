"""The robot gripper, which hangs from the top of its cell."""

from __future__ import annotations

from interleave_mini.world.art.tools import draw_block
from interleave_mini.world.brush import GOLD, GREY, SILVER, STONE, WHITE, Brush, Point

_BLOCK = 0.55
"""The side of a small thing, as a part of a cell."""


def draw_gripper(brush: Brush, *, holds: bool) -> None:
    """An arm with two jointed fingers; closed around a block of the brush's colour when it holds one."""
    brush.box(0.43, 0.0, 0.57, 0.16, GREY)
    brush.stroke([(0.43, 0.07), (0.57, 0.07)], brush.ink, 0.018)
    if holds:
        draw_block(brush, 0.5 - _BLOCK / 2, 0.4, _BLOCK)
    for side in (-1, 1):
        _finger(brush, side, opened=not holds)
    brush.box(0.26, 0.13, 0.74, 0.31, SILVER, round=0.07)
    brush.box(0.29, 0.24, 0.71, 0.29, GREY, line=0, round=0.03)
    brush.circle(0.5, 0.205, 0.05, GOLD, line=0.018)
    brush.circle(0.485, 0.19, 0.015, WHITE, line=0)


def _finger(brush: Brush, side: int, *, opened: bool) -> None:
    knee, tip = ((0.4, 0.5), (0.3, 0.74)) if opened else ((0.335, 0.46), (0.285, 0.7))

    def placed(*points: Point) -> list[Point]:
        return [(0.5 + side * x, y) for x, y in points]

    bones = placed((0.17, 0.28), knee, tip)
    brush.stroke(bones, brush.ink, 0.115)
    brush.stroke(bones, STONE, 0.068)
    brush.stroke(_towards(bones[2], bones[1]), brush.ink, 0.07)
    brush.circle(*bones[1], 0.055, SILVER, line=0.02)


def _towards(start: Point, end: Point) -> list[Point]:
    """A short way from one point to another: the rubber on a fingertip."""
    return [start, (start[0] + (end[0] - start[0]) * 0.28, start[1] + (end[1] - start[1]) * 0.28)]
