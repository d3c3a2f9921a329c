"""More animals, each painted without its face, which changes with its mood."""

from __future__ import annotations

import math

from interleave_mini.world.art.moods import Face, with_moods
from interleave_mini.world.art.pieces import Drawing, bird_feet, joined, leg, limb, oval
from interleave_mini.world.brush import (
    BLUSH,
    CREAM,
    FLAME,
    GLASS,
    RGB,
    SOIL,
    WHITE,
    Brush,
    Point,
    arc_points,
    mirrored,
    mix,
)

_PATCH: RGB = (64, 58, 70)
_WOOL_FACE: RGB = (120, 104, 108)


def _far_legs(brush: Brush, *xs: float, half: float = 0.05) -> None:
    for x in xs:
        brush.box(x - half, 0.66, x + half, 0.92, brush.dark, round=0.04)


def horse(brush: Brush) -> None:
    mane = mix(brush.dark, SOIL, 0.75)
    brush.blob([(0.82, 0.46), (0.95, 0.5), (0.96, 0.76), (0.86, 0.84), (0.86, 0.62)], mane)
    _far_legs(brush, 0.5, 0.72, half=0.045)
    brush.blob([(0.34, 0.08), (0.52, 0.14), (0.6, 0.34), (0.62, 0.54), (0.44, 0.5), (0.36, 0.26)], mane)
    body = [(0.34, 0.5), (0.56, 0.5), (0.8, 0.46), (0.88, 0.58), (0.84, 0.72), (0.56, 0.74), (0.38, 0.72)]
    neck = [(0.26, 0.22), (0.42, 0.16), (0.52, 0.36), (0.6, 0.54), (0.36, 0.64), (0.34, 0.42)]
    head = [(0.38, 0.12), (0.44, 0.26), (0.34, 0.38), (0.18, 0.48), (0.08, 0.46), (0.06, 0.36), (0.22, 0.2)]
    ear = [(0.32, 0.18), (0.32, 0.03), (0.42, 0.15)]
    joined(brush, [body, neck, head, leg(0.41, 0.6, 0.115), leg(0.81, 0.56, 0.115)], brush.main)
    brush.polygon(ear, brush.main)
    for x in (0.41, 0.81):
        brush.box(x - 0.06, 0.87, x + 0.06, 0.945, _PATCH, round=0.02, line=0.02)
    brush.ellipse(0.12, 0.41, 0.075, 0.07, brush.light, turn=-30, line=0)
    brush.circle(0.09, 0.38, 0.017, brush.ink, line=0)
    brush.curve([(0.34, 0.1), (0.4, 0.24), (0.46, 0.32), (0.5, 0.44)], mane, 0.06)


def cow(brush: Brush) -> None:
    limb(brush, [(0.87, 0.5), (0.94, 0.6), (0.93, 0.74)], brush.main, 0.035)
    brush.ellipse(0.93, 0.78, 0.045, 0.06, _PATCH)
    _far_legs(brush, 0.5, 0.74)
    brush.ellipse(0.63, 0.79, 0.08, 0.06, BLUSH, line=0.02)
    for side in (-1, 1):
        horn = [(0.3 + side * 0.09, 0.2), (0.3 + side * 0.17, 0.05), (0.3 + side * 0.19, 0.22)]
        brush.polygon(horn, CREAM)
        brush.ellipse(0.3 + side * 0.205, 0.28, 0.075, 0.05, brush.main, turn=side * -18)
    body = [(0.3, 0.5), (0.5, 0.42), (0.8, 0.42), (0.9, 0.54), (0.86, 0.76), (0.5, 0.78), (0.34, 0.72)]
    joined(brush, [body, leg(0.4, 0.6, 0.13), leg(0.83, 0.56, 0.13), oval(0.3, 0.38, 0.19, 0.24)], brush.main)
    brush.blob([(0.56, 0.46), (0.76, 0.45), (0.78, 0.58), (0.66, 0.65), (0.55, 0.56)], _PATCH, line=0)
    brush.ellipse(0.84, 0.68, 0.05, 0.075, _PATCH, line=0)
    brush.blob([(0.36, 0.18), (0.45, 0.26), (0.44, 0.4), (0.33, 0.38)], _PATCH, line=0)
    brush.ellipse(0.29, 0.54, 0.19, 0.115, BLUSH)
    for side in (-1, 1):
        brush.ellipse(0.29 + side * 0.085, 0.51, 0.022, 0.03, brush.ink, line=0)


def pig(brush: Brush) -> None:
    brush.curve([(0.86, 0.6), (0.95, 0.55), (0.92, 0.46), (0.87, 0.52), (0.96, 0.62)], brush.ink, 0.035)
    _far_legs(brush, 0.48, 0.7, half=0.055)
    body = oval(0.6, 0.62, 0.31, 0.25)
    joined(
        brush, [body, leg(0.42, 0.7, 0.14), leg(0.78, 0.7, 0.14), oval(0.34, 0.46, 0.27, 0.25)], brush.main
    )
    for side in (-1, 1):
        x = 0.34 + side * 0.19
        brush.polygon([(x - side * 0.1, 0.25), (x + side * 0.09, 0.13), (x + side * 0.05, 0.36)], brush.dark)
    brush.ellipse(0.31, 0.51, 0.125, 0.09, brush.light)
    for x in (0.265, 0.355):
        brush.ellipse(x, 0.51, 0.022, 0.036, brush.ink, line=0)


def sheep(brush: Brush) -> None:
    face = _WOOL_FACE
    for x in (0.36, 0.5, 0.68, 0.8):
        brush.box(x - 0.045, 0.7, x + 0.045, 0.94, face, round=0.03)
    tufts = [(0.3, 0.6), (0.36, 0.42), (0.52, 0.33), (0.68, 0.36), (0.81, 0.46), (0.83, 0.62), (0.75, 0.74)]
    tufts += [(0.6, 0.77), (0.42, 0.75)]
    parts = [oval(x, y, 0.125, 0.115) for x, y in tufts]
    joined(brush, [*parts, oval(0.58, 0.56, 0.26, 0.2)], brush.main)
    for x, y in ((0.56, 0.5), (0.74, 0.56), (0.6, 0.66)):
        brush.arc(x, y, 0.06, 0.05, 200, 20, brush.dark, 0.034)
    for side in (-1, 1):
        brush.ellipse(0.27 + side * 0.17, 0.4, 0.08, 0.045, face, turn=side * 20)
    brush.blob([(0.12, 0.34), (0.26, 0.26), (0.4, 0.34), (0.38, 0.56), (0.26, 0.66), (0.14, 0.56)], face)
    joined(
        brush, [oval(x, y, 0.085, 0.07) for x, y in ((0.16, 0.27), (0.26, 0.22), (0.37, 0.27))], brush.main
    )


def bird(brush: Brush) -> None:
    """It flies to the left."""
    brush.blob([(0.7, 0.54), (0.95, 0.52), (0.9, 0.62), (0.96, 0.72), (0.72, 0.7)], brush.dark)
    brush.blob([(0.52, 0.5), (0.6, 0.22), (0.8, 0.06), (0.82, 0.28), (0.74, 0.5), (0.62, 0.6)], brush.dark)
    body = [(0.2, 0.42), (0.4, 0.42), (0.62, 0.5), (0.78, 0.6), (0.6, 0.76), (0.36, 0.78), (0.2, 0.64)]
    joined(brush, [body, oval(0.3, 0.46, 0.19, 0.18)], brush.main)
    brush.blob([(0.2, 0.6), (0.34, 0.56), (0.52, 0.66), (0.46, 0.74), (0.32, 0.75)], brush.pale, line=0)
    brush.polygon([(0.13, 0.42), (0.02, 0.48), (0.14, 0.54)], FLAME)
    brush.blob([(0.4, 0.54), (0.34, 0.3), (0.42, 0.08), (0.56, 0.22), (0.64, 0.4), (0.62, 0.58)], brush.main)
    brush.curve([(0.47, 0.5), (0.45, 0.36), (0.46, 0.24)], brush.dark, 0.032)
    brush.curve([(0.54, 0.52), (0.55, 0.42), (0.53, 0.34)], brush.dark, 0.032)


def owl(brush: Brush) -> None:
    bird_feet(brush, 0.86, 0.4, 0.62)
    ears = [[(0.5 + side * x, y) for x, y in ((0.3, 0.04), (0.08, 0.2), (0.3, 0.34))] for side in (-1, 1)]
    for ear in ears:
        brush.polygon(ear, brush.main)
    brush.blob(
        mirrored([(0.5, 0.12), (0.72, 0.16), (0.83, 0.36), (0.82, 0.66), (0.7, 0.88), (0.5, 0.92)]),
        brush.main,
    )
    brush.ellipse(0.5, 0.72, 0.19, 0.17, brush.pale, line=0)
    for x, y in ((0.42, 0.66), (0.58, 0.66), (0.5, 0.74), (0.42, 0.81), (0.58, 0.81)):
        brush.arc(x, y, 0.045, 0.04, 10, 170, brush.dark, 0.028)
    for side in (-1, 1):
        wing = [(0.3, 0.48), (0.38, 0.56), (0.36, 0.74), (0.24, 0.82), (0.2, 0.64)]
        brush.blob([(0.5 + side * x, y) for x, y in wing], brush.dark)
        brush.circle(0.5 + side * 0.15, 0.36, 0.15, WHITE)
    brush.polygon([(0.43, 0.44), (0.57, 0.44), (0.5, 0.57)], FLAME)


def penguin(brush: Brush) -> None:
    for side in (-1, 1):
        brush.ellipse(0.5 + side * 0.15, 0.91, 0.13, 0.05, FLAME)
        wing = [(0.24, 0.4), (0.4, 0.56), (0.43, 0.76), (0.33, 0.76), (0.24, 0.64)]
        brush.blob([(0.5 + side * x, y) for x, y in wing], brush.main)
    brush.blob(
        mirrored([(0.5, 0.05), (0.68, 0.12), (0.74, 0.32), (0.8, 0.62), (0.72, 0.86), (0.5, 0.92)]),
        brush.main,
    )
    brush.ellipse(0.5, 0.68, 0.2, 0.21, WHITE, line=0.018)
    for side in (-1, 1):
        brush.ellipse(0.5 + side * 0.095, 0.32, 0.12, 0.15, WHITE, line=0)
    brush.polygon([(0.4, 0.36), (0.6, 0.36), (0.5, 0.5)], FLAME)


def mouse(brush: Brush) -> None:
    limb(brush, [(0.8, 0.84), (0.94, 0.78), (0.92, 0.6), (0.8, 0.56)], BLUSH, 0.035)
    joined(brush, [oval(0.54, 0.74, 0.29, 0.2)], brush.main)
    for x in (0.4, 0.66):
        brush.ellipse(x, 0.92, 0.085, 0.04, BLUSH)
    for x in (0.2, 0.66):
        brush.circle(x, 0.26, 0.185, brush.main)
        brush.circle(x, 0.26, 0.11, BLUSH, line=0)
    brush.blob(
        [(0.43, 0.24), (0.64, 0.36), (0.64, 0.58), (0.43, 0.74), (0.22, 0.58), (0.22, 0.36)], brush.main
    )
    for side in (-1, 1):
        for y in (0.56, 0.62):
            brush.stroke([(0.43 + side * 0.12, 0.57), (0.43 + side * 0.29, y)], brush.ink, 0.018)
    brush.ellipse(0.43, 0.53, 0.055, 0.042, BLUSH, line=0.018)


def bear(brush: Brush) -> None:
    brush.circle(0.91, 0.54, 0.055, brush.main)
    _far_legs(brush, 0.5, 0.7, half=0.07)
    body = [(0.26, 0.5), (0.44, 0.34), (0.72, 0.36), (0.9, 0.52), (0.88, 0.76), (0.56, 0.8), (0.32, 0.74)]
    joined(
        brush,
        [body, leg(0.38, 0.6, 0.18), leg(0.8, 0.56, 0.18), *(oval(x, 0.2, 0.08, 0.08) for x in (0.14, 0.47))],
        brush.main,
    )
    brush.ellipse(0.31, 0.4, 0.26, 0.23, brush.main)
    brush.ellipse(0.27, 0.5, 0.14, 0.11, brush.pale, line=0.016)
    for x in (0.14, 0.47):
        brush.circle(x, 0.2, 0.04, brush.dark, line=0)
    brush.ellipse(0.265, 0.44, 0.06, 0.042, brush.ink, line=0)
    for x in (0.33, 0.39, 0.8):
        brush.stroke([(x, 0.88), (x, 0.93)], brush.ink, 0.02)


def lion(brush: Brush) -> None:
    mane = mix(brush.dark, (120, 60, 30), 0.55)
    limb(brush, [(0.68, 0.84), (0.88, 0.82), (0.92, 0.66)], brush.main, 0.045)
    brush.ellipse(0.92, 0.6, 0.06, 0.08, mane)
    joined(brush, [oval(0.5, 0.76, 0.24, 0.17)], brush.main)
    for x in (0.39, 0.61):
        brush.ellipse(x, 0.9, 0.095, 0.05, brush.light)
    spikes = [
        (0.5 + r * math.cos(a), 0.4 + 0.94 * r * math.sin(a))
        for a, r in ((math.tau * i / 24, 0.4 if i % 2 else 0.34) for i in range(24))
    ]
    brush.blob(spikes, mane)
    for side in (-1, 1):
        brush.circle(0.5 + side * 0.2, 0.2, 0.07, brush.main)
    brush.ellipse(0.5, 0.41, 0.26, 0.24, brush.main)
    brush.ellipse(0.5, 0.51, 0.13, 0.095, brush.pale, line=0)
    brush.polygon([(0.44, 0.44), (0.56, 0.44), (0.5, 0.5)], brush.ink, line=0)


def fox(brush: Brush) -> None:
    tail = [(0.62, 0.86), (0.74, 0.62), (0.84, 0.36), (0.96, 0.5), (0.94, 0.76), (0.8, 0.92)]
    brush.blob(tail, brush.main)
    brush.blob([(0.77, 0.46), (0.84, 0.36), (0.96, 0.5), (0.95, 0.58), (0.86, 0.54)], WHITE, line=0.018)
    brush.blob([(0.26, 0.92), (0.24, 0.68), (0.4, 0.56), (0.6, 0.66), (0.7, 0.92)], brush.main)
    brush.ellipse(0.42, 0.76, 0.1, 0.13, WHITE, line=0)
    for x in (0.33, 0.52):
        brush.ellipse(x, 0.92, 0.075, 0.04, _PATCH, line=0.02)
    for side in (-1, 1):
        ear = [(0.4 + side * 0.31, 0.03), (0.4 + side * 0.05, 0.2), (0.4 + side * 0.31, 0.36)]
        brush.polygon(ear, brush.main)
        brush.polygon(
            [(0.4 + side * x, y) for x, y in ((0.28, 0.1), (0.15, 0.2), (0.26, 0.26))], _PATCH, line=0
        )
    brush.blob([(0.4, 0.18), (0.62, 0.22), (0.74, 0.42), (0.4, 0.66), (0.06, 0.42), (0.18, 0.22)], brush.main)
    for side in (-1, 1):
        cheek = [(0.02, 0.62), (0.3, 0.43), (0.2, 0.4), (0.06, 0.46)]
        brush.blob([(0.4 + side * x, y) for x, y in cheek], WHITE, line=0)
    brush.ellipse(0.4, 0.61, 0.055, 0.042, brush.ink, line=0)


def monkey(brush: Brush) -> None:
    limb(brush, [(0.66, 0.84), (0.86, 0.86), (0.92, 0.68), (0.8, 0.6), (0.76, 0.7)], brush.main, 0.045)
    for side in (-1, 1):
        brush.ellipse(0.5 + side * 0.2, 0.9, 0.12, 0.055, CREAM)
    joined(brush, [oval(0.5, 0.75, 0.22, 0.17)], brush.main)
    brush.ellipse(0.5, 0.78, 0.12, 0.11, CREAM, line=0)
    for side in (-1, 1):
        brush.circle(0.5 + side * 0.31, 0.36, 0.115, brush.main)
        brush.circle(0.5 + side * 0.31, 0.36, 0.06, CREAM, line=0)
        arm = [(0.5 + side * 0.2, 0.66), (0.5 + side * 0.3, 0.76), (0.5 + side * 0.16, 0.84)]
        limb(brush, arm, brush.main, 0.06)
    brush.ellipse(0.5, 0.34, 0.29, 0.26, brush.main)
    joined_face = [oval(0.4, 0.32, 0.125, 0.12), oval(0.6, 0.32, 0.125, 0.12), oval(0.5, 0.44, 0.2, 0.125)]
    for part in joined_face:
        brush.blob(part, CREAM, line=0)
    for x in (0.47, 0.53):
        brush.ellipse(x, 0.4, 0.014, 0.018, brush.ink, line=0)
    brush.curve([(0.44, 0.08), (0.5, 0.04), (0.54, 0.1)], brush.ink, 0.04)


def snake(brush: Brush) -> None:
    for y, reach in ((0.84, 0.42), (0.7, 0.32)):
        brush.ellipse(0.52, y, reach, 0.11, brush.main)
        for step in range(-2, 3):
            brush.ellipse(0.52 + step * reach * 0.36, y + 0.045, 0.05, 0.035, brush.dark, line=0)
    limb(brush, [(0.66, 0.6), (0.72, 0.5), (0.6, 0.4), (0.4, 0.34)], brush.main, 0.16)
    for x, y in ((0.71, 0.52), (0.6, 0.4)):
        brush.ellipse(x, y, 0.045, 0.045, brush.dark, line=0)
    brush.stroke([(0.1, 0.34), (0.02, 0.4)], (206, 44, 60), 0.036)
    brush.stroke([(0.1, 0.34), (0.0, 0.32)], (206, 44, 60), 0.036)
    brush.blob([(0.08, 0.34), (0.2, 0.2), (0.4, 0.16), (0.52, 0.3), (0.42, 0.44), (0.22, 0.44)], brush.main)


def snail(brush: Brush) -> None:
    for lean in (-0.07, 0.06):
        brush.curve([(0.18 + lean * 0.5, 0.46), (0.18 + lean * 1.6, 0.22)], brush.ink, 0.07)
        brush.curve([(0.18 + lean * 0.5, 0.46), (0.18 + lean * 1.6, 0.22)], CREAM, 0.03)
        brush.circle(0.18 + lean * 1.6, 0.2, 0.045, CREAM)
    foot = [(0.12, 0.8), (0.5, 0.8), (0.93, 0.89), (0.88, 0.94), (0.4, 0.94), (0.14, 0.92)]
    joined(brush, [foot, oval(0.19, 0.62, 0.15, 0.2), oval(0.2, 0.8, 0.13, 0.14)], CREAM)
    brush.circle(0.6, 0.54, 0.32, brush.main)
    swirl = [
        (0.6 + 0.27 * (1 - t) * math.cos(t * 11 + 1.6), 0.54 + 0.27 * (1 - t) * math.sin(t * 11 + 1.6))
        for t in (i / 30 for i in range(28))
    ]
    brush.curve(swirl, brush.dark, 0.06)
    brush.arc(0.6, 0.54, 0.25, 0.25, 200, 260, brush.light, 0.045)


def bee(brush: Brush) -> None:
    for x, turn in ((0.52, -18), (0.7, 22)):
        brush.ellipse(x, 0.26, 0.13, 0.21, GLASS, turn=turn)
    brush.polygon([(0.86, 0.54), (0.98, 0.6), (0.86, 0.68)], brush.ink, line=0)
    for side in (-1, 1):
        brush.curve([(0.26, 0.4), (0.22 + side * 0.08, 0.28), (0.2 + side * 0.12, 0.2)], brush.ink, 0.032)
        brush.circle(0.2 + side * 0.12, 0.19, 0.034, brush.ink, line=0)
    body = arc_points(0.54, 0.6, 0.38, 0.27, 0, 360)[:-1]
    brush.polygon(body, brush.main)
    for x, half in ((0.56, 0.262), (0.74, 0.22)):
        brush.stroke([(x, 0.6 - half), (x + 0.03, 0.6), (x, 0.6 + half)], _PATCH, 0.085)
    brush.stroke([*body, body[0]])


def whale(brush: Brush) -> None:
    for side in (-1, 1):
        limb(brush, [(0.36, 0.28), (0.36 + side * 0.05, 0.14), (0.36 + side * 0.15, 0.14)], GLASS, 0.05)
    tail = [
        *((0.76, 0.62), (0.82, 0.44), (0.7, 0.3), (0.84, 0.3)),
        *((0.87, 0.37), (0.95, 0.3), (0.94, 0.44), (0.92, 0.66)),
    ]
    body = [
        *((0.05, 0.56), (0.1, 0.38), (0.3, 0.28), (0.54, 0.34)),
        *((0.74, 0.56), (0.9, 0.62), (0.84, 0.82), (0.6, 0.92)),
    ]
    body += [(0.26, 0.92), (0.08, 0.8)]
    joined(brush, [tail, body], brush.main)
    belly = [(0.07, 0.72), (0.34, 0.76), (0.66, 0.8), (0.56, 0.905), (0.28, 0.905), (0.1, 0.82)]
    brush.blob(belly, WHITE, line=0.018)
    for x in (0.24, 0.36, 0.48):
        brush.stroke([(x, 0.82), (x + 0.01, 0.89)], brush.ink, 0.018)
    brush.blob([(0.5, 0.72), (0.64, 0.72), (0.7, 0.9), (0.58, 0.86)], brush.dark)


def dinosaur(brush: Brush) -> None:
    """With a long neck and plates along the back."""
    plates = ((0.42, 0.3, -10), (0.5, 0.45, -10), (0.63, 0.43, 0), (0.76, 0.5, 24), (0.87, 0.63, 30))
    for x, y, _ in plates:
        brush.polygon([(x - 0.075, y + 0.08), (x + 0.03, y - 0.1), (x + 0.09, y + 0.1)], brush.dark)
    _far_legs(brush, 0.44, 0.64, half=0.065)
    tail = [(0.66, 0.5), (0.84, 0.6), (0.97, 0.84), (0.84, 0.8), (0.66, 0.78)]
    neck = [(0.24, 0.14), (0.4, 0.14), (0.46, 0.34), (0.54, 0.54), (0.3, 0.66), (0.26, 0.4)]
    parts = [oval(0.54, 0.62, 0.25, 0.19), tail, neck, leg(0.37, 0.6, 0.15), leg(0.73, 0.6, 0.15)]
    joined(brush, [*parts, oval(0.24, 0.2, 0.2, 0.14)], brush.main)
    brush.ellipse(0.5, 0.73, 0.12, 0.06, brush.light, line=0)
    for x, y in ((0.55, 0.56), (0.65, 0.6), (0.46, 0.58)):
        brush.circle(x, y, 0.032, brush.dark, line=0)
    brush.circle(0.08, 0.17, 0.016, brush.ink, line=0)


def dragon(brush: Brush) -> None:
    limb(brush, [(0.62, 0.86), (0.84, 0.88), (0.9, 0.74)], brush.main, 0.08)
    brush.polygon([(0.84, 0.76), (0.9, 0.55), (0.97, 0.74)], brush.dark)
    for side in (-1, 1):
        wing = [
            *((0.12, 0.6), (0.3, 0.3), (0.45, 0.24), (0.45, 0.44)),
            *((0.4, 0.5), (0.4, 0.6), (0.3, 0.62), (0.26, 0.72)),
        ]
        brush.polygon([(0.5 + side * x, y) for x, y in wing], brush.light)
        brush.stroke([(0.5 + side * 0.14, 0.6), (0.5 + side * 0.44, 0.28)], brush.ink, 0.024)
        brush.ellipse(0.5 + side * 0.17, 0.91, 0.13, 0.05, brush.dark)
        horn = [(0.5 + side * x, y) for x, y in ((0.07, 0.16), (0.2, 0.02), (0.2, 0.22))]
        brush.polygon(horn, CREAM)
    joined(
        brush,
        [oval(0.5, 0.72, 0.23, 0.2), oval(0.5, 0.3, 0.25, 0.18), oval(0.5, 0.43, 0.2, 0.12)],
        brush.main,
    )
    brush.ellipse(0.5, 0.75, 0.13, 0.15, CREAM, line=0)
    for y in (0.68, 0.75, 0.82):
        brush.stroke([(0.4, y), (0.6, y)], brush.dark, 0.026)
    for x in (0.42, 0.58):
        brush.circle(x, 0.4, 0.024, brush.ink, line=0)
    brush.polygon([(0.44, 0.14), (0.5, 0.03), (0.56, 0.14)], brush.dark)


def _pair(x: float, y: float, apart: float) -> tuple[Point, ...]:
    return (x - apart, y), (x + apart, y)


_BEASTS: tuple[tuple[Drawing, Face], ...] = (
    (horse, Face(((0.27, 0.28),), (0.14, 0.45), 0.05)),
    (cow, Face(_pair(0.3, 0.35, 0.085), (0.29, 0.57), 0.06, corner=(0.84, 0.17))),
    (pig, Face(_pair(0.32, 0.38, 0.11), (0.31, 0.62), 0.055)),
    (sheep, Face(_pair(0.26, 0.42, 0.07), (0.26, 0.54), 0.05, r=0.036, lid=_WOOL_FACE)),
    (bird, Face(((0.26, 0.42),), (0, 0), beaked=True, corner=(0.24, 0.13))),
    (owl, Face(_pair(0.5, 0.36, 0.15), (0, 0), r=0.07, beaked=True, corner=(0.86, 0.12))),
    (penguin, Face(_pair(0.5, 0.29, 0.1), (0, 0), beaked=True, lid=WHITE)),
    (mouse, Face(_pair(0.43, 0.43, 0.1), (0.43, 0.6), 0.05, corner=(0.88, 0.12))),
    (bear, Face(_pair(0.3, 0.33, 0.115), (0.265, 0.52), 0.055)),
    (lion, Face(_pair(0.5, 0.37, 0.12), (0.5, 0.54), 0.06, corner=(0.86, 0.12))),
    (fox, Face(_pair(0.4, 0.4, 0.13), (0.4, 0.55), 0.05, beaked=True, corner=(0.86, 0.14))),
    (monkey, Face(_pair(0.5, 0.31, 0.105), (0.5, 0.47), 0.08, corner=(0.87, 0.12), lid=CREAM)),
    (snake, Face(((0.3, 0.27),), (0.2, 0.37), 0.06)),
    (snail, Face(_pair(0.18, 0.57, 0.06), (0.18, 0.67), 0.05, r=0.032, lid=CREAM)),
    (bee, Face(_pair(0.3, 0.54, 0.075), (0.3, 0.65), 0.06, corner=(0.86, 0.14))),
    (whale, Face(((0.22, 0.54),), (0.14, 0.66), 0.07, corner=(0.64, 0.14))),
    (dinosaur, Face(((0.25, 0.16),), (0.14, 0.25), 0.06)),
    (dragon, Face(_pair(0.5, 0.28, 0.12), (0.5, 0.46), 0.08, corner=(0.86, 0.12))),
)

DRAWINGS: dict[str, Drawing] = {
    noun: drawing for draw, face in _BEASTS for noun, drawing in with_moods(draw.__name__, draw, face).items()
}
