"""What comes and goes in nature: sun, seasons, snow, melting ice cream; what flies or sails away."""

from __future__ import annotations

from interleave_mini.language.words import PLACES, a, the, within
from interleave_mini.world.kinds import KINDS
from interleave_mini.world.operations import (
    Add,
    ChangeBackground,
    ChangeState,
    Move,
    Operation,
    Recolour,
    Remove,
    Replace,
    Resize,
)
from interleave_mini.world.scene import MIDDLE, Size, Thing
from miniature.grammar.gaps import AThing, AWord, kinds_of, maybe_place, usual
from miniature.grammar.story import Story
from miniature.grammar.topics.topic import Topic, small

_TOP, _TOP_RIGHT, _LEFT, _RIGHT, _BOTTOM_LEFT, _BOTTOM, _BOTTOM_RIGHT = 1, 2, 3, 5, 6, 7, 8
_SUN, _MOON = usual("sun"), usual("moon")
_BY_DAY = maybe_place(*(place for place in PLACES if place not in ("night", "paper", "workbench")))
_OUTSIDE = maybe_place("meadow", "beach", "sea", "snow", "desert", "forest", "city")
_ANYWHERE = maybe_place(*PLACES)
_WITHOUT_STATES = ("cat", "dog", "rabbit", "elephant", "turtle", "fish", "duck")
_YOUNG = {
    **{f"a {young} {becomes} a {kind}": kind for young, kind in (
        ("duckling", "duck"), ("kitten", "cat"), ("puppy", "dog"), ("bunny", "rabbit"),
    ) for becomes in ("becomes", "turns into", "grows into", "grows up to be")},
}  # fmt: skip
_SEASONS = {
    "spring": ("pink", "meadow", "in spring the tree is full of pink blossom"),
    "summer": ("green", "meadow", "in summer the tree in the meadow has green leaves"),
    "autumn": ("orange", "meadow", "in autumn the tree turns orange"),
    "winter": ("brown", "snow", "in winter the tree stands bare and brown in the snow"),
}
SEASONS = {**{name: name for name in _SEASONS}, "fall": "autumn"}


def _to_the_moon(rocket: Thing, place: str) -> Story:
    story = Story(place, {_BOTTOM: rocket}, name="Ready", caption=f"{a(rocket)} is ready {within(place)}")
    story.then(Move(_BOTTOM, MIDDLE), name="Going up", caption=f"{the(rocket)} rises to the middle")
    story.then(ChangeBackground("night"), name="Night sky", caption=f"{the(rocket)} flies into the night sky")
    return story.then(Add(_MOON, _TOP), name="The moon", caption=f"{the(rocket)} comes to the moon")


def _flying_away(thing: Thing, place: str) -> Story:
    story = Story(place, {MIDDLE: thing}, name="Still here", caption=f"{a(thing)} is {within(place)}")
    story.then(Move(MIDDLE, _TOP), name="Flying", caption=f"{the(thing)} flies up to the top")
    return story.then(Remove(_TOP), name="Gone", caption=f"{the(thing)} has flown away")


def _going_away(hero: Thing, place: str) -> Story:
    story = Story(place, {MIDDLE: hero}, name="Still here", caption=f"{a(hero)} is {within(place)}")
    story.then(Move(MIDDLE, _RIGHT), name="Leaving", caption=f"{the(hero)} goes to the right")
    return story.then(Remove(_RIGHT), name="Gone", caption=f"{the(hero)} is gone")


def _sailing_away(boat: Thing, place: str) -> Story:
    story = Story(place, {_LEFT: boat}, name="Setting sail", caption=f"{a(boat)} sets sail {within(place)}")
    story.then(Move(_LEFT, MIDDLE), name="On its way", caption=f"{the(boat)} sails to the middle")
    story.then(Move(MIDDLE, _RIGHT), name="Far off", caption=f"{the(boat)} sails on to the right")
    return story.then(Remove(_RIGHT), name="Gone", caption=f"{the(boat)} has sailed away")


def _sunset(place: str) -> Story:
    story = Story(place, {_TOP: _SUN}, name="Day", caption=f"the sun is high up {within(place)}")
    story.then(Move(_TOP, _BOTTOM), name="Sunset", caption="in the evening the sun sinks to the bottom")
    story.then(
        Remove(_BOTTOM), ChangeBackground("night"), name="Night", caption="the sun is gone, and it is night"
    )
    return story.then(Add(_MOON, _TOP), name="Moonrise", caption="the moon comes up")


def _melting_ice(ice: Thing, place: str) -> Story:
    story = Story(place, {MIDDLE: ice}, name="Fresh", caption=f"{a(ice)} {within(place)}")
    story.then(Add(_SUN, _TOP_RIGHT), name="Sunshine", caption="the hot sun shines")
    story.then(Resize(MIDDLE, Size.SMALL), name="Melting", caption=f"{the(ice)} melts and is small now")
    return story.then(Remove(MIDDLE), name="Gone", caption=f"{the(ice)} has melted away")


def _year(season: str) -> Story:
    names = list(_SEASONS)
    first = names.index(season)
    colour, place, caption = _SEASONS[season]
    story = Story(place, {MIDDLE: usual("tree", colour)}, name=season.capitalize(), caption=caption)
    for name in (*names[first + 1 :], *names[:first]):
        colour, place, caption = _SEASONS[name]
        if name == "spring":
            caption = "in spring the snow is gone from the meadow, and the tree is full of pink blossom"
        operations: list[Operation] = [Recolour(MIDDLE, colour)]
        if place != story.scene.background:
            operations.append(ChangeBackground(place))
        story.then(*operations, name=name.capitalize(), caption=caption)
    return story


def _spring_comes() -> Story:
    tree = usual("tree", "brown")
    story = Story("snow", {MIDDLE: tree}, name="Winter", caption=f"in winter {a(tree)} stands in the snow")
    story.then(Add(_SUN, _TOP_RIGHT), name="The sun", caption="the sun comes out and warms the air")
    story.then(
        ChangeBackground("meadow"),
        name="The snow melts",
        caption="the snow melts, and there is a green meadow",
    )
    return story.then(Recolour(MIDDLE, "pink"), name="Spring", caption="in spring the tree has pink blossom")


def _apple_tree(apple: Thing) -> Story:
    story = Story(
        "meadow",
        {MIDDLE: usual("tree", "pink")},
        name="Spring",
        caption="in spring the apple tree is full of pink blossom",
    )
    story.then(Recolour(MIDDLE, "green"), name="Summer", caption="in summer the tree has green leaves")
    story.then(
        Add(apple, _BOTTOM_LEFT),
        Add(apple, _BOTTOM_RIGHT),
        name="Autumn",
        caption=f"in autumn two {apple.colour} apples lie under the tree",
    )
    return story.then(
        Remove(_BOTTOM_LEFT),
        Remove(_BOTTOM_RIGHT),
        Recolour(MIDDLE, "brown"),
        ChangeBackground("snow"),
        name="Winter",
        caption="in winter the apples are gone, and the tree is bare and brown in the snow",
    )


def _life_of_a_snowman() -> Story:
    ball = usual("circle", KINDS["snowman"].colour)
    story = Story("snow", {_BOTTOM: ball}, name="The body", caption=f"{a(ball)} of snow lies in the snow")
    story.then(Add(small(ball), MIDDLE), name="The head", caption=f"{a(small(ball))} is put on top of it")
    story.then(
        Remove(MIDDLE),
        Replace(_BOTTOM, usual("snowman")),
        name="Built",
        caption="eyes, a nose and a hat turn the circles into a snowman",
    )
    story.then(Add(_SUN, _TOP_RIGHT), name="Sunshine", caption="the sun comes out")
    story.then(ChangeState(_BOTTOM, 1), name="Dripping", caption="now it is a melting snowman")
    return story.then(ChangeState(_BOTTOM, 2), name="Puddle", caption="a melted snowman is all that is left")


def _growing_up(hero: Thing, young: str) -> Story:
    thing = hero if not young else usual(young)
    baby = small(thing)
    story = Story("meadow", {MIDDLE: baby}, name="Young", caption=f"{a(baby)} is still very young")
    return story.then(
        Resize(MIDDLE, Size.LARGE), name="Grown up", caption=f"{the(thing)} has grown up and is large now"
    )


TOPICS: tuple[Topic, ...] = (
    Topic(
        "to the moon",
        {"rocket": AThing(("rocket", "plane", "balloon", "kite")), "place": _BY_DAY},
        _to_the_moon,
        (
            "Show how {rocket} flies to the moon{place}.",
            "{rocket} flies all the way to the moon. It starts{place}. Show it in {n} pictures.",
            "I want to see {rocket} travel to the moon{place}.",
            "How does {rocket} get to the moon{place}?",
            "In {n} pictures: {rocket} leaves for the moon{place}.",
            "Tell how {rocket} goes up to the moon{place}.",
        ),
        defaults={"place": "meadow"},
    ),
    Topic(
        "flying away",
        {
            "thing": AThing(("balloon", "kite", "butterfly", "plane", "rocket", "duck")),
            "place": _ANYWHERE,
        },
        _flying_away,
        (
            "Show how {thing} flies away{place}.",
            "{thing} flies up and away{place}. Show it in {n} pictures.",
            "I want to see {thing} fly away{place} until it is gone.",
            "How does {thing} fly away{place}?",
            "In {n} pictures: {thing} flies off{place}.",
            "Tell how {thing} flies away{place} and is gone.",
        ),
    ),
    Topic(
        "going away",
        {
            "hero": AThing((*kinds_of("animal"), "car", "bus", "train")),
            "place": _ANYWHERE,
        },
        _going_away,
        (
            "Show how {hero} goes away{place}.",
            "{hero} leaves{place} and is gone in the end. Show it in {n} pictures.",
            "I want to see {hero} go away{place} until it is gone.",
            "How does {hero} disappear to the right{place}?",
            "In {n} pictures: {hero} goes off{place}.",
            "Tell how {hero} goes away{place} and does not come back.",
        ),
    ),
    Topic(
        "sailing away",
        {"boat": AThing(("boat",)), "place": maybe_place("sea", "beach", "night")},
        _sailing_away,
        (
            "Show how {boat} sails away{place}.",
            "{boat} sails away{place} until nobody sees it. Show it in {n} pictures.",
            "I want to see {boat} sail away{place}.",
            "How does {boat} leave the harbour{place}?",
            "In {n} pictures: {boat} sails off{place}.",
            "Tell how {boat} sails far away{place}.",
        ),
    ),
    Topic(
        "sunset",
        {"place": _OUTSIDE},
        _sunset,
        (
            "Show a sunset{place}.",
            "The sun goes down{place} and the moon comes up. Show it in {n} pictures.",
            "I want to see the sun set{place} and the moon rise.",
            "What happens in the sky when the sun sets{place}?",
            "In {n} pictures: the sun goes down{place}.",
            "Tell how the sun sinks{place} and the moon takes over.",
        ),
    ),
    Topic(
        "melting ice cream",
        {"ice": AThing(("ice_cream",)), "place": maybe_place("beach", "meadow", "city", "desert", "room")},
        _melting_ice,
        (
            "Show how {ice} melts{place}.",
            "{ice} melts in the sun{place}. Show it in {n} pictures.",
            "I want to see {ice} melt away{place}.",
            "What happens to {ice} in the hot sun{place}?",
            "In {n} pictures: {ice} melts{place}.",
            "Why does {ice} melt{place}? Explain it with pictures.",
        ),
    ),
    Topic(
        "seasons from any season",
        {"season": AWord(SEASONS)},
        _year,
        (
            "Show the four seasons, beginning with {season}.",
            "A year of a tree that starts in {season}, in {n} pictures.",
            "I want to see the seasons of a tree from {season} on.",
            "How does a tree change over the year if we start in {season}?",
            "In {n} pictures: the seasons, first {season}.",
            "All four seasons of a tree, {season} first.",
        ),
    ),
    Topic(
        "spring comes",
        {},
        _spring_comes,
        (
            "Show how spring comes after winter.",
            "Winter is over and spring comes. Show it in {n} pictures.",
            "I want to see how winter turns into spring.",
            "What happens when spring comes?",
            "In {n} pictures: from winter to spring.",
            "Tell how the snow melts and a tree blossoms in spring.",
        ),
    ),
    Topic(
        "an apple tree through the year",
        {"apple": AThing(("apple",))},
        _apple_tree,
        (
            "Show an apple tree through the seasons. It bears {apple} or two.",
            "The year of an apple tree with {apple} or two in autumn, in {n} pictures.",
            "I want to see how an apple tree blossoms, is green, bears {apple} or two and stands bare.",
            "How does an apple tree change over the year until {apple} or two lie under it?",
            "In {n} pictures: an apple tree in every season, {apple} or two in autumn.",
        ),
    ),
    Topic(
        "the life of a snowman",
        {},
        _life_of_a_snowman,
        (
            "Show how a snowman is built and then melts.",
            "The life of a snowman, from two balls of snow to a puddle, in {n} pictures.",
            "I want to see how somebody builds a snowman and the sun melts it.",
            "Build a snowman and let it melt in the sun.",
            "In {n} pictures: a snowman is built, the sun comes out, it melts.",
            "Tell the whole life of a snowman.",
        ),
    ),
    Topic(
        "growing up",
        {"hero": AThing(_WITHOUT_STATES), "young": AWord(_YOUNG)},
        _growing_up,
        (
            "Show how {hero} grows up.",
            "{hero} as a baby and grown up, in {n} pictures.",
            "I want to see {hero} grow up.",
            "How does {hero} grow up?",
            "Before and after: {hero}, first young and then grown up.",
            "Show how {young}.",
        ),
        defaults={"young": "", "hero": usual("duck")},
    ),
)
