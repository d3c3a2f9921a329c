"""Repairs conflicts between the steps of a plan, so that only what happens decides whether it is drawn.

A small planner does not track positions reliably: it adds a thing to an occupied cell, gives a character a
second thing to hold, or writes "the red ball" where there are two. What should happen is clear, and the user
did not ask for a particular cell, so another one is as good.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace

from interleave import InputError, Plan
from interleave_mini.language.descriptions import describe
from interleave_mini.language.prompts import parse_prompt
from interleave_mini.language.references import PLACED, REFERENCE, Style, find, fitting
from interleave_mini.language.sentences import parse_sentence, readings, say_all
from interleave_mini.language.words import a, described
from interleave_mini.world.operations import Add, AlreadySo, ChangeState, Move, Operation, Put, PutNew, Remove
from interleave_mini.world.scene import CELLS, GRID, Gripper, Relation, Scene, Size, Thing
from interleave_mini.world.wider import ALL_KINDS, CONTAINERS

_SENTENCE = re.compile(r"(?<=\.)\s+")
_REFERENCE = re.compile(REFERENCE, re.IGNORECASE)
_PLACED = re.compile(PLACED, re.IGNORECASE)
_THE = re.compile(r"^the ", re.IGNORECASE)
_MOST_MENDS = 3
"""Changes that make room for one operation."""


def mended(plan: Plan) -> Plan:
    """Return a plan with possible prompts where only places are in the way; else the same plan."""
    prompts = [step.prompt for step in plan.steps]
    if None in prompts:
        return plan
    try:
        found = _mended([prompt or "" for prompt in prompts])
    except InputError:
        return plan
    steps = (
        step if step.prompt == prompt else step.model_copy(update={"prompt": prompt, "instruction": prompt})
        for step, prompt in zip(plan.steps, found, strict=True)
    )
    return plan.model_copy(update={"steps": tuple(steps)})


def _mended(prompts: list[str]) -> list[str]:
    scene = parse_prompt(prompts[0], None)
    if any(" gripper" in prompt for prompt in prompts) and scene.gripper is None:
        scene = _with_gripper(scene)
        prompts = [describe(scene), *prompts[1:]]
    found = prompts[:1]
    for prompt in prompts[1:]:
        try:
            scene, said = parse_prompt(prompt, scene), prompt
        except InputError:
            scene, said = _prompt(prompt, scene)
        found.append(said)
    return found


def _prompt(prompt: str, scene: Scene) -> tuple[Scene, str]:
    """Return the scene after a mended prompt, and the prompt; sentences that change nothing are left out."""
    said: list[str] = []
    unchanged: list[str] = []
    for sentence in _SENTENCE.split(prompt):
        try:
            operations = parse_sentence(sentence, scene)
        except InputError:
            operations, sentence = _as_possible(sentence, scene)
        for operation in operations:
            scene = operation.apply(scene)
        (said if operations else unchanged).append(sentence)
    return scene, " ".join(said or unchanged)


def _as_possible(sentence: str, scene: Scene) -> tuple[tuple[Operation, ...], str]:
    """Return operations that do what a sentence says, and words for them. Raises `InputError`.

    There are no operations if it is so already.
    """
    problem: InputError | None = None
    for words in (sentence, _with_references(sentence, scene)):
        try:
            for operation in readings(words, scene):
                try:
                    operations = tuple(_possible(operation, scene))
                except AlreadySo:
                    raise
                except InputError as error:
                    problem = error
                    continue
                return operations, say_all(operations, scene)
        except AlreadySo:
            return (), words
    raise problem or InputError(f"nothing fits {sentence!r}")


def _possible(operation: Operation, scene: Scene) -> list[Operation]:
    """Return the operation after others that make room for it."""
    made: list[Operation] = []
    for _ in range(_MOST_MENDS):
        try:
            operation.apply(scene)
        except AlreadySo:
            raise
        except InputError:
            first, operation = _with_room(operation, scene)
            if first is not None:
                made.append(first)
                scene = first.apply(scene)
    operation.apply(scene)
    return [*made, operation]


def _with_room(operation: Operation, scene: Scene) -> tuple[Operation | None, Operation]:
    """Return what makes room first, if anything does, and the operation as it is possible then."""
    match operation:
        case Add(thing, cell):
            return None, Add(thing, _free_cell(scene, cell))
        case Move(cell, to):
            return None, Move(cell, _free_cell(scene, to))
        case Put() | PutNew():
            return _with_room_to_carry(operation, scene)
        case ChangeState(cell) if (full := scene.at(cell)) and full.load:
            if full.load.relation is Relation.IN:  # what is in a closed box is not seen
                return Remove(CELLS + cell), operation
    return None, operation


def _with_room_to_carry(operation: Put | PutNew, scene: Scene) -> tuple[Operation | None, Operation]:
    to = operation.to
    if isinstance(operation, Put):
        thing, cell = scene.at(operation.cell), operation.cell
        if cell == CELLS + to:
            out = Move(cell, _free_cell(scene, to))
            return out, replace(operation, cell=out.to)
        if thing is not None and thing.load is not None:
            return Move(CELLS + cell, _free_cell(scene, cell)), operation
    if to >= CELLS:
        out = Move(to, _free_cell(scene, to - CELLS))
        return out, replace(operation, to=out.to)
    carrier = scene.at(to)
    if carrier is not None and carrier.load is not None:
        return Move(CELLS + to, _free_cell(scene, to)), operation
    if carrier is not None and operation.relation is Relation.IN and carrier.noun not in CONTAINERS:
        return ChangeState(to, _open_state(carrier)), operation
    return None, operation


def _open_state(carrier: Thing) -> int:
    """Return the state in which something can be in a box or a bag that is closed."""
    states = ALL_KINDS[carrier.kind].states
    for state, noun in enumerate(states):
        if noun in CONTAINERS:
            return state
    raise InputError(f"nothing can be in a {carrier.noun}")


def _free_cell(scene: Scene, cell: int) -> int:
    """Return the nearest free cell, in the same row rather than in another."""
    row, column = divmod(cell % CELLS, GRID)

    def distance(other: int) -> tuple[int, int]:
        rows, columns = abs(other // GRID - row), abs(other % GRID - column)
        return rows + columns, rows

    free = [other for other in range(CELLS) if scene.is_free(other)]
    if not free:
        raise InputError("no cell is free")
    return min(free, key=distance)


def _with_references(sentence: str, scene: Scene) -> str:
    """Return a sentence in which every reference fits one thing of the scene, if one can be meant."""
    return _REFERENCE.sub(lambda found: _meant(found, scene), sentence)


def _meant(found: re.Match[str], scene: Scene) -> str:
    """Return words for the thing that is meant; a thing that is not there is a new one."""
    with suppress(InputError):
        find(scene, found[0])
        return found[0]
    wanted = described(_PLACED.sub("", _THE.sub("", found[0])))
    everything, kind = scene.everything, wanted.thing().kind
    if spots := fitting(scene, wanted):
        return Style().refer(scene, spots[0])
    alike = [spot for spot, thing in everything.items() if thing.kind == kind]
    coloured = [spot for spot in alike if everything[spot].colour == wanted.colour]
    spots = coloured or alike
    if not spots:
        return a(wanted.thing(), size=False)
    return Style().refer(scene, spots[0]) if len(spots) == 1 else found[0]


def _with_gripper(scene: Scene) -> Scene:
    """Return the scene with an empty gripper above its first free column, and small blocks to pick."""
    column = next((column for column in range(GRID) if scene.is_free(column)), None)
    if column is None:
        raise InputError("no room for a gripper")
    cells = tuple(
        replace(thing, size=Size.SMALL) if thing and thing.kind == "block" and not thing.load else thing
        for thing in scene.cells
    )
    return replace(scene, cells=cells, gripper=Gripper(column))
