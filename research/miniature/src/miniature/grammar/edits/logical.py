"""What a rule about the image demands."""

from __future__ import annotations

from interleave_mini.world.kinds import KINDS
from interleave_mini.world.operations import Impossible, Operation, Recolour, Remove, Resize, thing_at
from interleave_mini.world.scene import Scene, Size
from miniature.grammar.edits.edit import CATEGORIES, Edit, Given


def _only(scene: Scene, given: Given) -> tuple[Operation, ...]:
    kept = [cell for cell, thing in scene.things.items() if KINDS[thing.kind].category == given.category]
    if not kept:
        raise Impossible("nothing would be left")
    return tuple(Remove(cell) for cell in scene.things if cell not in kept)


def _without_colour(scene: Scene, given: Given) -> tuple[Operation, ...]:
    gone = tuple(Remove(cell) for cell, thing in scene.things.items() if thing.colour == given.colour)
    if len(gone) == len(scene.things):
        raise Impossible("nothing would be left")
    return gone


def _all_of_one_colour(scene: Scene, given: Given) -> tuple[Operation, ...]:
    return tuple(
        Recolour(cell, given.shade) for cell, thing in scene.things.items() if thing.colour == given.colour
    )


def _small_ones(scene: Scene, given: Given) -> tuple[Operation, ...]:
    return tuple(
        Recolour(cell, given.shade)
        for cell, thing in scene.things.items()
        if thing.size is Size.SMALL and thing.colour != given.shade
    )


def _same_size(scene: Scene, given: Given) -> tuple[Operation, ...]:
    size = thing_at(scene, given.ref).size
    return tuple(Resize(cell, size) for cell, thing in scene.things.items() if thing.size is not size)


def _odd_one_out(scene: Scene, given: Given) -> tuple[Operation, ...]:
    kinds = [thing.kind for thing in scene.things.values()]
    odd = [cell for cell, thing in scene.things.items() if kinds.count(thing.kind) == 1]
    if len(kinds) < 3 or len(odd) != 1 or len(set(kinds)) != 2:
        raise Impossible("there is no odd one out")
    return (Remove(odd[0]),)


EDITS: tuple[Edit, ...] = (
    Edit(
        "logical",
        "only one sort",
        _only,
        (
            "Keep only the {category} and take the rest away.",
            "Remove everything that does not belong to the {category}.",
            "Leave nothing but the {category} in the picture.",
            "Which things are not {category}? Take them away.",
            "Take everything away but the {category}.",
        ),
        tuple(kind.name for kind in KINDS.values() if kind.category in CATEGORIES.values()),
    ),
    Edit(
        "logical",
        "without a colour",
        _without_colour,
        (
            "Remove everything that is {colour}.",
            "Leave nothing {colour} in the picture.",
            "Take away all things that are {colour}.",
            "Which things are {colour}? Remove them.",
            "Take everything {colour} away.",
        ),
    ),
    Edit(
        "logical",
        "a new colour",
        _all_of_one_colour,
        (
            "Whatever is {colour} shall be {shade}.",
            "Change every {colour} thing so that it is {shade}.",
            "Let all {colour} things turn {shade}.",
            "Make everything {shade} that is {colour}.",
            "Change everything that is {colour} so that it is {shade}.",
        ),
    ),
    Edit(
        "logical",
        "the small ones",
        _small_ones,
        (
            "Make the colour of all small things {shade}.",
            "Let all small things turn {shade}.",
            "Which things are small? Make them {shade}.",
            "Paint whatever is small {shade}.",
            "Change everything that is small so that it is {shade}.",
        ),
    ),
    Edit(
        "logical",
        "the same size",
        _same_size,
        (
            "Give everything the size of {ref}.",
            "Make everything as large or as small as {ref}.",
            "Let all things have the size of {ref}.",
            "What does it look like when everything has the size of {ref}?",
            "Change everything so that it has the size of {ref}.",
        ),
    ),
    Edit(
        "logical",
        "the odd one out",
        _odd_one_out,
        (
            "Remove the odd one out.",
            "One thing does not fit with the others. Take it away.",
            "Which thing does not fit? Take it away.",
            "Take the odd one out away.",
            "Remove the one thing that does not fit with the others.",
        ),
    ),
)
