"""The drawings: one function per noun, a file per category. Each paints on the unit square of a `Brush`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from interleave_mini.world.art import (
    animals,
    beasts,
    buildings,
    food,
    furniture,
    household,
    meals,
    outdoors,
    people,
    plants,
    shapes,
    things,
    tools,
    toys,
    vehicles,
    vessels,
    weather,
    wheels,
    worn,
)
from interleave_mini.world.art.states import fitted
from interleave_mini.world.brush import Brush

DRAWINGS: dict[str, Callable[[Brush], None]] = {
    **animals.DRAWINGS,
    **plants.DRAWINGS,
    **food.DRAWINGS,
    **vehicles.DRAWINGS,
    **buildings.DRAWINGS,
    **household.DRAWINGS,
    **toys.DRAWINGS,
    **tools.DRAWINGS,
    **weather.DRAWINGS,
    **shapes.DRAWINGS,
    **beasts.DRAWINGS,
    **people.DRAWINGS,
    **meals.DRAWINGS,
    **wheels.DRAWINGS,
    **outdoors.DRAWINGS,
    **furniture.DRAWINGS,
    **vessels.DRAWINGS,
    **things.DRAWINGS,
    **worn.DRAWINGS,
}

_TOO_WIDE = (
    *("sheep", "bird", "mouse", "lion", "snake", "snail", "dinosaur", "dragon", "cow", "ghost"),
    *("leaf", "bicycle", "bridge", "bathtub", "shovel", "rainbow"),
)
for noun, drawing in DRAWINGS.items():
    if noun.split()[-1] in _TOO_WIDE or noun in ("open door", "closed umbrella"):
        DRAWINGS[noun] = partial(fitted, draw=drawing)
