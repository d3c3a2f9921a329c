"""Things that are broken, dirty, wet, bitten, rotten, lit or full: one table of what happens to what."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from interleave_mini.world.art import (
    buildings,
    food,
    furniture,
    household,
    meals,
    outdoors,
    things,
    tools,
    toys,
    vehicles,
    vessels,
    weather,
    wheels,
)
from interleave_mini.world.art.pieces import Drawing, drop, turned
from interleave_mini.world.art.states import Spots, bitten, broken, broken_down, dirty, rotten, wet
from interleave_mini.world.brush import (
    GOLD,
    GREY,
    LEAF,
    SOIL,
    WHITE,
    WOOD,
    Brush,
    mix,
    star_points,
)

_WHOLE: dict[str, Drawing] = {
    **buildings.DRAWINGS,
    **food.DRAWINGS,
    **furniture.DRAWINGS,
    **household.DRAWINGS,
    **meals.DRAWINGS,
    **outdoors.DRAWINGS,
    **things.DRAWINGS,
    **tools.DRAWINGS,
    **toys.DRAWINGS,
    **vehicles.DRAWINGS,
    **vessels.DRAWINGS,
    **wheels.DRAWINGS,
}

_VEHICLES = ["car", "bus", "train", "boat", "plane", "rocket", "truck", "bicycle", "tractor", "helicopter"]
_SMOKING = [name for name in _VEHICLES if name not in ("boat", "bicycle")]
_BREAKABLE = [
    "boat",
    "bicycle",
    "house",
    "castle",
    "bridge",
    "fence",
    "cup",
    "lamp",
    "chair",
    "clock",
    "table",
    "bottle",
    "bowl",
    "vase",
    "phone",
    "computer",
    "kite",
    "pencil",
    "ladder",
]
_LEANS = dict.fromkeys(("table", "bridge", "chair", "ladder"), 9.0) | {"castle": -2.0}
"""These fall in upon themselves, the others fall apart."""
_BITES: dict[str, Spots] = {
    "banana": ((0.92, 0.1, 0.16), (0.74, 0.1, 0.14)),
    "carrot": ((0.08, 0.96, 0.17), (0.2, 0.84, 0.1)),
    "strawberry": ((0.9, 0.62, 0.15), (0.78, 0.82, 0.14)),
    "bread": ((0.06, 0.42, 0.13), (0.1, 0.62, 0.13)),
    "pizza": ((0.52, 0.94, 0.16), (0.38, 0.8, 0.1), (0.66, 0.8, 0.1)),
    "cookie": ((0.94, 0.3, 0.17), (0.78, 0.12, 0.15)),
    "cheese": ((0.02, 0.56, 0.13), (0.06, 0.78, 0.14)),
    "pear": ((0.86, 0.62, 0.14), (0.8, 0.82, 0.13)),
}
_MOULD: dict[str, Spots] = {
    "apple": ((0.32, 0.55, 0.12), (0.64, 0.74, 0.14), (0.7, 0.46, 0.08)),
    "banana": ((0.4, 0.78, 0.1), (0.72, 0.66, 0.11), (0.84, 0.36, 0.08)),
    "carrot": ((0.28, 0.66, 0.09), (0.5, 0.5, 0.11), (0.64, 0.36, 0.07)),
    "bread": ((0.3, 0.6, 0.14), (0.5, 0.8, 0.09), (0.7, 0.4, 0.1)),
    "cheese": ((0.34, 0.6, 0.12), (0.7, 0.74, 0.14), (0.62, 0.32, 0.08)),
    "pear": ((0.36, 0.7, 0.12), (0.62, 0.8, 0.13), (0.54, 0.44, 0.08)),
}


def wilted_flower(brush: Brush) -> None:
    """It hangs its head, and petals lie on the ground."""
    dry = mix(LEAF, WOOD, 0.55)
    for colour, width in ((brush.ink, 0.1), (dry, 0.048)):
        brush.curve([(0.4, 0.92), (0.38, 0.6), (0.42, 0.3), (0.56, 0.2), (0.68, 0.34)], colour, width)
    brush.blob([(0.38, 0.74), (0.24, 0.66), (0.12, 0.78), (0.1, 0.9), (0.24, 0.84)], dry)
    for x, y, turn in ((0.58, 0.5, 25), (0.82, 0.48, -25), (0.7, 0.56, 0)):
        brush.ellipse(x, y, 0.085, 0.15, mix(brush.main, brush.dark, 0.4), turn=turn)
    brush.ellipse(0.69, 0.38, 0.12, 0.085, mix(GOLD, WOOD, 0.5))
    for x, turn in ((0.66, 70), (0.86, 110)):
        brush.ellipse(x, 0.91, 0.05, 0.1, brush.dark, turn=turn)
    brush.blob([(0.26, 0.94), (0.32, 0.88), (0.46, 0.88), (0.54, 0.94)], SOIL)


def bare_tree(brush: Brush) -> None:
    """Without leaves: the last ones lie on the ground in the tree's colour."""
    bark = mix(WOOD, brush.ink, 0.25)
    twigs = (
        [(0.5, 0.87), (0.5, 0.5), (0.5, 0.15)],
        [(0.5, 0.62), (0.3, 0.46), (0.14, 0.3)],
        [(0.5, 0.56), (0.7, 0.42), (0.86, 0.26)],
        [(0.3, 0.46), (0.28, 0.24)],
        [(0.7, 0.42), (0.7, 0.18)],
        [(0.22, 0.38), (0.08, 0.44)],
        [(0.78, 0.34), (0.92, 0.4)],
    )
    for colour, grow in ((brush.ink, 0.052), (bark, 0.0)):
        for index, twig in enumerate(twigs):
            brush.stroke(twig, colour, (0.13, 0.085, 0.085, 0.05, 0.05, 0.05, 0.05)[index] + grow)
    for x, y, turn in (
        *((0.2, 0.88, 20), (0.34, 0.9, -15), (0.68, 0.89, 25)),
        *((0.84, 0.88, -30), (0.14, 0.28, 60), (0.72, 0.16, 120)),
    ):
        brush.ellipse(x, y, 0.105, 0.062, brush.main, turn=turn)


def melting_ice_cream(brush: Brush) -> None:
    brush.ellipse(0.5, 0.905, 0.34, 0.055, brush.main)
    brush.polygon([(0.28, 0.48), (0.72, 0.48), (0.5, 0.9)], food.WAFFLE)
    for start, end in (((0.4, 0.5), (0.58, 0.74)), ((0.6, 0.5), (0.42, 0.74))):
        brush.stroke([start, end], WOOD, 0.024)
    ooze = [
        *((0.3, 0.36), (0.4, 0.24), (0.58, 0.26), (0.7, 0.36)),
        *((0.8, 0.5), (0.78, 0.76), (0.7, 0.78), (0.68, 0.58)),
    ]
    ooze += [
        *((0.6, 0.58), (0.57, 0.72), (0.5, 0.72), (0.47, 0.58)),
        *((0.38, 0.58), (0.36, 0.84), (0.27, 0.84), (0.24, 0.52)),
    ]
    brush.blob(ooze, brush.main)
    brush.curve([(0.36, 0.4), (0.42, 0.33), (0.5, 0.31)], brush.pale, 0.05)
    for x, y in ((0.22, 0.91), (0.78, 0.9)):
        brush.ellipse(x, y, 0.05, 0.025, brush.main, line=0.018)


def glowing_lighthouse(brush: Brush) -> None:
    for side in (-1, 1):
        beam = ((0.08, 0.2), (0.45, 0.03), (0.45, 0.45), (0.08, 0.26))
        brush.polygon([(0.5 + side * x, y) for x, y in beam], household.BEAM, line=0.02)
    buildings.lighthouse(brush)
    brush.box(0.38, 0.14, 0.62, 0.31, household.GLOW)
    brush.circle(0.5, 0.225, 0.055, WHITE, line=0)


def open_book(brush: Brush) -> None:
    for side in (-1, 1):
        cover = [(0.0, 0.28), (0.24, 0.2), (0.47, 0.24), (0.47, 0.86), (0.24, 0.84), (0.0, 0.92)]
        page = [(0.0, 0.26), (0.22, 0.15), (0.42, 0.19), (0.42, 0.77), (0.22, 0.75), (0.0, 0.85)]
        brush.polygon([(0.5 + side * x, y) for x, y in cover], brush.main)
        brush.blob([(0.5 + side * x, y) for x, y in page], WHITE)
        for y in (0.34, 0.46, 0.58):
            brush.stroke([(0.5 + side * 0.1, y), (0.5 + side * 0.34, y - 0.04)], GREY, 0.036)
    brush.stroke([(0.5, 0.26), (0.5, 0.88)], brush.ink, 0.03)
    brush.circle(0.71, 0.46, 0.13, brush.main)


def popped_balloon(brush: Brush) -> None:
    """A bang, and scraps of it all around."""
    brush.polygon(star_points(0.5, 0.44, 0.36, 0.19, 8), household.BEAM)
    for x, y, turn in (
        (0.2, 0.16, 200),
        (0.82, 0.2, 40),
        (0.15, 0.7, 130),
        (0.85, 0.7, 310),
        (0.5, 0.44, 90),
    ):
        scrap = [(x - 0.13, y - 0.06), (x + 0.11, y - 0.08), (x + 0.03, y + 0.1)]
        brush.polygon(turned(scrap, x, y, turn), brush.main)
    brush.curve([(0.5, 0.66), (0.56, 0.8), (0.44, 0.88), (0.52, 0.94)], brush.ink, 0.034)
    brush.polygon([(0.5, 0.6), (0.58, 0.72), (0.42, 0.72)], brush.main)


def rain_cloud(brush: Brush) -> None:
    _above(brush, weather.cloud)
    for x, y in ((0.22, 0.8), (0.42, 0.88), (0.6, 0.78), (0.78, 0.88)):
        drop(brush, x, y, 0.075)


def storm_cloud(brush: Brush) -> None:
    _above(brush, weather.cloud)
    flash = [(0.46, 0.58), (0.66, 0.58), (0.56, 0.72), (0.68, 0.72), (0.4, 0.97), (0.48, 0.79), (0.36, 0.79)]
    brush.polygon(flash, household.BEAM)
    for x, y in ((0.18, 0.78), (0.82, 0.8)):
        drop(brush, x, y, 0.065)


def _above(brush: Brush, draw: Drawing) -> None:
    """A drawing moved up, so that there is room below it."""
    before = brush.image.copy()
    brush.image.paste((0, 0, 0, 0), (0, 0, brush.side, brush.side))
    draw(brush)
    moved = brush.image.copy()
    brush.image.paste(before)
    brush.image.alpha_composite(moved, (0, 0), (0, round(brush.side * 0.14)))


def _each(state: str, names: Iterable[str], happen: Callable[[str], Drawing]) -> dict[str, Drawing]:
    return {f"{state} {name}": happen(name) for name in names}


DRAWINGS: dict[str, Drawing] = {
    **_each("broken", _SMOKING, lambda name: partial(broken_down, draw=_WHOLE[name])),
    **_each("dirty", _VEHICLES, lambda name: partial(dirty, draw=_WHOLE[name])),
    **_each("broken", _BREAKABLE, lambda name: partial(broken, draw=_WHOLE[name], lean=_LEANS.get(name, -5))),
    **_each("bitten", _BITES, lambda name: partial(bitten, draw=_WHOLE[name], bites=_BITES[name])),
    **_each("wet", ("hat", "shoe", "ball", "teddy"), lambda name: partial(wet, draw=_WHOLE[name])),
    **_each("dirty", ("shoe", "ball", "teddy"), lambda name: partial(dirty, draw=_WHOLE[name])),
    **_each(
        "rotten",
        ("apple", "banana", "carrot", "strawberry", "bread", "cheese", "pear"),
        lambda name: partial(rotten, draw=_WHOLE[name], spots=_MOULD.get(name, _MOULD["apple"])),
    ),
    "wilted flower": wilted_flower,
    "bare tree": bare_tree,
    "melting ice cream": melting_ice_cream,
    "glowing lighthouse": glowing_lighthouse,
    "open book": open_book,
    "popped balloon": popped_balloon,
    "full bucket": partial(vessels.full_bucket, bucket=tools.bucket),
    "rain cloud": rain_cloud,
    "storm cloud": storm_cloud,
}
