"""Harder suites: a first scene and changes of it, described one by one, made from a seed.

`long` has 8 to 12 steps, `count` seven to nine things, `alike` changes one of two things that differ in size
or colour alone, and `places` names places by row and column, which no request of the training does. A request
is what the world says about its scenes, so its truth is what `parse_harder` reads back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from random import Random

from interleave import InputError
from interleave_mini.bench.random_scenes import (
    MAX_THINGS,
    Maker,
    any_cell,
    free_cell,
    possible_operation,
    random_operations,
    random_scene,
    random_thing,
)
from interleave_mini.bench.tasks import Step, Task
from interleave_mini.language.descriptions import describe, parse_description
from interleave_mini.language.patterns import NotUnderstood
from interleave_mini.language.references import Style
from interleave_mini.language.sentences import parse_sentence, say, say_all
from interleave_mini.language.words import NUMBERS, POSITIONS, capitalised, to_position
from interleave_mini.world.kinds import BACKGROUNDS, COLOURS
from interleave_mini.world.operations import (
    Add,
    Move,
    Operation,
    Recolour,
    Remove,
    Resize,
    Swap,
    apply_all,
)
from interleave_mini.world.scene import CELLS, GRID, Scene, Size

MANY = (7, CELLS)
_START = "Start with "
_SENTENCE = re.compile(r"(?<=[.!]) (?=[A-Z])")
_ORDER = ("first", "second", "third")
_TRIES = 20


def harder_tasks(suite: str, count: int, *, seed: int = 0) -> list[Task]:
    """The first tasks of a suite and seed."""
    return [_task(suite, Random(f"{suite}/{seed}/{number}")) for number in range(count)]


def parse_harder(text: str) -> Task:
    """The task of such a request; raises `NotUnderstood` for another one."""
    if not text.startswith(_START):
        raise NotUnderstood(f"not a scene and its changes: {text!r}")
    usual = _exchanged(text.removeprefix(_START), {new: old for old, new in _BY_COLUMN.items()})
    first, *changes = _SENTENCE.split(usual)
    steps = [Step("The beginning", capitalised(first), parse_description(capitalised(first)))]
    for said in changes:
        before = steps[-1].scene
        steps.append(_step(len(steps), parse_sentence(said, before), before))
    return Task("", "", "changes", "own steps", (text,), tuple(steps))


def _task(suite: str, rng: Random) -> Task:
    first, change, lengths = _SUITES[suite]
    while True:
        with suppress(InputError, IndexError):  # nothing that can be changed, or no words that tell apart
            scene, count = first(rng), rng.randint(*lengths)
            steps = [Step("The beginning", describe(scene), scene)]
            while len(steps) < count:
                steps.append(_step(len(steps), (change(steps[-1].scene, rng),), steps[-1].scene))
            text = _request(steps)
            text = _exchanged(text, _BY_COLUMN) if suite == "places" else text
            if parse_harder(text).steps == tuple(steps):
                things = f"{NUMBERS[len(scene.things)]} things"
                about = f"{count} steps" if suite == "long" else things
                return Task(suite, about, "changes", "own steps", (text,), tuple(steps))


def _step(number: int, operations: Sequence[Operation], before: Scene) -> Step:
    caption = say_all(operations, before, Style(way=1))
    return Step(f"Change {number}", caption, apply_all(operations, before), tuple(operations), before)


def _request(steps: Sequence[Step]) -> str:
    first = describe(steps[0].scene)
    changes = [say(step.operations[0], step.before) for step in steps[1:] if step.before]
    return " ".join([f"{_START}{first[:1].lower()}{first[1:]}", *changes])


# Places by row and column

_COLUMNS = [f"{_ORDER[cell % GRID]} column of the {_ORDER[cell // GRID]} row" for cell in range(CELLS)]
_BY_COLUMN = {
    **{words[0]: f"in the {column}" for words, column in zip(POSITIONS, _COLUMNS, strict=True)},
    **{to_position(words[0]): f"to the {column}" for words, column in zip(POSITIONS, _COLUMNS, strict=True)},
}
"""From the usual words for a place."""


def _exchanged(text: str, words: dict[str, str]) -> str:
    longest_first = sorted(words, key=len, reverse=True)
    return re.sub(rf"\b({'|'.join(longest_first)})\b", lambda found: words[found[1]], text)


# First scenes and changes


def _different(rng: Random) -> Scene:
    """Two or three things of different kinds."""
    return _distinct(random_scene(rng, rng.randint(2, 3)))


def _distinct(scene: Scene) -> Scene:
    kinds = [thing.kind for thing in scene.things.values()]
    if len(kinds) != len(set(kinds)) or not 1 <= len(kinds) <= MAX_THINGS:
        raise InputError("nouns do not tell its things apart")
    return scene


def _change_of_the_different(scene: Scene, rng: Random) -> Operation:
    """A change after which nouns still tell all things apart."""
    for _ in range(_TRIES):
        made = random_operations(scene, rng) or ()
        with suppress(InputError):
            if len(made) == 1 and _distinct(made[0].apply(scene)):
                return made[0]
    raise InputError("nothing can be changed here")


def _many(rng: Random) -> Scene:
    """Seven to nine equal things in rows."""
    things = dict.fromkeys(range(rng.randint(*MANY)), random_thing(rng))
    return Scene.of(rng.choice(BACKGROUNDS), things)


def _alike(rng: Random) -> Scene:
    """Three or four things, two of which differ in size or colour alone."""
    twin, *others = (random_thing(rng) for _ in range(rng.randint(2, 3)))
    sizes, colours = [*Size], [*COLOURS]
    changed = rng.choice(({"size": rng.choice(sizes)}, {"colour": rng.choice(colours)}))
    things = {twin, replace(twin, **changed), *others}
    if len(things) != len(others) + 2:
        raise InputError("two of them are equal")
    cells = rng.sample(range(CELLS), len(things))
    ordered = sorted(things, key=repr)
    return Scene.of(rng.choice(BACKGROUNDS), dict(zip(cells, ordered, strict=True)))


def _one_of(*makers: Maker) -> Maker:
    def change(scene: Scene, rng: Random) -> Operation:
        operation = possible_operation(scene, rng, makers)
        if operation is None:
            raise InputError("nothing can be changed here")
        return operation

    return change


def _twin(scene: Scene, rng: Random) -> int:
    nouns = [thing.noun for thing in scene.things.values()]
    return rng.choice([cell for cell, thing in scene.things.items() if nouns.count(thing.noun) > 1])


def _changes_of(some: Callable[[Scene, Random], int]) -> Maker:
    return _one_of(
        lambda scene, rng: Remove(some(scene, rng)),
        lambda scene, rng: Recolour(some(scene, rng), rng.choice([*COLOURS])),
        lambda scene, rng: Resize(some(scene, rng), rng.choice([*Size])),
        lambda scene, rng: Move(some(scene, rng), free_cell(scene, rng)),
        lambda scene, rng: Swap(some(scene, rng), any_cell(scene, rng)),
    )


_PUT_ONE = _one_of(
    lambda scene, rng: Add(random_thing(rng), free_cell(scene, rng)),
    lambda scene, rng: Move(any_cell(scene, rng), free_cell(scene, rng)),
)
_SUITES: dict[str, tuple[Callable[[Random], Scene], Maker, tuple[int, int]]] = {
    "long": (_different, _change_of_the_different, (8, 12)),
    "count": (_many, _changes_of(any_cell), (2, 3)),
    "alike": (_alike, _changes_of(_twin), (3, 4)),
    "places": (_different, _PUT_ONE, (2, 3)),
}
"""The first scene, a change, and the fewest and most steps of each suite."""
HARDER_SUITES = tuple(_SUITES)
