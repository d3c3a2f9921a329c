"""Patterns and puzzles: rows that go on, counting, colours in order, and what does not belong."""

from __future__ import annotations

from interleave_mini.language.words import (
    NUMBERS,
    a,
    counted,
    listed,
    the,
    with_article,
    within,
)
from interleave_mini.world.operations import Add, Impossible, Recolour, Remove, Resize, Swap, thing_at
from interleave_mini.world.scene import GRID, Size, Thing
from miniature.grammar.gaps import (
    AColour,
    ANumber,
    APlace,
    AThing,
    AWord,
    Gap,
    ManyThings,
    SomeThings,
    kinds_of,
    usual,
)
from miniature.grammar.group_gaps import MoreAndMore
from miniature.grammar.story import Story
from miniature.grammar.topics.topic import Topic

KINDS_IN_PATTERNS = kinds_of("animal", "food", "toy", "shape", "tool", without=("bread",))
SHOWN = ("paper", "meadow", "beach", "kitchen", "room", "workbench")
RAINBOW = ("red", "orange", "yellow", "green", "blue", "purple")
LEFT, MIDDLE, RIGHT = 3, 4, 5
FIRST_CELL = 3
SHELL_MOVES = {
    "the left two, then the right two": ((LEFT, MIDDLE), (MIDDLE, RIGHT)),
    "the right two, then the left two": ((MIDDLE, RIGHT), (LEFT, MIDDLE)),
    "the outer two, then the left two": ((LEFT, RIGHT), (LEFT, MIDDLE)),
    "the left two, then the outer two": ((LEFT, MIDDLE), (LEFT, RIGHT)),
    "the outer two, then the right two": ((LEFT, RIGHT), (MIDDLE, RIGHT)),
}
DIAGONALS = {
    "from the top left to the bottom right": (0, 4, 8),
    "from the top right to the bottom left": (2, 4, 6),
    "from the bottom left to the top right": (6, 4, 2),
}


def _alternating(first: Thing, second: Thing, place: str) -> Story:
    _different(first, second)
    story = Story(place, {LEFT: first}, name="First", caption=f"{a(first)} begins the row {within(place)}")
    story.then(Add(second, MIDDLE), name="Second", caption=f"{a(second)} comes next")
    return story.then(Add(first, RIGHT), name="Third", caption=f"then comes {a(first)} again")


def _counting_up(count: int, things: Thing, place: str) -> Story:
    story = Story(place, {FIRST_CELL: things}, name="One", caption=f"one: {a(things)} {within(place)}")
    for number in range(2, count + 1):
        words = counted(number, things)
        story.then(
            Add(things, FIRST_CELL + number - 1),
            name=_first_word(words),
            caption=f"one more makes {words}",
        )
    return story


def _counting_in_steps(count: int, things: Thing, place: str) -> Story:
    row = dict.fromkeys(range(count), things)
    words = counted(count, things)
    story = Story(place, row, name=_first_word(words), caption=f"{words} {within(place)}")
    for start in (3, 6):
        words = counted(count * (start // 3 + 1), things)
        row_of_adds = [Add(things, start + column) for column in range(count)]
        story.then(*row_of_adds, name=_first_word(words), caption=f"{NUMBERS[count]} more make {words}")
    return story


def _counting_down(count: int, things: Thing, place: str) -> Story:
    row = {FIRST_CELL + index: things for index in range(count)}
    words = counted(count, things)
    story = Story(place, row, name=_first_word(words), caption=f"{words} {within(place)}")
    for left in range(count - 1, 0, -1):
        words = counted(left, things) if left > 1 else f"one {things.colour} {things.noun}"
        story.then(
            Remove(FIRST_CELL + left),
            name=_first_word(words),
            caption=f"one goes away, and {words} {'are' if left > 1 else 'is'} left",
        )
    return story


def _rainbow(kind: str, place: str) -> Story:
    thing = usual(kind, RAINBOW[0])
    story = Story(place, {MIDDLE: thing}, name="Red", caption=f"the rainbow starts with {a(thing)}")
    for colour in RAINBOW[1:]:
        story.then(
            Recolour(MIDDLE, colour), name=colour.capitalize(), caption=f"now the {thing.noun} is {colour}"
        )
    return story


def _growing_and_shrinking(thing: Thing, place: str) -> Story:
    small = Thing(thing.kind, thing.colour, Size.SMALL, thing.state)
    story = Story(place, {MIDDLE: small}, name="Small", caption=f"{a(small)} is {within(place)}")
    story.then(Resize(MIDDLE, Size.LARGE), name="Large", caption=f"{the(thing)} grows large")
    return story.then(
        Resize(MIDDLE, Size.SMALL), name="Small again", caption=f"{the(thing)} shrinks and is small again"
    )


def _mirror(first: Thing, second: Thing, place: str) -> Story:
    _different(first, second)
    story = Story(
        place, {3: first, 6: second}, name="Left side", caption=f"{a(first)} and {a(second)} are on the left"
    )
    story.then(Add(first, 5), name="First mirrored", caption=f"{a(first)} appears on the right as well")
    return story.then(
        Add(second, 8),
        name="All mirrored",
        caption=f"with {a(second)} at the bottom right the mirror is complete",
    )


def _odd_one_out(things: Thing, odd: Thing, place: str) -> Story:
    _different(things, odd)
    story = Story(
        place,
        {LEFT: things, MIDDLE: odd, RIGHT: things},
        name="The puzzle",
        caption=f"{a(odd)} stands between {counted(2, things)}",
    )
    story.then(Remove(MIDDLE), name="Odd one out", caption=f"{the(odd)} does not belong and goes away")
    return story.then(
        Add(things, MIDDLE), name="Solved", caption=f"a third {things.colour} {things.noun} fills the gap"
    )


def _reversing(things: tuple[Thing, ...]) -> Story:
    cells = (LEFT, MIDDLE, RIGHT)
    story = Story(
        "paper",
        dict(zip(cells, things, strict=True)),
        name="The row",
        caption=f"a row of {listed([a(each) for each in things])}",
    )
    for when, name, cell in (
        ("first", "Swap one", LEFT),
        ("then", "Swap two", MIDDLE),
        ("finally", "Reversed", LEFT),
    ):
        pair = [the(story.scene.things[each]) for each in (cell, cell + 1)]
        story.then(Swap(cell, cell + 1), name=name, caption=f"{when} {listed(pair)} change places")
    return story


def _diagonal(things: Thing, way: tuple[int, int, int], place: str) -> Story:
    first, second, third = way
    story = Story(place, {first: things}, name="One corner", caption=f"{a(things)} begins in one corner")
    story.then(
        Add(things, second),
        name="Middle",
        caption=f"the second {things.colour} {things.noun} is in the middle",
    )
    return story.then(
        Add(things, third),
        name="Other corner",
        caption=f"the third {things.colour} {things.noun} completes the diagonal",
    )


def _shell_game(first: str, second: str, third: str, moves: tuple[tuple[int, int], ...], place: str) -> Story:
    if len({first, second, third}) < GRID:
        raise Impossible("cups of one colour cannot be told apart")
    cups = [usual("cup", colour) for colour in (first, second, third)]
    story = Story(
        place,
        dict(enumerate(cups, LEFT)),
        name="Look closely",
        caption=f"{listed([a(cup) for cup in cups])} stand {within(place)}",
    )
    for (cell, other), name in zip(moves, ("First swap", "Second swap"), strict=True):
        one, two = thing_at(story.scene, cell), thing_at(story.scene, other)
        story.then(Swap(cell, other), name=name, caption=f"{the(one)} and {the(two)} change places")
    return story


def _first_word(words: str) -> str:
    return words.split()[0].capitalize()


def _different(first: Thing, second: Thing) -> None:
    if first.kind == second.kind:
        raise Impossible("a pattern needs different things")


THING, THINGS, PLACE = AThing(KINDS_IN_PATTERNS), ManyThings(KINDS_IN_PATTERNS), APlace(SHOWN)
PAIR: dict[str, Gap] = {"first": THING, "second": THING, "place": PLACE}

TOPICS: tuple[Topic, ...] = (
    Topic(
        "an alternating row",
        PAIR,
        _alternating,
        (
            "Continue the pattern {place}: {first}, {second} and so on until the row is full.",
            "Fill a row {place} by taking turns, {first}, then {second}.",
            "{first} and {second} take turns {place}. What comes next? Show it in {n} pictures.",
            "I want to see a row {place} in which {first} and {second} take turns.",
            "What comes next in this row {place}: {first}, {second}? Fill it.",
            "Show how {first} and {second} fill a row {place} by taking turns.",
        ),
    ),
    Topic(
        "counting up",
        {"count": ANumber(3, 6), "things": THINGS, "place": PLACE},
        _counting_up,
        (
            "Count from one to {count} with {things} {place}.",
            "Let {things} appear one by one {place} until there are {count}.",
            "Show how to count to {count} {place} with {things}.",
            "I want to see {count} {things} {place}, one more in each picture.",
            "How many {things} {place} can you count? Start with one and go on to {count}.",
            "Count {things} {place}, one by one, until there are {count}.",
        ),
    ),
    Topic(
        "one, two, three",
        {"more": MoreAndMore(KINDS_IN_PATTERNS), "place": PLACE},
        lambda more, place: _counting_up(more[0], more[1], place),
        (
            "Draw {more} {place}.",
            "Show me {more} {place}, one picture after the other.",
            "Count with me {place}: {more}.",
            "First {more} {place}.",
            "I want to see {more} {place}, a picture for each number.",
        ),
        alone=True,
    ),
    Topic(
        "counting in steps",
        {"count": ANumber(2, 3), "things": THINGS, "place": PLACE},
        _counting_in_steps,
        (
            "Count {things} {place} in rows of {count}.",
            "Row by row {place}, {count} {things} at a time. Show it in {n} steps.",
            "Show {things} {place} in three rows of {count}, one row at a time.",
            "I want to see rows of {count} {things} {place}, one after the other.",
            "How many {things} are there {place} when every row has {count}? Count row by row.",
            "Count row by row {place} with {count} {things} in every row.",
        ),
        alone=True,
    ),
    Topic(
        "counting down",
        {"count": ANumber(3, 6), "things": THINGS, "place": PLACE},
        _counting_down,
        (
            "Count down from {count} to one with {things} {place}.",
            "There are {count} {things} {place}. Take one away at a time until a single one is left.",
            "Show how {count} {things} {place} become fewer, one by one, until one is left.",
            "I want to see {count} {things} {place} go away one at a time.",
            "How do you count down with {things} {place}? Start with {count} and end with one.",
            "Take {things} away {place} one by one, from {count} down to one.",
        ),
    ),
    Topic(
        "the colours of the rainbow",
        {
            "kind": AWord({with_article(usual(kind).noun): kind for kind in KINDS_IN_PATTERNS}),
            "place": PLACE,
        },
        _rainbow,
        (
            "Paint {kind} {place} in all the colours of the rainbow.",
            "From red to purple in {n} pictures: {kind} {place} in the colours of the rainbow.",
            "I want to see {kind} {place} in every colour of the rainbow.",
            "How does {kind} {place} look in the colours of the rainbow, one after the other?",
            "Show {kind} {place} that goes through the rainbow from red to purple.",
            "Show {kind} {place} in all the colours of the rainbow, from red to purple.",
        ),
    ),
    Topic(
        "growing and shrinking",
        {"thing": THING, "place": PLACE},
        _growing_and_shrinking,
        (
            "Show {thing} {place} first small, then large, then small again.",
            "{thing} {place} grows and shrinks again. Show it in {n} pictures.",
            "I want to see {thing} {place} get large and then small again.",
            "What does {thing} look like {place} when it grows and shrinks?",
            "Make {thing} {place} large and then small again, step by step.",
            "Show how {thing} {place} grows and then shrinks again.",
        ),
    ),
    Topic(
        "a mirror",
        PAIR,
        _mirror,
        (
            "Mirror {first} and {second} {place} from the left side to the right side.",
            "Half a mirror image {place}: {first} and {second} on the left. Complete it on the right.",
            "Show in {n} pictures how {first} and {second} {place} are mirrored on the right side.",
            "I want to see {first} and {second} {place} on the left side and then on the right side too.",
            "What does a mirror make of {first} and {second} on the left {place}?",
            "Complete the mirror image of {first} and {second} {place}, from the left side to the right.",
        ),
        alone=True,
    ),
    Topic(
        "the odd one out",
        {"things": THINGS, "odd": THING, "place": PLACE},
        _odd_one_out,
        (
            "Two {things} and {odd} are {place}. Take away the odd one out and fill the gap.",
            "Odd one out {place}: two {things} and {odd}. Solve the puzzle in {n} steps.",
            "Two {things} {place} and {odd}: which one does not belong? Take it away and fill the gap.",
            "I want to see the odd one out go away {place}: {odd} stands between two {things}.",
            "Show in {n} pictures how {odd} {place} goes away so that there are three {things}.",
            "Solve the puzzle {place}: take away {odd}, the odd one out between two {things}.",
        ),
        alone=True,
    ),
    Topic(
        "a swap puzzle",
        {"things": SomeThings(KINDS_IN_PATTERNS, 3, 3)},
        _reversing,
        (
            "Reverse this row by swapping neighbours only: {things}.",
            "A swap puzzle: {things} in a row. Turn the order round in {n} pictures.",
            "Turn this row round by swapping two neighbours at a time: {things}.",
            "I want to see the order of {things} turned round by swapping neighbours.",
            "How do you reverse a row of {things}? Swap neighbours only.",
            "Solve the swap puzzle: reverse a row of {things} by swapping neighbours.",
        ),
    ),
    Topic(
        "a diagonal",
        {"things": THINGS, "way": AWord(DIAGONALS), "place": PLACE},
        _diagonal,
        (
            "Draw a diagonal of three {things} {place}, going {way}.",
            "Place three {things} {place} one after the other in a diagonal that runs {way}.",
            "I want to see three {things} {place} in a diagonal, going {way}.",
            "How do three {things} {place} make a diagonal {way}?",
            "In {n} pictures: a diagonal of {things} {place} that goes {way}.",
            "Draw three {things} {place} one after the other in a diagonal, going {way}.",
        ),
    ),
    Topic(
        "a shell game",
        {
            "first": AColour(),
            "second": AColour(),
            "third": AColour(),
            "moves": AWord(SHELL_MOVES),
            "place": APlace(("kitchen", "room", "workbench")),
        },
        _shell_game,
        (
            "A shell game {place} with three cups, {first}, {second} and {third}: swap {moves}.",
            "Swap three cups {place}, {first}, {second} and {third}: {moves}. Show it in {n} pictures.",
            "I want to see a shell game {place}. The cups are {first}, {second}, {third}. Swap {moves}.",
            "Where do the {first}, the {second} and the {third} cup {place} end up? Swap {moves}.",
            "Three cups stand {place}: {first}, {second} and {third}. Let them change places, {moves}.",
            "Show a shell game {place}: the cups are {first}, {second} and {third}. Swap {moves}.",
        ),
    ),
)
