"""Tales: any story about one, two or three things that no other topic covers.

Not every story can be foreseen, but the named things can be drawn: one thing after the other, then the first
goes up to the second. A single hero has a day from morning to night.
"""

from __future__ import annotations

from interleave_mini.language.words import PLACES, a, capitalised, the, within
from interleave_mini.world.kinds import KINDS
from interleave_mini.world.operations import Add, ChangeBackground, Impossible, Move, Remove
from interleave_mini.world.scene import MIDDLE, Thing
from miniature.grammar.gaps import AThing, maybe_place, usual
from miniature.grammar.story import Story
from miniature.grammar.topics.topic import Topic, different

_ALL = tuple(KINDS)
_LEFT, _RIGHT, _TOP_LEFT, _TOP, _BOTTOM = 3, 5, 0, 1, 7
_PLACE = maybe_place(*PLACES)
_BY_DAY = maybe_place(*(place for place in PLACES if place != "night"))


def _tale(hero: Thing, other: Thing, place: str) -> Story:
    different(hero, other)
    story = Story(place, {_LEFT: hero}, name=_named(hero), caption=f"this is {a(hero)} {within(place)}")
    story.then(Add(other, _RIGHT), name=_named(other), caption=f"there is also {a(other)}")
    return story.then(
        Move(_LEFT, MIDDLE), name="Together", caption=f"{the(hero)} goes to the middle, up to {the(other)}"
    )


def _tale_of_three(hero: Thing, other: Thing, third: Thing, place: str) -> Story:
    different(hero, other, third)
    story = Story(place, {_LEFT: hero}, name=_named(hero), caption=f"this is {a(hero)} {within(place)}")
    for thing, cell in ((other, _RIGHT), (third, _BOTTOM)):
        story.then(Add(thing, cell), name=_named(thing), caption=f"there is also {a(thing)}")
    return story


def _day(hero: Thing, place: str) -> Story:
    if hero.kind in ("sun", "moon"):
        raise Impossible("they are in the sky of every day")
    story = Story(
        place,
        {_TOP_LEFT: usual("sun"), _LEFT: hero},
        name="Morning",
        caption=f"in the morning the sun rises, and {a(hero)} is {within(place)}",
    )
    story.then(
        Move(_TOP_LEFT, _TOP),
        Move(_LEFT, MIDDLE),
        name="Noon",
        caption=f"at noon the sun is at the top, and {the(hero)} goes on to the middle",
    )
    return story.then(
        Remove(_TOP),
        ChangeBackground("night"),
        name="Night",
        caption=f"at night the sun is gone, and {the(hero)} is tired",
    )


def _named(thing: Thing) -> str:
    return capitalised(thing.noun)


TOPICS: tuple[Topic, ...] = (
    Topic(
        "a tale",
        {"hero": AThing(_ALL), "other": AThing(_ALL), "place": _PLACE},
        _tale,
        (
            "Tell a tale of {hero} and {other}{place}.",
            "A story about {hero} and {other}{place}, please.",
            "Tell any story with {hero} and {other}{place}.",
            "Write a story{place} in which {hero} and {other} come.",
            "In {n} pictures: a story of {hero} and {other}{place}.",
            "What happens to {hero} and {other}{place}?",
        ),
    ),
    Topic(
        "a tale of three",
        {"hero": AThing(_ALL), "other": AThing(_ALL), "third": AThing(_ALL), "place": _PLACE},
        _tale_of_three,
        (
            "Tell a tale of {hero}, {other} and {third}{place}.",
            "A story about {hero}, {other} and {third}{place}, please.",
            "Tell any story with {hero}, {other} and {third}{place}.",
            "Write a story{place} in which {hero}, {other} and {third} come.",
            "In {n} pictures: a story of {hero}, {other} and {third}{place}.",
            "What happens to {hero}, {other} and {third}{place}?",
        ),
    ),
    Topic(
        "a day",
        {"hero": AThing(_ALL), "place": _BY_DAY},
        _day,
        (
            "A day in the life of {hero}{place}.",
            "A story about {hero}{place}, please.",
            "Tell any story of {hero}{place}.",
            "What does {hero} do all day{place}?",
            "In {n} pictures: a day of {hero}{place}.",
            "Tell how {hero} spends the day{place}.",
        ),
    ),
)
