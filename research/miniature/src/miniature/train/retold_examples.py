"""Worked examples with other things and colours in both request and plan, for training data."""

from __future__ import annotations

import re
from functools import cache
from random import Random

from interleave import InputError
from interleave_mini.bench.tasks import Step
from interleave_mini.language.words import UNCOUNTABLE, one_of, plural
from interleave_mini.world.kinds import Kind
from interleave_mini.world.wider import ADJECTIVES, ALL_COLOURS, ALL_KINDS, ALL_NOUNS
from miniature.grammar.wider_words import LIKE, SAME
from miniature.grammar.worked_examples import WorkedExample, is_held_out, worked_examples
from miniature.train.new_words import exchanged_words, has_word
from miniature.train.varied_examples import FURTHER_WISHES, varied, with_further_wishes

OTHER_KINDS, OTHER_COLOURS, OTHER_NOUNS = 0.5, 0.5, 0.3
"""Shares of examples with other things, with other colours, and with another noun for the same thing."""
VARIED = 0.6
"""Share of examples with another place, colour or person, or told as own sentences."""
_TRIES = 8
_NOUN_OF = {form: noun for noun in ALL_NOUNS for form in (plural(noun), noun)}
_NAMED = re.compile(rf"\b(?P<colour>{one_of(ALL_COLOURS)}) (?P<noun>{one_of(_NOUN_OF)})\b")
_PRONOUN = re.compile(r"\b(?:he|him|his|she|hers?|himself|herself)\b", re.IGNORECASE)


def sample_worked_example(rng: Random) -> tuple[str, str, tuple[Step, ...]]:
    """Return topic, request and steps of an example, often with other things and colours."""
    example = rng.choice(worked_examples())
    request = rng.choice(example.requests)
    for _ in range(_TRIES):
        try:
            text, steps = _told_otherwise(example, request, rng)
        except InputError:
            continue
        if not is_held_out(steps):
            return example.topic, text, steps
    return example.topic, request, example.steps()


def _told_otherwise(example: WorkedExample, request: str, rng: Random) -> tuple[str, tuple[Step, ...]]:
    """Return a wording of an example and its steps, usually both changed."""
    told = retold(example, request, rng)
    request, plan = told.requests[0], told.plan
    if rng.random() < VARIED:
        request, plan = varied(request, plan, rng)
    steps = WorkedExample(example.topic, (request,), plan).steps()
    if rng.random() < FURTHER_WISHES:
        return with_further_wishes(request, steps, rng)
    return request, steps


def retold_steps(rng: Random) -> tuple[Step, ...]:
    """Return the steps of a worked example alone, often with other things and colours."""
    return sample_worked_example(rng)[2]


def retold(example: WorkedExample, request: str, rng: Random) -> WorkedExample:
    """Return one wording of an example, often with other things, other colours, or other nouns for them."""
    prompts = " ".join(prompt for prompt, _ in example.plan)
    said = " ".join([request, *(caption for _, caption in example.plan)])
    exchanged: dict[str, str] = {}
    if rng.random() < OTHER_COLOURS:
        exchanged |= _other_colours(request, prompts, rng)
    if rng.random() < OTHER_KINDS:
        exchanged |= _other_kinds(request, said, prompts, rng)
    plan = list(example.plan)
    if exchanged:
        request = exchanged_words(request, exchanged)
        plan = [
            (exchanged_words(prompt, exchanged), exchanged_words(caption, exchanged))
            for prompt, caption in plan
        ]
    if rng.random() < OTHER_NOUNS and (nouns := _other_nouns(request, rng)):
        request = exchanged_words(request, nouns)
        plan = [(prompt, exchanged_words(caption, nouns)) for prompt, caption in plan]
    return WorkedExample(example.topic, (request,), tuple(plan))


def _other_nouns(request: str, rng: Random) -> dict[str, str]:
    """Map nouns of the request to others that people use for the same thing: the truck is a lorry."""
    found: dict[str, str] = {}
    for name, others in _OTHER_NOUNS.items():
        noun, nouns = _forms(ALL_KINDS[name])
        if has_word(request, noun, nouns):
            other = rng.choice(others)
            found |= {noun: other, nouns: plural(other)}
    return found


def _other_colours(request: str, prompts: str, rng: Random) -> dict[str, str]:
    """Map colours of the request to unused ones; usual colours may be unstated, and stay."""
    usual = {colour for colour, noun in _things_named(prompts) if _kind_of(noun).colour == colour}
    said = [colour for colour in ALL_COLOURS if colour not in usual and has_word(request, colour)]
    free = [colour for colour in ALL_COLOURS if colour not in f"{request} {prompts}".lower()]
    rng.shuffle(free)
    return dict(zip(said, free, strict=False))


def _things_named(prompts: str) -> set[tuple[str, str]]:
    """Return colour and noun of all things in some prompts."""
    return {(found["colour"], _NOUN_OF[found["noun"]]) for found in _NAMED.finditer(prompts)}


def _kind_of(noun: str) -> Kind:
    return ALL_KINDS[ALL_NOUNS[noun][0]]


def _other_kinds(request: str, said: str, prompts: str, rng: Random) -> dict[str, str]:
    """Map kinds to others of their category, in the usual colour if none is stated.

    The others have all states that are in the plan. Whether they can carry the same is seen when the plan
    is carried out. A kind with another noun in what is said, too, stays: a goat does not become a bird.
    """
    states: dict[str, set[str]] = {}
    for _, noun in _things_named(prompts):
        kind, state = ALL_NOUNS[noun]
        states.setdefault(kind, set()).add("" if state == ALL_KINDS[kind].usual else _adjective(noun))
    found: dict[str, str] = {}
    for name, used in sorted(states.items()):
        others = [each for each in _alike(ALL_KINDS[name], used) if each.name not in states]
        if "?" in used or not others or (ALL_KINDS[name].category == "person" and _PRONOUN.search(said)):
            continue
        if has_word(said, *_nouns_for(name)):
            continue
        other = rng.choice(others)
        if not has_word(request, *_forms(other)) and not any(
            word in found.values() for word in _forms(other)
        ):
            found |= _exchange(ALL_KINDS[name], other, used, request)
    return found


def _adjective(noun: str) -> str:
    """Return the word for a state that stands before the usual noun; “?” if there is none."""
    kind, state = ALL_NOUNS[noun]
    return ADJECTIVES[kind][state] or "?"


def _alike(kind: Kind, states: set[str]) -> list[Kind]:
    others = _OF_CATEGORY[kind.category]
    return [each for each in others if each is not kind and states <= _STATES[each.name]]


_STATES = {name: frozenset(("", *adjectives)) for name, adjectives in ADJECTIVES.items()}
_OF_CATEGORY: dict[str, list[Kind]] = {}
for _kind in ALL_KINDS.values():
    if _kind.states[_kind.usual] not in UNCOUNTABLE:
        _OF_CATEGORY.setdefault(_kind.category, []).append(_kind)


_OTHER_NOUNS: dict[str, list[str]] = {}
for _noun, _name in {**SAME, **LIKE}.items():
    if _name in ALL_KINDS:
        _OTHER_NOUNS.setdefault(_name, []).append(_noun)


@cache
def _nouns_for(name: str) -> tuple[str, ...]:
    """Return the other nouns for a kind, and their plurals; “?” stands for none."""
    return tuple(form for noun in _OTHER_NOUNS.get(name, "?") for form in (noun, plural(noun)))


@cache
def _forms(kind: Kind) -> tuple[str, str]:
    usual = kind.states[kind.usual]
    return usual, plural(usual)


def _exchange(kind: Kind, other: Kind, states: set[str], request: str) -> dict[str, str]:
    """Map the words for one kind to those for another; no words if the request has none for it."""
    words = dict(zip(_forms(kind), _forms(other), strict=True))
    if not has_word(request, *words) or _forms(kind)[0] in UNCOUNTABLE:
        return {}
    said = [f"{state} ".lstrip() for state in states]
    coloured = {
        f"{kind.colour} {state}{word}": f"{other.colour} {state}{new}"
        for state in said
        for word, new in words.items()
    }
    if not has_word(request, kind.colour):
        return {**coloured, **words}
    if not has_word(request, *coloured):
        return {}  # "the brown one": the owner of the colour is unknown
    return words
