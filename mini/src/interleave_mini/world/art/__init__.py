"""The drawings: one function per noun, a file per category. Each paints on the unit square of a `Brush`."""

from __future__ import annotations

from collections.abc import Callable

from interleave_mini.world.art import (
    animals,
    buildings,
    food,
    household,
    plants,
    shapes,
    tools,
    toys,
    vehicles,
    weather,
)
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
}
