"""Growing: life cycles, young animals, flower beds, harvests."""

from __future__ import annotations

from interleave_mini.language.words import a, capitalised, counted, plural, the, within
from interleave_mini.world.operations import Add, ChangeState, Remove, Resize
from interleave_mini.world.scene import MIDDLE, Size, Thing
from miniature.grammar.gaps import AColour, ANumber, AThing, kinds_of, maybe_place, several, usual
from miniature.grammar.story import Story
from miniature.grammar.topics.topic import Topic, row, small, stage

_ORDINALS = ("first", "second", "third")


def _life(grown: Thing, place: str, captions: tuple[str, ...]) -> Story:
    """Tell a life with one caption per state, each with a gap for the thing in that state."""
    stages = [stage(grown, state) for state in range(len(captions))]
    told = [caption.format(a(thing)) for caption, thing in zip(captions, stages, strict=True)]
    names = [capitalised(thing.noun) for thing in stages]
    story = Story(place, {MIDDLE: stages[0]}, name=names[0], caption=f"{told[0]} {within(place)}")
    for state in range(1, len(captions)):
        story.then(ChangeState(MIDDLE, state), name=names[state], caption=told[state])
    return story


def _frog(hero: Thing, place: str) -> Story:
    return _life(
        hero,
        place,
        (
            "there is {}",
            "{} hatches and swims about",
            "it grows legs and is {}",
            "{} hops about, fully grown",
        ),
    )


def _butterfly(hero: Thing, place: str) -> Story:
    return _life(
        hero,
        place,
        ("{} sticks to a leaf", "{} crawls out and eats", "it rests inside {}", "{} spreads its wings"),
    )


def _hen(hero: Thing, place: str) -> Story:
    return _life(hero, place, ("{} has been laid", "crack: {} hatches", "it has grown up into {}"))


def _flower(hero: Thing, place: str) -> Story:
    return _life(
        hero,
        place,
        ("{} is planted", "{} comes up", "{} forms at its tip", "the bud opens: {} in full bloom"),
    )


def _tree(hero: Thing, place: str) -> Story:
    return _life(
        hero, place, ("{} comes up", "some years later it is {}", "many years later {} stands there")
    )


def _young_animal(hero: Thing, food: Thing, place: str) -> Story:
    baby = small(hero)
    story = Story(place, {MIDDLE: baby}, name="Hungry", caption=f"{a(baby)} is hungry {within(place)}")
    story.then(Add(food, 5), name="Food", caption=f"it finds {a(food)}")
    story.then(Remove(5), name="Eaten", caption=f"yum: the {food.noun} is eaten up")
    return story.then(
        Resize(MIDDLE, Size.LARGE), name="Grown", caption=f"{the(hero)} has grown and is large now"
    )


def _flower_bed(count: int, colour: str, place: str) -> Story:
    seed, sprout, flower = (stage(usual("flower", colour), state) for state in (0, 1, 3))
    bed = row(seed, count, 6)
    story = Story(
        place, bed, name="Sowing", caption=f"{counted(count, seed)} are sown side by side {within(place)}"
    )
    for later, name, happens in ((sprout, "Sprouting", "come up"), (flower, "Blooming", "are in bloom")):
        story.then(
            *(ChangeState(cell, later.state) for cell in bed),
            name=name,
            caption=f"{counted(count, later)} {happens}",
        )
    return story


def _harvest(count: int, crop: str, place: str) -> Story:
    ripe, bucket = usual(crop), usual("bucket")
    crops = row(ripe, count, 6)
    story = Story(
        place,
        {MIDDLE: bucket} | crops,
        name="Ripe",
        caption=f"{counted(count, ripe)} are ripe, and a bucket stands ready {within(place)}",
    )
    for index, cell in enumerate(crops):
        which = "last" if index == count - 1 else _ORDINALS[index]
        story.then(
            Remove(cell), name=f"The {which} one", caption=f"the {which} {ripe.noun} goes into the bucket"
        )
    return story


def _orchard(count: int, colour: str, place: str) -> Story:
    tree, apple = usual("tree"), usual("apple", colour)
    sapling = stage(tree, 1)
    young = row(sapling, count, 3)
    story = Story(
        place, young, name="Planting", caption=f"{counted(count, sapling)} are planted {within(place)}"
    )
    story.then(
        *(ChangeState(cell, tree.state) for cell in young),
        name="Growing",
        caption=f"years later, they have become {counted(count, tree)}",
    )
    return story.then(
        *(Add(apple, cell) for cell in row(apple, count, 6)),
        name="Apples",
        caption=f"{counted(count, apple)} lie ripe below the {plural(tree.noun)}",
    )


_GARDEN = ("meadow", "forest", "room", "city")

_GROWING_UP = (
    "Show me step by step how {hero} grows up{place}.",
    "Show step by step how {hero} grows up{place}.",
    "Show me how {hero} grows up{place}.",
    "How {hero} grows up{place}, step by step, in {n} pictures.",
    "Show me the life cycle of {hero}{place}.",
    "How does {hero} grow up{place}?",
    "I want to see {hero} grow up{place}.",
    "Explain in {n} pictures how {hero} grows up{place}.",
)
_GROWING = (
    "Show me step by step how {hero} grows{place}.",
    "Show step by step how {hero} grows{place}.",
    "Show me how {hero} grows{place}.",
    "How {hero} grows{place}, step by step, in {n} pictures.",
    "Show me the life of {hero}{place} in {n} pictures.",
    "How does {hero} grow{place}?",
    "I want to see {hero} grow{place}.",
    "Explain in {n} pictures how {hero} grows{place}.",
)

TOPICS: tuple[Topic, ...] = (
    Topic(
        "a frog grows up",
        {"hero": AThing(("frog",)), "place": maybe_place(*_GARDEN)},
        _frog,
        ("From spawn to {hero}{place} in {n} pictures.", *_GROWING_UP),
    ),
    Topic(
        "a butterfly grows up",
        {"hero": AThing(("butterfly",)), "place": maybe_place(*_GARDEN)},
        _butterfly,
        ("Show how a caterpillar hatches{place} and in the end becomes {hero}.", *_GROWING_UP),
    ),
    Topic(
        "a hen grows up",
        {"hero": AThing(("hen",)), "place": maybe_place("meadow", "forest", "room")},
        _hen,
        ("From the egg to {hero}{place} in {n} pictures.", *_GROWING_UP),
    ),
    Topic(
        "a flower grows",
        {"hero": AThing(("flower",)), "place": maybe_place(*_GARDEN, "desert")},
        _flower,
        ("Someone plants a seed{place}, and it becomes {hero}. Show every stage.", *_GROWING),
    ),
    Topic(
        "a tree grows",
        {"hero": AThing(("tree",)), "place": maybe_place("meadow", "forest", "city", "snow")},
        _tree,
        ("A tiny seedling becomes {hero}{place}. Show it over the years.", *_GROWING),
    ),
    Topic(
        "a baby animal",
        {
            "hero": AThing(("cat", "dog", "rabbit", "elephant", "turtle", "duck"), article=False),
            "food": AThing(kinds_of("food", without=("cake", "ice_cream"))),
            "place": maybe_place("meadow", "forest", "beach", "snow", "room"),
        },
        _young_animal,
        (
            "Show how a baby {hero} eats {food}{place} and grows big.",
            "How a young {hero}{place} gets big and strong from {food}.",
            "A little {hero} finds {food}{place}, eats it and grows. Show it in {n} pictures.",
            "I want to see how a little {hero} grows big{place} because it eats {food}.",
            "What does {food} do for a baby {hero}{place}? It eats and grows.",
            "Tell how a little {hero}{place} eats {food} and grows big and strong.",
        ),
    ),
    Topic(
        "a flower bed",
        {"count": ANumber(2, 3), "colour": AColour(), "place": maybe_place(*_GARDEN)},
        _flower_bed,
        (
            "Show how a bed of {count} {colour} flowers grows{place}.",
            "Sow {count} {colour} flowers{place} and watch them bloom, in {n} steps.",
            "I want to see {count} {colour} flowers come up side by side{place}.",
            "How does a bed of {count} {colour} flowers come into bloom{place}?",
            "Explain in {n} pictures how {count} {colour} flowers grow in a bed{place}, from seed to bloom.",
            "Show {count} {colour} flowers in a bed{place}, from the seed until they bloom.",
        ),
    ),
    Topic(
        "a harvest",
        {
            "count": ANumber(2, 3),
            "crop": several("carrot", "strawberry", "mushroom", "apple", "banana"),
            "place": maybe_place("meadow", "forest", "city"),
        },
        _harvest,
        (
            "Harvest time{place}: {count} {crop} are picked one by one and put into a bucket.",
            "How {count} {crop} are harvested{place} with a bucket, in {n} pictures.",
            "Show how {count} ripe {crop} go into a bucket{place}, one after the other.",
            "I want to see the harvest of {count} {crop}{place}, one by one.",
            "What happens at harvest time{place} with {count} {crop} and a bucket?",
            "Show how {count} ripe {crop} are picked{place} one by one and put into a bucket.",
        ),
    ),
    Topic(
        "an orchard",
        {"count": ANumber(2, 3), "colour": AColour(), "place": maybe_place("meadow", "forest", "city")},
        _orchard,
        (
            "Plant an orchard of {count} trees{place} that bear {colour} apples in the end.",
            "In {n} pictures: {count} saplings{place} become trees and give {colour} apples.",
            "Show how {count} saplings grow into an orchard{place} with {colour} apples.",
            "How does an orchard of {count} trees come to bear {colour} apples{place}?",
            "I want to see {count} trees grow up{place} and bear {colour} apples.",
            "Tell how {count} saplings{place} become an orchard and bear {colour} apples in the end.",
        ),
    ),
)
