"""Stories in somebody's own sentences: each sentence is one step, and its caption, word for word.

A story begins with a frame of `frames/stories/openers.txt` and goes on with events of `events*.txt`: frames
without a place, about the things that are there (`a: @actor/sleeping`) and new ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from random import Random

from interleave import InputError
from interleave_mini.bench.tasks import Step
from interleave_mini.language.words import sentence
from interleave_mini.world.scene import Scene
from interleave_mini.world.wider import ALL_COLOURS, ALL_KINDS
from miniature.grammar.frame_plans import Stage
from miniature.grammar.frame_words import Role, Teller, cast, place_in_words, state_of
from miniature.grammar.frames import Frame, Wording, filled, frames_in, step_of
from miniature.grammar.lists_of_steps import written_as_list
from miniature.grammar.worked_examples import is_held_out

_LENGTHS = (2, 3, 3, 4, 4, 5, 6, 7, 8)
LISTED, ON_LINES, PRONOUNS_SHARE = 0.3, 0.15, 0.5
"""Shares of stories as a list and with a sentence per line, and of pronouns where nobody else is meant."""
_STARTS = re.compile(r"^\{the ([a-z])\}")


@dataclass
class _Telling:
    scene: Scene
    cast: list[Role]
    last: Role | None = None
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
        steps = _told(rng.choice(_LENGTHS), rng)
        if len(steps) > 1 and not is_held_out(steps):
            return "own steps", _written([step.caption for step in steps], rng), tuple(steps)


def _written(sentences: list[str], rng: Random) -> str:
    chance = rng.random()
    if chance < LISTED:
        return written_as_list([each.rstrip(".") for each in sentences], rng)[0]
    return ("\n" if chance < LISTED + ON_LINES else " ").join(sentences)


def _told(length: int, rng: Random) -> list[Step]:
    opener = rng.choice(_openers())
    wording = rng.choice(opener.wordings)
    made = filled(opener, wording, rng)
    if made is None:
        return []
    teller, stage, place, is_said = made
    text = wording.words.replace("{in}", _said(place, rng) if is_said else "")
    try:
        scene = stage.begin(place, opener.steps[0][0].partition(":")[2])
    except InputError:
        return []
    told = _sentence(teller.told(text))
    telling = _Telling(scene, [*teller.roles.values()], teller.roles.get("a"))
    telling.steps.append(Step("The beginning", told, scene))
    left = rng.sample(_events(), len(_events()))
    while len(telling.steps) < length and left:
        _go_on(telling, left.pop(), rng)
    return telling.steps


def _said(place: str, rng: Random) -> str:
    return place_in_words(place, "in", rng, in_request=True)


def _go_on(telling: _Telling, event: Frame, rng: Random) -> None:
    """Add an event if it is possible."""
    wording = rng.choice(event.wordings)
    roles = _bound(event, wording, telling, rng)
    if roles is None:
        return
    words = {name: rng.choice(slot.words) for name, slot in event.slots.items() if slot.kind == "word"}
    places = {n: rng.choice(s.words)[0] for n, s in event.slots.items() if s.kind == "place"}
    colours = {n: rng.choice([*ALL_COLOURS]) for n, s in event.slots.items() if s.kind == "colour"}
    shown = {name: (colour,) for name, colour in colours.items()}
    stage = Stage(roles, places, colours, {})
    stage.scene = telling.scene
    known = {name: (role.is_known, role.colour) for name, role in roles.items()}
    told = Teller(roles, {**words, **shown}, {}, places, {}, rng).told(
        _with_pronoun(wording.words, roles, telling, rng)
    )
    try:
        step = step_of(stage, event.steps[0][0], _sentence(told))
    except InputError:
        for name, (was_known, _) in known.items():
            roles[name].is_known = was_known
        return
    telling.steps.append(step)
    telling.scene = stage.scene
    telling.last = roles.get("a")
    for name, role in roles.items():
        role.colour = stage.now[name][1]
        if all(role is not other for other in telling.cast):
            telling.cast.append(role)


def _bound(event: Frame, wording: Wording, telling: _Telling, rng: Random) -> dict[str, Role] | None:
    """Find things for the slots of an event: those that must be there, and new ones of other kinds."""
    there = {(thing.kind, thing.colour): thing for thing in telling.scene.everything.values()}
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
            ]
            if not found:
                return None
            subject = [role for role in found if role is telling.last]
            roles[name] = subject[0] if subject and rng.random() < 0.6 and name == "a" else rng.choice(found)
            continue
        free = [
            each
            for each in slot.choices
            if each.kind not in ever and each.kind not in {r.kind for r in roles.values()}
        ]
        if not free:
            return None
        said = re.search(rf"\{{(?:[a-z-]+ )?{name}(?:\.[a-z_-]+)?\}}", wording.words) is not None
        roles[name] = cast(rng.choice(free) if said else free[0], rng, is_said=said)
        if roles[name].noun in ever:
            return None
    return roles


def _is_in(state: int, kind: str, wanted: str) -> bool:
    """Return whether a thing is in the state an event needs; without one, it is awake and whole."""
    if wanted == "any":
        return True
    if wanted:
        return state == state_of(kind, wanted)
    return not ALL_KINDS[kind].states[state].startswith(("sleeping", "broken", "popped"))


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
    return sentence(re.sub(r" +([,.?!])", r"\1", told))
