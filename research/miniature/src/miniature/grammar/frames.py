r"""Requests composed from verbs, with their plans: `frames/*.txt`.

A frame is some wordings of a request, each with gaps, then the steps of its plan, then what may fill the
gaps. What a request does not say is as usual: the colour, the size, the first of the places that fit.

    {a} (chases|runs after) {b} {in}
    > how {a} tries to catch {b}
      *: a l; b m # {the a} sees {the b}.
      b > r; a > m # {the a} runs after {the b}.
    a: actor
    b: animal ball -whale
    in: meadow garden farm

A wording is a sentence, or after `-` a noun phrase, `!` a wish, `>` words after “show me”, `?` a question,
`=` words that stay as they are. `(x|y)` is one of two ways to say it. In gaps: `{a}` is “a dog” (in a
request “the dog” from the second time on), `{the a}`, `{- a}` without an article, `{pl a}` “dogs”, `{3 a}`
“three dogs”, `{a.wet}` “a wet dog”, `{he a}`, `{him a}`, `{his a}`, `{at a}` its position, `{in}` the place
if it is said. Steps are those of `frame_plans`. Slots: kinds, categories, sets of `frame_words`; `~c` for
the colour in slot c; `b: as a ~d` is of the same kind as a; `c: colour`; `n: 2-5`; `p: place farm garden`;
`v = sits/sitting | stands/standing`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.resources import files
from itertools import groupby
from random import Random

from interleave import InputError
from interleave_mini.bench.tasks import Step
from interleave_mini.language.words import capitalised
from interleave_mini.world.wider import ALL_BACKGROUNDS, ALL_COLOURS, ALL_KINDS, NIGHT, NIGHT_OF
from miniature.grammar.frame_plans import Stage
from miniature.grammar.frame_words import Choice, Role, Teller, cast, choices_of, has_state, place_in_words
from miniature.grammar.past_tense import in_past
from miniature.grammar.wider_words import WIDER_PHRASES
from miniature.grammar.wishes import PLAIN, asked
from miniature.grammar.worked_examples import IMAGE, is_held_out

ONE_IMAGE = 0.5
"""Share of requests for one image."""
PLACE_SAID, PLACE_FIRST, ANY_PLACE, BY_NIGHT, MIRRORED = 0.4, 0.12, 0.4, 0.12, 0.5
"""Shares of requests that name a place; of these, of those that begin with it, of any place and of nights; of
mirrored plans where sides are said."""
IN_PAST = 0.08
"""Share of requests in the past tense."""
_FORMS = "-!>?="
_SLOT = re.compile(r"(?P<name>[a-z]|in)(?P<kind>:| =)\s+(?P<words>.+)")
_NO_CLAUSE = re.compile(
    r"[:?]| - |, (?:take|then|and then|stop)|^(?:first|count|one|two|three|[0-9]|neither|only|from|now)\b"
)
"""What is no sentence that could follow “show me how”."""
_GAP = re.compile(r"\{([^{}]+)\}")
_TOUCHING = re.compile(r"\b([a-z])(?:\.[a-z_-]+)? (?:on|in|under|held) ([a-z])\b")
_PLACE_OF: dict[str, str] = {
    **dict.fromkeys(("fish", "whale"), "sea"),
    **dict.fromkeys(("horse", "cow", "pig", "sheep", "hen", "tractor"), "farm"),
    **dict.fromkeys(("penguin", "snowman"), "snow"),
    **dict.fromkeys(("rocket", "moon", "star"), "night"),
    **dict.fromkeys(("bear", "fox", "owl", "monkey", "snake", "tree", "mushroom"), "forest"),
    **dict.fromkeys(("boat", "lighthouse"), "sea"),
    **dict.fromkeys(("duck", "frog"), "lake"),
    **dict.fromkeys(("bus", "bicycle"), "street"),
    **dict.fromkeys(("cactus",), "desert"),
    **dict.fromkeys(("bed", "baby", "teddy"), "bedroom"),
    **dict.fromkeys(("hammer", "block", "ladder"), "workbench"),
    **dict.fromkeys(("volcano",), "mountain"),
}
_OUTSIDE = "meadow beach snow desert forest city road street mountain farm garden park lake river playground"
_PLACE_OF_CATEGORY = {
    **{"food": "kitchen", "household": "room", "vehicle": "road", "toy": "room", "shape": "paper"},
    **{"tool": "workbench", "block": "workbench", "person": "park", "building": "city", "plant": "garden"},
}


@dataclass(frozen=True)
class Wording:
    """One way to ask: its form, and words with gaps."""

    form: str
    words: str


@dataclass(frozen=True)
class Slot:
    """What may fill a gap: kinds, words, numbers, a colour or a place."""

    kind: str
    choices: tuple[Choice, ...] = ()
    words: tuple[tuple[str, ...], ...] = ()
    colour: str = ""
    is_present: bool = False
    carrier: str = ""
    """The slot that carries it, perhaps with how (“b.under”); "0" for none."""
    like: str = ""


@dataclass(frozen=True, eq=False)
class Frame:
    """Some wordings, the steps of their plan, and what may fill the gaps."""

    wordings: tuple[Wording, ...]
    steps: tuple[tuple[str, str], ...]
    slots: dict[str, Slot]
    places: tuple[str, ...]
    source: str = ""

    @cached_property
    def large(self) -> frozenset[str]:
        """The slots whose size cannot be other than usual: they carry, are carried, or change their size."""
        made = "; ".join(step for step, _ in self.steps)
        touching = _TOUCHING.findall(made)
        resized = re.findall(r"\bsmall ([a-z])\b|\b([a-z]) (?:big|small)\b", made)
        return frozenset(name for names in (*touching, *resized) for name in names)


def parse_frames(text: str, source: str = "") -> Iterator[Frame]:
    """Yield the frames of a file."""
    lines = [line.rstrip() for line in text.splitlines() if not line.startswith("#")]
    for filled, block in groupby(lines, key=bool):
        if filled:
            yield _parse_frame(list(block), source)


def _parse_frame(block: list[str], source: str) -> Frame:
    steps = [line.strip().partition(" # ") for line in block if line.startswith(" ")]
    others = [line for line in block if not line.startswith(" ")]
    declared = [found for line in others if (found := _SLOT.fullmatch(line))]
    wordings = tuple(_wording(line) for line in others if not _SLOT.fullmatch(line))
    if not wordings or not steps:
        raise InputError(f"a frame has wordings and steps: {block[0]!r}")
    plan = tuple((made.strip(), caption.strip()) for made, _, caption in steps)
    names = {found["name"] for found in declared} | {"in"}
    if missing := {gap.split()[-1].partition(".")[0] for gap in _GAP.findall(" ".join(block))} - names:
        raise InputError(f"gaps without a slot in {block[0]!r}: {sorted(missing)}")
    slots = {found["name"]: _slot(found, plan) for found in declared if found["name"] != "in"}
    places = next((found["words"].replace("_", " ") for found in declared if found["name"] == "in"), "")
    return Frame(wordings, plan, slots, _places(places), source)


def _wording(line: str) -> Wording:
    form, _, words = line.partition(" ")
    if form in _FORMS and words:
        return Wording(PLAIN if form == "=" else form, words)
    return Wording(PLAIN if _NO_CLAUSE.search(line) else "", line)


def _places(words: str) -> tuple[str, ...]:
    words = words.replace("outside", _OUTSIDE)
    found = tuple(words.replace("sea floor", "sea_floor").replace(" at night", "_at_night").split())
    found = tuple(each.replace("_", " ") for each in found)
    if unknown := [each for each in found if each not in ALL_BACKGROUNDS]:
        raise InputError(f"no place: {unknown}")
    return found


def _slot(found: re.Match[str], plan: Sequence[tuple[str, str]]) -> Slot:
    words = found["words"].strip()
    if found["kind"] == " =":
        return Slot("word", words=tuple(tuple(each.strip().split("/")) for each in words.split(" | ")))
    if words == "colour":
        return Slot("colour")
    if re.fullmatch(r"\d-\d", words):
        return Slot("number", words=tuple((str(each),) for each in range(int(words[0]), int(words[2]) + 1)))
    if words.split()[0] == "place":
        return Slot("place", words=tuple((each,) for each in _places(" ".join(words.split()[1:]))))
    colour = re.search(r"\s*~(\w+)", words)
    if colour and words.startswith("as "):
        return Slot("thing", colour=colour[1], like=words.split()[1])
    present = words.startswith("@")
    carrier = re.search(r"\s<([\w.]+)", words)
    choices = choices_of(re.sub(r"\s*[~<][\w.]+", "", words).removeprefix("@"))
    states = _states_of(found["name"], plan)
    fitting = tuple(each for each in choices if all(has_state(each.kind, state) for state in states))
    fitting = tuple(each for each in fitting if has_state(each.kind, each.state))
    if not fitting:
        raise InputError(f"nothing can be in slot {found['name']}: {words!r} with {states}")
    link, holder = colour[1] if colour else "", carrier[1] if carrier else ""
    return Slot("thing", fitting, colour=link, is_present=present, carrier=holder)


def _states_of(slot: str, plan: Sequence[tuple[str, str]]) -> set[str]:
    """Return the states that the plan has this slot in."""
    found: set[str] = set()
    for made, _ in plan:
        found |= set(re.findall(rf"\b{slot}\.([a-z_-]+)", made))
        found |= set(re.findall(rf"\b{slot} = ([a-z_-]+)", made))
    return found


@cache
def frames() -> tuple[Frame, ...]:
    """Return all frames."""
    return tuple(frames_in("frames"))


def frames_in(folder: str) -> Iterator[Frame]:
    """Yield the frames of the text files of a folder, by name."""
    some = (file for file in files(__package__).joinpath(folder).iterdir() if file.name.endswith(".txt"))
    for file in sorted(some, key=str):
        yield from parse_frames(file.read_text("utf-8"), file.name)


# Sampling


def sample_frame(rng: Random) -> tuple[str, str, tuple[Step, ...]]:
    """Return topic, request and steps of a frame whose gaps are filled."""
    while True:
        made = try_frame(rng.choice(_pool(rng.random() < ONE_IMAGE)), rng)
        if made is not None:
            return made


@cache
def _pool(has_one_image: bool) -> tuple[Frame, ...]:
    return tuple(frame for frame in frames() if (len(frame.steps) == 1) == has_one_image)


def try_frame(frame: Frame, rng: Random) -> tuple[str, str, tuple[Step, ...]] | None:
    """Fill the gaps of a frame once; `None` if that is impossible or held out from training."""
    wording = rng.choice(frame.wordings)
    made = filled(frame, wording, rng)
    if made is None:
        return None
    teller, stage, place, is_place_said = made
    try:
        request, form = _requested(frame, wording, teller, stage, place if is_place_said else "", rng)
        teller.in_request = False
        teller.says_colours = rng.random() < 0.4
        steps = carried_out(frame, teller, stage, place)
    except InputError:
        return None
    if is_held_out(steps):
        return None
    topic = IMAGE if len(steps) == 1 else "own steps"
    return topic, asked(request, form, len(steps), rng), steps


def filled(frame: Frame, wording: Wording, rng: Random) -> tuple[Teller, Stage, str, bool] | None:
    words = {name: rng.choice(slot.words) for name, slot in frame.slots.items() if slot.kind == "word"}
    text = wording.words + " ".join(form for forms in words.values() for form in forms)
    said = {gap.split()[-1].partition(".")[0] for gap in _GAP.findall(text)}
    named = [name for name, slot in frame.slots.items() if slot.kind == "colour"]
    colours = dict(zip(named, rng.sample([*ALL_COLOURS], len(named)), strict=True))
    numbers = {n: int(rng.choice(s.words)[0]) for n, s in frame.slots.items() if s.kind == "number"}
    places = {
        n: rng.choice([each for (each,) in s.words] or [*ALL_BACKGROUNDS])
        for n, s in frame.slots.items()
        if s.kind == "place"
    }
    roles: dict[str, Role] = {}
    for name, slot in frame.slots.items():
        if slot.kind != "thing":
            continue
        taken = {(role.kind, "" if not slot.colour else role.colour) for role in roles.values()}
        colour = colours.get(slot.colour, slot.colour)
        choices = (Choice(roles[slot.like].kind),) if slot.like else slot.choices
        free = [each for each in choices if (each.kind, colour) not in taken]
        if not free:
            return None
        choice = rng.choice(free) if name in said else free[0]
        role = cast(choice, rng, is_said=name in said, colour=colour, is_large=name in frame.large)
        role.noun = roles[slot.like].noun if slot.like else role.noun
        if role.noun in {other.noun for other in roles.values()} and not colour:
            return None
        roles[name] = role
    linked = {slot.colour for slot in frame.slots.values()}
    worn = {role.colour for role in roles.values()}
    for name in named:
        if name not in linked and colours[name] in worn:  # painted in another colour than it has
            free_colours = [each for each in ALL_COLOURS if each not in {*worn, *colours.values()}]
            colours[name] = rng.choice(free_colours)
    has_sides = "{at " in wording.words
    stage = Stage(roles, places, colours, numbers, mirrored=has_sides and rng.random() < MIRRORED)
    place, is_said = _place(frame, roles, places, rng)
    shown = {name: (colour,) for name, colour in colours.items()}
    teller = Teller(roles, {**words, **shown}, numbers, places, {}, rng)
    return teller, stage, place, is_said


def _place(frame: Frame, roles: dict[str, Role], places: dict[str, str], rng: Random) -> tuple[str, bool]:
    """Return the place of the first image, and whether the request says it."""
    head = frame.steps[0][0].partition(":")[0].strip()
    if head != "*":
        name, night, _ = head.rpartition(" night")
        by_night = NIGHT_OF.get(places[name], places[name]) if night and name in places else ""
        return by_night or places.get(head, head.replace("_", " ")), False
    usual = frame.places or (_usual_place(roles),)
    if rng.random() >= PLACE_SAID:
        return usual[0], False
    place = rng.choice(_BY_DAY) if rng.random() < ANY_PLACE else rng.choice(usual)
    return (NIGHT_OF[place] if place in NIGHT_OF and rng.random() < BY_NIGHT else place), True


_BY_DAY = [each for each in ALL_BACKGROUNDS if not each.endswith(NIGHT)]


def _usual_place(roles: dict[str, Role]) -> str:
    """Return where the first of these things is usually found."""
    for role in roles.values():
        if role.kind in _PLACE_OF:
            return _PLACE_OF[role.kind]
    for role in roles.values():
        if place := _PLACE_OF_CATEGORY.get(ALL_KINDS[role.kind].category):
            return place
    return "meadow"


def _requested(
    frame: Frame, wording: Wording, teller: Teller, stage: Stage, place: str, rng: Random
) -> tuple[str, str]:
    """Return the request in words, and its form; a place is in its gap, at the beginning or at the end."""
    inside = _within(place, rng) if place else ""
    words, form = wording.words, wording.form
    items = frame.steps[0][0].partition(":")[2]
    teller.cells = {_slot_named(item): stage.cell_of(item.split()[-1]) for item in _items(items)}
    if "{in}" in words:
        words = words.replace("{in}", inside)
    elif inside and rng.random() < PLACE_FIRST and form != "?":
        words, form = f"{inside}{rng.choice((', ', ': '))}{words}", PLAIN
    elif inside:
        words = with_place(words, inside)
    if form == "" and rng.random() < IN_PAST:
        words = in_past(words)
    told = teller.told(words)
    return re.sub(r" +([,.?!])", r"\1", told).replace(r"\n", "\n"), form


def with_place(words: str, inside: str) -> str:
    first, dot, rest = words.partition(". ")
    mark = first[-1] if first[-1] in "?!." else ""
    return f"{first[: len(first) - len(mark)]} {inside}{mark}{dot}{rest}"


def _within(place: str, rng: Random) -> str:
    if place in WIDER_PHRASES and rng.random() < 0.25:
        return rng.choice(WIDER_PHRASES[place])
    return place_in_words(place, "in", rng, in_request=True)


def _items(items: str) -> list[str]:
    return [item.strip() for item in items.split(";") if item.strip()]


def _slot_named(item: str) -> str:
    """Return the slot of an item: its second word if the first is a number."""
    return next(word for word in re.split(r"[ .]", item) if len(word) == 1 and word.isalpha() and word != "n")


def carried_out(frame: Frame, teller: Teller, stage: Stage, place: str) -> tuple[Step, ...]:
    """Return the steps; raise `InputError` if one is impossible."""
    steps: list[Step] = []
    for made, caption in frame.steps:
        told = captioned(caption, teller)
        if not steps:
            before = stage.begin(place, made.partition(":")[2])
            steps.append(Step("The beginning", told, before))
            continue
        steps.append(step_of(stage, made, told))
    if len(steps) == 1:
        steps[0] = replace(steps[0], name="The picture")
    return tuple(steps)


def step_of(stage: Stage, made: str, caption: str) -> Step:
    """Carry out the operations of a step."""
    before = stage.scene
    operations = stage.carry_out(made)
    return Step(stage.name, caption, stage.scene, operations, before)


def captioned(caption: str, teller: Teller) -> str:
    """Fill the gaps of a caption; its sentences begin with capitals."""
    told = re.sub(r" +([,.?!])", r"\1", teller.told(caption))
    return re.sub(r"(?<=[.!?] )[a-z]", lambda found: found[0].upper(), capitalised(told))
