"""Building and tidying: houses, towers, walls, rooms, gifts, order."""

from __future__ import annotations

from interleave_mini.language.words import a, counted, listed, the, within
from interleave_mini.world.operations import (
    Add,
    ChangeState,
    Impossible,
    Move,
    Recolour,
    Remove,
    Replace,
    Swap,
)
from interleave_mini.world.scene import GRID, MIDDLE, Thing
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
from miniature.grammar.topics.topic import Topic, different, hung_and_put, row, small, stage

_ROW_NAMES = ("First row", "Second row", "Third row")


def _house(house: Thing, place: str) -> Story:
    ground = stage(house, 0)
    story = Story(place, {MIDDLE: ground}, name="Foundation", caption=f"{a(ground)} is laid {within(place)}")
    story.then(
        ChangeState(MIDDLE, 1), name="Walls", caption=f"{house.colour} walls go up: an unfinished house"
    )
    return story.then(
        ChangeState(MIDDLE, 2), name="Roof", caption=f"the roof is on: {the(house)} is finished"
    )


def _tower(bottom: str, middle: str, top: str, place: str) -> Story:
    first, second, third = (usual("block", colour) for colour in (bottom, middle, top))
    story = Story(place, {7: first}, name="Bottom", caption=f"{a(first)} is put down {within(place)}")
    story.then(Add(second, MIDDLE), name="Middle", caption=f"{a(second)} goes on top of it")
    return story.then(Add(third, 1), name="Top", caption=f"{a(third)} at the very top: the tower stands")


def _fallen_tower(bottom: str, middle: str, top: str, place: str) -> Story:
    story = _tower(bottom, middle, top, place)
    return story.then(
        Move(MIDDLE, 6),
        Move(1, 8),
        name="Fallen",
        caption=f"it falls: the {middle} block is at the bottom left, the {top} block at the bottom right",
    )


def _wall(rows: int, colour: str, place: str) -> Story:
    block = usual("block", colour)
    blocks = counted(GRID, block)
    story = Story(
        place,
        row(block, GRID, 6),
        name=_ROW_NAMES[0],
        caption=f"{blocks} make the bottom row {within(place)}",
    )
    for index in range(1, rows):
        story.then(
            *(Add(block, cell) for cell in row(block, GRID, 6 - GRID * index)),
            name=_ROW_NAMES[index],
            caption=f"{blocks} are laid on top" + (": the wall is done" if index == rows - 1 else ""),
        )
    return story


def _tidying(toys: tuple[Thing, ...], place: str) -> Story:
    different(*toys)
    story = Story(
        place,
        dict(enumerate(toys, 6)),
        name="A mess",
        caption=f"{listed([a(toy) for toy in toys])} lie {within(place)}",
    )
    for cell, toy in enumerate(toys, 6):
        last = ", and all is tidy" if toy is toys[-1] else ""
        story.then(Remove(cell), name=_named(toy), caption=f"{the(toy)} is put away{last}")
    return story


def _lining_up(things: tuple[Thing, ...], place: str) -> Story:
    """Tell a story of scattered things that move straight down into the bottom row, one by one."""
    different(*things)
    scattered = dict(zip((0, MIDDLE, 2), things, strict=True))
    story = Story(
        place,
        scattered,
        name="Scattered",
        caption=f"{listed([a(thing) for thing in things])} lie scattered about",
    )
    for (cell, thing), where in zip(
        scattered.items(), ("at the bottom left", "beside it", "at the right end"), strict=True
    ):
        story.then(Move(cell, 6 + cell % GRID), name=_named(thing), caption=f"{the(thing)} is put {where}")
    return story


def _unwrapping(gift: Thing, toy: Thing, place: str) -> Story:
    story = Story(place, {MIDDLE: gift}, name="A gift", caption=f"{a(gift)} waits {within(place)}")
    story.then(
        ChangeState(MIDDLE, 1), name="Open", caption=f"off comes the {gift.colour} paper: an opened gift"
    )
    story.then(Add(toy, 5), name="Surprise", caption=f"{a(toy)} was inside")
    return story.then(
        Remove(MIDDLE),
        name="Time to play",
        caption=f"the opened gift goes, and the {toy.noun} stays",
    )


def _furnishing(things: tuple[Thing, ...]) -> Story:
    different(*things)
    (start, first), *others = hung_and_put(things, ("clock",)).items()
    story = Story(
        "room", {start: first}, name=_named(first), caption=f"{a(first)} is the first thing in the room"
    )
    for cell, thing in others:
        where = "hung up on the wall" if thing.kind == "clock" else "carried in"
        story.then(Add(thing, cell), name=_named(thing), caption=f"{a(thing)} is {where}")
    return story


def _painting(building: Thing, colour: str, place: str) -> Story:
    bucket = usual("bucket", colour)
    story = Story(place, {MIDDLE: building}, name="Before", caption=f"{a(building)} stands {within(place)}")
    story.then(Add(bucket, 5), name="Paint", caption=f"{a(bucket)} of paint is brought")
    story.then(
        Recolour(MIDDLE, colour), name="Painting", caption=f"now the {building.noun} is painted {colour}"
    )
    return story.then(Remove(5), name="Done", caption="the empty bucket is taken away")


def _old_and_new(first: Thing, second: Thing, third: Thing, place: str) -> Story:
    different(first, second, third)
    story = Story(place, {MIDDLE: first}, name="Once", caption=f"once, {a(first)} stood {within(place)}")
    story.then(Replace(MIDDLE, second), name="Later", caption=f"it had to make way for {a(second)}")
    return story.then(Replace(MIDDLE, third), name="Today", caption=f"today, {a(third)} stands there instead")


def _sorting(little: Thing, big: Thing, place: str) -> Story:
    different(little, big)
    story = Story(
        place,
        {3: small(little)},
        name="The little one",
        caption=f"{a(small(little))} stands on the left {within(place)}",
    )
    story.then(Add(big, MIDDLE), name="The big one", caption=f"{a(big, size=True)} is put to its right")
    return story.then(
        Swap(3, MIDDLE),
        name="Sorted",
        caption=f"{the(big)} and {the(little)} change places: big before small",
    )


def _fence(old: str, new: str, place: str) -> Story:
    piece, bucket = usual("block", old), usual("bucket", new)
    fence = row(piece, GRID, GRID)
    story = Story(
        place,
        fence | {7: bucket},
        name="The fence",
        caption=f"{counted(GRID, piece)} are a fence {within(place)}, and {a(bucket)} of paint stands ready",
    )
    for cell, which in zip(fence, ("left", "middle", "right"), strict=True):
        story.then(
            Recolour(cell, new),
            name=f"The {which} piece",
            caption=f"the {which} block of the fence is painted {new}",
        )
    return story


def _by_colour(toys: str, away: str, stay: str, place: str) -> Story:
    if away == stay:
        raise Impossible("nothing could be told apart by colour")
    gone, kept = usual(toys, away), usual(toys, stay)
    lying = dict.fromkeys((0, 5, 7), gone)
    story = Story(
        place,
        lying | dict.fromkeys((2, 3), kept),
        name="A mess",
        caption=f"{counted(len(lying), gone)} and {counted(2, kept)} lie {within(place)}",
    )
    for cell, which in zip(lying, ("first", "second", "last"), strict=True):
        story.then(
            Remove(cell),
            name=f"The {which} one",
            caption=f"the {which} {gone.colour} {gone.noun} is put away",
        )
    return story


def _named(thing: Thing) -> str:
    return f"The {thing.noun}"


_TOYS = kinds_of("toy", "block")
_SMALL_THINGS = (*kinds_of("toy", "tool"), "cup", "book", "clock")
_INDOORS = ("room", "workbench", "kitchen")
_LANDMARKS = ("tree", "house", "castle", "lighthouse")
_OUTDOORS = ("meadow", "city", "forest", "beach", "snow", "desert")

TOPICS: tuple[Topic, ...] = (
    Topic(
        "building a house",
        {"house": AThing(("house",)), "place": maybe_place(*_OUTDOORS)},
        _house,
        (
            "Show me step by step how to build {house}{place}.",
            "Show me how to build {house}{place}.",
            "Show step by step how {house} is built{place}.",
            "How {house} is built{place}, in {n} pictures.",
            "I want to see {house} built{place}, from the ground to the roof.",
            "How do you build {house}{place}? Show me step by step.",
        ),
    ),
    Topic(
        "a tower of blocks",
        {"bottom": AColour(), "middle": AColour(), "top": AColour(), "place": maybe_place(*_INDOORS)},
        _tower,
        (
            "Build a block tower{place}: {bottom} at the bottom, {middle} in the middle, {top} at the top.",
            "In {n} steps, stack three blocks{place}: first {bottom}, then {middle}, then {top}.",
            "Show how to stack three blocks{place}: {bottom}, then {middle} on top, then {top}.",
            "I want to see a block tower{place}: {bottom} below, {middle} in the middle, {top} above.",
            "How do you build a tower{place} from three blocks, {bottom}, {middle} and {top}?",
            "Stack a block tower{place}, first {bottom}, then {middle} and {top} at the top.",
        ),
    ),
    Topic(
        "a fallen tower",
        {"bottom": AColour(), "middle": AColour(), "top": AColour(), "place": maybe_place(*_INDOORS)},
        _fallen_tower,
        (
            "Build a block tower{place}, {bottom}, {middle} and {top}, and knock it down.",
            "In {n} steps, stack three blocks{place}, {bottom}, {middle}, {top}, and let them fall.",
            "Show how a tower of {bottom}, {middle} and {top} blocks is built{place} and falls down.",
            "I want to see a block tower{place}, {bottom}, {middle}, {top}, that topples over.",
            "A tower of {bottom}, {middle} and {top} blocks{place} collapses. Show it.",
        ),
    ),
    Topic(
        "a wall",
        {"rows": ANumber(2, 3), "colour": AColour(), "place": maybe_place(*_INDOORS, "meadow", "beach")},
        _wall,
        (
            "Build a wall of {colour} blocks{place}, {rows} rows high.",
            "In {n} pictures: a wall of {colour} blocks goes up{place} until it is {rows} rows high.",
            "Show step by step how a wall of {colour} blocks is built{place}, {rows} rows high.",
            "I want to see {rows} rows of {colour} blocks become a wall{place}.",
            "How do you build a wall{place} that has {rows} rows of {colour} blocks?",
            "Show how {rows} rows of {colour} blocks go up{place} until there is a wall.",
        ),
    ),
    Topic(
        "tidying up",
        {"toys": SomeThings(_TOYS), "place": maybe_place("room", "meadow", "beach")},
        _tidying,
        (
            "Tidy up{place}: put away {toys}, one by one.",
            "After playing{place}, {toys} have to be put away. Show it step by step.",
            "In {n} pictures: how {toys} are tidied away{place}.",
            "I want to see {toys} put away{place}, one by one.",
            "How do you tidy up{place} when {toys} lie about? Show it step by step.",
            "Show how {toys} are put away{place} one after the other.",
        ),
    ),
    Topic(
        "lining things up",
        {"things": SomeThings(_SMALL_THINGS, 3, 3), "place": maybe_place(*_INDOORS)},
        _lining_up,
        (
            "Line up {things} in the bottom row{place}.",
            "Show in {n} pictures how {things} are put in a row{place}.",
            "How do you line up {things}{place}? Show it step by step.",
            "I want to see {things} put side by side in the bottom row{place}.",
            "{things} lie scattered about{place}. Put them in a row.",
            "Show how {things} are put in the bottom row{place}, side by side.",
        ),
    ),
    Topic(
        "unwrapping a gift",
        {
            "gift": AThing(("gift",)),
            "toy": AThing((*kinds_of("toy"), "book", "clock")),
            "place": maybe_place("room", "meadow", "beach", "snow"),
        },
        _unwrapping,
        (
            "Unwrap {gift}{place} and find {toy} inside.",
            "Show in {n} pictures how {gift} with {toy} in it is opened{place}.",
            "What is inside {gift}{place}? Unwrap it and find {toy}.",
            "I want to see {gift} opened{place} with {toy} inside.",
            "Tell the story of {gift}{place} that has {toy} inside. Somebody unwraps it.",
            "Show how somebody unwraps {gift}{place} and finds {toy} in it.",
        ),
    ),
    Topic(
        "furnishing a room",
        {"things": SomeThings(("chair", "lamp", "clock", "book", "candle", "teddy", "cactus"), 2, 4)},
        _furnishing,
        (
            "Furnish a room with {things}, one thing at a time.",
            "Someone moves into a new room and brings {things}. Show it in {n} pictures.",
            "Show how {things} are carried into an empty room, one after the other.",
            "I want to furnish a room with {things}. Show it step by step.",
            "How do {things} make a room? Bring one thing at a time.",
            "Furnish an empty room: bring {things}, one after the other.",
        ),
        alone=True,
    ),
    Topic(
        "painting a building",
        {
            "building": AThing(("house", "castle", "lighthouse")),
            "colour": AColour(),
            "place": maybe_place(*_OUTDOORS),
        },
        _painting,
        (
            "Show step by step how {building}{place} is painted {colour}.",
            "Paint {building}{place} {colour} with a bucket of paint, in {n} steps.",
            "I want to see {building}{place} painted {colour}.",
            "How do you paint {building}{place} {colour}? Bring a bucket of paint.",
            "Someone brings a bucket of paint and paints {building}{place} {colour}. Show it step by step.",
            "Show in {n} pictures how someone paints {building}{place} {colour} with a bucket of paint.",
        ),
    ),
    Topic(
        "old and new",
        {
            "first": AThing(_LANDMARKS),
            "second": AThing(_LANDMARKS),
            "third": AThing(_LANDMARKS),
            "place": APlace(_OUTDOORS),
        },
        _old_and_new,
        (
            "{place} there was once {first}, later {second}, and today there is {third}. Show the change.",
            "In {n} pictures: {first} {place} is replaced by {second}, and that one by {third}.",
            "Show how {first} {place} makes way for {second} and later for {third}.",
            "I want to see how {place} {first} is replaced by {second} and then by {third}.",
            "What stood {place}? Once {first}, then {second}, today {third}.",
            "Tell how {first} {place} is replaced by {second} and later by {third}.",
        ),
    ),
    Topic(
        "sorting by size",
        {
            "little": AThing(_SMALL_THINGS, article=False),
            "big": AThing(_SMALL_THINGS, article=False),
            "place": maybe_place(*_INDOORS),
        },
        _sorting,
        (
            "Sort a little {little} and a big {big} by size{place}, the big one first.",
            "In {n} steps: a small {little} and a large {big} are sorted{place}, the large one first.",
            "Show how a small {little} and a big {big} change places{place}, sorted by size.",
            "I want to see a little {little} and a large {big} sorted{place}, the large one first.",
            "How do you sort a little {little} and a big {big}{place}? The big one comes first.",
            "Show how a small {little} and a large {big} are sorted by size{place}, the big one first.",
        ),
    ),
    Topic(
        "painting a fence",
        {"old": AColour(), "new": AColour(), "place": maybe_place("meadow", "beach", "city", "forest")},
        _fence,
        (
            "Paint a fence of {old} blocks{place} {new}, piece by piece.",
            "A fence of {old} blocks{place} gets a coat of {new} paint, block by block. Show it.",
            "Show in {n} pictures how a fence of {old} blocks{place} is painted {new}.",
            "I want to see a fence of {old} blocks{place} painted {new}, one block after the other.",
            "How do you paint a fence{place} from {old} to {new}? Show every piece.",
            "Show how someone paints a fence of {old} blocks{place} {new}, block by block.",
        ),
    ),
    Topic(
        "tidying by colour",
        {
            "toys": several(*kinds_of("toy", "block"), "book", "cup"),
            "away": AColour(),
            "stay": AColour(),
            "place": maybe_place("room", "meadow", "beach"),
        },
        _by_colour,
        (
            "Tidy up by colour{place}: put away the {away} {toys} and leave the {stay} ones.",
            "Five {toys} lie about{place}. The {away} ones are put away, the {stay} ones stay.",
            "In {n} pictures: {away} {toys} are put away{place} one by one, and {stay} ones are left.",
            "I want to see the {away} {toys} go away{place} until only {stay} ones are left.",
            "Which {toys} are {away}{place}? Put them away and leave the {stay} ones.",
            "Show how the {away} {toys} are put away{place} one by one until only {stay} ones are left.",
        ),
    ),
)
