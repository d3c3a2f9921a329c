"""Worked examples varied together with their plans: what a variation says stands in the plan, too."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from interleave_mini.bench.tasks import Step
from interleave_mini.world.wider import ALL_COLOURS, ALL_KINDS
from miniature.grammar.worked_examples import WorkedExample, worked_examples
from miniature.train import varied_examples
from miniature.train.varied_examples import Plan, Varied, varied, with_further_wishes

REQUEST = "the boy gives his dog a bone"
PLAN: Plan = (
    (
        "A garden with a white bone held by a blue boy on the left and a brown dog on the right.",
        "A boy has a bone.",
    ),
    ("Give the white bone to the brown dog.", "He gives it to the dog."),
)


def steps_of(request: str, plan: Plan) -> tuple[Step, ...]:
    return WorkedExample("", (request,), plan).steps()


def told(variation: Callable[[str, Plan, Random], Varied | None]) -> list[Varied]:
    found = [variation(REQUEST, PLAN, Random(seed)) for seed in range(30)]
    assert None not in found
    return [each for each in found if each]


def test_a_colour_that_is_named_is_that_of_the_thing() -> None:
    named = set()
    for request, plan in told(varied_examples._in_a_colour):
        [colour] = [each for each in ALL_COLOURS if f"{each} " in request]
        noun = request.split(f"{colour} ")[1].split()[0]
        for step in steps_of(request, plan):
            [thing] = [each for each in step.scene.everything.values() if each.kind == noun]
            assert thing.colour == colour != ALL_KINDS[noun].colour
        named.add(noun)
    assert named == {"boy", "dog", "bone"}


def test_a_place_that_is_named_is_that_of_all_images() -> None:
    places = set()
    for request, plan in told(varied_examples._elsewhere):
        assert REQUEST in request
        assert len(request) > len(REQUEST)
        places |= {step.scene.background for step in steps_of(request, plan)}
    assert len(places) > 10


def test_a_position_that_is_named_is_that_of_the_thing() -> None:
    for request, plan in told(varied_examples._at_a_position):
        first = steps_of(request, plan)[0].scene
        assert sorted(thing.kind for thing in first.things.values()) == ["boy", "dog"]
        assert plan[0][0] != PLAN[0][0]


def test_another_person_has_other_pronouns() -> None:
    request, plan = told(varied_examples._of_a_woman)[0]
    assert request == "the girl gives her dog a bone"
    assert plan[0][0].startswith("A garden with a white bone held by a red girl on the left")
    assert plan[1] == (PLAN[1][0], "She gives it to the dog.")


def test_own_sentences_are_the_captions() -> None:
    unnamed = ((PLAN[0][0], "He has a bone."), PLAN[1])
    assert varied_examples._as_own_sentences(REQUEST, unnamed, Random(0)) is None
    plan = (
        ("A garden with a brown dog on the left.", "A dog is in the garden."),
        ("Night falls.", "Night falls."),
    )
    for seed in range(20):
        made = varied_examples._as_own_sentences("a dog until night", plan, Random(seed))
        assert made is not None
        assert made[1] == plan
        assert "dog is in the garden" in made[0].lower()
        assert "night falls" in made[0].lower()


def test_further_wishes_are_further_steps() -> None:
    steps = steps_of(REQUEST, PLAN)
    made = [with_further_wishes(REQUEST, steps, Random(seed)) for seed in range(40)]
    longer = [(request, plan) for request, plan in made if len(plan) > len(steps)]
    assert len(longer) > 30
    for request, plan in longer:
        assert request.startswith(REQUEST)
        assert plan[: len(steps)] == steps
        assert plan[len(steps)].before == steps[-1].scene


@pytest.mark.parametrize("seed", range(3))
def test_varied_examples_can_nearly_always_be_drawn(seed: int) -> None:
    rng = Random(seed)
    examples, drawn, changed = rng.sample(worked_examples(), 150), 0, 0
    for each in examples:
        request, plan = varied(each.requests[0], each.plan, rng)
        changed += (request, plan) != (each.requests[0], each.plan)
        try:
            steps_of(request, plan)
        except ValueError:
            continue
        drawn += 1
    assert drawn > 140
    assert changed > 100
