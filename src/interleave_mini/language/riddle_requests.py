"""Riddles as requests: a thing named only by what is known about it."""

from __future__ import annotations

from interleave_mini.language.gaps import AColour, APlace, AWord
from interleave_mini.language.riddles import RIDDLES
from interleave_mini.language.story import Tale
from interleave_mini.language.topics.topic import Topic
from interleave_mini.language.words import a, within
from interleave_mini.world.kinds import KINDS, NOUNS
from interleave_mini.world.scene import MIDDLE, Thing

_RIDDLE = AWord({riddle: noun for noun, riddles in RIDDLES.items() for riddle in riddles})


def _answer(riddle: str, place: str, colour: str | None = None) -> Tale:
    kind, state = NOUNS[riddle]
    thing = Thing(kind, colour or KINDS[kind].colour, state=state)
    return Tale(place, {MIDDLE: thing}, name="The answer", caption=f"it is {a(thing)} {within(place)}")


RIDDLE_TOPICS: tuple[Topic, ...] = (
    Topic(
        "riddles",
        {"riddle": _RIDDLE, "place": APlace()},
        _answer,
        (
            "Draw {riddle}, {place}.",
            "Show me {riddle}. Put it {place}.",
            "What is {riddle}? Draw it {place}.",
            "A riddle {place}: draw {riddle}.",
            "I want to see {riddle} {place}.",
            "Can you draw {riddle}? Put it {place}.",
            "What is {riddle}? Show it {place}.",
        ),
    ),
    Topic(
        "coloured riddles",
        {"riddle": _RIDDLE, "colour": AColour(), "place": APlace()},
        _answer,
        (
            "Draw {riddle}, {place}, and make it {colour}.",
            "Paint {riddle} in {colour}. It is {place}.",
            "Guess and draw in {colour}: {riddle}, {place}.",
            "In one picture {place}, all in {colour}: {riddle}.",
            "I want to see {riddle} {place}, painted {colour}.",
            "Make {riddle} {colour} and put it {place}.",
            "Draw {riddle} in {colour}, {place}.",
        ),
    ),
)
