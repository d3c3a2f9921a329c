"""Arrangements of things: beside others, between them, in groups, in an empty place."""

from __future__ import annotations

from interleave_mini.language.words import PLACES, POSITIONS, UNCOUNTABLE, a, counted, listed, within
from interleave_mini.world.kinds import KINDS
from interleave_mini.world.operations import Impossible
from interleave_mini.world.scene import GRID, MIDDLE, Thing
from miniature.grammar.gaps import ANumber, AThing, AWord, ManyThings, maybe_place, usual
from miniature.grammar.group_gaps import APair, Groups, Pair, SomeGroups, in_rows
from miniature.grammar.placed_gaps import Placed, SomePlaced
from miniature.grammar.story import Story
from miniature.grammar.topics.topic import Topic, different

LEFT, RIGHT, ABOVE, BELOW = 3, 5, 1, 7
RELATED = {
    **dict.fromkeys(("to the left of", "left of", "on the left of", "on the left side of"), LEFT),
    **dict.fromkeys(("to the right of", "right of", "on the right of", "on the right side of"), RIGHT),
    **dict.fromkeys(("next to", "beside", "right next to", "near", "close to", "by"), RIGHT),
    **dict.fromkeys(("above", "on top of", "over", "on", "right above", "behind"), ABOVE),
    **dict.fromkeys(("below", "under", "underneath", "beneath", "in front of", "right below"), BELOW),
}
"""Words → the cell of the first thing; the other is in the middle."""
_SAID = {LEFT: "to the left of", RIGHT: "to the right of", ABOVE: "above", BELOW: "below"}
EMPTY_PLACES = {
    **{place.noun.split(" ", 1)[1]: name for name, place in PLACES.items()},
    **{"field": "meadow", "park": "meadow", "garden": "meadow", "seaside": "beach", "ocean": "sea"},
    **{"sky at night": "night", "kitchen": "kitchen", "bedroom": "room", "living room": "room"},
    **{"classroom": "room", "wood": "forest", "jungle": "forest", "town": "city", "street": "city"},
    **{"page": "paper", "white page": "paper", "workshop": "workbench", "desk": "workbench"},
    **{"lawn": "meadow", "winter landscape": "snow", "snowy landscape": "snow"},
}
"""Nouns that may follow "an empty"."""
_AROUND = (1, 7, 3, 5, 0, 8, 2, 6)
"""The cells around the middle, in the order in which they are filled."""
_ALL = tuple(KINDS)
_COUNTABLE = tuple(kind for kind in KINDS if usual(kind).noun not in UNCOUNTABLE)
PLACE = maybe_place(*PLACES)
SIDE = AWord(
    {words: cell for words, cell in RELATED.items() if words not in ("by", "on", "near", "close to")}
)
RELATION, PAIR, GROUPS = AWord(RELATED), APair(_COUNTABLE), SomeGroups(_COUNTABLE)


def beside(thing: Thing, relation: int, other: Thing, place: str) -> Story:
    different(thing, other)
    caption = f"{a(thing)} {_SAID[relation]} {a(other)} {within(place)}"
    return Story(place, {relation: thing, MIDDLE: other}, name="The picture", caption=caption)


def between(thing: Thing, pair: Pair, place: str) -> Story:
    first, second = pair
    different(thing, first)
    different(thing, second)
    if first != second:
        different(first, second)
    others = counted(2, first) if first == second else f"{a(first)} and {a(second)}"
    caption = f"{a(thing)} between {others} {within(place)}"
    return Story(place, {LEFT: first, MIDDLE: thing, RIGHT: second}, name="The picture", caption=caption)


def grouped(groups: Groups, place: str) -> Story:
    different(*(thing for _, thing in groups))
    if max(count for count, _ in groups) == 1 or (cells := in_rows(groups, GRID, GRID)) is None:
        raise Impossible("no groups, or more than there is room for")
    caption = f"{listed([counted(*each) for each in groups])} {within(place)}"
    return Story(place, cells, name="The picture", caption=caption)


def around(thing: Thing, count: int, things: Thing, place: str) -> Story:
    different(thing, things)
    cells = dict.fromkeys(_AROUND[:count], things)
    caption = f"{a(thing)} with {counted(count, things)} around it {within(place)}"
    return Story(place, {MIDDLE: thing, **cells}, name="The picture", caption=caption)


def on_two_sides(thing: Thing, side: int, second: Thing, other_side: int, other: Thing, place: str) -> Story:
    different(thing, second, other)
    if side == other_side:
        raise Impossible("two things in one place")
    caption = f"{a(thing)} {_SAID[side]} and {a(second)} {_SAID[other_side]} {a(other)} {within(place)}"
    cells = {side: thing, other_side: second, MIDDLE: other}
    return Story(place, cells, name="The picture", caption=caption)


def in_their_places(placed: Placed, place: str) -> Story:
    different(*(thing for _, thing in placed))
    if len({cell for cell, _ in placed}) < len(placed):
        raise Impossible("two things in one place")
    words = listed([f"{a(thing)} {POSITIONS[cell][0]}" for cell, thing in placed])
    return Story(place, dict(placed), name="The picture", caption=f"{words} {within(place)}")


def empty(place: str) -> Story:
    words = PLACES[place].noun.split(" ", 1)[1]
    caption = f"there is nothing but an empty {words} {_OTHERWISE.get(place, '')}".strip()
    return Story(place, {}, name="The picture", caption=caption)


_OTHERWISE = {"kitchen": "in the kitchen"}
"""Added if the noun is not the name of the background."""

TOPICS: tuple[Topic, ...] = (
    Topic(
        "one thing beside another",
        {"thing": AThing(_ALL), "relation": RELATION, "other": AThing(_ALL), "place": PLACE},
        beside,
        (
            "Draw {thing} {relation} {other}{place}.",
            "A picture of {thing} {relation} {other}{place}.",
            "I want to see {thing} {relation} {other}{place}.",
            "Draw {other} with {thing} {relation} it{place}.",
            "One picture, please: {thing} {relation} {other}{place}.",
            "Show me {other} and, {relation} it, {thing}{place}.",
        ),
        often=3,
        alone=True,
    ),
    Topic(
        "one thing between two",
        {"thing": AThing(_ALL), "pair": PAIR, "place": PLACE},
        between,
        (
            "Draw {thing} between {pair}{place}.",
            "A picture of {thing} between {pair}{place}.",
            "I want to see {thing} between {pair}{place}.",
            "Between {pair} there is {thing}{place}. Draw it.",
            "One picture, please: {thing} between {pair}{place}.",
            "Show me {thing} in the middle between {pair}{place}.",
        ),
        alone=True,
    ),
    Topic(
        "several groups",
        {"groups": GROUPS, "place": PLACE},
        grouped,
        (
            "Draw {groups}{place}.",
            "A picture of {groups}{place}.",
            "I want to see {groups}{place}.",
            "Paint a picture with {groups}{place}.",
            "One picture, please: {groups}{place}.",
            "Show me {groups}{place}.",
        ),
        alone=True,
    ),
    Topic(
        "things around one",
        {
            "thing": AThing(_ALL),
            "count": ANumber(2, 8),
            "things": ManyThings(_COUNTABLE),
            "place": PLACE,
        },
        around,
        (
            "Draw {thing} with {count} {things} around it{place}.",
            "A picture of {thing} surrounded by {count} {things}{place}.",
            "I want to see {count} {things} around {thing}{place}.",
            "One picture, please: {count} {things} around {thing}{place}.",
            "Show me {thing} in the middle of {count} {things}{place}.",
        ),
        alone=True,
    ),
    Topic(
        "things on two sides",
        {
            "thing": AThing(_ALL),
            "side": SIDE,
            "second": AThing(_ALL),
            "other_side": SIDE,
            "other": AThing(_ALL),
            "place": PLACE,
        },
        on_two_sides,
        (
            "Draw {thing} {side} and {second} {other_side} {other}{place}.",
            "Draw {other} with {thing} {side} it and {second} {other_side} it{place}.",
            "{thing} is {side} {other}, and {second} is {other_side} it{place}.",
            "One picture, please: {thing} {side} and {second} {other_side} {other}{place}.",
            "I want to see {other}, {thing} {side} it and {second} {other_side} it{place}.",
        ),
        alone=True,
    ),
    Topic(
        "things in their places",
        {"placed": SomePlaced(_COUNTABLE), "place": PLACE},
        in_their_places,
        (
            "Draw {placed}{place}.",
            "A picture with {placed}{place}.",
            "I want to see {placed}{place}.",
            "One picture, please: {placed}{place}.",
            "Put {placed}{place}.",
        ),
        alone=True,
    ),
    Topic(
        "an empty place",
        {"place": AWord(EMPTY_PLACES)},
        empty,
        (
            "Draw an empty {place}.",
            "A picture of an empty {place} with nothing in it.",
            "I want to see an empty {place}.",
            "One picture, please: an empty {place}.",
            "Show me an empty {place} without anything in it.",
        ),
        alone=True,
    ),
)
