"""Plain edits: one sentence about a given image that says what to change, in a voice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

from interleave import InputError
from interleave_mini.bench.tasks import Step
from interleave_mini.language.patterns import NotUnderstood
from interleave_mini.language.references import Style, find, thing_described
from interleave_mini.language.sentences import GAPS, say_all
from interleave_mini.language.words import (
    BACKGROUND_OF_NOUN,
    DIRECTIONS,
    bare_noun,
    capitalised,
    neighbour,
    one_of,
    to_position,
)
from interleave_mini.world.kinds import BACKGROUNDS, COLOURS, KINDS
from interleave_mini.world.operations import (
    Add,
    ChangeBackground,
    ChangeState,
    Impossible,
    Move,
    Operation,
    Recolour,
    Remove,
    Replace,
    Resize,
    Swap,
    stage_after,
    thing_at,
)
from interleave_mini.world.scene import CELLS, Scene, Size, Thing
from interleave_mini.world.wider import ALL_KINDS
from miniature.grammar.edits.places import PATTERN, in_other_words, position
from miniature.grammar.natural_gaps import synonyms_of, thing_in_words
from miniature.grammar.phrasings import GapUse, Phrasing
from miniature.grammar.synonyms import NOUN_SYNONYMS, PLACE_NOUNS, SIZE_WORDS
from miniature.grammar.voices import Voice, voices

EDITS = (
    "add",
    "remove",
    "paint",
    "replace",
    "grow",
    "shrink",
    "move",
    "swap",
    "background",
    "night",
    "state",
)
SECTIONS = {name: f"edit {name}" for name in EDITS}
_FREE_ORDER = (4, 5, 3, 7, 1, 8, 6, 2, 0)
"""Cells to add something to if no place is named, in order of preference."""
_TRIES = 60
CALLED_IT = 0.35
"""Share of references to the last mentioned thing as "it"."""
_PLACE_OF = {**BACKGROUND_OF_NOUN, **{noun: place for place, nouns in PLACE_NOUNS.items() for noun in nouns}}
EDIT_GAPS = {
    **GAPS,
    "ref": f"(?:it|{GAPS['ref']})",
    "place": one_of(_PLACE_OF),
    "where": f"(?:{PATTERN}|{GAPS['where']})",
    "to": f"(?:{PATTERN}|{GAPS['to']})",
}
_MARKS = ".!?… "
_SYNONYM = re.compile(rf"\b{one_of(NOUN_SYNONYMS)}\b", re.IGNORECASE)
_SIZE_WORD = re.compile(
    rf"\b(?P<small>{one_of(SIZE_WORDS['small'])})\b|\b(?P<large>{one_of(SIZE_WORDS['large'])})\b",
    re.IGNORECASE,
)
Words = dict[str, str]


def free_cell(scene: Scene) -> int:
    """Return the cell to add something to if no place is named."""
    for cell in _FREE_ORDER:
        if scene.is_free(cell):
            return cell
    raise Impossible("there is no room left")


def step_of(operation: Operation, scene: Scene) -> Step:
    """Return the step of a plan that carries out one operation."""
    after = operation.apply(scene)
    said = say_all((operation,), scene, Style(way=1))
    return Step(name_of_step(operation, scene), said, after, (operation,), scene)


def name_of_step(operation: Operation, scene: Scene) -> str:
    """Return a short name for the step that carries out an operation."""
    match operation:
        case Add() | Replace():
            return capitalised(operation.thing.noun)
        case Recolour():
            return operation.colour.capitalize()
        case Resize():
            return operation.size.value.capitalize()
        case ChangeBackground():
            return capitalised(bare_noun(operation.background))
        case ChangeState():
            return capitalised(ALL_KINDS[thing_at(scene, operation.cell).kind].states[operation.state])
        case Remove():
            return "Gone"
        case Swap():
            return "Swapped"
    return "Moved"


# Sampling


def sample_edit_sentence(
    scene: Scene, voice: Voice, rng: Random, spoken_of: int | None = None
) -> tuple[str, Operation]:
    """Return a sentence about this scene, and what it asks for; raise `Impossible` if none is found.

    The last mentioned thing may be called "it".
    """
    for _ in range(_TRIES):
        name = rng.choice(EDITS)
        lines = voice.section(SECTIONS[name])
        if not lines:
            continue
        parts = rng.choice(lines).chosen(rng)
        said = frozenset(part.name for part in parts if isinstance(part, GapUse))
        try:
            operation, words = sample_operation(name, said, scene, rng, spoken_of)
            operation.apply(scene)
        except InputError:
            continue
        return "".join(part if isinstance(part, str) else words[part.name] for part in parts), operation
    raise Impossible("no edit makes sense in this scene")


def sample_operation(
    name: str, said: frozenset[str], scene: Scene, rng: Random, spoken_of: int | None
) -> tuple[Operation, Words]:
    """Return a random operation and the words for the gaps of its sentence."""
    style = Style(rng=rng)
    cell = rng.choice(list(scene.things)) if scene.things else -1
    words: Words = {"ref": refer(scene, cell, rng)} if "ref" in said else {}
    if "ref" in said and spoken_of is not None and spoken_of in scene.things and rng.random() < CALLED_IT:
        cell, words = spoken_of, {"ref": "it"}
    match name:
        case "add":
            thing = _any_thing(rng)
            words["thing"] = thing_in_words(thing, "", rng)
            if "where" not in said:
                return Add(thing, free_cell(scene)), words
            where = rng.choice([each for each in range(CELLS) if scene.is_free(each)] or [free_cell(scene)])
            said_where = in_other_words(style.where(scene, where), scene, where, rng)
            return Add(thing, where), {**words, "where": said_where}
        case "remove":
            return Remove(cell), words
        case "paint":
            colour = rng.choice(list(COLOURS))
            return Recolour(cell, colour), {**words, "colour": colour}
        case "replace":
            thing = replace(_any_thing(rng), size=thing_at(scene, cell).size)
            return Replace(cell, thing), {**words, "thing": _without_size(thing, rng)}
        case "grow" | "shrink":
            return Resize(cell, Size.LARGE if name == "grow" else Size.SMALL), words
        case "move" if "direction" in said:
            direction = rng.choice(list(DIRECTIONS))
            return _one_step(scene, cell, direction), {**words, "direction": direction}
        case "move":
            to = rng.choice([each for each in range(CELLS) if scene.is_free(each)] or [cell])
            left_behind = scene.with_cell(cell, None)
            said_where = to_position(style.where(left_behind, to))
            return Move(cell, to), {**words, "to": in_other_words(said_where, left_behind, to, rng)}
        case "swap":
            other = rng.choice([each for each in scene.things if each != cell] or [cell])
            return Swap(cell, other), {**words, "other": refer(scene, other, rng)}
        case "background":
            background = rng.choice(BACKGROUNDS)
            nouns = [noun for noun, place in _PLACE_OF.items() if place == background]
            return ChangeBackground(background), {"place": rng.choice(nouns)}
        case "night":
            return ChangeBackground("night"), words
    thing = thing_at(scene, cell)
    return ChangeState(cell, stage_after(thing)), words


def refer(scene: Scene, cell: int, rng: Random) -> str:
    """Return words that fit only this thing, sometimes with another noun."""
    words = Style(rng=rng).refer(scene, cell)
    noun = thing_at(scene, cell).noun
    others = synonyms_of(noun)
    if others and rng.random() < 0.15:
        return re.sub(rf"\b{re.escape(noun)}\b", rng.choice(others), words, count=1)
    return words


def _without_size(thing: Thing, rng: Random) -> str:
    return thing_in_words(replace(thing, size=Size.LARGE), "", rng)


def _any_thing(rng: Random) -> Thing:
    kind = KINDS[rng.choice(list(KINDS))]
    colour = kind.colour if rng.random() < 0.5 else rng.choice(list(COLOURS))
    state = kind.usual if rng.random() < 0.8 else rng.randrange(len(kind.states))
    return Thing(kind.name, colour, Size.SMALL if rng.random() < 0.12 else Size.LARGE, state)


def _one_step(scene: Scene, cell: int, direction: str) -> Operation:
    to = neighbour(cell, DIRECTIONS[direction])
    if to is None:
        raise NotUnderstood(f"there is no room to go {direction}")
    return Move(cell, to)


# Parsing


def read_edit_sentence(text: str, scene: Scene, spoken_of: int | None = None) -> Operation | None:
    """Parse a sentence of one of the voices about this scene; `None` if no phrasing matches."""
    text = canonical(text).strip(_MARKS)
    words = frozenset(re.findall(r"[^\W_]+", text.lower()))
    for name, phrasing in _edit_phrasings():
        if not (phrasing.fixed_words <= words and phrasing.may_match(text)):
            continue
        regex, uses = _compiled(phrasing)
        if (found := regex.fullmatch(text)) is None:
            continue
        said = {use.name: found[group].lower() for group, use in uses.items() if found[group] is not None}
        try:
            operation = read_operation(name, said, scene, spoken_of)
            operation.apply(scene)
        except InputError:
            continue
        return operation
    return None


def canonical(text: str) -> str:
    """Return the text with the nouns and sizes of the world in place of their synonyms."""
    text = _SYNONYM.sub(lambda found: NOUN_SYNONYMS[found[0].lower()], " ".join(text.split()))
    return text


@cache
def _edit_phrasings() -> tuple[tuple[str, Phrasing], ...]:
    found = [
        (name, phrasing)
        for name, section in SECTIONS.items()
        for voice in voices()
        for phrasing in voice.section(section)
    ]
    return tuple(sorted(found, key=lambda each: -len(each[1].fixed_words)))


@cache
def _compiled(phrasing: Phrasing) -> Any:
    return Phrasing(phrasing.text.rstrip(_MARKS)).regex(lambda use: EDIT_GAPS[use.name])


def read_operation(name: str, said: Words, scene: Scene, spoken_of: int | None) -> Operation:
    """Return the operation of a sentence of this kind, from the words in its gaps."""
    cell = find_spoken_of(scene, said["ref"], spoken_of) if "ref" in said else -1
    match name:
        case "add":
            where = position(scene, said["where"]) if "where" in said else free_cell(scene)
            return Add(thing_described(said["thing"]).thing(), where)
        case "remove":
            return Remove(cell)
        case "paint":
            return Recolour(cell, said["colour"])
        case "replace":
            old = thing_at(scene, cell)
            return Replace(cell, replace(thing_described(said["thing"]).thing(), size=old.size))
        case "grow" | "shrink":
            return Resize(cell, Size.LARGE if name == "grow" else Size.SMALL)
        case "move" if "direction" in said:
            return _one_step(scene, cell, said["direction"])
        case "move":
            return Move(cell, position(scene.with_cell(cell, None), said["to"]))
        case "swap":
            return Swap(cell, find(scene, said["other"]))
        case "background":
            return ChangeBackground(_PLACE_OF[said["place"]])
        case "night":
            return ChangeBackground("night")
    return ChangeState(cell, stage_after(thing_at(scene, cell)))


def find_spoken_of(scene: Scene, words: str, spoken_of: int | None) -> int:
    """Return the cell of the thing referred to; "it" is the last mentioned one."""
    if words != "it":
        return find(scene, words)
    if spoken_of is None or spoken_of not in scene.things:
        raise NotUnderstood("nothing was spoken of before")
    return spoken_of


# Several in a row

_JOINTS = (". ", ". Then ", ", then ", " and then ", ". Now ", "; ")


def sample_edits(scene: Scene, voice: Voice, rng: Random, count: int) -> tuple[list[str], list[Step]]:
    """Return consecutive sentences and their steps; each is about the scene after the last one."""
    texts, steps = [], []
    spoken_of = only_thing(scene)
    for _ in range(count):
        text, operation = sample_edit_sentence(scene, voice, rng, spoken_of)
        step = step_of(operation, scene)
        spoken_of = thing_spoken_of(operation)
        texts.append(text)
        steps.append(step)
        scene = step.scene
    return texts, steps


def only_thing(scene: Scene) -> int | None:
    """Return the cell of the only thing of a scene; `None` if there are more."""
    return next(iter(scene.things)) if len(scene.things) == 1 else None


def thing_spoken_of(operation: Operation) -> int | None:
    """Return the cell of the thing that "it" means after this."""
    match operation:
        case Add() | Recolour() | Replace() | Resize() | ChangeState():
            return operation.cell
        case Move():
            return operation.to
    return None


def joined(texts: list[str], rng: Random) -> str:
    """Return several wishes as one text."""
    said = texts[0].rstrip(_MARKS)
    for text in texts[1:]:
        joint = rng.choice(_JOINTS)
        bare = text.rstrip(_MARKS)
        said += joint + (capitalised(bare) if joint == ". " else bare[:1].lower() + bare[1:])
    return said


def read_edits(text: str, scene: Scene) -> list[Step] | None:
    """Return the steps of one or several wishes; `None` if they are not understood."""
    for pieces in _splits(text):
        now, steps = scene, []
        spoken_of = only_thing(scene)
        for piece in pieces:
            operation = read_edit_sentence(piece, now, spoken_of)
            if operation is None:
                break
            steps.append(step_of(operation, now))
            now, spoken_of = steps[-1].scene, thing_spoken_of(operation)
        else:
            return steps
    return None


def _splits(text: str) -> Iterator[list[str]]:
    yield [text]
    joint = "|".join(re.escape(each) for each in sorted(_JOINTS, key=len, reverse=True))
    pieces = [piece for piece in re.split(joint, text, flags=re.IGNORECASE) if piece.strip(_MARKS)]
    if len(pieces) > 1:
        yield pieces
