"""People: their clothes have the colour. A robot and a ghost are among them."""

from __future__ import annotations

from interleave_mini.world.art.moods import Face, with_moods
from interleave_mini.world.art.pieces import Drawing, joined, limb, oval
from interleave_mini.world.brush import BLUSH, GOLD, RGB, SILVER, STONE, WHITE, Brush, arc_points, mirrored

_SKIN: RGB = (242, 198, 160)
_LID: RGB = (222, 170, 132)
_DARK_HAIR: RGB = (92, 60, 44)
_FAIR_HAIR: RGB = (214, 150, 70)
_TROUSERS: RGB = (84, 100, 150)


def _legs(brush: Brush, top: float, fill: RGB) -> None:
    for x in (0.41, 0.59):
        brush.box(x - 0.075, top, x + 0.075, 0.9, fill)
        brush.ellipse(x + (x - 0.5) * 0.3, 0.91, 0.1, 0.045, STONE)


def _arms(brush: Brush, shoulder: float, hand: float, fill: RGB) -> None:
    for side in (-1, 1):
        limb(
            brush,
            [
                (0.5 + side * 0.14, shoulder),
                (0.5 + side * 0.26, (shoulder + hand) / 2),
                (0.5 + side * 0.32, hand),
            ],
            fill,
            0.085,
        )
        brush.circle(0.5 + side * 0.33, hand + 0.02, 0.06, _SKIN)


def _head(brush: Brush, y: float, r: float) -> None:
    for side in (-1, 1):
        brush.circle(0.5 + side * r, y + 0.03, 0.05, _SKIN)
    brush.ellipse(0.5, y, r, r * 0.94, _SKIN)
    for side in (-1, 1):
        brush.ellipse(0.5 + side * r * 0.68, y + r * 0.42, 0.038, 0.028, BLUSH, line=0)


def boy(brush: Brush) -> None:
    """In shirt and cap."""
    _legs(brush, 0.74, _TROUSERS)
    _arms(brush, 0.61, 0.74, brush.main)
    brush.blob(mirrored([(0.5, 0.54), (0.64, 0.57), (0.66, 0.68), (0.66, 0.8), (0.5, 0.81)]), brush.main)
    _head(brush, 0.36, 0.225)
    brush.chord(0.5, 0.36, 0.235, 0.24, 196, 344, _DARK_HAIR)
    brush.chord(0.5, 0.26, 0.215, 0.18, 180, 360, brush.main)
    brush.box(0.36, 0.22, 0.84, 0.29, brush.dark, round=0.035)


def girl(brush: Brush) -> None:
    """In a dress, with plaits."""
    for side in (-1, 1):
        brush.blob(
            [
                (0.5 + side * x, y)
                for x, y in ((0.16, 0.28), (0.3, 0.36), (0.37, 0.56), (0.3, 0.62), (0.2, 0.46))
            ],
            _FAIR_HAIR,
        )
        brush.circle(0.5 + side * 0.29, 0.47, 0.04, brush.main, line=0.02)
    for x in (0.42, 0.58):
        brush.box(x - 0.05, 0.78, x + 0.05, 0.9, _SKIN)
        brush.ellipse(x + (x - 0.5) * 0.3, 0.91, 0.085, 0.042, STONE)
    _arms(brush, 0.61, 0.72, brush.main)
    brush.blob(mirrored([(0.5, 0.54), (0.62, 0.56), (0.68, 0.68), (0.78, 0.83), (0.5, 0.87)]), brush.main)
    brush.curve([(0.27, 0.79), (0.5, 0.82), (0.73, 0.79)], brush.pale, 0.034)
    _head(brush, 0.34, 0.22)
    fringe = [
        *((0.26, 0.34), (0.3, 0.16), (0.5, 0.09), (0.7, 0.16)),
        *((0.74, 0.34), (0.64, 0.24), (0.5, 0.22), (0.36, 0.24)),
    ]
    brush.blob(fringe, _FAIR_HAIR)
    for side in (-1, 1):
        brush.polygon([(0.5, 0.11), (0.5 + side * 0.15, 0.04), (0.5 + side * 0.15, 0.18)], brush.main)
    brush.circle(0.5, 0.11, 0.042, brush.dark)


def man(brush: Brush) -> None:
    """Tall, with a jacket, a tie and a moustache."""
    _legs(brush, 0.7, _TROUSERS)
    _arms(brush, 0.5, 0.68, brush.main)
    brush.box(0.32, 0.42, 0.68, 0.77, brush.main, round=0.09)
    brush.polygon([(0.42, 0.42), (0.58, 0.42), (0.5, 0.6)], WHITE, line=0.02)
    brush.polygon([(0.5, 0.45), (0.535, 0.52), (0.5, 0.62), (0.465, 0.52)], brush.dark, line=0)
    _head(brush, 0.25, 0.19)
    hair = [
        *((0.3, 0.25), (0.3, 0.12), (0.42, 0.04), (0.6, 0.04), (0.71, 0.14)),
        *((0.7, 0.25), (0.64, 0.16), (0.44, 0.14), (0.36, 0.17)),
    ]
    brush.blob(hair, _DARK_HAIR)
    for side in (-1, 1):
        tip = [
            (0.5 + side * x, y)
            for x, y in ((0.0, 0.3), (0.08, 0.29), (0.12, 0.34), (0.06, 0.35), (0.0, 0.34))
        ]
        brush.blob(tip, _DARK_HAIR, line=0)


def woman(brush: Brush) -> None:
    """Tall, with long hair and a long dress."""
    brush.blob(
        mirrored([(0.5, 0.04), (0.68, 0.09), (0.74, 0.26), (0.74, 0.48), (0.62, 0.56), (0.5, 0.56)]),
        _DARK_HAIR,
    )
    for x in (0.42, 0.58):
        brush.ellipse(x, 0.92, 0.08, 0.038, STONE)
    _arms(brush, 0.5, 0.66, brush.main)
    brush.blob(
        mirrored([(0.5, 0.43), (0.62, 0.45), (0.6, 0.58), (0.72, 0.78), (0.78, 0.89), (0.5, 0.92)]),
        brush.main,
    )
    brush.stroke([(0.405, 0.59), (0.595, 0.59)], brush.pale, 0.044)
    _head(brush, 0.26, 0.175)
    brush.blob(
        [(0.3, 0.28), (0.32, 0.11), (0.5, 0.05), (0.68, 0.11), (0.7, 0.28), (0.58, 0.15), (0.48, 0.17)],
        _DARK_HAIR,
    )


def baby(brush: Brush) -> None:
    """It sits, in a romper suit, with one lock of hair."""
    for side in (-1, 1):
        brush.ellipse(0.5 + side * 0.21, 0.86, 0.15, 0.085, brush.main, turn=side * -14)
        brush.ellipse(0.5 + side * 0.3, 0.88, 0.065, 0.06, brush.light)
        limb(
            brush,
            [(0.5 + side * 0.17, 0.66), (0.5 + side * 0.28, 0.7), (0.5 + side * 0.34, 0.64)],
            brush.main,
            0.085,
        )
        brush.circle(0.5 + side * 0.35, 0.61, 0.055, _SKIN)
    brush.ellipse(0.5, 0.76, 0.225, 0.18, brush.main)
    brush.ellipse(0.5, 0.79, 0.1, 0.09, brush.pale, line=0)
    _head(brush, 0.37, 0.27)
    brush.curve([(0.42, 0.15), (0.5, 0.09), (0.56, 0.16), (0.5, 0.2)], _DARK_HAIR, 0.045)


def robot(brush: Brush) -> None:
    for x in (0.39, 0.61):
        brush.box(x - 0.06, 0.78, x + 0.06, 0.9, STONE)
        brush.box(x - 0.1, 0.87, x + 0.1, 0.945, brush.dark, round=0.03)
    for side in (-1, 1):
        limb(
            brush,
            [(0.5 + side * 0.24, 0.58), (0.5 + side * 0.36, 0.62), (0.5 + side * 0.37, 0.74)],
            STONE,
            0.055,
        )
        brush.arc(0.5 + side * 0.37, 0.81, 0.06, 0.06, -40, 220, brush.ink, 0.075)
        brush.arc(0.5 + side * 0.37, 0.81, 0.06, 0.06, -40, 220, brush.main, 0.034)
    brush.stroke([(0.5, 0.16), (0.5, 0.07)], brush.ink, 0.04)
    brush.circle(0.5, 0.07, 0.045, (226, 70, 70))
    for x in (0.2, 0.8):
        brush.box(x - 0.05, 0.27, x + 0.05, 0.4, STONE, round=0.03)
    brush.box(0.24, 0.5, 0.76, 0.82, brush.main, round=0.05)
    brush.box(0.33, 0.59, 0.67, 0.75, brush.pale, round=0.03, line=0.02)
    for x, fill in ((0.41, (226, 70, 70)), (0.5, GOLD), (0.59, (80, 180, 96))):
        brush.circle(x, 0.67, 0.034, fill, line=0)
    brush.box(0.22, 0.14, 0.78, 0.52, brush.main, round=0.09)
    brush.box(0.29, 0.21, 0.71, 0.46, SILVER, round=0.06, line=0.02)


def ghost(brush: Brush) -> None:
    hem = [(0.86, 0.8), (0.86, 0.92), (0.76, 0.86), (0.67, 0.94), (0.58, 0.86), (0.5, 0.94)]
    hem += [(0.42, 0.86), (0.33, 0.94), (0.24, 0.86), (0.14, 0.92), (0.14, 0.8)]
    top = arc_points(0.5, 0.42, 0.36, 0.36, 180, 360)
    joined(
        brush,
        [[*top[::6], *hem], oval(0.1, 0.6, 0.07, 0.05, -30), oval(0.9, 0.6, 0.07, 0.05, 30)],
        brush.main,
    )
    brush.arc(0.5, 0.42, 0.29, 0.29, 190, 240, brush.light, 0.045)
    for side in (-1, 1):
        brush.ellipse(0.5 + side * 0.23, 0.5, 0.05, 0.034, BLUSH, line=0)


_PEOPLE: tuple[tuple[Drawing, Face], ...] = (
    (boy, Face(((0.41, 0.39), (0.59, 0.39)), (0.5, 0.49), 0.07, lid=_LID, corner=(0.86, 0.12))),
    (girl, Face(((0.41, 0.35), (0.59, 0.35)), (0.5, 0.46), 0.07, lid=_LID, corner=(0.86, 0.14))),
    (man, Face(((0.42, 0.23), (0.58, 0.23)), (0.5, 0.385), 0.055, r=0.036, lid=_LID)),
    (woman, Face(((0.43, 0.26), (0.57, 0.26)), (0.5, 0.35), 0.055, r=0.036, lid=_LID, corner=(0.86, 0.14))),
    (baby, Face(((0.39, 0.37), (0.61, 0.37)), (0.5, 0.5), 0.075, r=0.045, lid=_LID, corner=(0.86, 0.12))),
    (robot, Face(((0.39, 0.31), (0.61, 0.31)), (0.5, 0.4), 0.07, r=0.045, lid=STONE, corner=(0.84, 0.13))),
    (ghost, Face(((0.38, 0.38), (0.62, 0.38)), (0.5, 0.53), 0.09, r=0.055, corner=(0.86, 0.12))),
)

DRAWINGS: dict[str, Drawing] = {
    noun: drawing for draw, face in _PEOPLE for noun, drawing in with_moods(draw.__name__, draw, face).items()
}
