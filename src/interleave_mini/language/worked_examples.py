"""Requests in anybody's words with their plans, written out one by one: `worked/*.txt`.

The voices say in many ways what the topics can tell. People also ask for what no topic tells, and these
examples show what to make of it. They are for training alone. A block is a request, or several wordings of
it, and below them the steps, indented: a prompt, and after ` # ` its caption. A line `= TOPIC` names the
topic, where it is one.

    the dog ate my cake!
      A room with a brown dog on the left and a pink cake on the right. # A brown dog looks at a pink cake.
      Turn the pink cake into a pink half-eaten cake. # The dog takes a bite: half of the pink cake is left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import groupby
from random import Random

from interleave.errors import InputError
from interleave_mini.language.descriptions import parse_description
from interleave_mini.language.edits.plain import name_of_step
from interleave_mini.language.sentences import parse_sentence
from interleave_mini.language.splits import has_held_out_pair
from interleave_mini.language.story import Step
from interleave_mini.language.words import UNCOUNTABLE, plural
from interleave_mini.world.kinds import COLOURS, KINDS
from interleave_mini.world.operations import Impossible, Operation, apply_all
from interleave_mini.world.scene import Scene

PICTURE, OWN_STEPS = "a picture", "own steps"
"""The topics of examples that name none: of one picture, and of several."""
OTHER_KINDS, OTHER_COLOURS = 0.5, 0.5
"""The shares of examples that are told of other things, and in other colours."""
_TRIES = 8
_SENTENCE = re.compile(r"(?<=\.)\s+")
_UNCHANGING = tuple(kind for kind in KINDS.values() if len(kind.states) == 1 and kind.name not in UNCOUNTABLE)


@dataclass(frozen=True)
class WorkedExample:
    """A request in one or more wordings, and the prompts and captions of its plan."""

    topic: str
    requests: tuple[str, ...]
    plan: tuple[tuple[str, str], ...]

    def steps(self) -> tuple[Step, ...]:
        """The steps; raises `InputError` where a prompt cannot be carried out."""
        return tuple(_steps(self.plan))


def _steps(plan: tuple[tuple[str, str], ...]) -> Iterator[Step]:
    before: Scene | None = None
    for prompt, caption in plan:
        if before is None:
            before = parse_description(prompt)
            yield Step("The picture" if len(plan) == 1 else "The beginning", caption, before)
            continue
        operations: list[Operation] = []
        after = before
        for sentence in _SENTENCE.split(prompt):
            said = parse_sentence(sentence, after)
            operations += said
            after = apply_all(said, after)
        if after == before:
            raise Impossible(f"{prompt!r} changes nothing")
        yield Step(name_of_step(operations[-1], before), caption, after, tuple(operations), before)
        before = after


def parse_worked_examples(text: str) -> Iterator[WorkedExample]:
    """The examples of a file."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for filled, block in groupby(lines, key=lambda line: bool(line.strip())):
        if filled:
            yield _parse_block(list(block))


def _parse_block(block: list[str]) -> WorkedExample:
    topic = [line.removeprefix("=").strip() for line in block if line.startswith("=")]
    requests = tuple(line.replace(r"\n", "\n") for line in block if line[0] not in "= \t")
    steps = [line.strip().partition(" # ") for line in block if line[0] in " \t"]
    if not requests or not steps or not all(caption for _, _, caption in steps):
        raise InputError(f"a request, and steps with captions: {block[0]!r}")
    default = PICTURE if len(steps) == 1 else OWN_STEPS
    return WorkedExample(
        topic[0] if topic else default,
        requests,
        tuple((prompt.strip(), caption.strip()) for prompt, _, caption in steps),
    )


@cache
def worked_examples() -> tuple[WorkedExample, ...]:
    """All examples without held-out pairs of kind and colour."""
    found = [
        example
        for file in sorted(files(__package__).joinpath("worked").iterdir(), key=lambda file: file.name)
        if file.name.endswith(".txt")
        for example in parse_worked_examples(file.read_text("utf-8"))
    ]
    return tuple(each for each in found if not _is_held_out(each.steps()))


def _is_held_out(steps: tuple[Step, ...]) -> bool:
    return any(has_held_out_pair(step.scene) for step in steps)


def sample_worked_example(rng: Random) -> tuple[str, str, tuple[Step, ...]]:
    """The topic, the request and the steps of an example, often told of other things in other colours."""
    example = rng.choice(worked_examples())
    request = rng.choice(example.requests)
    for _ in range(_TRIES):
        other = _retold(example, request, rng)
        try:
            steps = other.steps()
        except InputError:
            continue
        if not _is_held_out(steps):
            return other.topic, other.requests[0], steps
    return example.topic, request, example.steps()


# Other things, other colours


def _retold(example: WorkedExample, request: str, rng: Random) -> WorkedExample:
    prompts = " ".join(prompt for prompt, _ in example.plan)
    exchanged: dict[str, str] = {}
    if rng.random() < OTHER_COLOURS:
        exchanged |= _other_colours(request, prompts, rng)
    if rng.random() < OTHER_KINDS:
        exchanged |= _other_kinds(request, prompts, rng)
    if not exchanged:
        return WorkedExample(example.topic, (request,), example.plan)
    plan = tuple(
        (_exchange(prompt, exchanged), _exchange(caption, exchanged)) for prompt, caption in example.plan
    )
    return WorkedExample(example.topic, (_exchange(request, exchanged),), plan)


def _other_colours(request: str, prompts: str, rng: Random) -> dict[str, str]:
    """Colours that are said as often in the request as there are things of that colour: no usual colour."""
    free = [colour for colour in COLOURS if not _has(f"{request} {prompts}", colour)]
    rng.shuffle(free)
    said = [colour for colour in COLOURS if _has(request, colour) and not _is_usual(colour, request, prompts)]
    return dict(zip(said, free, strict=False))


def _is_usual(colour: str, request: str, prompts: str) -> bool:
    """Whether something in the plan has this colour because it usually has."""
    nouns = set(re.findall(rf"\b{colour} ((?:[\w-]+ )?[\w-]+)", prompts))
    return any(
        kind.colour == colour and any(noun in words for noun in kind.states for words in nouns)
        for kind in KINDS.values()
    )


def _other_kinds(request: str, prompts: str, rng: Random) -> dict[str, str]:
    """Kinds that never change, for others of their category, each in its usual colour where none is said."""
    found: dict[str, str] = {}
    for kind in _UNCHANGING:
        noun, nouns = kind.states[0], plural(kind.states[0])
        if not _has(request, noun, nouns) or not _has(prompts, noun, nouns):
            continue
        others = [
            each
            for each in _UNCHANGING
            if each.category == kind.category
            and each.states[0] not in found.values()
            and not _has(f"{request} {prompts}", each.states[0], plural(each.states[0]))
        ]
        if not others:
            continue
        other = rng.choice(others)
        if not _has(request, kind.colour):
            found[f"{kind.colour} {noun}"] = f"{other.colour} {other.states[0]}"
            found[f"{kind.colour} {nouns}"] = f"{other.colour} {plural(other.states[0])}"
        elif not _has(request, f"{kind.colour} {noun}", f"{kind.colour} {nouns}"):
            continue  # "the brown one": whose colour it is cannot be told
        found[noun] = other.states[0]
        found[nouns] = plural(other.states[0])
    return found


def _has(text: str, *words: str) -> bool:
    return re.search(rf"\b(?:{'|'.join(map(re.escape, words))})\b", text, re.IGNORECASE) is not None


def _exchange(text: str, exchanged: dict[str, str]) -> str:
    longest_first = sorted(exchanged, key=len, reverse=True)
    words = re.compile(rf"\b(an? )?({'|'.join(map(re.escape, longest_first))})\b", re.IGNORECASE)

    def other(found: re.Match[str]) -> str:
        new = exchanged[found[2].lower()]
        if found[1]:
            article = "an " if new[0] in "aeiou" else "a "
            return (article.capitalize() if found[1][0].isupper() else article) + new
        return new.capitalize() if found[2][0].isupper() else new

    return words.sub(other, text)
