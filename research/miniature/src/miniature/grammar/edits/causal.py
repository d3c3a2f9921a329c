"""What an event does."""

from __future__ import annotations

from interleave_mini.world.operations import Impossible, Operation, Recolour, Remove
from interleave_mini.world.scene import Scene
from miniature.grammar.edits.edit import Consequence, Edit, Given, at_stage, of_kind, one_stage, place_becomes


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
            "What does {ref} look like after one bite?",
            "Let somebody have some of {ref}. Show what is left.",
            "Somebody eats some of {ref}. Show what is left.",
        ),
        ("apple", "cake"),
    ),
    Edit(
        "causal",
        "warm weather",
        at_stage(("snowman",), 2),
        (
            "The weather turns so warm that nothing of {ref} stays standing. Draw what happens.",
            "What is left of {ref} after a warm week?",
            "The sun shines so warm that {ref} melts away. Show the effect.",
            "Show {ref} after it has melted down to the ground.",
            "Draw what is left of {ref} when the weather turns warm.",
        ),
        ("snowman",),
    ),
    Edit(
        "causal",
        "the switch",
        at_stage(("lamp",), 1),
        (
            "Somebody presses the switch of {ref}. Show the effect.",
            "What happens when somebody switches {ref} on?",
            "Show {ref} after somebody has switched it on.",
            "Press the switch of {ref}. What do we see?",
            "Somebody switches {ref} on. Show the effect.",
        ),
        ("lamp",),
    ),
    Edit(
        "causal",
        "pouring",
        at_stage(("cup",), 2),
        (
            "Somebody pours water into {ref} up to the rim.",
            "Show {ref} after somebody has filled it to the top.",
            "What do we see when somebody fills {ref} up to the rim?",
            "Fill {ref} with water to the top.",
            "Show {ref} after somebody has filled it with water up to the rim.",
        ),
        ("cup",),
    ),
    Edit(
        "causal",
        "thirst",
        at_stage(("cup",), 0),
        (
            "A thirsty guest drinks up everything in {ref}. What do we see?",
            "Show {ref} after a thirsty guest has had all of it.",
            "Somebody drinks up {ref}. What is left?",
            "Let a thirsty child drink up {ref}.",
            "Show {ref} after somebody drinks up everything in it.",
        ),
        ("cup",),
    ),
    Edit(
        "causal",
        "unwrapping",
        at_stage(("gift",), 1),
        (
            "Somebody cannot wait and unwraps {ref}. Show the effect.",
            "What happens when somebody unwraps {ref}?",
            "Show {ref} after somebody has opened it.",
            "Open {ref}. What do we see?",
            "Somebody unwraps {ref}. Show the effect.",
        ),
        ("gift",),
    ),
    Edit(
        "causal",
        "a dip in paint",
        _dipped,
        (
            "{ref} falls into a pot of {colour} paint. Draw what comes out.",
            "Show what happens when {ref} is covered with {colour} paint.",
            "What does {ref} look like after a dip in {colour} paint?",
            "Let {ref} fall into {colour} paint.",
            "{ref} is covered with {colour} paint. Draw it.",
        ),
    ),
    Edit(
        "causal",
        "a gust of wind",
        _gone("balloon", "kite", "butterfly"),
        (
            "A strong wind carries {ref} off. What is left of the picture?",
            "Show the picture after the wind has carried {ref} away.",
            "What do we see when a strong wind takes {ref} away?",
            "The wind is strong, and {ref} flies off. Draw it.",
            "Show what is left of the picture when the wind carries {ref} off.",
        ),
        ("balloon", "kite", "butterfly"),
    ),
    Edit(
        "causal",
        "snowfall",
        place_becomes("snow"),
        (
            "It has been snowing all night. Show the place in the morning.",
            "What does this place look like after a night of snow?",
            "Snow falls all night. Draw the same place in the morning.",
            "Let it snow here until everything is covered.",
            "Show the same place after it has been snowing all night.",
        ),
    ),
)
