"""Sheets to look at: every thing in every colour, every background."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from PIL import Image

from interleave_mini.world.art import DRAWINGS
from interleave_mini.world.kinds import COLOURS, NOUNS
from interleave_mini.world.scene import Size, Thing
from interleave_mini.world.sprites import CELL, sprite

PAPER = (244, 241, 232)


def contact_sheet(
    nouns: Iterable[str] | None = None, *, sizes: Sequence[Size] = tuple(Size), zoom: int = 1
) -> Image.Image:
    """One row per noun: every colour, in every size."""
    rows = [noun for noun in (nouns or NOUNS) if noun in DRAWINGS]
    sheet = Image.new("RGB", (CELL * len(COLOURS) * len(sizes), CELL * len(rows)), PAPER)
    for row, noun in enumerate(rows):
        kind, state = NOUNS[noun]
        looks = [Thing(kind, colour, size, state) for size in sizes for colour in COLOURS]
        for column, thing in enumerate(looks):
            premultiplied = Image.fromarray(sprite(thing), "RGBa").convert("RGBA")
            sheet.paste(premultiplied, (column * CELL, row * CELL), premultiplied)
    return sheet.resize((sheet.width * zoom, sheet.height * zoom), Image.Resampling.NEAREST)
