"""Steps spelled out by a person: a first image and its changes, one wish after the other, as text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

from interleave_mini.bench.tasks import Step
from interleave_mini.language.words import CELL_OF, PLACES, a, counted, listed, within
from interleave_mini.world.kinds import KINDS
from interleave_mini.world.operations import Impossible
from interleave_mini.world.scene import MIDDLE, Thing
from miniature.grammar.edits.plain import (
    only_thing,
    read_edit_sentence,
    sample_edits,
    step_of,
    thing_spoken_of,
)
from miniature.grammar.gaps import ANumber, AThing, AWord, ManyThings, SomeThings, maybe_place
from miniature.grammar.lists_of_steps import pieces_of, written_as_list
from miniature.grammar.natural_gaps import pattern, read, sample, write
from miniature.grammar.phrasings import GapUse, Phrasing
from miniature.grammar.story import Story
from miniature.grammar.topics.arrangements import (
    EMPTY_PLACES,
    GROUPS,
    PAIR,
    RELATION,
    beside,
    between,
    empty,
    grouped,
)
from miniature.grammar.topics.images import COUNTABLE, arranged
from miniature.grammar.topics.topic import crowd, different
from miniature.grammar.voices import Voice, voices

SECTION = "own steps"
_MARKS = ".!?… "
_TRIES = 40
BEGINNING_GAPS: dict[str, Any] = {
    "things": SomeThings(tuple(KINDS), 1, 3),
    "thing": AThing(tuple(KINDS)),
    "where": AWord(CELL_OF),
    "place": maybe_place(*PLACES),
    "relation": RELATION,
    "other": AThing(tuple(KINDS)),
    "pair": PAIR,
    "groups": GROUPS,
    "count": ANumber(2, 6),
    "many": ManyThings(COUNTABLE),
    "empty": AWord(EMPTY_PLACES),
}
AS_LIST = 0.4
"""Share of own steps that are numbered, on separate lines, or divided by marks."""
_LENGTHS = (2, 3, 3, 3, 4, 4, 4, 5, 5, 6)
_BEGINNINGS = tuple(
    map(
        Phrasing,
        (
            "draw {things}[ {place}]",
            "(make|draw|paint|create) a picture of {things}[ {place}]",
            "(start|begin) with {things}[ {place}]",
            "show[ me] {things}[ {place}]",
            "paint {things}[ {place}]",
            "put {things} {place}",
            "there is {things}[ {place}]",
            "(draw|paint|show) {thing} {where}[ {place}]",
            "put {thing} {where}[ {place}]",
            "{place} (there is|draw) {thing} {where}",
            "{things}[ {place}]",
            "{thing} {where}[ {place}]",
            "(draw |put |show |make |place |start with |begin with |){thing} {relation} {other}[ {place}]",
            "(draw |show |paint |make |start with |begin with |){other} with {thing} {relation} it[ {place}]",
            "(draw |put |show |start with |){thing} between {pair}[ {place}]",
            "(draw |put |show |paint |start with |begin with |){groups}[ {place}]",
            "(draw |put |show |paint |start with |begin with |there are |){count} {many}[ {place}]",
            "(draw |show |paint |start with |begin with |make |take |)an empty {empty}",
            "(place|make|take|use|we see|set) {things}[ {place}]",
        ),
    )
)


def sample_own_steps(voice: Voice, rng: Random) -> tuple[str, str, tuple[Step, ...]] | None:
    """Return a text, its phrasing and its steps; `None` if the voice has no words for it."""
    lines = voice.section(SECTION)
    if not lines:
        return None
    for _ in range(_TRIES):
        as_list = rng.random() < AS_LIST
        phrasing = rng.choice(lines)
        parts = phrasing.chosen(rng)
        wishes = rng.choice(_LENGTHS) if as_list else sum(isinstance(part, GapUse) for part in parts)
        try:
            opening, first = _sample_beginning(rng)
            texts, steps = sample_edits(first.scene, voice, rng, wishes - 1)
        except Impossible:
            continue
        clauses = [_clause(text) for text in (opening, *texts)]
        if as_list:
            return *written_as_list(clauses, rng), (first, *steps)
        text = "".join(part if isinstance(part, str) else clauses[int(part.name) - 1] for part in parts)
        return text, phrasing.text, (first, *steps)
    return None


def _clause(text: str) -> str:
    text = text.rstrip(_MARKS)
    return text if text.startswith("I ") else text[:1].lower() + text[1:]


def _sample_beginning(rng: Random) -> tuple[str, Step]:
    parts = rng.choice(_BEGINNINGS).chosen(rng)
    values = {part.name: sample(BEGINNING_GAPS[part.name], rng) for part in parts if isinstance(part, GapUse)}
    text = "".join(
        part if isinstance(part, str) else write(BEGINNING_GAPS[part.name], values[part.name], part.form, rng)
        for part in parts
    )
    return text, beginning(**values)


def beginning(
    things: tuple[Thing, ...] = (), place: str = "meadow", thing: Thing | None = None, **said: Any
) -> Step:
    """Return the first step: things arranged as in any image, or with a relation or counts."""
    match said:
        case {"relation": relation, "other": other} if thing:
            story = beside(thing, relation, other, place)
        case {"pair": pair} if thing:
            story = between(thing, pair, place)
        case {"groups": groups}:
            story = grouped(groups, place)
        case {"count": count, "many": many}:
            caption = f"{counted(count, many)} {within(place)}"
            story = Story(place, crowd(many, count), name="", caption=caption)
        case {"empty": place_alone}:
            story = empty(place_alone)
        case _:
            if thing and "other" in said:
                things, thing = (thing, said["other"]), None
            different(*things)
            cells = arranged(things) if thing is None else {said.get("where", MIDDLE): thing}
            caption = f"{listed([a(each) for each in cells.values()])} {within(place)}"
            story = Story(place, cells, name="", caption=caption)
    return replace(story.steps[0], name="The beginning")


# Parsing


def read_own_steps(text: str) -> tuple[Step, ...] | None:
    """Return the steps of a text of a person's own steps; `None` if it is not one."""
    for pieces in pieces_of(text):
        if steps := _steps(pieces):
            return steps
    text = " ".join(text.split()).rstrip(_MARKS)
    for phrasing in _phrasings():
        regex, uses = _compiled(phrasing)
        if (found := regex.fullmatch(text)) is None:
            continue
        clauses = {use.name: found[group] for group, use in uses.items() if found[group] is not None}
        if steps := _steps([clauses[name] for name in sorted(clauses)]):
            return steps
    return None


@cache
def _phrasings() -> tuple[Phrasing, ...]:
    return tuple(each for voice in voices() for each in voice.section(SECTION))


@cache
def _compiled(phrasing: Phrasing) -> Any:
    return Phrasing(phrasing.text.rstrip(_MARKS)).regex(lambda use: ".+?")


def _steps(clauses: list[str]) -> tuple[Step, ...] | None:
    first = read_beginning(clauses[0])
    if first is None:
        return None
    steps, spoken_of = [first], only_thing(first.scene)
    for clause in clauses[1:]:
        operation = read_edit_sentence(clause, steps[-1].scene, spoken_of)
        if operation is None:
            return None
        steps.append(step_of(operation, steps[-1].scene))
        spoken_of = thing_spoken_of(operation)
    return tuple(steps)


@cache
def _compiled_beginning(phrasing: Phrasing) -> tuple[re.Pattern[str], Mapping[str, GapUse]]:
    return Phrasing(phrasing.text.rstrip(_MARKS)).regex(
        lambda use: pattern(BEGINNING_GAPS[use.name], use.form)
    )


def read_beginning(clause: str, phrasings: Sequence[Phrasing] = _BEGINNINGS) -> Step | None:
    """Return the first step, from a clause in one of these phrasings; `None` if none matches."""
    for regex, uses in map(_compiled_beginning, phrasings):
        if found := regex.fullmatch(clause):
            said = {
                use.name: read(BEGINNING_GAPS[use.name], words, use.form)
                for group, use in uses.items()
                if (words := found[group]) is not None
            }
            try:
                return beginning(**said)
            except Impossible:
                return None
    return None
