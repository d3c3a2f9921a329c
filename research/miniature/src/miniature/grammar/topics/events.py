"""Small events: something falls, is laid, is given, or changes its colour several times."""

from __future__ import annotations

from interleave_mini.language.words import PLACES, UNCOUNTABLE, a, the, within
from interleave_mini.world.kinds import COLOURS, KINDS
from interleave_mini.world.operations import Add, Impossible, Move, Recolour, Remove
from interleave_mini.world.scene import MIDDLE, Thing
from miniature.grammar.gaps import AThing, kinds_of, maybe_place, usual
from miniature.grammar.placed_gaps import SomeColours
from miniature.grammar.story import Story
from miniature.grammar.topics.topic import Topic, different, small, stage

_TOP, _LEFT, _RIGHT, _BOTTOM, _BOTTOM_RIGHT = 1, 3, 5, 7, 8
_ALL = tuple(KINDS)
_COUNTABLE = tuple(kind for kind in KINDS if usual(kind).noun not in UNCOUNTABLE)
_PLACE = maybe_place(*PLACES)


def _falling(thing: Thing, place: str) -> Story:
    story = Story(place, {_TOP: thing}, name="Above", caption=f"{a(thing)} is at the top {within(place)}")
    story.then(Move(_TOP, MIDDLE), name="Falling", caption=f"{the(thing)} falls to the middle")
    return story.then(Move(MIDDLE, _BOTTOM), name="Below", caption=f"{the(thing)} lies at the bottom")


def _laying(hen: Thing, place: str) -> Story:
    egg = small(stage(hen, 0))
    story = Story(place, {MIDDLE: hen}, name="The hen", caption=f"{a(hen)} sits {within(place)}")
    return story.then(Add(egg, _BOTTOM_RIGHT), name="The egg", caption=f"it has laid {a(egg)}")


def _getting(hero: Thing, thing: Thing, place: str) -> Story:
    different(hero, thing)
    story = Story(place, {_LEFT: hero}, name="Before", caption=f"{a(hero)} waits {within(place)}")
    story.then(Add(thing, _RIGHT), name="Here it comes", caption=f"{a(thing)} is brought")
    return story.then(Move(_RIGHT, MIDDLE), name="Got it", caption=f"now {the(hero)} has {the(thing)}")


def _eating(hero: Thing, prey: Thing, place: str) -> Story:
    different(hero, prey)
    story = Story(
        place, {_LEFT: hero, _RIGHT: prey}, name="Before", caption=f"{a(hero)} sees {a(prey)} {within(place)}"
    )
    return story.then(Remove(_RIGHT), name="After", caption=f"{the(hero)} has eaten {the(prey)}")


def _colours(hero: Thing, colours: tuple[str, ...], place: str) -> Story:
    if len(set(colours)) < len(colours):
        raise Impossible("the same colour twice")
    if hero.colour == colours[0]:  # as in the first image
        colours = colours[1:]
    story = Story(place, {MIDDLE: hero}, name="Before", caption=f"{a(hero)} is {within(place)}")
    for colour in colours:
        story.then(
            Recolour(MIDDLE, colour), name=colour.capitalize(), caption=f"now the {hero.noun} is {colour}"
        )
    return story


TOPICS: tuple[Topic, ...] = (
    Topic(
        "falling",
        {"thing": AThing(_COUNTABLE), "place": _PLACE},
        _falling,
        (
            "{thing} falls down{place}.",
            "Show how {thing} falls from the top to the bottom{place}.",
            "I want to see {thing} fall down{place}.",
            "In {n} pictures: {thing} drops to the ground{place}.",
            "What happens when {thing} falls{place}?",
        ),
    ),
    Topic(
        "laying an egg",
        {"hen": AThing(("hen",)), "place": _PLACE},
        _laying,
        (
            "{hen} lays an egg{place}.",
            "Show how {hen} lays an egg{place}.",
            "I want to see {hen} lay an egg{place}.",
            "In {n} pictures: {hen} lays an egg{place}.",
            "Where does an egg come from? {hen} lays it{place}.",
        ),
        alone=True,
    ),
    Topic(
        "getting something",
        {"hero": AThing((*kinds_of("animal", "toy"), "snowman")), "thing": AThing(_ALL), "place": _PLACE},
        _getting,
        (
            "{hero} gets {thing}{place}.",
            "Show how {hero} is given {thing}{place}.",
            "I want to see {hero} get {thing}{place}.",
            "In {n} pictures: {hero} waits{place} and gets {thing}.",
            "{hero} wishes for {thing}{place} and gets it.",
        ),
    ),
    Topic(
        "eating another",
        {
            "hero": AThing(kinds_of("animal")),
            "prey": AThing((*kinds_of("animal"), "flower", "cactus")),
            "place": _PLACE,
        },
        _eating,
        (
            "{hero} eats {prey}{place}.",
            "Show how {hero} eats {prey}{place}.",
            "I want to see {hero} eat {prey}{place}, before and after.",
            "In {n} pictures: {hero} eats {prey}{place}.",
            "What happens when {hero} meets {prey}{place} and eats it?",
        ),
    ),
    Topic(
        "one colour after another",
        {"hero": AThing(_ALL), "colours": SomeColours(tuple(COLOURS)), "place": _PLACE},
        _colours,
        (
            "Paint {hero}{place} {colours}.",
            "Show how {hero}{place} turns {colours}.",
            "{hero}{place} changes its colour: {colours}.",
            "In {n} pictures: {hero}{place} becomes {colours}.",
            "I want to see {hero}{place} become {colours}.",
        ),
    ),
)
