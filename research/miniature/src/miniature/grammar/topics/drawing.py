"""Drawing lessons on paper: images from simple shapes, sizes, colours."""

from __future__ import annotations

from interleave_mini.language.words import UNCOUNTABLE, a, counted, the
from interleave_mini.world.kinds import COLOURS, KINDS
from interleave_mini.world.operations import Add, Recolour, Remove, Replace, Resize
from interleave_mini.world.scene import MIDDLE, Size, Thing
from miniature.grammar.gaps import AColour, AThing, Maybe, SomeThings, kinds_of, usual
from miniature.grammar.story import Story
from miniature.grammar.topics.topic import Topic, different, hung_and_put, small

_SKY = ("sun", "cloud", "moon")
_TOP, _BELOW = 1, 7


def _house(house: Thing) -> Story:
    walls, roof = usual("square", house.colour), usual("triangle", "brown")
    story = Story("paper", {MIDDLE: walls}, name="Walls", caption=f"{a(walls)} in the middle makes the walls")
    story.then(Add(roof, _TOP), name="Roof", caption=f"{a(roof)} above it is the roof")
    return story.then(Add(usual("sun"), 2), name="Sun", caption="a sun beside the roof finishes the picture")


def _face(eyes: str) -> Story:
    eye, nose = small(usual("circle", eyes)), small(usual("triangle", "orange"))
    story = Story(
        "paper", {0: eye, 2: eye}, name="Eyes", caption=f"{counted(2, eye)} at the top are the eyes"
    )
    story.then(Add(nose, MIDDLE), name="Nose", caption=f"{a(nose)} between them is the nose")
    return story.then(Add(usual("heart"), _BELOW), name="Mouth", caption="a heart at the bottom is the mouth")


def _snowman(hat: str) -> Story:
    belly, brim = usual("circle"), small(usual("square", hat))
    story = Story("paper", {_BELOW: belly}, name="Belly", caption="a large circle at the bottom is the belly")
    story.then(Add(small(belly), MIDDLE), name="Head", caption="a small circle on top of it is the head")
    return story.then(Add(brim, _TOP), name="Hat", caption=f"{a(brim)} on the head is the hat")


def _tree(tree: Thing) -> Story:
    trunk, leaves = small(usual("square", "brown")), usual("triangle", tree.colour)
    story = Story("paper", {_BELOW: trunk}, name="Trunk", caption=f"{a(trunk)} at the bottom is the trunk")
    story.then(Add(leaves, MIDDLE), name="Branches", caption=f"{a(leaves)} above it makes the branches")
    return story.then(Add(small(leaves), _TOP), name="Top", caption=f"{a(small(leaves))} is the treetop")


def _rocket(rocket: Thing) -> Story:
    body, nose = usual("square", rocket.colour), usual("triangle", rocket.colour)
    story = Story("paper", {MIDDLE: body}, name="Body", caption=f"{a(body)} in the middle is the body")
    story.then(Add(nose, _TOP), name="Nose", caption=f"{a(nose)} above it is the pointed nose")
    return story.then(Add(usual("star"), _BELOW), name="Fire", caption="a star below is the fire: lift-off")


def _from_shapes(subject: Thing) -> Story:
    """Draw anything else from a large and a small shape, which details turn into it."""
    category = KINDS[subject.kind].category
    body = usual(_BODIES.get(category, "circle"), subject.colour)
    part, name, cell = _PARTS.get(category, ("circle", "Detail", _TOP))
    detail = small(usual(part, subject.colour))
    story = Story("paper", {MIDDLE: body}, name="Body", caption=f"{a(body)} in the middle is the body")
    where = "above" if cell == _TOP else "below"
    story.then(Add(detail, cell), name=name, caption=f"{a(detail)} {where} it is the {name.lower()}")
    return story.then(
        Remove(cell),
        Replace(MIDDLE, subject),
        name=_named(subject),
        caption=f"the {detail.noun} and the {body.noun} become {a(subject)}",
    )


_BODIES = dict.fromkeys(("vehicle", "building", "household", "tool", "block"), "square")
_PARTS = {
    "animal": ("circle", "Head", _TOP),
    "vehicle": ("circle", "Wheel", _BELOW),
    "building": ("triangle", "Roof", _TOP),
    "plant": ("square", "Stem", _BELOW),
}


def _landscape(things: tuple[Thing, ...]) -> Story:
    different(*things)
    (start, first), *others = hung_and_put(things, _SKY).items()
    story = Story(
        "paper",
        {start: first},
        name=_named(first),
        caption=f"the picture begins with {a(first)} {_height(first)}",
    )
    for cell, thing in others:
        story.then(Add(thing, cell), name=_named(thing), caption=f"{a(thing)} is drawn {_height(thing)}")
    return story


def _row_of_shapes(shapes: tuple[Thing, ...]) -> Story:
    different(*shapes)
    first, *others = shapes
    story = Story("paper", {3: first}, name=_named(first), caption=f"{a(first)} is drawn on the left")
    for cell, shape in enumerate(others, 4):
        story.then(Add(shape, cell), name=_named(shape), caption=f"{a(shape)} follows to the right")
    return story


def _big_and_small(first: Thing, second: Thing) -> Story:
    different(first, second)
    story = Story(
        "paper",
        {3: first, 5: small(second)},
        name="Big and small",
        caption=f"{a(first, size=True)} is beside {a(small(second))}",
    )
    story.then(Resize(3, Size.SMALL), name="Both small", caption=f"{the(first)} is drawn small as well")
    return story.then(
        Resize(5, Size.LARGE), name="The other way", caption=f"and {the(second)} is drawn large instead"
    )


def _colouring(first: Thing, second: Thing, one: str, two: str) -> Story:
    different(first, second)
    story = Story(
        "paper", {3: first, 5: second}, name="The drawing", caption=f"{a(first)} and {a(second)} are drawn"
    )
    for cell, thing, colour in ((3, first, one), (5, second, two)):
        story.then(
            Recolour(cell, colour),
            name=_named(thing),
            caption=f"the {thing.noun} is coloured {colour}",
        )
    return story


def _named(thing: Thing) -> str:
    return f"The {thing.noun}"


def _height(thing: Thing) -> str:
    return "in the sky" if thing.kind in _SKY else "on the ground"


def _lesson(subject: str) -> tuple[str, ...]:
    return (
        f"Show me step by step how to draw {subject}.",
        f"Show me how to draw {subject}.",
        f"Draw {subject} step by step.",
        f"Teach me to draw {subject} from simple shapes.",
        f"How to draw {subject} in {{n}} steps.",
        f"I want to learn how to draw {subject}.",
        f"Teach me step by step how to draw {subject}.",
    )


_HATS = tuple(colour for colour in COLOURS if colour != "orange")  # "a orange hat"
_SHAPES = kinds_of("shape")
_SUBJECTS = kinds_of("animal", "vehicle", "building", "toy", "shape")

_DRAWN_FROM_SHAPES = tuple(
    kind
    for kind in KINDS
    if kind not in (*_SHAPES, "house", "tree", "rocket", "snowman") and usual(kind).noun not in UNCOUNTABLE
)

TOPICS: tuple[Topic, ...] = (
    Topic("drawing a house", {"house": AThing(("house",))}, _house, _lesson("{house}")),
    Topic(
        "drawing a face",
        {"eyes": Maybe(AColour(), "blue", " with ", " eyes")},
        _face,
        _lesson("a face{eyes}"),
    ),
    Topic(
        "drawing a snowman",
        {"hat": Maybe(AColour(_HATS), "red", " with a ", " hat")},
        _snowman,
        _lesson("a snowman{hat}"),
    ),
    Topic("drawing a tree", {"tree": AThing(("tree",))}, _tree, _lesson("{tree}")),
    Topic(
        "drawing something",
        {"subject": AThing(_DRAWN_FROM_SHAPES)},
        _from_shapes,
        _lesson("{subject}"),
    ),
    Topic("drawing a rocket", {"rocket": AThing(("rocket",))}, _rocket, _lesson("{rocket}")),
    Topic(
        "drawing a landscape",
        {
            "things": SomeThings(
                (*_SKY, "house", "castle", "lighthouse", "tree", "flower", "cactus", "mushroom"), 3, 4
            )
        },
        _landscape,
        (
            "Draw a landscape with {things}, one after the other.",
            "A drawing lesson in {n} steps: a landscape with {things}.",
            "Show step by step how to draw a landscape with {things}.",
            "I want to learn how to draw a landscape: {things}.",
            "How do you draw a landscape with {things}?",
            "Teach me to draw a landscape with {things}, one after the other.",
        ),
    ),
    Topic(
        "a row of shapes",
        {"shapes": SomeThings(_SHAPES, 2, 3)},
        _row_of_shapes,
        (
            "Draw {shapes} side by side, from left to right.",
            "Practise shapes in {n} steps: {shapes}, each one next to the one before.",
            "Show me how to draw {shapes} in a row, one after the other.",
            "I want to learn shapes: draw {shapes} from left to right.",
            "How do {shapes} look side by side? Draw one at a time.",
            "Draw {shapes} one after the other, from left to right in a row.",
        ),
    ),
    Topic(
        "big and small",
        {"first": AThing(_SUBJECTS), "second": AThing(_SUBJECTS)},
        _big_and_small,
        (
            "Draw {first} big and {second} small, and then the other way round.",
            "A lesson on size in {n} drawings: {first} shrinks, {second} grows.",
            "Show {first} large and {second} small on paper, then change the sizes round.",
            "I want to see {first} shrink and {second} grow on paper.",
            "How do you draw {first} big and {second} small, and then the other way round?",
            "A lesson on size: draw {first} large and {second} small, and then the other way round.",
        ),
    ),
    Topic(
        "colouring in",
        {"first": AThing(_SUBJECTS), "second": AThing(_SUBJECTS), "one": AColour(), "two": AColour()},
        _colouring,
        (
            "Draw {first} and {second}, then colour the first one {one} and the second one {two}.",
            "A colouring lesson in {n} steps: {first} becomes {one} and {second} becomes {two}.",
            "Show me how to colour {first} {one} and {second} {two}.",
            "I want to see {first} coloured {one} and then {second} coloured {two}.",
            "Draw {first} and {second}. Colour one {one}, then the other {two}.",
            "Draw {first} and {second}, then make the first one {one} and the second one {two}.",
        ),
    ),
)
