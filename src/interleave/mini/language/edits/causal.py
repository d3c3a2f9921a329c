"""What an event does."""

from __future__ import annotations

from interleave.mini.language.edits.consequences import (
    Consequence,
    at_stage,
    of_kind,
    one_stage,
    place_becomes,
)
from interleave.mini.language.edits.edit import Edit, Given
from interleave.mini.world.operations import Impossible, Operation, Recolour, Remove
from interleave.mini.world.scene import Scene


def _gone(*kinds: str) -> Consequence:
    def happens(scene: Scene, given: Given) -> tuple[Operation, ...]:
        if of_kind(scene, given.ref, kinds).noun not in kinds:  # no wind carries off a chrysalis
            raise Impossible("it is too heavy for the wind")
        return (Remove(given.ref),)

    return happens


def _dipped(scene: Scene, given: Given) -> tuple[Operation, ...]:
    return (Recolour(given.ref, given.colour),)


EDITS: tuple[Edit, ...] = (
    Edit(
        "causal",
        "a bite",
        one_stage(("apple", "cake"), 1),
        (
            "Somebody eats a piece of {ref}. What is left?",
            "Show {ref} after a hungry child has had some of it.",
        ),
        ("apple", "cake"),
    ),
    Edit(
        "causal",
        "warm weather",
        at_stage(("snowman",), 2),
        ("The weather turns so warm that nothing of {ref} stays standing. Draw what happens.",),
        ("snowman",),
    ),
    Edit(
        "causal",
        "the switch",
        at_stage(("lamp",), 1),
        ("Somebody presses the switch of {ref}. Show the effect.",),
        ("lamp",),
    ),
    Edit(
        "causal",
        "pouring",
        at_stage(("cup",), 2),
        (
            "Somebody pours water into {ref} up to the rim.",
            "Show {ref} after somebody has filled it to the top.",
        ),
        ("cup",),
    ),
    Edit(
        "causal",
        "thirst",
        at_stage(("cup",), 0),
        ("A thirsty guest drinks up everything in {ref}. What do we see?",),
        ("cup",),
    ),
    Edit(
        "causal",
        "unwrapping",
        at_stage(("gift",), 1),
        ("Somebody cannot wait and unwraps {ref}. Show the effect.",),
        ("gift",),
    ),
    Edit(
        "causal",
        "a dip in paint",
        _dipped,
        (
            "{ref} falls into a pot of {colour} paint. Draw what comes out.",
            "Show what happens when {ref} is covered with {colour} paint.",
        ),
    ),
    Edit(
        "causal",
        "a gust of wind",
        _gone("balloon", "kite", "butterfly"),
        ("A strong wind carries {ref} off. What is left of the picture?",),
        ("balloon", "kite", "butterfly"),
    ),
    Edit(
        "causal",
        "snowfall",
        place_becomes("snow"),
        ("It has been snowing all night. Show the place in the morning.",),
    ),
)
