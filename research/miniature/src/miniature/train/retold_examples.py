"""Worked examples with other things and colours in both request and plan, for training data."""

from __future__ import annotations

import re
from random import Random

from interleave import InputError
from interleave_mini.bench.tasks import Step
from interleave_mini.language.words import UNCOUNTABLE, plural
from interleave_mini.world.kinds import COLOURS, KINDS
from miniature.grammar.worked_examples import WorkedExample, is_held_out, worked_examples
from miniature.train.new_words import exchanged_words, has_word

OTHER_KINDS, OTHER_COLOURS = 0.5, 0.5
"""Shares of examples with other things, and with other colours."""
_TRIES = 8
_UNCHANGING = tuple(kind for kind in KINDS.values() if len(kind.states) == 1 and kind.name not in UNCOUNTABLE)


def sample_worked_example(rng: Random) -> tuple[str, str, tuple[Step, ...]]:
    """Return topic, request and steps of an example, often with other things and colours."""
    example = rng.choice(worked_examples())
    request = rng.choice(example.requests)
    for _ in range(_TRIES):
        other = retold(example, request, rng)
        try:
            steps = other.steps()
        except InputError:
            continue
        if not is_held_out(steps):
            return other.topic, other.requests[0], steps
    return example.topic, request, example.steps()


def retold(example: WorkedExample, request: str, rng: Random) -> WorkedExample:
    """Return one wording of an example, half of the time with other things, and with other colours."""
    prompts = " ".join(prompt for prompt, _ in example.plan)
    exchanged: dict[str, str] = {}
    if rng.random() < OTHER_COLOURS:
        exchanged |= _other_colours(request, prompts, rng)
    if rng.random() < OTHER_KINDS:
        exchanged |= _other_kinds(request, prompts, rng)
    if not exchanged:
        return WorkedExample(example.topic, (request,), example.plan)
    plan = tuple(
        (exchanged_words(prompt, exchanged), exchanged_words(caption, exchanged))
        for prompt, caption in example.plan
    )
    return WorkedExample(example.topic, (exchanged_words(request, exchanged),), plan)


def _other_colours(request: str, prompts: str, rng: Random) -> dict[str, str]:
    """Map colours of the request to unused ones; usual colours may be unstated, and stay."""
    free = [colour for colour in COLOURS if not has_word(f"{request} {prompts}", colour)]
    rng.shuffle(free)
    said = [colour for colour in COLOURS if has_word(request, colour) and not _is_usual(colour, prompts)]
    return dict(zip(said, free, strict=False))


def _is_usual(colour: str, prompts: str) -> bool:
    """Return whether something in the plan has this colour because it is its usual one."""
    nouns = set(re.findall(rf"\b{colour} ((?:[\w-]+ )?[\w-]+)", prompts))
    return any(
        kind.colour == colour and any(noun in words for noun in kind.states for words in nouns)
        for kind in KINDS.values()
    )


def _other_kinds(request: str, prompts: str, rng: Random) -> dict[str, str]:
    """Map kinds that never change to others of their category, in the usual colour if none is stated."""
    found: dict[str, str] = {}
    for kind in _UNCHANGING:
        noun, nouns = kind.states[0], plural(kind.states[0])
        if not has_word(request, noun, nouns) or not has_word(prompts, noun, nouns):
            continue
        others = [
            each
            for each in _UNCHANGING
            if each.category == kind.category
            and each.states[0] not in found.values()
            and not has_word(f"{request} {prompts}", each.states[0], plural(each.states[0]))
        ]
        if not others:
            continue
        other = rng.choice(others)
        if not has_word(request, kind.colour):
            found[f"{kind.colour} {noun}"] = f"{other.colour} {other.states[0]}"
            found[f"{kind.colour} {nouns}"] = f"{other.colour} {plural(other.states[0])}"
        elif not has_word(request, f"{kind.colour} {noun}", f"{kind.colour} {nouns}"):
            continue  # "the brown one": the owner of the colour is unknown
        found[noun] = other.states[0]
        found[nouns] = plural(other.states[0])
    return found
