"""Counting stories: one goes away, one more comes, one after the other is eaten or appears."""

from __future__ import annotations

from interleave_mini.language.words import NUMBERS, PLACES, UNCOUNTABLE, a, counted, the, within
from interleave_mini.world.kinds import KINDS
from interleave_mini.world.operations import Add, Impossible, Remove
from interleave_mini.world.scene import CELLS, MIDDLE, Thing
from miniature.grammar.gaps import ANumber, AThing, AWord, ManyThings, kinds_of, maybe_place, usual
from miniature.grammar.story import Story
from miniature.grammar.topics.topic import Topic, crowd

_COUNTABLE = tuple(kind for kind in KINDS if usual(kind).noun not in UNCOUNTABLE)
_FOODS = ("carrot", "apple", "banana", "strawberry", "mushroom", "ice_cream", "cake")
_FOOD_CELLS = (6, 7, 8, 5, 3)
_ORDINALS = ("second", "third", "fourth", "fifth")
_PLACE = maybe_place(*PLACES)


def _ways(count: int) -> list[str]:
    """Return the ways to continue after "one star, " up to a number."""
    ordinals = _ORDINALS[: count - 1]
    later = ordinals[1:]
    others = ["another one"] * (count - 1)
    return [
        ", ".join(f"then a {each} one" for each in ordinals),
        ", ".join(f"then a {each}" for each in ordinals),
        " and ".join(f"a {each} one" for each in ordinals),
        ", ".join(f"a {each}" for each in ordinals),
        ", ".join(("then another", *(f"then a {each}" for each in later))),
        ", ".join(("then another one", *(f"then a {each} one" for each in later))),
        " and ".join(("another", *(f"a {each}" for each in later))),
        ", then ".join(others),
        " and then ".join(others),
        " and ".join(others),
    ]


MORE = {words: count for count in (3, 4, 5) for words in _ways(count)}
"""Words after "one star, " → the final number."""


def _one_goes(count: int, things: Thing, place: str) -> Story:
    cells = crowd(things, count)
    story = Story(
        place, cells, name="All of them", caption=f"{_number(count, things)} {_are(count)} {within(place)}"
    )
    left = _number(count - 1, things)
    return story.then(
        Remove(max(cells)),
        name="One less",
        caption=f"one goes away, and {left} {_are(count - 1)} left",
    )


def _one_comes(count: int, things: Thing, place: str) -> Story:
    cells = crowd(things, count + 1)
    last = max(cells)
    before = {cell: thing for cell, thing in cells.items() if cell != last}
    story = Story(
        place,
        before,
        name="At first",
        caption=f"at first there {_are(count)} {_number(count, things)} {within(place)}",
    )
    return story.then(
        Add(things, last),
        name="One more",
        caption=f"one more comes, and that makes {counted(count + 1, things)}",
    )


def _some_go(count: int, less: int, things: Thing, place: str) -> Story:
    if less >= count:
        raise Impossible("more would go away than there are")
    cells = crowd(things, count)
    story = Story(
        place, cells, name="All of them", caption=f"{_number(count, things)} {_are(count)} {within(place)}"
    )
    left = _number(count - less, things)
    return story.then(
        *map(Remove, sorted(cells, reverse=True)[:less]),
        name="Fewer",
        caption=f"{NUMBERS[less]} go away, and {left} {_are(count - less)} left",
    )


def _some_come(count: int, more: int, things: Thing, place: str) -> Story:
    if count + more > CELLS:
        raise Impossible("there is no room for so many")
    cells = crowd(things, count + more)
    new = sorted(cells)[count:]
    story = Story(
        place,
        {cell: thing for cell, thing in cells.items() if cell not in new},
        name="At first",
        caption=f"at first there {_are(count)} {_number(count, things)} {within(place)}",
    )
    return story.then(
        *(Add(things, cell) for cell in new),
        name="More",
        caption=f"{NUMBERS[more]} more come, and that makes {counted(count + more, things)}",
    )


def _eating(hero: Thing, count: int, food: Thing, place: str) -> Story:
    cells = dict(zip(_FOOD_CELLS[:count], (food,) * count, strict=True))
    story = Story(
        place,
        {MIDDLE: hero, **cells},
        name="Hungry",
        caption=f"{a(hero)} has {_number(count, food)} to eat {within(place)}",
    )
    for left in range(count - 1, -1, -1):
        rest = f"{_number(left, food)} {_are(left)} left" if left else "nothing is left"
        story.then(
            Remove(_FOOD_CELLS[left]),
            name=("All eaten", "One left", "Two left", "Three left", "Four left")[left],
            caption=f"{the(hero)} eats one {food.noun}, and {rest}",
        )
    return story


def _one_after_another(things: Thing, more: int, place: str) -> Story:
    first, *others = crowd(things, more)
    story = Story(
        place, {first: things}, name="The first", caption=f"first there is {a(things)} {within(place)}"
    )
    for ordinal, cell in zip(_ORDINALS, others, strict=False):
        story.then(
            Add(things, cell),
            name=f"The {ordinal}",
            caption=f"then comes a {ordinal} {things.colour} {things.noun}",
        )
    return story


def _number(count: int, things: Thing) -> str:
    return counted(count, things) if count > 1 else f"one {a(things).split(' ', 1)[1]}"


def _are(count: int) -> str:
    return "are" if count > 1 else "is"


TOPICS: tuple[Topic, ...] = (
    Topic(
        "one goes away",
        {"count": ANumber(2, 9), "things": ManyThings(_COUNTABLE), "place": _PLACE},
        _one_goes,
        (
            "There are {count} {things}{place}, and one goes away.",
            "Show {count} {things}{place} before and after one of them leaves.",
            "I want to see {count} {things}{place} and then one less.",
            "{count} {things}{place}: one goes away. How many are left?",
            "Tell in {n} pictures how one of {count} {things} goes away{place}.",
        ),
        alone=True,
    ),
    Topic(
        "one more comes",
        {"count": ANumber(2, 8), "things": ManyThings(_COUNTABLE), "place": _PLACE},
        _one_comes,
        (
            "First there are {count} {things}{place}, and then one more comes.",
            "Show {count} {things}{place} before and after one more joins them.",
            "I want to see {count} {things}{place} and then one more.",
            "{count} {things}{place}: one more comes. How many are there now?",
            "Tell in {n} pictures how one more comes to {count} {things}{place}.",
        ),
        alone=True,
    ),
    Topic(
        "some go away",
        {
            "count": ANumber(3, 9),
            "less": ANumber(2, 5),
            "things": ManyThings(_COUNTABLE),
            "place": _PLACE,
        },
        _some_go,
        (
            "There are {count} {things}{place}, and {less} of them go away.",
            "Show {count} {things}{place} before and after {less} of them leave.",
            "I want to see {count} {things}{place} and then {less} fewer.",
            "{count} {things}{place}: take away {less}. How many are left?",
            "Tell in {n} pictures how {less} of {count} {things} go away{place}.",
        ),
        alone=True,
    ),
    Topic(
        "some more come",
        {
            "count": ANumber(2, 6),
            "more": ANumber(2, 5),
            "things": ManyThings(_COUNTABLE),
            "place": _PLACE,
        },
        _some_come,
        (
            "First there are {count} {things}{place}, and then {more} more come.",
            "Show {count} {things}{place} before and after {more} more join them.",
            "I want to see {count} {things}{place} and then {more} more.",
            "{count} {things}{place}: {more} more come. How many are there now?",
            "Tell in {n} pictures how {more} more come to {count} {things}{place}.",
        ),
        alone=True,
    ),
    Topic(
        "eating one by one",
        {
            "hero": AThing(kinds_of("animal")),
            "count": ANumber(2, 5),
            "food": ManyThings(_FOODS),
            "place": _PLACE,
        },
        _eating,
        (
            "{hero} eats {count} {food} one by one{place}.",
            "Show how {hero} eats {count} {food}{place}, one after the other.",
            "I want to see {hero} eat up {count} {food}{place}, one at a time.",
            "How does {hero} eat {count} {food}{place}? One by one.",
            "In {n} pictures: {hero} eats {count} {food}{place} until nothing is left.",
        ),
        alone=True,
    ),
    Topic(
        "one after another",
        {"things": ManyThings(_COUNTABLE), "more": AWord(MORE), "place": _PLACE},
        _one_after_another,
        (
            "First one of the {things}{place}, {more}.",
            "Show one of the {things}{place}, {more}.",
            "I want to see one of the {things}{place}, {more}.",
            "In {n} pictures: one of the {things}{place}, {more}.",
            "Let one of the {things} come{place}, {more}.",
        ),
        alone=True,
    ),
)
