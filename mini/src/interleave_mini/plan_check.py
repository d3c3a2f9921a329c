"""Comparison of a plan with its request: it must contain what the request names, and be drawable.

The planner is a small model that errs. What a person named can be found in their words by rule (things,
colours, numbers of things, places), and so can what a plan draws. If a plan leaves something out, cannot be
drawn or is about something else, the user is asked, with what was understood.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from functools import cache

from interleave import Plan, Request, Text
from interleave_mini.language.effects import MOTION, not_shown, shown_by
from interleave_mini.language.patterns import NotUnderstood
from interleave_mini.language.prompts import parse_prompt
from interleave_mini.language.vocabulary import is_about, is_riddle_of, language
from interleave_mini.language.words import ALL_PLACES, NUMBERS, UNCOUNTABLE, bare_noun, listed, one_of, plural
from interleave_mini.world.operations import AlreadySo, Impossible
from interleave_mini.world.scene import GRID, Scene
from interleave_mini.world.wider import ALL_COLOURS, ALL_KINDS, ALL_NOUNS, DAY_OF, NIGHT

KIND_OF = language().kind_of
_NOUN_OF = {form: noun for noun in ALL_NOUNS for form in (f"{noun}s", plural(noun), noun)}
_NOUN_OF |= {form: noun for word, noun in language().nouns.items() for form in (plural(word), word)}
"""Nouns of requests, singular and plural → nouns of the world."""
_THING = language().thing
_MANY = tuple(language().kind_of_many)
_COLOUR_OF = {**{colour: colour for colour in ALL_COLOURS}, **language().colours}
_COLOUR = re.compile(rf"\b{one_of(_COLOUR_OF)}\b", re.IGNORECASE)
_SIZES = [word for words in language().sizes.values() for word in words]
_BEFORE = one_of((*language().adjectives, *_COLOUR_OF, *_SIZES))
_NUMBER = one_of((*NUMBERS[2:], *map(str, range(2, len(NUMBERS)))))
COUNTED = re.compile(rf"\b(?P<count>{_NUMBER}) (?:{_BEFORE} )*(?P<things>{one_of(_MANY)})\b", re.IGNORECASE)
_COLOURED = re.compile(
    rf"\b(?P<colour>{one_of(_COLOUR_OF)}) (?:{_BEFORE} )*(?P<thing>{one_of(KIND_OF)})\b", re.IGNORECASE
)
_COLOURED_AFTER = re.compile(
    rf"\b(?P<thing>{one_of(KIND_OF)}) (?:is|was|are|were|that is|which is|that's|that are|which are|in) "
    rf"(?P<colour>{one_of(_COLOUR_OF)})\b",
    re.IGNORECASE,
)
_MORE_THAN_NINE = re.compile(
    rf"\b(?:\d{{2,}}|ten|eleven|twelve|(?:a )?dozens?(?: of)?|(?:thir|four|fif|six|seven|eigh|nine)teen"
    rf"|(?:twen|thir|for|fif|six|seven|eigh|nine)ty(?:[ -]{one_of(NUMBERS[1:])})?"
    rf"|(?:a |one )?hundreds?(?: of)?|(?:a |one )?thousands?(?: of)?) "
    rf"(?:{_BEFORE} )*(?P<things>{one_of(_MANY)})\b",
    re.IGNORECASE,
)

_COUNTABLE_NOUNS = tuple(noun for noun in (*ALL_NOUNS, *language().nouns) if noun not in UNCOUNTABLE)
_ANY = one_of((*_COUNTABLE_NOUNS, *map(plural, _COUNTABLE_NOUNS)))
_BARE = rf"(?:(?:any|other|more) )?(?:{one_of(ALL_COLOURS)} )?{_ANY}"
_NO_SUCH = rf"(?:(?:an?|the|one)(?: single)? )?{_BARE}"
NEGATED = re.compile(
    rf"\b(?:(?:not|without|never|except|instead of|leave out) {_NO_SUCH}|leave {_NO_SUCH} out"
    rf"|(?:no|zero|0) {_BARE})"
    rf"(?: (?:or|nor) {_NO_SUCH}|,? (?:and )?no {_BARE})*\b",
    re.IGNORECASE,
)
"""Negations such as "without a cat"; "Oh no, a cat" does not match."""
TAKEN_BACK = re.compile(
    r"^.*\b(?:no,? wait|wait,? no|no no|no,? better|no, (?=an? )|no (?=an? \w+ one\b)"
    r"|i mean|i meant|meant to say|sorry|actually|or rather|or better"
    r"|scratch that|second thoughts?|correction|nay|ah no|oh no|but no(?=,)|wait,? it must)\b[,:.]?",
    re.IGNORECASE | re.DOTALL,
)
"""Text up to a self-correction: "a red car, no wait, "."""
_SOMETHING_NEW = re.compile(rf"\b(?:an?|some|two|three) (?:{_BEFORE} )*{one_of(KIND_OF)}\b", re.IGNORECASE)
_NO_THING = re.compile(r"\b(?:world cups?|(?:eiffel|leaning|clock|water) tower)\b", re.IGNORECASE)
"""Names of unrelated things."""
_PERSON = one_of([noun for noun, kind in KIND_OF.items() if ALL_KINDS[kind].category == "person"])
_OURS = rf"(?:my|our) (?:[\w-]+ )?(?:{_PERSON}|pupils|children|kids)"
_SAID_OTHERWISE = re.compile(
    r"\bbeds? of (?=(?:[\w-]+ ){0,3}(?:flowers|roses|tulips|sunflowers|daisies)\b)"
    r"|(?:^|[,:;.] |\b(?:pictures?|images?|story|tale|comic|poster|worksheet|lesson|cycle) )for "
    r"(?:(?:very |small |little |young )*(?:children|kids|toddlers|pupils)|grandma|grandpa|mum|mom|dad)\b"
    rf"|\bfor {_OURS}\b|\b(?:show|teach|tell|help|explain to) {_OURS}\b|\bto {_OURS}(?=\W*$)"
    rf"|\b(?:{_OURS}|the (?:children|kids|pupils)) "
    r"(?:ask|asks|asked|is asking|wonder|wonders|wondered|would like|draw|drew"
    r"|(?:wants?|wanted) (?:it|this|the whole|to see)"
    r"|says next|(?:doesn't|does not|don't|do not) like|will (?:love|like|laugh)"
    rf"|(?:is|are|turns?|just turned) (?:\d+|{one_of(NUMBERS[1:])})"
    rf"|(?:has|have) (?:\d+|{one_of(NUMBERS[1:])}) years)\b"
    rf"|\b(?:i am|i[’']m|we are|we[’']re) (?:an? )?(?:[\w-]+ )?{_PERSON}\b"
    r"|(?<=\bsun )rose\b|(?<=\bmoon )rose\b|\bput (?:it|them|this|that) on the page\b"
    r"|\bfruit (?:plate|bowl)\b|\b(?:plate|dish|bowl) of fruit\b"
    r"|\bcolou?rs? of the rainbow\b|\brainbow colou?rs?\b"
    r"|\bto bear\b|\bbears? (?=(?:\w+ )?(?:fruit|apples?|pears?)\b)"
    r"|\bmagic (?:paint ?)?brush\b|\b(?:to|before|for) bed\b|\b(?:above|for|on) my (?:desk|door|fridge)\b"
    rf"|\bdear {_PERSON}\b|\bbaby (?={one_of(KIND_OF)}\b)"
    r"|\b(?:them|it|he|she|who|cat|dog) leaves\b|\bsquare danc(?:e|es|ing)\b"
    r"|\b(?:in|inside) the house\b|\bmov(?:e|es|ed|ing)(?: to a new)? house\b|\bpencils\b"
    r"|\b(?:my|with|with \w+) (?:pencil|brush|paintbrush)\b"
    r"|\bballs? of snow\b|\bsnow ?balls\b|\bsnow into balls\b|\bthe sun has set\b|\bin the street the game\b"
    r"|\buntil the stars (?:came|come)\b|\ba gift from the (?:gripper|robot)\b|\bcolou?ring book\b"
    r"|\b(?:whole|life) circle\b|\bcircle of (?:life|friends)\b|\b(?:picture|story) ?book\b"
    r"|\bbook of (?:rhymes|poems)\b|\blook(?:s|ing)? like (?:an? )?\w+\b|\bas (?:a )?present\b"
    r"|\bin the nursery rhyme\b|\bfrog'?s? eggs\b|\bapple (?=trees?\b)"
    r"|\b(?:flip|counting|opposites|alphabet|colou?rs?) book\b|\bbook about\b|\bin the book\b"
    r"|\b(?:cover|page|picture|title|art) (?:of|for|in) (?:my|our|a|the) (?:\w+ )?book\b"
    rf"|\b(?:an? )?{one_of(KIND_OF)} (?=shop|store|club|team|party|class|school)"
    rf"|\b{one_of(KIND_OF)} (?:(?:made|built|drawn|put together) )?(?:of|from|out of) (?:[\w-]+ ){{0,4}}?"
    r"(?:shapes|circles|squares?|triangles?)\b"
    r"|\b(?:step|picture|frame|panel|image|scene|part|page) \d\b",
    re.IGNORECASE,
)
"""Phrases that name a thing without asking for it: idioms, who asks, numbers of steps, figures of shapes."""


def leaves_out(missing: Sequence[str]) -> str:
    """Return the message to the planner about missing things."""
    return f"The plan leaves out {listed(list(missing))}."


def has_unwanted(unwanted: Sequence[str]) -> str:
    """Return the message to the planner about unwanted things."""
    return f"The plan has {listed(list(unwanted))}, which is not wanted."


def more_than_fit(text: str) -> str | None:
    """Return a number of things that exceeds the room of an image, or `None`."""
    found = _MORE_THAN_NINE.search(_SAID_OTHERWISE.sub(" ", text))
    return found[0] if found else None


def unwanted_in(plan: Plan, request: Request) -> list[str]:
    """Return things that a request without images excludes and the last scene of the plan has."""
    scenes = [] if request.images else scenes_of(plan)
    if not scenes:
        return []
    kinds = {thing.kind for thing in scenes[-1].everything.values()}
    asked = _SAID_OTHERWISE.sub(" ", request.text)
    wanted = {KIND_OF[word[0].lower()] for word in _THING.finditer(NEGATED.sub(" ", asked))}
    return [
        word[0]
        for negated in NEGATED.finditer(asked)
        if not _COLOUR.search(negated[0])  # "not a red heart but a blue one"
        for word in _THING.finditer(negated[0])
        if KIND_OF[word[0].lower()] in kinds - wanted
    ]


def missing_from(plan: Plan, request: Request) -> list[str]:
    """Return what a request names and the plan does not draw, in the request's words."""
    asked, planned = _asked_text(request), _planned_text(plan)
    asked = NEGATED.sub(" ", _still_meant(_SAID_OTHERWISE.sub(" ", asked)))
    scenes = [] if request.images else scenes_of(plan)
    places = list(_missing_places(asked, planned, scenes))
    asked = _PLACE.sub(" ", asked)  # "among the trees" asks for no tree
    kinds = _drawn_kinds(plan)
    is_riddle = topic_of(plan) in language().riddle_topics  # "what bunnies love" asks for no rabbit
    named = [] if is_riddle else [each for each in _THING.finditer(asked) if language().is_meant(each)]
    found = dict.fromkeys(
        (
            *_missing_pairs(asked, planned, kinds),
            *(word[0] for word in named if not language().may_be(word[0].lower(), kinds)),
            *_missing_counts(asked, planned, scenes),
            *_missing_relations(asked, scenes),
            *_not_put_down(asked, scenes),
            *places,
            *(() if is_riddle or not scenes else _missing_effects(request, plan)),
        )
    )
    return list(found)


def _missing_effects(request: Request, plan: Plan) -> list[str]:
    """Return the words for what happens that no image shows.

    The first image of a story in own sentences stands still: "A bus drove through the desert." needs no more.
    """
    shown = shown_by([step.prompt or "" for step in plan.steps])
    missing = not_shown(request.text, shown)
    if request.reading is None or not request.reading.captions:
        return missing
    first, _, others = request.text.lower().partition("\n")
    at_rest = not_shown(request.text, shown | MOTION)
    return [word for word in missing if word in at_rest or word not in first or word in others]


def _still_meant(asked: str) -> str:
    """Remove corrected words from a request: "a red car, no wait, a boat" asks for a boat."""
    taken_back = TAKEN_BACK.match(asked)
    if taken_back is None:
        return asked
    kept = asked[taken_back.end() :]
    if _THING.search(kept):
        return kept
    return _COLOUR.sub(" ", taken_back[0]) + kept if _COLOUR.search(kept) else asked


def _drawn_kinds(plan: Plan) -> set[str]:
    """Return the kinds a plan draws or teaches to draw; if none, the kinds it mentions."""
    prompts = " ".join(step.prompt or "" for step in plan.steps)
    lesson = topic_of(plan) if topic_of(plan).startswith("drawing") else ""
    words = f"{lesson} {prompts}" if prompts.strip() else _planned_text(plan)
    drawn = {KIND_OF[found[0].lower()] for found in _THING.finditer(words)}
    return drawn | ({"robot"} if "gripper" in words else set())


def impossible_step(plan: Plan, scene: Scene | None = None) -> str | None:
    """Return the first prompt that cannot be drawn, starting from nothing or a scene, or `None`."""
    for step in plan.steps:
        if step.prompt is None:
            return None
        try:
            scene = parse_prompt(step.prompt, scene)
        except (NotUnderstood, Impossible) as error:
            # painting a thing its own colour is harmless
            if not isinstance(error.__cause__ or error, AlreadySo):
                return step.prompt
    return None


def scenes_of(plan: Plan) -> list[Scene]:
    """Return the scenes of a plan that starts from nothing; empty if a prompt cannot be drawn."""
    scenes: list[Scene] = []
    for step in plan.steps:
        try:
            scenes.append(parse_prompt(step.prompt or "", scenes[-1] if scenes else None))
        except (NotUnderstood, Impossible):
            return []
    return scenes


def is_about_something_else(plan: Plan, request: Request) -> bool:
    """Return whether the request has neither a thing of the plan nor a word of its topic."""
    kinds = _drawn_kinds(plan)
    text = _NO_THING.sub(" ", request.text)
    if any(KIND_OF[found[0].lower()] in kinds for found in _THING.finditer(text)):
        return False
    named = {_EMPTY_PLACES[found[0].lower()] for found in _PLACE_NOUN.finditer(request.text)}
    scenes = scenes_of(plan)
    if not kinds and named.intersection(scene.background for scene in scenes):
        return False
    if any(scene.gripper for scene in scenes) and _ROBOT.search(request.text):
        return False
    if any(ALL_KINDS[kind].category == "animal" for kind in kinds) and _ANIMAL.search(request.text):
        return False
    if any(kind in kinds and words.search(request.text) for kind, words in _MEANT_BY.items()):
        return False
    if topic_of(plan) in language().riddle_topics:
        prompts = " ".join(step.prompt or "" for step in plan.steps)
        return not is_riddle_of(request.text, [noun for noun in ALL_NOUNS if noun in prompts])
    return not is_about(text, topic_of(plan))


def topic_of(plan: Plan) -> str:
    """Return the topic named in the plan's reasoning: "A walk: 3 to do."."""
    return (plan.reasoning or "").partition(":")[0].strip().lower()


def named_things(plan: Plan) -> list[str]:
    """Return the things a plan draws, in order, without repeats."""
    prompts = " ".join(step.prompt or "" for step in plan.steps).lower()
    return list(dict.fromkeys(found[0] for found in _THING.finditer(prompts)))


def named_in(text: str) -> list[str]:
    """Return the things of the world that a text names, in the world's words, without repeats."""
    words = (found[0].lower() for found in _THING.finditer(_PLACE.sub(" ", text)))
    return list(dict.fromkeys(_NOUN_OF[word] for word in words if word in _NOUN_OF))


def understood_in(plan: Plan, request: Request) -> list[str]:
    """Return what both a request and its plan have: things and places, in the request's words."""
    kinds, planned = _drawn_kinds(plan), _planned_text(plan)
    text = _PLACE.sub(" ", request.text)
    things = [found[0].lower() for found in _THING.finditer(text) if KIND_OF[found[0].lower()] in kinds]
    missing = {*_missing_places(request.text, planned, scenes_of(plan))}
    places = [found[0].lower() for found in _PLACE.finditer(request.text) if found[0] not in missing]
    return list(dict.fromkeys((*things, *places)))


def _asked_text(request: Request) -> str:
    """Return the words that describe the images.

    Where images are given, most words refer to what they show; only what is spoken of as something new,
    in the text after them, must be in the plan.
    """
    if not request.images:
        return request.text
    last = next((part.text for part in reversed(request.parts) if isinstance(part, Text)), "")
    return ". ".join(found[0] for found in _SOMETHING_NEW.finditer(last))


def _planned_text(plan: Plan) -> str:
    words = [plan.reasoning or ""]
    for step in plan.steps:
        words += [step.name or "", step.prompt or "", step.caption or ""]
    return " ".join(words).lower()


def _missing_pairs(asked: str, planned: str, kinds: set[str]) -> Iterator[str]:
    """Yield coloured things that the plan never mentions."""
    for found in (*_COLOURED.finditer(asked), *_COLOURED_AFTER.finditer(asked)):
        if KIND_OF[found["thing"].lower()] in kinds and not _says(
            planned, _COLOUR_OF[found["colour"].lower()]
        ):
            yield f"{found['colour']} {found['thing']}"


def _missing_counts(asked: str, planned: str, scenes: Sequence[Scene]) -> Iterator[str]:
    """Yield counts that no image has or, if the scenes are unknown, that no prompt mentions."""
    for found in COUNTED.finditer(asked):
        said = found["count"].lower()
        number = int(said) if said.isdigit() else NUMBERS.index(said)
        kind = KIND_OF[found["things"].lower()]
        once = sum(KIND_OF[each[0].lower()] == kind for each in _THING.finditer(asked)) == 1
        if scenes:
            is_any_child = found["things"].lower() in ("children", "kids")
            kinds = {"boy", "girl", "baby"} if is_any_child else {kind}
            shown = {count for scene in scenes for count in _numbers_of(kinds, scene)}
            wrong = number not in shown if once else max(shown) < number
        else:
            mentions = sum(KIND_OF[each[0].lower()] == kind for each in _THING.finditer(planned))
            wrong = not _says(planned, NUMBERS[number]) and mentions < number
        if wrong:
            yield f"{found['count']} {found['things']}"


def _numbers_of(kinds: Collection[str], scene: Scene) -> set[int]:
    """Count the things of some kinds, in total and by colour."""
    colours = Counter(thing.colour for thing in scene.everything.values() if thing.kind in kinds)
    held = "block" in kinds and scene.gripper is not None and scene.gripper.holds is not None
    return {colours.total() + held, *colours.values()}


_PUT_DOWN = re.compile(
    r"\b(?:puts?|places?|stacks?|drops?|sets?|lays?) (?:it|them|down|the|on)\b", re.IGNORECASE
)


def _not_put_down(asked: str, scenes: Sequence[Scene]) -> Iterator[str]:
    """Yield requested moves of a block that the gripper still holds in the last image."""
    holds = bool(scenes) and scenes[-1].gripper is not None and scenes[-1].gripper.holds is not None
    if holds and (said := _PUT_DOWN.search(asked)):
        yield said[0]


# Relations

_LEFT, _RIGHT, _ABOVE, _BELOW = 3, 5, 1, 7
_BESIDE = ("next to", "beside")
_CLEAR = [
    words for words in language().related if re.search(r"left|right of|above|below|under|on top", words)
]
"""Relations that name a side; others, such as "on" and "near", are often meant otherwise."""
_RELATION = re.compile(
    rf"\b(?P<thing>{one_of(KIND_OF)}) (?P<relation>{one_of((*_BESIDE, *_CLEAR))}) (?:an?|the|some|one) "
    rf"(?:{_BEFORE} )*(?P<other>{one_of(KIND_OF)})\b",
    re.IGNORECASE,
)


def _missing_relations(asked: str, scenes: Sequence[Scene]) -> Iterator[str]:
    """Yield relations of two things that no image shows."""
    for found in _RELATION.finditer(asked):
        one, other = (KIND_OF[found[name].lower()] for name in ("thing", "other"))
        if one == other or not scenes:
            continue
        relation = found["relation"].lower()
        sides = (_LEFT, _RIGHT, _ABOVE, _BELOW) if relation in _BESIDE else (language().related[relation],)
        if not any(_stands(one, side, other, scene) for side in sides for scene in scenes):
            yield found[0]


def _stands(one: str, side: int, other: str, scene: Scene) -> bool:
    """Return whether a thing of one kind is on that side of a thing of the other, or carried by it."""
    if any(
        thing.kind == other and thing.load and thing.load.thing.kind == one for thing in scene.things.values()
    ):
        return True
    cells = [cell for cell, thing in scene.things.items() if thing.kind == one]
    anchors = [cell for cell, thing in scene.things.items() if thing.kind == other]
    row, column = side // GRID - 1, side % GRID - 1
    return any(
        (cell // GRID - anchor // GRID) * row > 0 or (cell % GRID - anchor % GRID) * column > 0
        for cell in cells
        for anchor in anchors
    )


@cache
def _place_words() -> dict[str, frozenset[str]]:
    """Return the backgrounds that each phrase for a place may mean."""
    found = defaultdict[str, set[str]](set)
    for place, words in ALL_PLACES.items():
        if NIGHT in place:  # the night itself is an effect
            continue
        for form in (words.within, *words.others):
            found[form].add(place)
    for place, forms in language().place_phrases.items():
        for form in forms:
            found[form].add(place)
    return {form: frozenset(places) for form, places in found.items()}


_PLACE = re.compile(rf"\b{one_of(_place_words())}\b", re.IGNORECASE)
_NOT_HERE = re.compile(r"\b(?:not|never|instead of|do ?n[o']?t draw [\w ]+) $", re.IGNORECASE)


_ROBOT, _ANIMAL = (
    re.compile(rf"\b{words}\b", re.IGNORECASE)
    for words in ("(?:robot|gripper|claw|stack(?:s|ed|ing)?)", "animals?")
)
_MEANT_BY = {
    kind: re.compile(rf"\b(?:{words})\b", re.IGNORECASE)
    for kind, words in {
        "cloud": "rain|rains|rained|raining|rainy|cloudy|storms?|stormy",
        "sun": "sunny|sunshine|sunlight|day.{0,60} night|night.{0,60} day|morning.{0,60} evening",
        "flower": "buds?|sprouts?|blooms?|bloomed|blooming|blossoms?|bouquet",
        "frog": "spawn",
        "cup": "tea|coffee|pour|pours|poured|pouring",
        "block": "(?:a|the|my|our|this|that) towers?",
        "rocket": "lift ?off|blast ?off|take ?off|launch",
        "plane": "take ?off|takes off|runway|landing|flight",
        "train": "railway|choo",
        "boat": "sail|sails|sailed|sailing",
        "bread": "picnic",
        "gift": "unwrap|unwraps|unwrapping|unpack",
    }.items()
}
"""By kind: words that imply it without naming it."""
_EMPTY_PLACES = {
    **{noun.split()[-1]: place for place, nouns in language().place_nouns.items() for noun in nouns},
    **language().empty_places,
}
_PLACE_NOUN = re.compile(rf"\b{one_of(_EMPTY_PLACES)}\b", re.IGNORECASE)


def _missing_places(asked: str, planned: str, scenes: Sequence[Scene]) -> Iterator[str]:
    """Yield places that no image shows or, if the scenes are unknown, that the plan does not mention."""
    shown = {scene.background for scene in scenes}
    shown |= {DAY_OF[night] for night in shown if night in DAY_OF} | {
        "night" for each in shown if NIGHT in each
    }
    for found in _PLACE.finditer(asked):
        places = _place_words()[found[0].lower()]
        if found[0].lower() in language().vague_places or _NOT_HERE.search(asked[: found.start()]):
            continue
        if not language().effects.keys().isdisjoint(found[0].lower().split()):  # "at night" is an effect
            continue
        if scenes:
            wrong = shown.isdisjoint(places)
        else:
            wrong = not any(_says(planned, words) for each in places for words in (bare_noun(each), each))
        if wrong:
            yield found[0]


def _says(text: str, word: str) -> bool:
    return re.search(rf"\b{re.escape(word)}s?\b", text) is not None
