"""Cooking and eating: recipes, baking, a laid table, a picnic."""

from __future__ import annotations

from interleave_mini.language.words import a, capitalised, counted, listed, the, within
from interleave_mini.world.kinds import KINDS
from interleave_mini.world.operations import Add, ChangeBackground, ChangeState, Remove, Resize
from interleave_mini.world.scene import MIDDLE, Size, Thing
from miniature.grammar.gaps import (
    AColour,
    ANumber,
    APlace,
    AThing,
    SomeThings,
    kinds_of,
    maybe_place,
    several,
    usual,
)
from miniature.grammar.story import Story
from miniature.grammar.topics.topic import Topic, different, row, small, stage

EGG = Thing("hen", KINDS["hen"].colour)
FULL_CUP = stage(usual("cup"), 2)
_TABLE = within("kitchen")


def _put_down(things: tuple[Thing, ...]) -> Story:
    """Put one thing after the other on the kitchen table, in the bottom row from the left."""
    different(*things)
    first, *others = things
    story = Story("kitchen", {6: first}, name=_named(first), caption=f"first, {a(first)} is put {_TABLE}")
    for cell, thing in enumerate(others, 7):
        beside = "it" if cell == 7 else "them"
        story.then(Add(thing, cell), name=_named(thing), caption=f"then {a(thing)} is put beside {beside}")
    return story


def _recipe(dish: Thing, ingredients: tuple[Thing, ...]) -> Story:
    used = [f"the {each.noun}" for each in ingredients]
    return _put_down(ingredients).then(
        *(Remove(6 + index) for index in range(len(ingredients))),
        Add(dish, MIDDLE),
        name="The dish",
        caption=f"{listed(used)} are made into {a(dish)}",
    )


def _cake(cake: Thing) -> Story:
    story = Story("kitchen", {6: EGG}, name="The egg", caption=f"an egg lies ready {_TABLE}")
    story.then(Add(FULL_CUP, 7), name="The milk", caption="a full cup of milk is put beside it")
    story.then(
        Remove(6),
        Remove(7),
        Add(small(cake), MIDDLE),
        name="The dough",
        caption=f"the egg and the full cup are stirred into {a(small(cake))}",
    )
    return story.then(
        Resize(MIDDLE, Size.LARGE), name="Baked", caption=f"in the oven, {the(cake)} rises and gets large"
    )


def _bread(bread: Thing) -> Story:
    story = Story("kitchen", {6: FULL_CUP}, name="The water", caption=f"a full cup of water stands {_TABLE}")
    story.then(
        Remove(6),
        Add(small(bread), MIDDLE),
        name="The dough",
        caption=f"the full cup is kneaded into {a(small(bread))}",
    )
    return story.then(
        Resize(MIDDLE, Size.LARGE), name="Baked", caption=f"in the oven, {the(bread)} rises and gets large"
    )


def _fruit_plate(some: int, fruit: str, more: int, other: str, rest: int, last: str) -> Story:
    first, second, third = usual(fruit), usual(other), usual(last)
    different(first, second, third)
    story = Story(
        "kitchen",
        row(first, some, 0),
        name="Top row",
        caption=f"{counted(some, first)} lie in the top row {_TABLE}",
    )
    for count, thing, cell, where in ((more, second, 3, "middle"), (rest, third, 6, "bottom")):
        story.then(
            *(Add(thing, each) for each in row(thing, count, cell)),
            name=f"{capitalised(where)} row",
            caption=f"{counted(count, thing)} follow in the {where} row",
        )
    return story


def _laid_table(count: int, colour: str, dish: Thing) -> Story:
    cup = usual("cup", colour)
    story = Story("kitchen", row(cup, count, 6), name="Cups", caption=f"{counted(count, cup)} stand {_TABLE}")
    story.then(Add(usual("candle"), 1), name="A candle", caption="a candle is put behind them")
    return story.then(Add(dish, MIDDLE), name="Ready", caption=f"{a(dish)} in the middle: the table is laid")


def _eaten_apple(apple: Thing, place: str) -> Story:
    core = stage(apple, 2)
    story = Story(place, {MIDDLE: apple}, name="Whole", caption=f"{a(apple)} lies {within(place)}")
    story.then(ChangeState(MIDDLE, 1), name="A bite", caption=f"crunch: {the(apple)} is a bitten apple now")
    return story.then(ChangeState(MIDDLE, 2), name="The core", caption=f"only {a(core)} is left")


def _eaten_cake(hero: Thing, cake: Thing, place: str) -> Story:
    half, piece = stage(cake, 1), stage(cake, 2)
    story = Story(
        place, {3: hero, MIDDLE: cake}, name="A cake", caption=f"{a(hero)} gets {a(cake)} {within(place)}"
    )
    story.then(ChangeState(MIDDLE, 1), name="Half of it", caption=f"soon it is {a(half)}")
    story.then(ChangeState(MIDDLE, 2), name="One slice", caption=f"there is just {a(piece)} left")
    return story.then(
        Remove(MIDDLE), name="All gone", caption=f"the slice of cake is gone, and the {hero.noun} is full"
    )


def _filled_cup(cup: Thing, place: str) -> Story:
    story = Story(
        place, {MIDDLE: cup}, name="Empty", caption=f"an empty {cup.colour} cup stands {within(place)}"
    )
    story.then(ChangeState(MIDDLE, 1), name="Half full", caption=f"the {cup.colour} cup is a half-full cup")
    return story.then(
        ChangeState(MIDDLE, 2), name="Full", caption=f"up to the brim: the {cup.colour} cup is a full cup"
    )


def _picnic(food: tuple[Thing, ...], place: str) -> Story:
    return _put_down(food).then(
        ChangeBackground(place),
        name="The picnic",
        caption=f"the picnic begins: it all lies {within(place)}",
    )


def _named(thing: Thing) -> str:
    return f"The {thing.noun}"


_FRESH = ("apple", "banana", "carrot", "strawberry")
_INGREDIENTS = (*_FRESH, "mushroom")

TOPICS: tuple[Topic, ...] = (
    Topic(
        "a recipe",
        {"dish": AThing(("cake", "bread", "ice_cream")), "ingredients": SomeThings(_INGREDIENTS)},
        _recipe,
        (
            "Show me a recipe for {dish} with {ingredients}.",
            "Make {dish} from {ingredients}, step by step.",
            "In {n} pictures: how to make {dish} out of {ingredients}.",
            "How do you make {dish} with {ingredients}?",
            "I want to see how {dish} is made out of {ingredients}.",
            "Show step by step how {dish} is made with {ingredients}.",
        ),
    ),
    Topic(
        "baking a cake",
        {"cake": AThing(("cake",))},
        _cake,
        (
            "Show me step by step how to bake {cake}.",
            "Show me how to bake {cake}.",
            "Show how {cake} is baked.",
            "How to bake {cake} in {n} steps.",
            "How do you bake {cake}?",
            "I want to see how to bake {cake}, step by step.",
            "Tell me step by step how {cake} is baked.",
        ),
    ),
    Topic(
        "baking bread",
        {"bread": AThing(("bread",), article=False)},
        _bread,
        (
            "Show me step by step how to bake {bread}.",
            "Show me how to bake {bread}.",
            "Show how {bread} is baked.",
            "How to bake {bread} in {n} steps.",
            "How do you bake {bread}?",
            "I want to see how to bake {bread}, step by step.",
            "Tell me step by step how {bread} is baked.",
        ),
    ),
    Topic(
        "a fruit plate",
        {
            "some": ANumber(2, 3),
            "fruit": several(*_FRESH),
            "more": ANumber(2, 3),
            "other": several(*_FRESH),
            "rest": ANumber(2, 3),
            "last": several(*_FRESH),
        },
        _fruit_plate,
        (
            "Arrange fruit and vegetables row by row: {some} {fruit}, {more} {other} and {rest} {last}.",
            "Lay out {some} {fruit}, then {more} {other} and then {rest} {last}, in {n} steps.",
            "Put {some} {fruit} at the top, {more} {other} in the middle and {rest} {last} at the bottom.",
            "I want to see a fruit plate of {some} {fruit}, {more} {other} and {rest} {last}.",
            "How is a plate with {some} {fruit}, {more} {other} and {rest} {last} laid out, row by row?",
            "Arrange {some} {fruit}, then {more} {other} and then {rest} {last}, row by row.",
        ),
    ),
    Topic(
        "laying the table",
        {"count": ANumber(2, 3), "colour": AColour(), "dish": AThing(("cake", "bread", "ice_cream"))},
        _laid_table,
        (
            "Lay the table step by step with {count} {colour} cups, a candle and {dish}.",
            "For guests, put {count} {colour} cups, a candle and {dish} on the table, in {n} pictures.",
            "How is the table laid with {count} {colour} cups, a candle and {dish}?",
            "I want to see {count} {colour} cups, a candle and {dish} come to the table.",
            "Guests come: lay the table with {count} {colour} cups, then a candle, then {dish}.",
            "Show step by step how {count} {colour} cups, a candle and {dish} are put on the table.",
        ),
    ),
    Topic(
        "eating an apple",
        {"apple": AThing(("apple",)), "place": maybe_place("meadow", "beach", "room", "forest", "city")},
        _eaten_apple,
        (
            "Show step by step how {apple} is eaten{place}.",
            "Somebody eats {apple}{place}. Show what becomes of it.",
            "How {apple} is eaten down to the core{place}, in {n} pictures.",
            "I want to see {apple} eaten bit by bit{place}.",
            "What is left when somebody eats {apple}{place}? Show every bite.",
            "Show how somebody eats {apple}{place} down to the core.",
        ),
    ),
    Topic(
        "eating a cake",
        {
            "hero": AThing(kinds_of("animal", without=("fish",))),
            "cake": AThing(("cake",)),
            "place": maybe_place("room", "meadow", "beach", "city", "forest"),
        },
        _eaten_cake,
        (
            "Show bit by bit how {hero} eats {cake}{place}.",
            "{hero} eats up {cake}{place}, down to the last crumb. Show it in {n} pictures.",
            "I want to see how {cake} is eaten up by {hero}{place}.",
            "How does {hero} eat {cake}{place}? Show it step by step.",
            "Tell the story of {hero} that gets {cake}{place} and eats all of it.",
            "Show in {n} pictures how {hero} eats up {cake}{place}.",
        ),
    ),
    Topic(
        "filling a cup",
        {"cup": AThing(("cup",)), "place": maybe_place("kitchen", "room", "meadow", "workbench")},
        _filled_cup,
        (
            "Show step by step how {cup} is filled{place}.",
            "Pour tea into {cup}{place} until it is full, in {n} pictures.",
            "How does {cup} get full{place}? Show it step by step.",
            "I want to see tea poured into {cup}{place}.",
            "Fill {cup}{place} bit by bit, up to the brim.",
            "Show in {n} pictures how tea is poured into {cup}{place} until it is full.",
        ),
    ),
    Topic(
        "packing a picnic",
        {
            "food": SomeThings((*kinds_of("food", without=("ice_cream",)), "cup")),
            "place": APlace(("meadow", "beach", "forest", "city")),
        },
        _picnic,
        (
            "Pack {food} for a picnic {place}.",
            "In {n} pictures: {food} are packed at home for a picnic {place}.",
            "I want to see what is packed for a picnic {place}: {food}.",
            "How is a picnic {place} packed with {food}?",
            "Take {food} along to a picnic {place}. Show how they are packed at home.",
            "Show how {food} are packed one by one for a picnic {place}.",
        ),
        alone=True,
    ),
)
