"""Vehicles: all of them go to the right."""

from __future__ import annotations

import math
from collections.abc import Callable

from interleave_mini.world.art.pieces import wheel
from interleave_mini.world.brush import (
    FLAME,
    GLASS,
    GOLD,
    SILVER,
    STONE,
    WHITE,
    WOOD,
    Brush,
    Point,
    mix,
)


def car(brush: Brush) -> None:
    cabin = [(0.14, 0.6), (0.22, 0.36), (0.34, 0.28), (0.56, 0.28), (0.68, 0.37), (0.8, 0.6), (0.46, 0.66)]
    brush.blob(cabin, brush.main)
    brush.polygon([(0.25, 0.54), (0.29, 0.4), (0.35, 0.36), (0.43, 0.36), (0.43, 0.54)], GLASS, line=0.018)
    brush.polygon([(0.5, 0.54), (0.5, 0.36), (0.57, 0.36), (0.63, 0.41), (0.7, 0.54)], GLASS, line=0.018)
    bonnet = [(0.78, 0.55), (0.92, 0.63), (0.93, 0.8)]
    brush.blob([(0.07, 0.8), (0.08, 0.62), (0.2, 0.54), (0.5, 0.53), *bonnet, (0.5, 0.84)], brush.main)
    brush.stroke([(0.1, 0.76), (0.9, 0.76)], brush.dark, 0.05)
    brush.stroke([(0.465, 0.55), (0.465, 0.8)], brush.dark, 0.016)
    brush.stroke([(0.35, 0.62), (0.42, 0.62)], brush.ink, 0.022)
    brush.ellipse(0.885, 0.67, 0.034, 0.045, GOLD, line=0.018)
    for x in (0.26, 0.74):
        wheel(brush, x, 0.815, 0.135)


def bus(brush: Brush) -> None:
    brush.box(0.04, 0.16, 0.96, 0.84, brush.main, round=0.09)
    brush.box(0.1, 0.115, 0.6, 0.165, brush.dark, round=0.02)
    for left in (0.1, 0.28, 0.46):
        brush.box(left, 0.27, left + 0.14, 0.46, GLASS, round=0.03, line=0.018)
    brush.box(0.66, 0.27, 0.79, 0.8, brush.light, round=0.02, line=0.018)
    brush.box(0.69, 0.31, 0.76, 0.52, GLASS, line=0)
    brush.polygon([(0.85, 0.27), (0.955, 0.27), (0.955, 0.52), (0.85, 0.52)], GLASS, line=0.018)
    brush.box(0.06, 0.57, 0.64, 0.63, brush.dark, line=0)
    brush.circle(0.9, 0.68, 0.035, GOLD, line=0.018)
    for x in (0.24, 0.56):
        wheel(brush, x, 0.84, 0.115)
    brush.box(0.84, 0.78, 0.97, 0.84, SILVER, round=0.02, line=0.018)


def train(brush: Brush) -> None:
    _smoke(brush, [(0.74, 0.13, 0.055), (0.64, 0.11, 0.07), (0.52, 0.12, 0.055)])
    brush.polygon([(0.86, 0.72), (0.9, 0.72), (0.965, 0.93), (0.78, 0.93)], STONE)
    chimney = [(0.66, 0.22), (0.86, 0.22), (0.81, 0.32), (0.8, 0.44), (0.72, 0.44), (0.71, 0.32)]
    brush.polygon(chimney, brush.dark)
    brush.chord(0.54, 0.44, 0.075, 0.1, 180, 360, GOLD)
    brush.box(0.3, 0.42, 0.9, 0.78, brush.main, round=0.1)
    brush.box(0.42, 0.46, 0.84, 0.51, brush.light, round=0.02, line=0)
    for x in (0.52, 0.68):
        brush.stroke([(x, 0.44), (x, 0.72)], brush.dark, 0.03)
    brush.circle(0.89, 0.55, 0.05, GOLD, line=0.018)
    brush.box(0.07, 0.26, 0.4, 0.8, brush.main)
    brush.box(0.13, 0.36, 0.33, 0.55, GLASS, round=0.03, line=0.018)
    brush.box(0.035, 0.18, 0.45, 0.27, brush.dark, round=0.03)
    brush.box(0.05, 0.74, 0.9, 0.82, brush.dark, line=0.018)
    wheel(brush, 0.22, 0.8, 0.15)
    for x in (0.51, 0.72):
        wheel(brush, x, 0.85, 0.1)
    for colour, width in ((brush.ink, 0.05), (SILVER, 0.02)):
        brush.stroke([(0.22, 0.83), (0.51, 0.86), (0.72, 0.86)], colour, width)


def boat(brush: Brush) -> None:
    brush.box(0.455, 0.06, 0.5, 0.7, WOOD, line=0.018)
    brush.blob([(0.52, 0.12), (0.74, 0.34), (0.9, 0.59), (0.72, 0.6), (0.53, 0.58)], brush.main)
    brush.stroke([(0.54, 0.42), (0.75, 0.42)], WHITE, 0.045)
    brush.polygon([(0.43, 0.2), (0.43, 0.59), (0.12, 0.59)], WHITE)
    brush.polygon([(0.42, 0.32), (0.42, 0.44), (0.235, 0.44), (0.33, 0.32)], brush.main, line=0)
    brush.polygon([(0.46, 0.05), (0.46, 0.15), (0.3, 0.1)], brush.dark, line=0.018)
    hull = [(0.06, 0.67), (0.5, 0.69), (0.935, 0.65), (0.88, 0.84), (0.76, 0.93), (0.3, 0.93), (0.14, 0.86)]
    brush.blob(hull, brush.main)
    brush.curve([(0.09, 0.76), (0.5, 0.785), (0.9, 0.75)], WHITE, 0.04)
    brush.curve([(0.2, 0.88), (0.5, 0.895), (0.8, 0.87)], brush.dark, 0.04)


def plane(brush: Brush) -> None:
    def tilted(*points: Point) -> list[Point]:
        return [_turned(point, -16) for point in points]

    near = mix(brush.main, brush.light, 0.5)
    brush.polygon(tilted((0.46, 0.44), (0.34, 0.15), (0.46, 0.15), (0.7, 0.44)), brush.dark)
    brush.polygon(tilted((0.24, 0.48), (0.13, 0.17), (0.25, 0.15), (0.44, 0.42)), brush.dark)
    upper = [(0.075, 0.44), (0.25, 0.41), (0.6, 0.37), (0.83, 0.41), (0.965, 0.53)]
    brush.blob(tilted(*upper, (0.9, 0.64), (0.7, 0.7), (0.36, 0.68)), brush.main)
    brush.blob(tilted((0.76, 0.48), (0.81, 0.42), (0.89, 0.47), (0.86, 0.52)), GLASS, line=0.018)
    for x in (0.34, 0.46, 0.58, 0.7):
        brush.circle(*_turned((x, 0.5), -16), 0.034, GLASS, line=0.016)
    brush.polygon(tilted((0.4, 0.61), (0.64, 0.61), (0.43, 0.91), (0.3, 0.91)), near)
    brush.polygon(tilted((0.13, 0.5), (0.26, 0.52), (0.15, 0.69), (0.06, 0.68)), near)


def rocket(brush: Brush) -> None:
    brush.blob([(0.38, 0.72), (0.62, 0.72), (0.61, 0.83), (0.5, 0.965), (0.39, 0.83)], FLAME)
    brush.blob([(0.45, 0.76), (0.55, 0.76), (0.5, 0.89)], WHITE, line=0)
    for side in (-1, 1):
        fin = ((0.18, 0.44), (0.33, 0.6), (0.36, 0.82), (0.26, 0.75), (0.14, 0.71))
        brush.blob([(0.5 + side * x, y) for x, y in fin], brush.dark)
    left = [(0.38, 0.73), (0.3, 0.58), (0.28, 0.42), (0.34, 0.2), (0.42, 0.09)]
    brush.blob([(0.5, 0.035), *((1 - x, y) for x, y in reversed(left)), *left], brush.main)
    brush.curve([(0.345, 0.22), (0.5, 0.25), (0.655, 0.22)], WHITE, 0.036)
    brush.curve([(0.345, 0.65), (0.5, 0.68), (0.655, 0.65)], WHITE, 0.036)
    brush.circle(0.5, 0.43, 0.12, SILVER)
    brush.circle(0.5, 0.43, 0.075, GLASS, line=0.018)
    brush.arc(0.5, 0.43, 0.04, 0.04, 190, 260, WHITE, 0.018)


def _smoke(brush: Brush, puffs: list[tuple[float, float, float]]) -> None:
    for x, y, r in puffs:
        brush.circle(x, y, r, WHITE, line=0.018)
    for x, y, r in puffs:
        brush.circle(x, y, r - 0.008, WHITE, line=0)


def _turned(point: Point, degrees: float) -> Point:
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    dx, dy = point[0] - 0.5, point[1] - 0.5
    return 0.5 + dx * cos - dy * sin, 0.5 + dx * sin + dy * cos


DRAWINGS: dict[str, Callable[[Brush], None]] = {
    "car": car,
    "bus": bus,
    "train": train,
    "boat": boat,
    "plane": plane,
    "rocket": rocket,
}
