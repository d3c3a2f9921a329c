"""Where a carried thing is drawn: on, in or under its carrier, or in its hands, within one cell.

What is carried is drawn small. Where there would be no room for it, its carrier is drawn small, too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from interleave_mini.world.scene import Relation, Size, Thing
from interleave_mini.world.sprites import CELL, PIXELS, Sprite, sprite
from interleave_mini.world.wider import CONTAINERS, SEATS, SHELTERS

_FOOT = 76
"""The line of its sprite on which a thing stands."""
_SUNK = 5
"""How far something on another overlaps it, so that they touch."""
_INSIDE = 8
"""How much of a thing is hidden below the rim of what it is in."""
SHIFT = 16
"""Shifts are multiples of this, the side of a token of the generator: so a small thing is drawn from the
same tokens, whether it is carried or not."""
_HOLDER_ASIDE, _HELD_ASIDE, _HELD_UP = -SHIFT, SHIFT, -SHIFT
RASTER = 4
"""Lines at which a load is cut are multiples of this, so that the reader can cut smaller sprites, too."""


class Layout(NamedTuple):
    """How a carrier and what it carries are drawn: shifts in pixels."""

    carrier: Thing
    carrier_across: int = 0
    across: int = 0
    down: int = 0
    cut: int = CELL
    """The line of the cell from which on nothing of the load is seen."""
    is_behind: bool = False
    """Whether the carrier hides the load."""


def layout(carrier: Thing, relation: Relation) -> Layout:
    """Where this carrier and a load in this relation are drawn."""
    small = replace(carrier.alone, size=Size.SMALL)
    match relation:
        case Relation.ON if carrier.kind in SEATS:
            return Layout(carrier.alone, down=_lifted_to(_line(SEATS[carrier.kind])))
        case Relation.ON:
            return Layout(small, down=_lifted_to(_top(small) + _SUNK))
        case Relation.IN:
            rim = round(_line(CONTAINERS[carrier.noun]) / RASTER) * RASTER
            return Layout(carrier.alone, down=_lifted_to(rim + _INSIDE), cut=rim)
        case Relation.UNDER:
            return Layout(carrier.alone, is_behind=SHELTERS[carrier.noun])
        case Relation.HELD:
            return Layout(small, _HOLDER_ASIDE, _HELD_ASIDE, _HELD_UP)


def layers(thing: Thing) -> tuple[Sprite, Sprite]:
    """A thing and what it carries, the one that is painted first at first."""
    if thing.load is None:
        raise ValueError(f"a {thing.noun} that carries nothing has one layer")
    where = layout(thing, thing.load.relation)
    carrier = shifted(sprite(where.carrier), where.carrier_across, 0, CELL)
    load = shifted(sprite(thing.load.thing), where.across, where.down, where.cut)
    return (load, carrier) if where.is_behind else (carrier, load)


def shifted(image: Sprite, across: int, down: int, cut: int) -> Sprite:
    """A sprite moved in its cell, and nothing of it from the line `cut` on."""
    moved = np.zeros_like(image)
    source = image[max(0, -down) : CELL - max(0, down), max(0, -across) : CELL - max(0, across)]
    top, left = max(0, down), max(0, across)
    moved[top : top + source.shape[0], left : left + source.shape[1]] = source
    moved[cut:] = 0
    return moved


def _lifted_to(line: int) -> int:
    """The shift with which a thing stands on a line, or a little below it."""
    return -max(0, (_FOOT - line) // SHIFT) * SHIFT


def _line(height: float) -> int:
    """The line of a cell at a height of a large drawing."""
    return CELL - 2 - PIXELS[Size.LARGE] + round(height * PIXELS[Size.LARGE])


def _top(thing: Thing) -> int:
    """The uppermost line of a drawing in its middle."""
    middle = sprite(thing)[:, CELL // 2 - 6 : CELL // 2 + 6, 3]
    return int((middle > 128).any(axis=1).argmax())
