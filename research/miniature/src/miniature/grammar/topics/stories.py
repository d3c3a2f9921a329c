"""Picture stories: animals and toys that meet, travel, hide and change."""

from __future__ import annotations

from interleave_mini.language.words import PLACES, a, bare_noun, counted, listed, the, within
from interleave_mini.world.operations import (
    Add,
    ChangeBackground,
    Impossible,
    Move,
    Recolour,
    Remove,
    Resize,
    Swap,
)
from interleave_mini.world.scene import GRID, Size, Thing
from miniature.grammar.gaps import (
    AColour,
    APlace,
    AThing,
    AWord,
    SomeThings,
    kinds_of,
    maybe_place,
    several,
    usual,
)
from miniature.grammar.placed_gaps import SomePlaces
from miniature.grammar.story import Story
from miniature.grammar.topics.topic import Topic, different, row

ANIMALS = kinds_of("animal")
TOYS = kinds_of("toy")
VEHICLES = kinds_of("vehicle")
OUTDOORS = ("meadow", "beach", "night", "snow", "desert", "forest", "city")


def _meeting(hero: Thing, friend: Thing, place: str) -> Story:
    different(hero, friend)
    story = Story(place, {3: hero}, name="At first", caption=f"{a(hero)} stands {within(place)}")
    story.then(Add(friend, 5), name="A visitor", caption=f"{a(friend)} comes from the right")
    story.then(Move(5, 4), name="Hello", caption=f"{the(friend)} goes up to {the(hero)} and says hello")
    return story.then(
        Add(Thing("heart", "pink", Size.SMALL), 1),
        name="Friends",
        caption="a heart: now they are friends",
    )


def _joining(hero: Thing, friends: tuple[Thing, ...], place: str) -> Story:
    different(hero, *friends)
    story = Story(place, {4: hero}, name="At first", caption=f"{a(hero)} sits {within(place)}")
    for friend, cell in zip(friends, (3, 5, 7), strict=False):
        story.then(Add(friend, cell), name=f"The {friend.noun}", caption=f"{a(friend)} comes to play too")
    return story


def _journey(hero: Thing, start: str, stop: str, end: str) -> Story:
    if start == end:
        raise Impossible("a journey does not end where it began")
    story = Story(start, {4: hero}, name="Setting out", caption=f"{a(hero)} sets out {within(start)}")
    for place in (stop, end):
        story.then(
            ChangeBackground(place),
            name=f"The {bare_noun(place)}",
            caption=f"then {the(hero)} is {within(place)}",
        )
    return story


def _trip(hero: Thing, start: str, end: str) -> Story:
    story = Story(start, {4: hero}, name="Setting out", caption=f"{a(hero)} sets out {within(start)}")
    return story.then(
        ChangeBackground(end), name="Arriving", caption=f"{the(hero)} arrives and is {within(end)}"
    )


def _visits(hero: Thing, places: tuple[str, ...]) -> Story:
    first, *others = places
    if len(set(places)) < len(places):
        raise Impossible("the same place twice")
    story = Story(first, {4: hero}, name=f"The {bare_noun(first)}", caption=f"{a(hero)} is {within(first)}")
    for place in others:
        story.then(
            ChangeBackground(place),
            name=f"The {bare_noun(place)}",
            caption=f"then {the(hero)} is {within(place)}",
        )
    return story


def _magic_paint(hero: Thing, first: str, second: str, place: str) -> Story:
    story = Story(place, {4: hero}, name="Before", caption=f"{a(hero)} finds a magic brush {within(place)}")
    story.then(Recolour(4, first), name=first.capitalize(), caption=f"one stroke: the {hero.noun} is {first}")
    return story.then(
        Recolour(4, second), name=second.capitalize(), caption=f"another: now the {hero.noun} is {second}"
    )


def _hide_and_seek(hero: Thing, friend: Thing, place: str) -> Story:
    different(hero, friend)
    story = Story(
        place,
        {3: hero, 5: friend},
        name="Ready",
        caption=f"{a(hero)} and {a(friend)} play hide and seek {within(place)}",
    )
    story.then(Remove(5), name="Hiding", caption=f"{the(friend)} hides, and nobody can see it")
    return story.then(Add(friend, 7), name="Found", caption=f"there is {the(friend)}, at the bottom")


def _walk(hero: Thing, place: str, way: tuple[str, str]) -> Story:
    first, last = way
    cells = (3, 4, 5) if first == "left" else (5, 4, 3)
    story = Story(
        place,
        {cells[0]: hero},
        name=first.capitalize(),
        caption=f"{a(hero)} starts on the {first} {within(place)}",
    )
    story.then(Move(cells[0], 4), name="Middle", caption=f"{the(hero)} goes on to the middle")
    return story.then(
        Move(4, cells[2]), name=last.capitalize(), caption=f"{the(hero)} has reached the {last} side"
    )


def _trade(hero: Thing, friend: Thing, place: str) -> Story:
    different(hero, friend)
    story = Story(
        place, {3: hero, 5: friend}, name="Before", caption=f"{a(hero)} and {a(friend)} stand {within(place)}"
    )
    return story.then(Swap(3, 5), name="After", caption=f"{the(hero)} and {the(friend)} have traded places")


def _party(hero: Thing, place: str) -> Story:
    story = Story(place, {3: hero}, name="The guest", caption=f"{a(hero)} has a birthday {within(place)}")
    story.then(Add(Thing("balloon", "red"), 0), name="A balloon", caption="first comes a balloon")
    story.then(Add(Thing("cake", "pink"), 4), name="A cake", caption="then a cake is brought")
    return story.then(
        Add(Thing("gift", "purple"), 5), name="A gift", caption=f"last of all {the(hero)} gets a gift"
    )


def _bedtime(hero: Thing, toy: Thing, place: str) -> Story:
    story = Story(
        place, {4: hero, 5: toy}, name="Playing", caption=f"{a(hero)} plays with {a(toy)} {within(place)}"
    )
    story.then(Remove(5), name="Tidy", caption=f"{the(toy)} is put away")
    return story.then(
        ChangeBackground("night"), name="Night", caption=f"night has come, and {the(hero)} sleeps"
    )


def _ride(hero: Thing, vehicle: Thing, place: str) -> Story:
    story = Story(place, {3: hero}, name="Waiting", caption=f"{a(hero)} waits {within(place)}")
    story.then(Add(vehicle, 4), name="Arrival", caption=f"{a(vehicle)} arrives")
    story.then(Remove(3), name="All aboard", caption=f"{the(hero)} gets in")
    return story.then(Move(4, 5), name="Off", caption=f"{the(vehicle)} drives off to the right")


def _lost_toy(hero: Thing, toy: Thing, place: str) -> Story:
    story = Story(
        place, {3: hero, 4: toy}, name="Together", caption=f"{a(hero)} has {a(toy)} {within(place)}"
    )
    story.then(Remove(4), name="Lost", caption=f"oh no, {the(toy)} is lost")
    return story.then(Add(toy, 8), name="Found", caption=f"{the(toy)} lay at the bottom right all the time")


def _brave(hero: Thing, giant: Thing, place: str) -> Story:
    different(hero, giant)
    small = Thing(hero.kind, hero.colour, Size.SMALL, hero.state)
    story = Story(
        place,
        {3: small, 5: giant},
        name="A giant",
        caption=f"{a(small)} meets {a(giant, size=True)} {within(place)}",
    )
    story.then(Resize(3, Size.LARGE), name="Courage", caption=f"{the(hero)} makes itself large")
    return story.then(Resize(5, Size.SMALL), name="Not so big", caption=f"and {the(giant)} feels small")


def _dance(dancers: tuple[Thing, ...], place: str) -> Story:
    """Tell a dance of two pairs, one above the other: each pair swaps places, then the two on the left do."""
    different(*dancers)
    first, second, third, fourth = dancers
    story = Story(
        place,
        dict(zip((3, 5, 6, 8), dancers, strict=True)),
        name="The dance",
        caption=f"{listed([a(each) for each in dancers])} dance {within(place)}",
    )
    turns = ((3, 5, first, second), (6, 8, third, fourth), (3, 6, second, fourth))
    for (cell, other, one, two), name in zip(turns, ("First turn", "Second turn", "Last turn"), strict=True):
        story.then(Swap(cell, other), name=name, caption=f"{the(one)} and {the(two)} change places")
    return story


def _musical_chairs(players: tuple[Thing, ...], colour: str, place: str) -> Story:
    """Tell musical chairs: each chair is behind its player; each round removes one of both from the right."""
    different(*players)
    chair = usual("chair", colour)
    story = Story(
        place,
        row(chair, GRID, 0) | dict(enumerate(players, GRID)),
        name="The music plays",
        caption=f"{listed([a(each) for each in players])} go round {counted(GRID, chair)} {within(place)}",
    )
    for column, name in ((2, "First round"), (1, "Last round")):
        story.then(
            Remove(column),
            Remove(GRID + column),
            name=name,
            caption=f"the music stops: one chair is taken away, and {the(players[column])} is out",
        )
    return story


def _race(racers: str, first: str, second: str, third: str, place: str) -> Story:
    if len({first, second, third}) < GRID:
        raise Impossible("the racers need different colours")
    winner, next_one, last = (usual(racers, colour) for colour in (first, second, third))
    story = Story(
        place,
        {0: last, 3: winner, 6: next_one},
        name="The start",
        caption=f"{a(winner)}, {a(next_one)} and {a(last)} are at the start {within(place)}",
    )
    story.then(Move(6, 7), name="In the lead", caption=f"{the(next_one)} is in the lead")
    story.then(Move(3, 4), name="Catching up", caption=f"{the(winner)} catches up")
    return story.then(Move(4, 5), name="The finish", caption=f"{the(winner)} is at the finish first")


def _race_of_two(winner: Thing, loser: Thing, place: str) -> Story:
    different(winner, loser)
    story = Story(
        place,
        {3: winner, 6: loser},
        name="The start",
        caption=f"{a(winner)} and {a(loser)} are at the start {within(place)}",
    )
    story.then(Move(6, 7), name="In the lead", caption=f"{the(loser)} is in the lead")
    story.then(Move(3, 4), name="Catching up", caption=f"{the(winner)} catches up")
    return story.then(Move(4, 5), name="The finish", caption=f"{the(winner)} is at the finish first")


def _meal(hero: Thing, food: Thing, place: str) -> Story:
    story = Story(place, {3: hero}, name="Hungry", caption=f"{a(hero)} is hungry {within(place)}")
    story.then(Add(food, 4), name="Food", caption=f"it finds {a(food)}")
    return story.then(
        Remove(4), name="Eaten", caption=f"yum: the {food.noun} is eaten up, and the {hero.noun} is full"
    )


def _playing(hero: Thing, toy: Thing, place: str) -> Story:
    story = Story(
        place, {4: hero, 3: toy}, name="A toy", caption=f"{a(hero)} has {a(toy)} to play with {within(place)}"
    )
    story.then(Move(3, 1), name="Up", caption=f"up goes {the(toy)}")
    return story.then(Move(1, 5), name="Down", caption=f"and {the(toy)} comes down on the other side")


HEROES = (*ANIMALS, *VEHICLES, "teddy", "snowman")
HERO, FRIEND, PLACE = AThing(HEROES), AThing(HEROES), APlace(OUTDOORS)
WAYS = {"from left to right": ("left", "right"), "from right to left": ("right", "left")}

TOPICS: tuple[Topic, ...] = (
    Topic(
        "making friends",
        {"hero": HERO, "friend": FRIEND, "place": PLACE},
        _meeting,
        (
            "Tell the story of {hero} and {friend} that become friends {place}.",
            "A picture story: {hero} meets {friend} {place}, and they become friends.",
            "In {n} pictures: how {hero} and {friend} make friends {place}.",
            "How do {hero} and {friend} become friends {place}?",
            "I want to see how {hero} makes friends with {friend} {place}.",
            "Show a story in {n} pictures {place}: {hero} and {friend} meet and become friends.",
            "{hero} meets {friend} {place}. Show how they make friends.",
        ),
    ),
    Topic(
        "joining in",
        {"hero": HERO, "friends": SomeThings(ANIMALS), "place": PLACE},
        _joining,
        (
            "Tell a story {place}: {hero} is joined by {friends}, one after the other.",
            "{hero} plays {place}. One by one {friends} join in. Show every arrival.",
            "Who comes to play with {hero} {place}? First one, then the next: {friends}.",
            "In {n} pictures: {friends} come one by one to play with {hero} {place}.",
            "I want to see how {hero} is joined {place} by {friends}, one at a time.",
            "Show how {friends} join {hero} one after the other {place}.",
        ),
    ),
    Topic(
        "a journey",
        {"hero": AThing(ANIMALS + VEHICLES), "start": PLACE, "stop": PLACE, "end": PLACE},
        _journey,
        (
            "Show the journey of {hero} that starts {start}, is {stop} next and ends {end}.",
            "A travel story: {hero} is first {start}, then {stop} and at last {end}.",
            "Where does {hero} travel? It starts {start}, stops {stop} and ends {end}.",
            "Tell in {n} pictures how {hero} travels: first {start}, then {stop}, at last {end}.",
            "I want to see {hero} on a journey: {start}, then {stop}, and in the end {end}.",
            "Tell of a journey: {hero} starts {start}, is {stop} next, and in the end {end}.",
        ),
        alone=True,
    ),
    Topic(
        "a trip",
        {"hero": HERO, "start": APlace(), "end": APlace()},
        _trip,
        (
            "{hero} starts {start} and arrives {end}.",
            "Show how {hero} leaves {start} and is soon {end}.",
            "I want to see {hero} first {start} and afterwards {end}.",
            "In {n} pictures: {hero} sets out {start} and comes to rest {end}.",
            "How does {hero} get away when it is {start} and wants to be {end}?",
        ),
        alone=True,
    ),
    Topic(
        "visits",
        {"hero": HERO, "places": SomePlaces(tuple(PLACES))},
        _visits,
        (
            "{hero} goes to {places}.",
            "Show how {hero} visits {places}.",
            "I want to see {hero} travel to {places}.",
            "In {n} pictures: {hero} visits {places}.",
            "Where does {hero} go? To {places}.",
        ),
        alone=True,
    ),
    Topic(
        "magic paint",
        {"hero": HERO, "first": AColour(), "second": AColour(), "place": PLACE},
        _magic_paint,
        (
            "Tell the story of {hero} {place} with a magic brush that makes it {first} and then {second}.",
            "Magic paint: {hero} {place} turns {first}, then {second}. Tell it in {n} pictures.",
            "I want to see how a magic brush turns {hero} {place} {first} and then {second}.",
            "What does magic paint do? It makes {hero} {place} {first} first and {second} next.",
            "Show {hero} {place}: a stroke of a magic brush makes it {first}, another {second}.",
            "Tell how magic paint makes {hero} {place} {first} and then {second}.",
        ),
    ),
    Topic(
        "hide and seek",
        {"hero": HERO, "friend": FRIEND, "place": PLACE},
        _hide_and_seek,
        (
            "{hero} and {friend} play hide and seek {place}. Tell what happens when the second one hides.",
            "Tell a story of hide and seek {place}: {hero} seeks, {friend} hides.",
            "In {n} pictures: {hero} and {friend} play hide and seek {place}, and the second one is found.",
            "I want to see how {friend} hides {place} and {hero} finds it.",
            "Show a game of hide and seek {place} in which {hero} seeks and {friend} hides.",
        ),
    ),
    Topic(
        "a walk",
        {"hero": HERO, "place": PLACE, "way": AWord(WAYS)},
        _walk,
        (
            "Show {hero} that walks from left to right {place}.",
            "{hero} takes a walk {place}, from the left to the right. Show it in {n} pictures.",
            "How does {hero} walk from the left side to the right side {place}?",
            "Tell the story of the walk of {hero} {place}, from left to right.",
            "I want to see {hero} walk {place}, from the left to the right.",
            "Show in {n} pictures how {hero} walks {place} from left to right.",
            "Show how {hero} goes {place} {way}.",
            "{hero} travels {place} {way}. Show it in {n} pictures.",
        ),
        defaults={"way": ("left", "right")},
    ),
    Topic(
        "a meal",
        {"hero": AThing(ANIMALS), "food": AThing(kinds_of("food")), "place": maybe_place(*OUTDOORS, "room")},
        _meal,
        (
            "Tell the story of {hero} that finds {food}{place} and eats it up.",
            "Show how {hero} eats {food}{place}.",
            "{hero} is hungry{place} and finds {food}. Show it in {n} pictures.",
            "I want to see {hero} eat {food}{place}.",
            "In {n} pictures: {hero} finds {food}{place} and eats it.",
            "What does {hero} do with {food}{place}? It eats it up.",
        ),
        defaults={"hero": usual("rabbit"), "food": usual("carrot")},
    ),
    Topic(
        "playing",
        {
            "hero": AThing((*ANIMALS, "snowman")),
            "toy": AThing(TOYS),
            "place": maybe_place(*OUTDOORS, "room"),
        },
        _playing,
        (
            "Tell the story of {hero} that plays with {toy}{place}.",
            "Show how {hero} plays with {toy}{place}.",
            "{hero} throws {toy} up into the air{place}, and it comes down. Show it in {n} pictures.",
            "I want to see {hero} play with {toy}{place}.",
            "In {n} pictures: {hero} plays with {toy}{place}.",
            "How does {hero} play with {toy}{place}?",
        ),
    ),
    Topic(
        "trading places",
        {"hero": HERO, "friend": FRIEND, "place": PLACE},
        _trade,
        (
            "A short story {place}: {hero} and {friend} trade places.",
            "Show {place} how {hero} and {friend} trade places.",
            "How do {hero} and {friend} change places {place}?",
            "In {n} pictures: {hero} and {friend} stand {place} and then trade places.",
            "I want to see {hero} and {friend} change places {place}.",
            "Tell a short story: {hero} and {friend} {place} change places.",
        ),
    ),
    Topic(
        "a birthday",
        {"hero": HERO, "place": PLACE},
        _party,
        (
            "Tell the story of the birthday of {hero} {place}.",
            "{hero} has a birthday {place}: a balloon, a cake and a gift arrive. Show it step by step.",
            "How does {hero} celebrate its birthday {place}? Show it in {n} pictures.",
            "I want to see the birthday party of {hero} {place}.",
            "Tell what {hero} gets for its birthday {place}: first a balloon, then a cake, then a gift.",
            "Show the birthday of {hero} {place} step by step, with a balloon, a cake and a gift.",
        ),
    ),
    Topic(
        "bedtime",
        {"hero": HERO, "toy": AThing(TOYS), "place": APlace(("meadow", "room", "beach"))},
        _bedtime,
        (
            "A bedtime story: {hero} plays with {toy} {place} until night comes.",
            "Tell a bedtime story {place} about {hero} and {toy}.",
            "In {n} pictures: {hero} plays with {toy} {place}, tidies up and sleeps when night comes.",
            "I want to see how {hero} goes to bed {place} after it has played with {toy}.",
            "Show a bedtime story in which {hero} plays with {toy} {place} before it sleeps.",
        ),
    ),
    Topic(
        "a ride",
        {"hero": HERO, "vehicle": AThing(("car", "bus", "train")), "place": PLACE},
        _ride,
        (
            "{hero} waits {place}, {vehicle} arrives, and off they go. Tell it in {n} pictures.",
            "Tell the story of {hero} that is picked up {place} by {vehicle}.",
            "I want to see how {vehicle} picks up {hero} {place} and drives off.",
            "How does {hero} get away {place}? It waits until {vehicle} arrives and gets in.",
            "Tell the story of a ride: {hero} waits {place}, and {vehicle} picks it up.",
            "Show how {hero} waits {place} until {vehicle} arrives, gets in and drives off.",
        ),
    ),
    Topic(
        "lost and found",
        {"hero": HERO, "toy": AThing(TOYS), "place": PLACE},
        _lost_toy,
        (
            "Tell a story about {hero} that loses {toy} {place} and finds it again.",
            "Lost and found {place}: {hero} and {toy}.",
            "In {n} pictures: {hero} {place} loses {toy} and finds it at the bottom right.",
            "I want to see how {hero} finds {toy} again that it has lost {place}.",
            "What happens when {hero} loses {toy} {place}? In the end it is found again.",
            "Tell the story of {toy} that {hero} loses {place} and finds again.",
        ),
    ),
    Topic(
        "being brave",
        {"hero": HERO, "giant": FRIEND, "place": PLACE},
        _brave,
        (
            "Tell the story of a brave little one {place}: {hero} stands up to {giant}.",
            "In {n} pictures: {hero} {place} is small, but it is brave and stands up to {giant}.",
            "I want to see how {hero}, small and brave, makes itself large before {giant} {place}.",
            "Show how brave {hero} is {place}: it grows, and {giant} feels small.",
            "Tell how {hero}, little and brave, stands up to {giant} {place}.",
        ),
    ),
    Topic(
        "a dance",
        {"dancers": SomeThings(ANIMALS, 4, 4), "place": PLACE},
        _dance,
        (
            "Tell the story of a dance {place} in which {dancers} change partners.",
            "{dancers} dance {place} and change places, pair by pair. Show every turn.",
            "In {n} pictures: a dance {place} with {dancers} that change places.",
            "I want to see {dancers} dance {place} and change partners.",
            "How do {dancers} change places in a dance {place}?",
            "Show a dance {place}: {dancers} change partners, pair by pair.",
        ),
    ),
    Topic(
        "musical chairs",
        {"players": SomeThings(ANIMALS, 3, 3), "colour": AColour(), "place": APlace((*OUTDOORS, "room"))},
        _musical_chairs,
        (
            "Tell the story of musical chairs {place}: {players} play with {colour} chairs.",
            "{players} play musical chairs {place} with three {colour} chairs. Who is left?",
            "In {n} pictures: a game of musical chairs {place}, {players} around {colour} chairs.",
            "I want to see {players} play musical chairs {place} with {colour} chairs.",
            "How does a game of musical chairs end {place}? There are {players} and {colour} chairs.",
            "Show a game of musical chairs {place} with {players} and three {colour} chairs.",
        ),
    ),
    Topic(
        "a race",
        {
            "racers": several(*kinds_of("animal", without=("butterfly", "fish")), "car", "bus", "train"),
            "first": AColour(),
            "second": AColour(),
            "third": AColour(),
            "place": PLACE,
        },
        _race,
        (
            "Tell the story of a race of three {racers} {place}: {first} beats {second} and {third}.",
            "Three {racers} race {place}. First comes {first}, then {second}, then {third}.",
            "In {n} pictures: {first} wins a race of {racers} {place}, before {second} and {third}.",
            "I want to see a race of {racers} {place} that {first} wins before {second} and {third}.",
            "Which of three {racers} wins the race {place}? It is {first}, before {second} and {third}.",
            "Show a race of three {racers} {place}: {first} wins, then come {second} and {third}.",
        ),
    ),
    Topic(
        "a race of two",
        {"winner": AThing((*ANIMALS, *VEHICLES)), "loser": AThing((*ANIMALS, *VEHICLES)), "place": PLACE},
        _race_of_two,
        (
            "Tell the story of a race {place}: {winner} beats {loser}.",
            "{winner} and {loser} race {place}. The first of them wins.",
            "In {n} pictures: {winner} wins a race against {loser} {place}.",
            "I want to see a race of {loser} and {winner} {place} that the second one wins.",
            "Who wins the race {place}, {winner} or {loser}? The first one.",
            "Show a race {place}: {winner} is faster than {loser} in the end.",
        ),
    ),
)
