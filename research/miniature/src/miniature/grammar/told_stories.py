"""Stories in somebody's own sentences: each sentence is one step, and its caption, word for word.

A story begins with a frame of `frames/stories/openers*.txt` and goes on with events of `events*.txt`: frames
about the things that are there (`a: @actor/sleeping`; `b: @ball <a` is carried by a,
`<a.under` under a, `<0` by nothing) and new
ones. The place of an event (`in: lake river`)
is where it can happen. Events about everybody need all animals and people as slots.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cache
from random import Random

from interleave import InputError
from interleave_mini.bench.tasks import Step
from interleave_mini.language.words import capitalised, sentence
from interleave_mini.world.scene import CELLS, Scene
from interleave_mini.world.wider import ALL_COLOURS, ALL_KINDS, NIGHT
from miniature.grammar.frame_plans import Stage
from miniature.grammar.frame_words import NAMES, Role, Teller, cast, place_in_words, state_of
from miniature.grammar.frames import Frame, Wording, filled, frames_in, step_of, with_place
from miniature.grammar.lists_of_steps import written_as_list
from miniature.grammar.past_tense import in_past
from miniature.grammar.worked_examples import is_held_out

_LENGTHS = (2, 3, 3, 4, 4, 5, 6, 7, 8)
LISTED, ON_LINES, PRONOUNS_SHARE = 0.3, 0.2, 0.5
"""Shares of stories as a list, of the others with a sentence per line, and of pronouns where nobody else is
meant."""
IN_PAST, STAYS_IN_PAST = 0.22, 0.85
"""Shares of stories in the past tense: of all, and of those whose first sentence is in the past."""
TRIED, BETWEEN, FEW = 70, 0.65, 16
"""How many events may come next; share of those about several things, and how many kinds are few."""
NAMED = 0.2
"""Share of main characters with a name."""
CONNECTED = 0.12
"""Share of stories whose sentences begin with “Then”, “After that” and the like."""
JOINED = 0.4
"""Share of the stories that can be one sentence and are no list."""
_MOST_JOINED = 4
_JOINTS = (
    ("first ", ", then ", ", and finally "),
    ("first ", ", then ", " and then "),
    ("", ", then ", ", and in the end "),
    ("", ", then ", ", then "),
    ("to begin with ", ", next ", ", and at last "),
)
"""Words before the first clause of a sentence, before the others, and before the last."""
_CLAUSE = re.compile(
    rf"(?:The|An?|He|She|It|{'|'.join(name for some in NAMES.values() for name in some)})\b[^:!?]*\."
)
_STARTS = re.compile(r"^\{the ([a-z])\}")
_EVERYBODY = re.compile(r"\b(?:everybody|everyone|both|they|all|them)\b", re.IGNORECASE)
_IS_PAST = re.compile(r"\b(?:was|were|had|lived|sat|stood|lay|held|slept|played|wanted)\b")
_THEN_SENTENCE = re.compile(r"\. (?:Then|Now|Next,|After that) ", re.IGNORECASE)
_CONNECTORS = ("Then {}", "Then {}", "After that, {}", "Next, {}", "A moment later {}", "And then {}")
_AT_LAST = ("At last {}", "Finally, {}", "In the end {}", "At the end {}")


@dataclass
class _Telling:
    scene: Scene
    cast: list[Role]
    last: Role | None = None
    is_past: bool = False
    steps: list[Step] = field(default_factory=list)


@cache
def _openers() -> tuple[Frame, ...]:
    return tuple(each for each in frames_in("frames/stories") if each.source.startswith("openers"))


@cache
def _events() -> tuple[Frame, ...]:
    return tuple(each for each in frames_in("frames/stories") if each.source.startswith("events"))


def sample_told_story(rng: Random) -> tuple[str, str, tuple[Step, ...]]:
    """Return topic, request and steps of a story of two to eight sentences."""
    while True:
        is_list = rng.random() < LISTED
        steps = _told(rng.choice(_LENGTHS), rng)
        if rng.random() < CONNECTED and not is_list:
            steps = _connected(steps, rng)
        if len(steps) > 1 and not is_held_out(steps):
            return "own steps", _written([step.caption for step in steps], is_list, rng), tuple(steps)


def _written(sentences: list[str], is_list: bool, rng: Random) -> str:
    if is_list:
        clauses = [each.rstrip(".") for each in sentences]
        return re.sub(r"([?!]\"?)[.;,]", r"\1", _listed(clauses, rng))
    if rng.random() < JOINED and len(sentences) <= _MOST_JOINED and all(map(_CLAUSE.fullmatch, sentences)):
        return _joined([each.rstrip(".") for each in sentences], rng)
    return ("\n" if rng.random() < ON_LINES else " ").join(sentences)


def _listed(clauses: list[str], rng: Random) -> str:
    """Return a list; a word that begins its sentences would belong to the captions, too."""
    own = sum(_THEN_SENTENCE.match(f". {clause} ") is not None for clause in clauses)
    while len(_THEN_SENTENCE.findall(text := written_as_list(clauses, rng)[0])) > own:
        pass
    return text


def _joined(clauses: list[str], rng: Random) -> str:
    """Return one sentence: “first the dog …, then it …, and finally …”."""
    before, between, at_last = rng.choice(_JOINTS)
    words = [re.sub(r"^(?:The|An?|He|She|It)\b", lambda found: found[0].lower(), each) for each in clauses]
    told = before + between.join(words[:-1]) + (at_last if len(words) > 2 else ", then ") + words[-1]
    return capitalised(told) + rng.choice((".", "")) if rng.random() < 0.5 else told


def _told(length: int, rng: Random) -> list[Step]:
    opener = rng.choice(_openers())
    wording = rng.choice(opener.wordings)
    made = filled(opener, wording, rng)
    if made is None:
        return []
    teller, stage, place, is_said = made
    hero = teller.roles.get("a")
    if hero and hero.kind in NAMES and not (hero.says_colour or hero.is_mine) and rng.random() < NAMED:
        hero.name = rng.choice(NAMES[hero.kind])
    text, is_past = wording.words, _IS_PAST.search(wording.words) is not None
    if "{in}" in text:
        text = text.replace("{in}", _said(place, rng) if opener.steps[0][0].startswith("*") else "")
    elif is_said:
        inside = _said(place, rng)
        text = f"{inside}, {text}" if re.match(r"\{.*,", text) else with_place(text, inside)
    is_past = rng.random() < (STAYS_IN_PAST if is_past else IN_PAST)
    try:
        scene = stage.begin(place, opener.steps[0][0].partition(":")[2])
    except InputError:
        return []
    told = _sentence(teller.told(in_past(text) if is_past else text))
    telling = _Telling(scene, [*teller.roles.values()], teller.roles.get("a"), is_past)
    telling.steps.append(Step("The beginning", told, scene))
    left = [*_events()]
    while len(telling.steps) < length:
        event = _next_event(telling, left, rng)
        if event is None:
            break
        left.remove(event)
    return telling.steps


def _next_event(telling: _Telling, left: list[Frame], rng: Random) -> Frame | None:
    """Add the first possible of some events, and return it: often one between those that are there."""
    tried = rng.sample(left, TRIED)
    if rng.random() < BETWEEN:
        tried.sort(key=lambda event: event not in _between())
    return next((event for event in tried if _go_on(telling, event, rng)), None)


@cache
def _between() -> frozenset[Frame]:
    """Return the events about two things or more that are there, or about some that are rarely there."""
    return frozenset(
        event
        for event in _events()
        if sum(slot.is_present for slot in event.slots.values()) > 1
        or any(slot.is_present and len(slot.choices) < FEW for slot in event.slots.values())
    )


def _connected(steps: list[Step], rng: Random) -> list[Step]:
    """Begin sentences with “Then” or “At last”, the first perhaps with “First”."""
    found = steps[:1]
    for number, step in enumerate(steps[1:], start=2):
        words = rng.choice(_AT_LAST if number == len(steps) else _CONNECTORS)
        fits = re.match(r"(?:The|A|An|He|She|It) (?!magic)(?!.*(?:\"| now\b))", step.caption)
        told = words.format(step.caption[0].lower() + step.caption[1:]) if fits else step.caption
        found.append(replace(step, caption=told))
    return found


def _said(place: str, rng: Random) -> str:
    return place_in_words(place, "in", rng, in_request=True)


def _go_on(telling: _Telling, event: Frame, rng: Random) -> bool:
    """Add an event if it is possible, and return whether it was."""
    wording = rng.choice(event.wordings)
    if event.places and telling.scene.background.removesuffix(NIGHT) not in event.places:
        return False
    roles = _bound(event, wording, telling, rng)
    if roles is None or (_EVERYBODY.search(wording.words) and not _is_everybody(roles, telling.scene)):
        return False
    if _is_wrong_light(roles, telling.scene, event):
        return False
    words = {name: rng.choice(slot.words) for name, slot in event.slots.items() if slot.kind == "word"}
    places = {n: rng.choice(s.words)[0] for n, s in event.slots.items() if s.kind == "place"}
    colours = {n: rng.choice([*ALL_COLOURS]) for n, s in event.slots.items() if s.kind == "colour"}
    shown = {name: (colour,) for name, colour in colours.items()}
    stage = Stage(roles, places, colours, {})
    stage.scene = telling.scene
    known = {name: (role.is_known, role.colour) for name, role in roles.items()}
    told = Teller(roles, {**words, **shown}, {}, places, {}, rng).told(
        _with_pronoun(in_past(wording.words) if telling.is_past else wording.words, roles, telling, rng)
    )
    try:
        step = step_of(stage, event.steps[0][0], _sentence(told))
    except InputError:
        for name, (was_known, _) in known.items():
            roles[name].is_known = was_known
        return False
    telling.steps.append(step)
    telling.scene = stage.scene
    telling.last = roles.get("a")
    for name, role in roles.items():
        role.colour = stage.now[name][1]
        if all(role is not other for other in telling.cast):
            telling.cast.append(role)
    return True


def _is_wrong_light(roles: dict[str, Role], scene: Scene, event: Frame) -> bool:
    """Return whether a moon would come by day, or a sun by night."""
    is_night = scene.background.endswith(NIGHT) or event.steps[0][0].startswith("night;")
    coming = {roles[name].kind for name in roles if not event.slots[name].is_present}
    return ("sun" if is_night else "moon") in coming


def _is_everybody(roles: dict[str, Role], scene: Scene) -> bool:
    """Return whether the slots are all animals and people that are there."""
    meant = {(role.kind, role.colour) for role in roles.values() if _is_animate(role.kind)}
    there = [(each.kind, each.colour) for each in scene.everything.values() if _is_animate(each.kind)]
    return len(there) > 1 and meant == {*there}


def _is_animate(kind: str) -> bool:
    return ALL_KINDS[kind].category in ("animal", "person")


def _bound(event: Frame, wording: Wording, telling: _Telling, rng: Random) -> dict[str, Role] | None:
    """Find things for the slots of an event: those that must be there, and new ones of other kinds."""
    everything = telling.scene.everything
    there = {(thing.kind, thing.colour): thing for thing in everything.values()}
    spots = {(thing.kind, thing.colour): spot for spot, thing in everything.items()}
    ever = {role.kind for role in telling.cast} | {role.noun for role in telling.cast}
    roles: dict[str, Role] = {}
    for name, slot in event.slots.items():
        if slot.kind != "thing":
            continue
        if slot.is_present:
            wanted = {each.kind: each.state for each in slot.choices}
            found = [
                role
                for role in telling.cast
                if role.kind in wanted
                and (thing := there.get((role.kind, role.colour))) is not None
                and _is_in(thing.state, role.kind, wanted[role.kind])
                and all(role is not other for other in roles.values())
                and _is_carried_so(slot.carrier, spots[role.kind, role.colour], roles, telling.scene)
            ]
            if not found:
                return None
            subject = [role for role in found if role is telling.last]
            if name == "a" and not _says(wording.words, "a"):  # who is meant without a word: the last one
                if not subject:
                    return None
                roles[name] = subject[0]
                continue
            roles[name] = subject[0] if subject and rng.random() < 0.6 and name == "a" else rng.choice(found)
            continue
        free = [
            each
            for each in slot.choices
            if each.kind not in ever and each.kind not in {r.kind for r in roles.values()}
        ]
        if not free:
            return None
        said = _says(wording.words, name)
        roles[name] = cast(rng.choice(free) if said else free[0], rng, is_said=said)
        if roles[name].noun in ever:
            return None
    return roles


def _is_carried_so(carrier: str, spot: int, roles: dict[str, Role], scene: Scene) -> bool:
    if not carrier:
        return True
    if carrier == "0":
        return spot < CELLS
    slot, _, how = carrier.partition(".")
    below = scene.things.get(spot % CELLS)
    if spot < CELLS or below is None or below.load is None:
        return False
    is_it = (below.kind, below.colour) == (roles[slot].kind, roles[slot].colour)
    return is_it and how in ("", below.load.relation.name.lower())


def _says(words: str, slot: str) -> bool:
    return re.search(rf"\{{(?:[a-z-]+ )?{slot}(?:\.[a-z_-]+)?\}}", words) is not None


def _is_in(state: int, kind: str, wanted: str) -> bool:
    """Return whether a thing is in the state an event needs; without one, it is awake, whole and grown up."""
    if wanted == "any":
        return True
    if wanted:
        return state == state_of(kind, wanted)
    states = ALL_KINDS[kind].states
    noun = states[state]
    return noun.endswith(states[ALL_KINDS[kind].usual]) and not noun.startswith(
        ("sleeping", "broken", "popped")
    )


def _with_pronoun(words: str, roles: dict[str, Role], telling: _Telling, rng: Random) -> str:
    """Name the one that the last sentence was about by a pronoun, if that can mean nobody else."""
    found = _STARTS.match(words)
    if not found or roles[found[1]] is not telling.last or rng.random() >= PRONOUNS_SHARE:
        return words
    meant = roles[found[1]].pronoun("he")
    others = [role for role in telling.cast if role is not telling.last and role.pronoun("he") == meant]
    if meant == "it" and others:
        return words
    return words if others else words.replace(found[0], f"{{he {found[1]}}}", 1)


def _sentence(told: str) -> str:
    told = re.sub(r"([.!?]\")\.$", r"\1", sentence(re.sub(r" +([,.?!])", r"\1", told)))
    return re.sub(r"(?<=\w[.!?] )[a-z]", lambda found: found[0].upper(), told)
