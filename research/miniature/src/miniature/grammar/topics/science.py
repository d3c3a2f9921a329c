"""Science and seasons: the sky, the weather, light, water and fire."""

from __future__ import annotations

from dataclasses import replace

from interleave_mini.language.words import a, the, with_article, within
from interleave_mini.world.kinds import KINDS
from interleave_mini.world.operations import (
    Add,
    ChangeBackground,
    ChangeState,
    Move,
    Recolour,
    Remove,
    Replace,
)
from interleave_mini.world.scene import MIDDLE, Thing
from miniature.grammar.gaps import APlace, AThing, maybe_place, usual
from miniature.grammar.story import Story
from miniature.grammar.topics.topic import Topic

SUN = usual("sun")
TOP, TOP_LEFT, TOP_RIGHT, BOTTOM = 1, 0, 2, 7


def _moon_phases() -> Story:
    moon = Thing("moon", KINDS["moon"].colour, state=0)
    story = Story("night", {MIDDLE: moon}, name="New moon", caption="it begins with the new moon, all dark")
    story.then(ChangeState(MIDDLE, 1), name="Crescent", caption="after a few nights there is a crescent moon")
    story.then(ChangeState(MIDDLE, 2), name="Half moon", caption="a week after the start it is a half moon")
    return story.then(
        ChangeState(MIDDLE, 3), name="Full moon", caption="after two weeks the moon is full and round"
    )


def _waning_moon() -> Story:
    story = Story("night", {MIDDLE: usual("moon")}, name="Full moon", caption="it begins with the full moon")
    story.then(ChangeState(MIDDLE, 2), name="Half moon", caption="a week later it is a half moon")
    story.then(ChangeState(MIDDLE, 1), name="Crescent", caption="then only a crescent moon is left")
    return story.then(
        ChangeState(MIDDLE, 0), name="New moon", caption="in the end it is a new moon, all dark"
    )


def _burning_down(candle: Thing, place: str) -> Story:
    story = Story(
        place, {MIDDLE: candle}, name="New", caption=f"{a(candle)} has just been lit {within(place)}"
    )
    story.then(
        ChangeState(MIDDLE, 1), name="Half gone", caption=f"hours later {the(candle)} is a half-burned candle"
    )
    return story.then(
        ChangeState(MIDDLE, 2), name="Stub", caption=f"in the end only a candle stub is left of {the(candle)}"
    )


def _melting(snowman: Thing) -> Story:
    story = Story("snow", {MIDDLE: snowman}, name="Winter", caption=f"{a(snowman)} stands in the snow")
    story.then(Add(SUN, TOP_RIGHT), name="Sunshine", caption="the sun comes out and warms the air")
    story.then(
        ChangeState(MIDDLE, 1),
        name="Dripping",
        caption=f"the warm air turns {the(snowman)} into a melting snowman",
    )
    return story.then(
        ChangeState(MIDDLE, 2),
        name="Puddle",
        caption=f"the melted snowman is {with_article(f'{snowman.colour} puddle')} with a hat",
    )


def _day_and_night() -> Story:
    story = Story(
        "meadow", {TOP_LEFT: SUN}, name="Morning", caption="in the morning the sun stands on the left"
    )
    story.then(Move(TOP_LEFT, TOP), name="Noon", caption="at noon the sun is high up")
    story.then(Move(TOP, TOP_RIGHT), name="Evening", caption="in the evening the sun has gone to the right")
    return story.then(
        ChangeBackground("night"),
        Replace(TOP_RIGHT, usual("moon")),
        name="Night",
        caption="at night the moon takes the place of the sun",
    )


def _nightfall(thing: Thing, place: str) -> Story:
    story = Story(
        place,
        {MIDDLE: thing, TOP_LEFT: SUN},
        name="Day",
        caption=f"the sun shines on {a(thing)} {within(place)}",
    )
    story.then(Remove(TOP_LEFT), name="Sunset", caption="in the evening the sun goes down")
    story.then(ChangeBackground("night"), name="Night", caption=f"night falls over {the(thing)}")
    return story.then(
        Add(usual("moon"), TOP), name="Moonrise", caption=f"the moon rises above the {thing.noun}"
    )


def _seasons() -> Story:
    story = Story(
        "meadow",
        {MIDDLE: usual("tree", "pink")},
        name="Spring",
        caption="in spring the tree is full of pink blossom",
    )
    story.then(Recolour(MIDDLE, "green"), name="Summer", caption="in summer the tree has green leaves")
    story.then(Recolour(MIDDLE, "orange"), name="Autumn", caption="in autumn the tree turns orange")
    return story.then(
        Recolour(MIDDLE, "brown"),
        ChangeBackground("snow"),
        name="Winter",
        caption="in winter the tree stands bare and brown in the snow",
    )


def _rain(cup: Thing, place: str) -> Story:
    story = Story(place, {MIDDLE: cup}, name="Empty", caption=f"{a(cup)} stands empty {within(place)}")
    story.then(Add(usual("cloud"), TOP), name="A cloud", caption="a cloud comes, and it starts to rain")
    story.then(ChangeState(MIDDLE, 1), name="Half full", caption=f"the rain makes {the(cup)} a half-full cup")
    return story.then(ChangeState(MIDDLE, 2), name="Full", caption=f"soon {the(cup)} is a full cup")


def _evaporation(cup: Thing, place: str) -> Story:
    full = replace(cup, state=2)
    story = Story(
        place,
        {MIDDLE: full, TOP_RIGHT: SUN},
        name="Full",
        caption=f"the sun shines on {a(full)} {within(place)}",
    )
    story.then(
        ChangeState(MIDDLE, 1),
        name="Less water",
        caption=f"some water dries up: {the(cup)} is a half-full cup",
    )
    return story.then(ChangeState(MIDDLE, 0), name="Dry", caption=f"all the water is gone from {the(cup)}")


def _on_and_off(lamp: Thing, place: str) -> Story:
    story = Story(place, {MIDDLE: lamp}, name="Off", caption=f"{a(lamp)} is switched off {within(place)}")
    story.then(ChangeState(MIDDLE, 1), name="On", caption=f"click: {the(lamp)} is now a glowing lamp")
    return story.then(ChangeState(MIDDLE, 0), name="Off again", caption=f"click: {the(lamp)} is off again")


def _launch(rocket: Thing, place: str) -> Story:
    story = Story(place, {BOTTOM: rocket}, name="Ready", caption=f"{a(rocket)} stands ready {within(place)}")
    story.then(Move(BOTTOM, MIDDLE), name="Lift-off", caption=f"three, two, one: {the(rocket)} lifts off")
    story.then(Move(MIDDLE, TOP), name="High up", caption=f"{the(rocket)} climbs to the top of the sky")
    return story.then(
        ChangeBackground("night"), name="Space", caption="it reaches space, where it is always night"
    )


def _sunrise(place: str) -> Story:
    story = Story(place, {BOTTOM: SUN}, name="Dawn", caption=f"at dawn the sun comes up {within(place)}")
    story.then(Move(BOTTOM, MIDDLE), name="Morning", caption="in the morning the sun climbs to the middle")
    return story.then(Move(MIDDLE, TOP), name="Noon", caption="at noon the sun is at the top")


def _passing_cloud(cloud: Thing, place: str) -> Story:
    story = Story(place, {TOP: SUN}, name="Sunny", caption=f"the sun shines {within(place)}")
    story.then(Add(cloud, TOP_LEFT), name="A cloud", caption=f"{a(cloud)} drifts in from the left")
    story.then(Remove(TOP), Move(TOP_LEFT, TOP), name="Covered", caption=f"{the(cloud)} now hides the sun")
    return story.then(
        Move(TOP, TOP_RIGHT),
        Add(SUN, TOP),
        name="Sunny again",
        caption=f"{the(cloud)} drifts on, and the sun is back",
    )


CANDLE, CUP, ROCKET = AThing(("candle",)), AThing(("cup",)), AThing(("rocket",))

TOPICS: tuple[Topic, ...] = (
    Topic(
        "phases of the moon",
        {},
        _moon_phases,
        (
            "Show the phases of the moon.",
            "Explain the phases of the moon in {n} pictures.",
            "How does the new moon become a full moon?",
            "The moon waxes, night after night. Show it step by step.",
            "I want to see the phases of the moon, from new moon to full moon.",
            "Explain step by step how the new moon becomes a full moon.",
        ),
    ),
    Topic(
        "the waning moon",
        {},
        _waning_moon,
        (
            "Show how the moon wanes.",
            "Explain in {n} pictures how the moon wanes.",
            "How does the full moon become a new moon?",
            "The moon wanes, night after night. Show it step by step.",
            "I want to see the full moon become a new moon.",
        ),
    ),
    Topic(
        "a burning candle",
        {"candle": CANDLE, "place": maybe_place("room", "kitchen", "night", "forest", "workbench")},
        _burning_down,
        (
            "How {candle} burns down{place}, step by step.",
            "Show how {candle} burns down{place}.",
            "What happens to {candle} that burns all evening{place}? Show {n} pictures.",
            "Watch {candle}{place} until nothing but a stub is left.",
            "I want to see {candle} burn down{place} to a stub.",
            "Show step by step how {candle} burns down{place} until a stub is left.",
        ),
    ),
    Topic(
        "a melting snowman",
        {"snowman": AThing(("snowman",))},
        _melting,
        (
            "Show how {snowman} melts.",
            "Why does {snowman} melt when the sun comes out? Explain it in {n} pictures.",
            "How {snowman} melts in the sun, step by step.",
            "What does the sun do to {snowman}? Show it in {n} pictures.",
            "I want to see {snowman} melt in the warm sun.",
            "Explain step by step how {snowman} melts when the sun comes out.",
        ),
    ),
    Topic(
        "day and night",
        {},
        _day_and_night,
        (
            "Show how day turns into night.",
            "Explain day and night in {n} pictures.",
            "From morning to night: show how the day goes by.",
            "How does a day go by, from morning to night?",
            "I want to see the sun go from morning to night.",
            "Explain step by step how day turns into night.",
        ),
    ),
    Topic(
        "nightfall",
        {
            "thing": AThing(("house", "castle", "lighthouse", "tree", "flower", "car", "train")),
            "place": APlace(("meadow", "beach", "snow", "desert", "forest", "city")),
        },
        _nightfall,
        (
            "Show how night falls over {thing} {place}.",
            "{thing} {place} from sunshine to moonlight. Show it in {n} pictures.",
            "How does night fall over {thing} {place}? Show it step by step.",
            "I want to see the sun go down and the moon rise over {thing} {place}.",
            "Tell how the evening comes {place}: the sun leaves {thing}, and the moon rises.",
            "Show in {n} pictures how the sun goes down over {thing} {place} and the moon rises.",
        ),
    ),
    Topic(
        "the four seasons",
        {},
        _seasons,
        (
            "Show the four seasons.",
            "Show a tree in spring, summer, autumn and winter.",
            "How does a tree change with the seasons?",
            "The year of a tree, in {n} pictures.",
            "I want to see what the seasons do to a tree.",
            "Explain the four seasons of a tree in {n} pictures.",
        ),
    ),
    Topic(
        "rain",
        {"cup": CUP, "place": APlace(("meadow", "beach", "desert", "forest", "city"))},
        _rain,
        (
            "Show how {cup} {place} fills with rain.",
            "It rains into {cup} {place}: how does the water rise? Show it in {n} steps.",
            "I want to see rain fill {cup} {place}.",
            "How does {cup} {place} get full when it rains?",
            "A cloud comes and rains into {cup} {place}. Show what happens.",
            "Explain in {n} pictures how rain fills {cup} {place}.",
        ),
    ),
    Topic(
        "evaporation",
        {"cup": CUP, "place": APlace(("meadow", "beach", "desert", "forest", "city"))},
        _evaporation,
        (
            "Show how the water in {cup} evaporates {place}.",
            "The sun dries up the water in {cup} {place}. Explain it in {n} pictures.",
            "What happens to the water in {cup} {place} when the sun shines?",
            "I want to see the sun dry up {cup} {place}.",
            "How does {cup} {place} get empty in the sun?",
            "Show step by step how the sun dries up the water in {cup} {place}.",
        ),
    ),
    Topic(
        "light on and off",
        {"lamp": AThing(("lamp",)), "place": APlace(("room", "kitchen", "night", "workbench"))},
        _on_and_off,
        (
            "Switch {lamp} on and off again {place}.",
            "{lamp} {place} is turned on and then off. Show it step by step.",
            "What happens when somebody turns {lamp} {place} on and then off?",
            "I want to see {lamp} {place} switched on and off again.",
            "Show in {n} pictures how {lamp} {place} is switched on, then off.",
            "Show how somebody turns {lamp} on and off again {place}.",
        ),
    ),
    Topic(
        "a rocket launch",
        {"rocket": ROCKET, "place": maybe_place("desert", "meadow", "beach", "snow", "city")},
        _launch,
        (
            "Show the launch of {rocket}{place}.",
            "How {rocket} takes off{place} and flies into space, step by step.",
            "From the ground{place} into space: {rocket} in {n} pictures.",
            "I want to see {rocket} lift off{place} and fly into space.",
            "How does {rocket} get from the ground{place} into space?",
            "Show step by step how {rocket} takes off{place} into space.",
        ),
        alone=True,
    ),
    Topic(
        "sunrise",
        {"place": maybe_place("sea", "meadow", "beach", "snow", "desert", "forest", "city")},
        _sunrise,
        (
            "Show a sunrise{place}.",
            "How the sun rises{place}, step by step.",
            "Show the rising sun{place} in {n} pictures.",
            "I want to see the sun rise{place}, from dawn to noon.",
            "What does the sun do in the morning{place}?",
            "Show step by step how the sun rises{place}.",
        ),
    ),
    Topic(
        "a passing cloud",
        {
            "cloud": AThing(("cloud",)),
            "place": APlace(("meadow", "beach", "snow", "sea", "desert", "city")),
        },
        _passing_cloud,
        (
            "Show how {cloud} passes in front of the sun {place}.",
            "It is sunny {place} until {cloud} hides the sun for a while. Show it in {n} pictures.",
            "What happens {place} when {cloud} drifts in front of the sun?",
            "I want to see {cloud} hide the sun {place} and drift on.",
            "Show in {n} pictures how {cloud} comes {place}, covers the sun and goes.",
            "Tell how {cloud} passes in front of the sun {place} and hides it for a while.",
        ),
    ),
)
