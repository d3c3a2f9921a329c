"""Whether a request belongs to the miniature's world, by its words and pictures, before any model runs."""

from __future__ import annotations

from interleave.errors import InputError
from interleave.types import Request
from interleave_mini.language.checker import REAL_MODELS, refuse_foreign_words
from interleave_mini.reader import shared_reader
from interleave_mini.reader.scores import is_clear
from interleave_mini.world.scene import CELLS

CLEAR_ENOUGH = 5
"""Of nine cells: a picture of this world has nearly all of them clear, and any other none."""


def refuse_foreign_prompt(prompt: str) -> None:
    """Raise `InputError` for a prompt with words the miniature does not know."""
    refuse_foreign_words(Request.of(prompt))


def refuse_foreign(request: Request) -> None:
    """Raise `InputError` for words the miniature does not know, and pictures that are not of its world."""
    refuse_foreign_words(request)
    for number, reading in enumerate(shared_reader().read_many(list(request.pictures)), start=1):
        if sum(is_clear(reading, cell) for cell in range(CELLS)) < CLEAR_ENOUGH:
            which = f"picture {number} is" if len(request.pictures) > 1 else "the picture is"
            raise InputError(
                f"{which} not of the miniature's world, and it knows no other: begin with one that it has "
                f"drawn, or leave it out. {REAL_MODELS}"
            )
