"""Plans that do not fit their request, for a critic that judges plans by their text alone.

A planner mostly writes sound steps, one of which is for another wish: it boils what should be broken, or puts
a thing under the table instead of on it. So most of these plans are right but for one operation, which is
exchanged for another that is possible there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from random import Random

from interleave import InputError
from interleave_mini.bench.tasks import Step
from interleave_mini.bench.wider_scenes import wider_operations, wider_thing
from interleave_mini.language.descriptions import describe
from interleave_mini.language.sentences import say_all
from interleave_mini.language.words import ALL_PLACES
from interleave_mini.world.operations import (
    Add,
    ChangeBackground,
    ChangeState,
    Impossible,
    Operation,
    Put,
    PutNew,
    Recolour,
    Remove,
    Replace,
    apply_all,
    thing_at,
)
from interleave_mini.world.scene import CELLS, Relation, Scene, Thing
from interleave_mini.world.wider import ALL_BACKGROUNDS, ALL_COLOURS, ALL_KINDS
from miniature.train.new_words import has_word

MISSING, ADDED = "A step is missing.", "Something is added."
SWAPPED_SHARE, FOREIGN_SHARE, MISSING_SHARE = 0.55, 0.12, 0.17
"""Shares of plans with a swapped action, with a step of another plan and without a step; the others have one
too many."""
_TRIES = 12


@dataclass(frozen=True)
class WrongPlan:
    """The prompts of a plan, what is wrong with it, and the right prompt of the step that is wrong."""

    prompts: tuple[str, ...]
    reasoning: str
    right: str


def something_else(step: int) -> str:
    """Say that the step with this number, from 1, does something else than was asked for."""
    return f"Step {step} does something else."


def wrong_plan(request: str, steps: Sequence[Step], others: Sequence[Step], rng: Random) -> WrongPlan | None:
    """Return a wrong plan for a request; `None` if no try differs. `others` are steps of another plan."""
    for _ in range(_TRIES):
        chance = rng.random()
        with suppress(InputError, IndexError):
            if chance < SWAPPED_SHARE:
                made = _swapped(request, steps, rng)
            elif chance < SWAPPED_SHARE + FOREIGN_SHARE:
                made = _foreign(steps, others, rng)
            elif chance < SWAPPED_SHARE + FOREIGN_SHARE + MISSING_SHARE:
                made = _left_out(steps, rng)
            else:
                made = _added(steps, rng)
            if made is not None:
                return made
    return None


def _swapped(request: str, steps: Sequence[Step], rng: Random) -> WrongPlan | None:
    """One operation of a step, or something in the first image, is another one."""
    place = rng.randrange(len(steps))
    step = steps[place]
    if step.before is None:
        wrong = _another_first_image(request, step.scene, rng)
        prompts: tuple[str, ...] = (describe(wrong), *_said_in(wrong, steps[place + 1 :]))
    else:
        at = rng.randrange(len(step.operations))
        so_far = apply_all(step.operations[:at], step.before)
        other = _another_operation(step.operations[at], so_far, rng)
        operations = (*step.operations[:at], other, *step.operations[at + 1 :])
        wrong = apply_all(operations, step.before)
        prompts = (say_all(operations, step.before), *_said_in(wrong, steps[place + 1 :]))
    if wrong == step.scene:
        return None
    before = tuple(each.prompt for each in steps[:place])
    return WrongPlan((*before, *prompts), something_else(place + 1), step.prompt)


def _said_in(scene: Scene, steps: Sequence[Step]) -> list[str]:
    """Say the steps that follow a wrong one, in the scene that it leads to as far as they are possible."""
    said = []
    for step in steps:
        try:
            prompt, after = say_all(step.operations, scene), apply_all(step.operations, scene)
        except InputError:
            prompt, after = step.prompt, step.scene
        said.append(prompt)
        scene = after
    return said


def _another_first_image(request: str, scene: Scene, rng: Random) -> Scene:
    """Return the scene with something else in it: another colour or place only if one was asked for."""
    spots = list(scene.everything)
    said_colours = [spot for spot in spots if has_word(request, scene.everything[spot].colour)]
    place_words = ALL_PLACES[scene.background].noun.split()[1:]
    ways: list[Callable[[], Scene]] = []
    if spots:
        spot = rng.choice(spots)
        thing = thing_at(scene, spot)
        ways += [lambda: _exchanged(scene, spot, rng)] * 2
        ways += [lambda: scene.with_spot(spot, None)] if len(spots) > 1 else []
        if len(ALL_KINDS[thing.kind].states) > 1:
            ways += [lambda: ChangeState(spot, _another_state(thing, rng)).apply(scene)] * 2
    if said_colours:
        ways.append(lambda: Recolour(rng.choice(said_colours), rng.choice([*ALL_COLOURS])).apply(scene))
    if has_word(request, *place_words):
        ways.append(lambda: replace(scene, background=rng.choice(ALL_BACKGROUNDS)))
    if any(spot >= CELLS for spot in spots):
        ways += [lambda: _carried_otherwise(scene, rng)] * 2
    return rng.choice(ways)()


def _exchanged(scene: Scene, spot: int, rng: Random) -> Scene:
    old = thing_at(scene, spot)
    return Replace(spot, replace(wider_thing(rng), size=old.size)).apply(scene)


def _carried_otherwise(scene: Scene, rng: Random) -> Scene:
    cell = rng.choice([spot - CELLS for spot in scene.everything if spot >= CELLS])
    carrier = thing_at(scene, cell)
    assert carrier.load is not None
    return scene.with_cell(
        cell, replace(carrier, load=replace(carrier.load, relation=rng.choice([*Relation])))
    )


def _another_state(thing: Thing, rng: Random) -> int:
    return rng.choice([state for state in range(len(ALL_KINDS[thing.kind].states)) if state != thing.state])


def _another_operation(operation: Operation, scene: Scene, rng: Random) -> Operation:
    """Return another state, thing, relation, place or verb that is possible here; raise for none."""
    ways = [_another_verb]
    match operation:
        case ChangeState():
            ways += [lambda *_: ChangeState(operation.cell, _another_state_than(operation, scene, rng))] * 3
        case Recolour():
            ways += [lambda *_: replace(operation, colour=rng.choice([*ALL_COLOURS]))] * 2
        case Add() | Replace() | PutNew():
            other = replace(wider_thing(rng), size=operation.thing.size)
            ways += [lambda *_: replace(operation, thing=other)] * 2
        case ChangeBackground():
            ways += [lambda *_: ChangeBackground(rng.choice(ALL_BACKGROUNDS))] * 2
    if isinstance(operation, Put | PutNew):
        ways += [lambda *_: replace(operation, relation=rng.choice([*Relation]))] * 2
        ways += [lambda *_: replace(operation, to=rng.choice(list(scene.things)))]
    if isinstance(operation, Put | Recolour | ChangeState | Remove):
        ways += [lambda *_: replace(operation, cell=rng.choice(list(scene.everything)))]
    other_operation = rng.choice(ways)(operation, scene, rng)
    if other_operation.apply(scene) == operation.apply(scene):
        raise Impossible("it does the same")
    return other_operation


def _another_state_than(operation: ChangeState, scene: Scene, rng: Random) -> int:
    thing = thing_at(scene, operation.cell)
    states = range(len(ALL_KINDS[thing.kind].states))
    return rng.choice([state for state in states if state not in (thing.state, operation.state)])


def _another_verb(operation: Operation, scene: Scene, rng: Random) -> Operation:
    """Return another operation on the same thing, if there is one in a few tries."""
    cell = getattr(operation, "cell", None)
    found: Operation | None = None
    for _ in range(6):
        made = wider_operations(scene, rng, most=1)
        if made and type(made[0]) is not type(operation):
            found = made[0]
            if cell is not None and cell in (getattr(found, "cell", None), getattr(found, "to", None)):
                return found
    if found is None:
        raise Impossible("nothing else is possible here")
    return found


def _foreign(steps: Sequence[Step], others: Sequence[Step], rng: Random) -> WrongPlan | None:
    """One step is that of another plan."""
    place = rng.randrange(len(steps))
    other = rng.choice(others[:1] if place == 0 else others[1:])
    if other.prompt == steps[place].prompt:
        return None
    prompts = [each.prompt for each in steps]
    right, prompts[place] = prompts[place], other.prompt
    return WrongPlan(tuple(prompts), something_else(place + 1), right)


def _left_out(steps: Sequence[Step], rng: Random) -> WrongPlan | None:
    place = rng.randrange(1, len(steps)) if len(steps) > 1 else 0
    if not place:
        return None
    prompts = [each.prompt for each in steps]
    right = prompts.pop(place)
    return WrongPlan(tuple(prompts), MISSING, right)


def _added(steps: Sequence[Step], rng: Random) -> WrongPlan | None:
    """A step too many, after which the others go on as far as they are possible."""
    place = rng.randint(1, len(steps))
    before = steps[place - 1].scene
    made = wider_operations(before, rng, most=1)
    if not made:
        return None
    prompts = [each.prompt for each in steps]
    rest = _said_in(apply_all(made, before), steps[place:])
    right = prompts[min(place, len(steps) - 1)]
    return WrongPlan((*prompts[:place], say_all(made, before), *rest), ADDED, right)
