"""Faces that sleep, are happy or sad: eyes and mouth for the new creatures, and painted over the old ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from interleave_mini.world.art.pieces import Drawing, drop, joined, oval
from interleave_mini.world.art.states import wet
from interleave_mini.world.brush import BLUSH, RGB, WHITE, Brush, Point

_CLOUD: RGB = (108, 112, 136)
GULLET: RGB = (150, 44, 62)
MOODS = ("sleeping", "happy", "sad")


@dataclass(frozen=True)
class Face:
    """Where the eyes and the mouth of a creature are."""

    eyes: tuple[Point, ...]
    mouth: Point
    wide: float = 0.07
    """Half the width of the mouth."""
    r: float = 0.042
    corner: Point = (0.82, 0.16)
    """A free place for the snores of a sleeper."""
    beaked: bool = False
    """Without a mouth that could bend."""
    lid: RGB | None = None
    """The colour of closed eyes, where it is not that of the creature."""


def with_moods(name: str, draw: Drawing, face: Face, *, mute: Drawing | None = None) -> dict[str, Drawing]:
    """A creature in every mood, and wet.

    `draw` paints it without a face; or, where there is a `mute` one without a mouth, with its own face.
    """
    plain = draw if mute else partial(_in_mood, draw=draw, face=face, mood="")
    moods = {f"{mood} {name}": partial(_in_mood, draw=mute or draw, face=face, mood=mood) for mood in MOODS}
    return {name: plain, **moods, f"wet {name}": partial(wet, draw=plain)}


def _in_mood(brush: Brush, *, draw: Drawing, face: Face, mood: str) -> None:
    draw(brush)
    for index, (x, y) in enumerate(face.eyes):
        far_left = index == 0 and len(face.eyes) == 2
        _eye(brush, x, y, face, mood, -1 if far_left else 1)
    if not face.beaked:
        _mouth(brush, face, mood)
    if mood == "sad":
        _tears(brush, face)
        _gloom(brush, *face.corner)
    if mood == "sleeping":
        _snores(brush, *face.corner)
    if mood == "happy":
        _joy(brush, *face.corner)


def _eye(brush: Brush, x: float, y: float, face: Face, mood: str, side: int) -> None:
    r, lid = face.r, face.lid or brush.light
    if mood in ("", "sad"):
        brush.circle(x, y, r * 1.35, brush.pale, line=0)
        brush.eye(x, y, r)
    else:
        brush.circle(x, y, r * 1.7, lid, line=0)
    if mood == "sad":
        brow = [(x - r * 1.6, y - r * (1.7 - 0.7 * -side)), (x + r * 1.6, y - r * (1.7 + 0.7 * -side))]
        brush.stroke(brow, lid, 0.066)
        brush.stroke(brow, brush.ink, 0.034)
    if mood == "sleeping":
        brush.arc(x, y - r * 0.2, r * 1.4, r * 1.2, 10, 170, brush.ink, 0.034)
    if mood == "happy":
        brush.arc(x, y + r * 0.6, r * 1.4, r * 1.5, 190, 350, brush.ink, 0.034)


def _mouth(brush: Brush, face: Face, mood: str) -> None:
    (x, y), wide = face.mouth, face.wide
    if mood == "happy":
        brush.chord(x, y - 0.015, wide * 1.2, wide * 1.35, 0, 180, GULLET, line=0.02)
        brush.ellipse(x, y + wide * 0.8, wide * 0.6, wide * 0.35, BLUSH, line=0)
    elif mood == "sad":
        brush.arc(x, y + wide * 0.85, wide, wide * 0.85, 195, 345, brush.ink, 0.03)
    elif mood == "sleeping":
        brush.ellipse(x, y + 0.01, wide * 0.4, wide * 0.36, GULLET, line=0.016)
    else:
        brush.arc(x, y - 0.015, wide, wide * 0.75, 15, 165, brush.ink, 0.026)


def _tears(brush: Brush, face: Face) -> None:
    for index, (x, y) in enumerate(face.eyes):
        drop(brush, x + (0.02 if index else -0.02), y + face.r + 0.065, 0.05 if face.eyes[1:] else 0.06)


def _gloom(brush: Brush, x: float, y: float) -> None:
    """A little dark cloud with its rain."""
    x, y = min(x, 0.8), max(y, 0.17)
    for dx in (-0.1, 0.04):
        drop(brush, x + dx, y + 0.11, 0.042)
    puffs = [
        oval(x + dx, y + dy, r, r * 0.8)
        for dx, dy, r in ((-0.12, 0.0, 0.07), (-0.03, -0.05, 0.085), (0.07, 0.0, 0.07))
    ]
    joined(brush, puffs, _CLOUD)


def _snores(brush: Brush, x: float, y: float) -> None:
    x, y = min(x, 0.84), max(y, 0.16)
    for dx, dy, size in ((0.0, 0.0, 0.17), (-0.15, 0.1, 0.1)):
        left, top = x + dx - size / 2, y + dy - size / 2
        letter = [(left, top), (left + size, top), (left, top + size), (left + size, top + size)]
        for colour, width in ((brush.ink, 0.084), (WHITE, 0.036)):
            brush.stroke(letter, colour, width)


def _joy(brush: Brush, x: float, y: float) -> None:
    x, y = min(x, 0.83), max(y, 0.17)
    for dx, dy, size in ((0.0, 0.0, 0.12), (-0.16, 0.09, 0.065)):
        tips = [(0, -1), (0.25, -0.25), (1, 0), (0.25, 0.25), (0, 1), (-0.25, 0.25), (-1, 0), (-0.25, -0.25)]
        brush.polygon([(x + dx + a * size, y + dy + b * size) for a, b in tips], (255, 226, 96), line=0.02)
