"""Images: single ones, images built up thing by thing, and simple changes of one thing."""

from __future__ import annotations

from dataclasses import replace

from interleave_mini.language.words import (
    NUMBERS,
    PLACES,
    UNCOUNTABLE,
    a,
    capitalised,
    counted,
    listed,
    plural,
    the,
    within,
)
from interleave_mini.world.kinds import COLOURS, KINDS
from interleave_mini.world.operations import (
    Add,
    ChangeBackground,
    Impossible,
    Move,
    Recolour,
    Remove,
    Replace,
)
from interleave_mini.world.scene import GRID, MIDDLE, Thing
from miniature.grammar.gaps import (
    AColour,
    ANumber,
    AThing,
    ManyThings,
    SomeThings,
    kinds_of,
    maybe_place,
    usual,
)
from miniature.grammar.placed_gaps import SomeColours
from miniature.grammar.story import Story
from miniature.grammar.topics.topic import Topic, crowd, different, small

SKY = ("sun", "moon", "cloud", "plane", "rocket", "kite", "balloon", "butterfly")
_HUNG = {1: (1,), 2: (0, 2), 3: (0, 1, 2)}
_PUT = {1: (4,), 2: (3, 5), 3: (3, 4, 5), 4: (3, 4, 5, 7)}
"""Cells by the number of things in the sky, and of all others."""
_ALL = tuple(KINDS)
WITH_STORIES = (
    *("sun", "moon", "cloud", "star", "flower", "tree", "butterfly", "frog", "hen", "snowman", "rocket"),
    *(
        "house",
        "candle",
        "lamp",
        "apple",
        "cake",
        "bread",
        "ice_cream",
        "balloon",
        "kite",
        "boat",
        "cup",
        "gift",
    ),
)
"""Kinds with stories in other topics; their name alone asks for a single image."""
COUNTABLE = tuple(kind for kind in KINDS if usual(kind).noun not in UNCOUNTABLE)
_PLACE = maybe_place(*PLACES)


def arranged(things: tuple[Thing, ...]) -> dict[int, Thing]:
    """Return the things by cell, in order of mention: flying things above, the rest below."""
    hung = [thing for thing in things if thing.kind in SKY]
    put = [thing for thing in things if thing.kind not in SKY]
    if len(hung) > GRID or len(put) > max(_PUT):
        raise Impossible("there is no room for so many things")
    cells = dict(zip(map(id, hung), _HUNG.get(len(hung), ()), strict=True))
    cells |= dict(zip(map(id, put), _PUT.get(len(put), ()), strict=True))
    if len(things) == 1:
        cells = {id(things[0]): MIDDLE}
    return {cells[id(thing)]: thing for thing in things}


def _image(things: tuple[Thing, ...], place: str) -> Story:
    if len(set(things)) < len(things):
        raise Impossible("equal things are a group")
    words = listed([a(thing) for thing in things])
    return Story(place, arranged(things), name="The picture", caption=f"{words} {within(place)}")


def _in_colours(hero: Thing, colours: tuple[str, ...], place: str) -> Story:
    if len(set(colours)) < len(colours) or hero.colour != KINDS[hero.kind].colour:
        raise Impossible("the same colour twice, or another one beside them")
    first = replace(hero, colour=colours[0])
    story = Story(place, {MIDDLE: first}, name=colours[0].capitalize(), caption=f"{a(first)} {within(place)}")
    for colour in colours[1:]:
        caption = f"the same {hero.noun} in {colour}"
        story.then(Recolour(MIDDLE, colour), name=colour.capitalize(), caption=caption)
    return story


def _after_all(thing: Thing, colour: str, other: Thing | None, place: str) -> Story:
    """Return the image after a change of mind: only the last named thing is drawn."""
    wanted = other or replace(thing, colour=colour)
    if wanted == thing:
        raise Impossible("nothing is changed")
    return _image((wanted,), place)


def _group(count: int, things: Thing, place: str) -> Story:
    caption = f"{counted(count, things)} {within(place)}"
    return Story(place, crowd(things, count), name="The picture", caption=caption)


def _many_colours(count: int, things: Thing, place: str) -> Story:
    """Return a group of things in different colours, the usual one first."""
    if count > len(COLOURS) or things.colour != KINDS[things.kind].colour:
        raise Impossible("a colour for all of them, or too few colours")
    colours = list(dict.fromkeys((things.colour, *COLOURS)))[:count]
    cells = zip(crowd(things, count), colours, strict=True)
    group = {cell: replace(things, colour=colour) for cell, colour in cells}
    caption = f"{NUMBERS[count]} {plural(things.noun)} {within(place)}: {listed(colours)}"
    return Story(place, group, name="The picture", caption=caption)


def _one_by_one(things: tuple[Thing, ...], place: str) -> Story:
    different(*things)
    (start, first), *others = arranged(things).items()
    story = Story(
        place, {start: first}, name=_named(first), caption=f"first comes {a(first)} {within(place)}"
    )
    for cell, thing in others:
        story.then(Add(thing, cell), name=_named(thing), caption=f"then {a(thing)} is added")
    return story


def _turning(hero: Thing, colour: str, place: str) -> Story:
    story = Story(place, {MIDDLE: hero}, name="Before", caption=f"{a(hero)} is {within(place)}")
    return story.then(
        Recolour(MIDDLE, colour), name=colour.capitalize(), caption=f"now the {hero.noun} is {colour}"
    )


def _rising(thing: Thing, place: str) -> Story:
    story = Story(place, {7: thing}, name="Below", caption=f"{a(thing)} is at the bottom {within(place)}")
    story.then(Move(7, MIDDLE), name="Rising", caption=f"{the(thing)} rises to the middle")
    return story.then(Move(MIDDLE, 1), name="Above", caption=f"{the(thing)} is high up at the top")


def _winter(thing: Thing, place: str) -> Story:
    story = Story(place, {3: thing}, name="Before", caption=f"{a(thing)} {within(place)}, before the winter")
    story.then(Add(usual("cloud"), 1), name="A cloud", caption="a blue cloud brings the cold")
    story.then(ChangeBackground("snow"), name="Snow", caption="it snows, and everything lies in the snow")
    return story.then(Add(usual("snowman"), 5), name="A snowman", caption="somebody has built a snowman")


def _snowman() -> Story:
    ball = usual("circle", KINDS["snowman"].colour)
    story = Story(
        "snow", {7: ball}, name="The body", caption=f"a large ball of snow, {a(ball)}, lies in the snow"
    )
    story.then(Add(small(ball), MIDDLE), name="The head", caption=f"{a(small(ball))} is put on top of it")
    return story.then(
        Remove(MIDDLE),
        Replace(7, usual("snowman")),
        name="Finished",
        caption="eyes, a nose and a hat turn the circles into a snowman",
    )


def _named(thing: Thing) -> str:
    return capitalised(thing.noun)


TOPICS: tuple[Topic, ...] = (
    Topic(
        "a picture",
        {"things": SomeThings(_ALL, 1, 4), "place": _PLACE},
        _image,
        (
            "Draw {things}{place}.",
            "A picture of {things}{place}.",
            "I want to see {things}{place}.",
            "Paint a picture with {things}{place}.",
            "One picture, please: {things}{place}.",
            "Show me {things}{place}.",
        ),
        often=8,
        defaults={"things": (usual("cat"),)},
    ),
    Topic(
        "a single thing",
        {"thing": AThing(WITH_STORIES), "place": _PLACE},
        lambda thing, place: _image((thing,), place),
        (
            "Simply draw {thing}{place}.",
            "A picture of {thing} alone{place}.",
            "Only {thing}{place}.",
            "Just one picture: {thing}{place}.",
            "Nothing but {thing}{place}, please.",
            "A single picture of {thing}{place}.",
        ),
        often=5,
    ),
    Topic(
        "in several colours",
        {"hero": AThing(_ALL), "colours": SomeColours(tuple(COLOURS)), "place": _PLACE},
        _in_colours,
        (
            "The same thing in {colours}: {hero}{place}.",
            "Draw {hero}{place}, once each in {colours}.",
            "I want to see {hero}{place} in {colours}.",
            "One picture for each colour, {colours}: {hero}{place}.",
            "Show me {hero}{place} in {colours}.",
        ),
    ),
    Topic(
        "a change of mind",
        {"thing": AThing(_ALL), "colour": AColour(), "other": AThing(_ALL), "place": _PLACE},
        _after_all,
        (
            "Draw {thing}{place}. No, wait, make it {colour}.",
            "{thing}{place}, no, {colour} is better.",
            "I want {thing}{place}. Actually, make that {other}.",
            "Draw {thing}{place}, I mean {other}.",
            "Show me {thing}{place}. Sorry, I meant {other}.",
        ),
        alone=True,
        defaults={"other": None, "colour": ""},
    ),
    Topic(
        "a group",
        {"count": ANumber(2, 9), "things": ManyThings(COUNTABLE), "place": _PLACE},
        _group,
        (
            "Draw {count} {things}{place}.",
            "A picture of {count} {things}{place}.",
            "I want to see {count} {things}{place}.",
            "Paint {count} {things}{place}.",
            "One picture, please: {count} {things}{place}.",
            "Show me {count} {things}{place}.",
        ),
        often=2,
    ),
    Topic(
        "in different colours",
        {"count": ANumber(2, 6), "things": ManyThings(COUNTABLE), "place": _PLACE},
        _many_colours,
        (
            "Draw {count} {things} in different colours{place}.",
            "{count} {things}{place}, each in another colour.",
            "A picture of {count} {things}{place}, all different colours.",
            "Show me {count} {things}{place}, no two of the same colour.",
            "One picture, please: {count} {things} of different colours{place}.",
        ),
        alone=True,
        defaults={"count": 3},
    ),
    Topic(
        "one by one",
        {"things": SomeThings(_ALL, 2, 4), "place": _PLACE},
        _one_by_one,
        (
            "Draw {things}{place}, one by one.",
            "Build up a picture step by step{place}: {things}.",
            "I want to see how a picture with {things}{place} comes to be, one thing after the other.",
            "Add one thing in each picture{place}: {things}.",
            "In {n} pictures, one more thing in each{place}: {things}.",
            "Show how {things} are drawn{place}, one at a time.",
        ),
    ),
    Topic(
        "turning a colour",
        {"hero": AThing(_ALL), "colour": AColour(), "place": _PLACE},
        _turning,
        (
            "Show how {hero}{place} turns {colour}.",
            "{hero}{place} changes its colour to {colour}. Show it before and after.",
            "I want to see {hero}{place} become {colour}.",
            "Before and after: {hero}{place} is painted {colour}.",
            "What does {hero}{place} look like before and after somebody paints it {colour}?",
            "In {n} pictures: {hero}{place} turns {colour}.",
        ),
        defaults={"colour": "purple"},
    ),
    Topic(
        "rising",
        {"thing": AThing(("balloon", "kite", "plane", "butterfly", "sun", "moon")), "place": _PLACE},
        _rising,
        (
            "Show how {thing} rises{place}.",
            "{thing} goes up from the bottom to the top{place}. Show it in {n} pictures.",
            "I want to see {thing} fly up high{place}.",
            "How does {thing} rise up{place}?",
            "In {n} pictures: {thing} goes up and up{place}.",
            "Tell how {thing} flies up{place}, from the bottom to the top.",
        ),
    ),
    Topic(
        "winter comes",
        {
            "thing": AThing(kinds_of("animal", "plant", "vehicle", "building", "toy")),
            "place": maybe_place("meadow", "forest", "city", "beach", "desert"),
        },
        _winter,
        (
            "Show how the winter comes to {thing}{place}.",
            "The first snow falls on {thing}{place}. Show it in {n} pictures.",
            "I want to see how it starts to snow on {thing}{place}.",
            "How does winter come{place}? There is {thing}, and it snows.",
            "In {n} pictures: snow comes to {thing}{place}, and a snowman is built.",
            "Tell how it snows on {thing}{place} and somebody builds a snowman.",
        ),
        defaults={"thing": usual("house")},
    ),
    Topic(
        "building a snowman",
        {},
        _snowman,
        (
            "Show how a snowman is built.",
            "How do you build a snowman?",
            "I want to see how to build a snowman, step by step.",
            "Build a snowman in {n} pictures.",
            "Make a snowman out of two balls of snow, step by step.",
            "In {n} pictures: two balls of snow become a snowman.",
        ),
    ),
)
