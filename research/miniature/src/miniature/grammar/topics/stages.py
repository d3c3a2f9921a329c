"""Stages: a thing in one state of its life in a single image, and what comes after it."""

from __future__ import annotations

from interleave_mini.language.words import PLACES, a, capitalised, within
from interleave_mini.world.kinds import COLOURS, KINDS
from interleave_mini.world.operations import ChangeState
from interleave_mini.world.scene import MIDDLE, Thing
from miniature.grammar.gaps import AColour, AWord, maybe_place, usual
from miniature.grammar.story import Story
from miniature.grammar.topics.topic import Topic, stage

_STAGES = [
    stage(usual(kind), state)
    for kind in KINDS
    for state in range(len(KINDS[kind].states))
    if len(KINDS[kind].states) > 1
]
_UNUSUAL = [thing for thing in _STAGES if thing != usual(thing.kind)]
_BEFORE_OTHERS = [thing for thing in _STAGES if thing.state + 1 < len(KINDS[thing.kind].states)]
_PLACE = maybe_place(*PLACES)
_COLOUR = AColour(tuple(colour for colour in COLOURS if colour != "orange"))
"""Colours that follow "a"."""


def _called(things: list[Thing]) -> AWord:
    return AWord({thing.noun: thing for thing in things})


def _one(things: list[Thing]) -> AWord:
    return AWord({a(thing, colour=False): thing for thing in things})


def _single_stage(stage: Thing, colour: str, place: str) -> Story:
    thing = Thing(stage.kind, colour or stage.colour, stage.size, stage.state)
    return Story(place, {MIDDLE: thing}, name="The picture", caption=f"{a(thing)} {within(place)}")


def _what_comes_next(first: Thing, place: str) -> Story:
    states = range(first.state, len(KINDS[first.kind].states))
    stages = [stage(first, state) for state in states]
    story = Story(
        place,
        {MIDDLE: first},
        name=capitalised(first.noun),
        caption=f"this is {a(first)} {within(place)}",
    )
    for later in stages[1:]:
        name, caption = capitalised(later.noun), f"after that it is {a(later)}"
        story.then(ChangeState(MIDDLE, later.state), name=name, caption=caption)
    return story


TOPICS: tuple[Topic, ...] = (
    Topic(
        "one stage",
        {"stage": _one(_UNUSUAL), "noun": _called(_UNUSUAL), "colour": _COLOUR, "place": _PLACE},
        lambda stage, noun, colour, place: _single_stage(noun or stage, colour, place),
        (
            "Draw {stage}{place}.",
            "A picture of {stage}{place}.",
            "What does {stage} look like{place}?",
            "One picture, please: {stage}{place}.",
            "Draw a {colour} {noun}{place}.",
            "Show me {stage}{place}.",
        ),
        defaults={"stage": None, "noun": None, "colour": ""},
    ),
    Topic(
        "what comes next",
        {"stage": _one(_BEFORE_OTHERS), "noun": _called(_BEFORE_OTHERS), "place": _PLACE},
        lambda stage, noun, place: _what_comes_next(noun or stage, place),
        (
            "What comes after the {noun}{place}?",
            "What becomes of {stage}{place}?",
            "Show what happens to {stage}{place}, until the end.",
            "In {n} pictures: {stage}{place}, and what comes after it.",
            "I want to see what {stage} turns into{place}.",
            "What will {stage} be in the end{place}?",
        ),
        defaults={"stage": None, "noun": None},
    ),
)
