"""A person's own steps: a first picture and what is to change in it, one wish after the other, as text."""

from __future__ import annotations

import re
from functools import cache
from random import Random
from typing import Any

from interleave_mini.language.edits.plain import (
    only_thing,
    read_edit_sentence,
    sample_edits,
    step_of,
    thing_spoken_of,
)
from interleave_mini.language.gaps import AThing, AWord, SomeThings, maybe_place
from interleave_mini.language.natural_gaps import pattern, read, sample, write
from interleave_mini.language.phrasings import GapUse, Phrasing
from interleave_mini.language.story import Step, Story
from interleave_mini.language.topics.pictures import arranged
from interleave_mini.language.topics.topic import different
from interleave_mini.language.voices import Voice, voices
from interleave_mini.language.words import CELL_OF, PLACES, a, listed, within
from interleave_mini.world.kinds import KINDS
from interleave_mini.world.operations import Impossible
from interleave_mini.world.scene import MIDDLE, Thing

SECTION = "own steps"
_MARKS = ".!?… "
_TRIES = 40
_GAPS: dict[str, Any] = {
    "things": SomeThings(tuple(KINDS), 1, 3),
    "thing": AThing(tuple(KINDS)),
    "where": AWord(CELL_OF),
    "place": maybe_place(*PLACES),
}
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
        ),
    )
)


def sample_own_steps(voice: Voice, rng: Random) -> tuple[str, str, tuple[Step, ...]] | None:
    """A text, its phrasing and its steps; None where the voice has no words for it."""
    lines = voice.section(SECTION)
    if not lines:
        return None
    for _ in range(_TRIES):
        phrasing = rng.choice(lines)
        parts = phrasing.chosen(rng)
        wishes = sum(isinstance(part, GapUse) for part in parts)
        try:
            beginning, first = _sample_beginning(rng)
            texts, steps = sample_edits(first.scene, voice, rng, wishes - 1)
        except Impossible:
            continue
        clauses = [beginning, *(_clause(text) for text in texts)]
        text = "".join(part if isinstance(part, str) else clauses[int(part.name) - 1] for part in parts)
        return text, phrasing.text, (first, *steps)
    return None


def _clause(text: str) -> str:
    text = text.rstrip(_MARKS)
    return text if text.startswith("I ") else text[:1].lower() + text[1:]


def _sample_beginning(rng: Random) -> tuple[str, Step]:
    parts = rng.choice(_BEGINNINGS).chosen(rng)
    values = {part.name: sample(_GAPS[part.name], rng) for part in parts if isinstance(part, GapUse)}
    text = "".join(
        part if isinstance(part, str) else write(_GAPS[part.name], values[part.name], part.form, rng)
        for part in parts
    )
    return text, _beginning(**values)


def _beginning(
    things: tuple[Thing, ...] = (), place: str = "meadow", thing: Thing | None = None, where: int = MIDDLE
) -> Step:
    """Things arranged as in any picture, or one thing in a place that was named."""
    different(*things)
    cells = arranged(things) if thing is None else {where: thing}
    caption = f"{listed([a(each) for each in cells.values()])} {within(place)}"
    return Story(place, cells, name="The beginning", caption=caption).steps[0]


# Parsing


def read_own_steps(text: str) -> tuple[Step, ...] | None:
    """The steps of a text of a person's own steps; None when it is not one."""
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
    first = _read_beginning(clauses[0])
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


def _read_beginning(clause: str) -> Step | None:
    for phrasing in _BEGINNINGS:
        regex, uses = phrasing.regex(lambda use: pattern(_GAPS[use.name], use.form))
        if found := re.fullmatch(regex, clause):
            said = {
                use.name: read(_GAPS[use.name], words, use.form)
                for group, use in uses.items()
                if (words := found[group]) is not None
            }
            try:
                return _beginning(**said)
            except Impossible:
                return None
    return None
