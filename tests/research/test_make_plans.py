"""Plans that a planner made are sorted by the written ones: right, wrong, or right in another way."""

from __future__ import annotations

from random import Random

from interleave.agents.replies import parse_verdict
from miniature.train.made_plans import sample_made_plan
from miniature.train.make_plans import judged
from miniature.train.vision_examples import sample_exercise
from miniature.train.wrong_plans import ADDED, MISSING

BEFORE = "A farm with a brown dog on the left and a white bone on the right."
GIVEN = "Give the white bone to the brown dog."
EATEN = "Remove the white bone."
WRITTEN = (BEFORE, GIVEN, EATEN)


def fault_of(*prompts: str) -> str | None:
    found = judged("the dog eats a bone", prompts, WRITTEN)
    return None if found is None else found.fault


def test_the_same_things_and_states_elsewhere_are_right() -> None:
    elsewhere = "A meadow with a white bone on the left and a brown dog in the middle."
    assert fault_of(*WRITTEN) == fault_of(elsewhere, GIVEN, EATEN) == ""


def test_what_is_missing_added_or_impossible_is_wrong() -> None:
    assert fault_of(BEFORE, GIVEN) == MISSING
    assert fault_of(*WRITTEN, "Night falls.") == ADDED
    assert fault_of("A farm with a brown dog on the left.", "Add a white bone on the right.") == (
        "Step 1 does something else."
    )
    assert fault_of(BEFORE, "Give the red ball to the brown dog.") == "Step 2 does something else."


def test_another_state_may_be_right_in_another_way() -> None:
    assert fault_of(BEFORE.replace("brown dog", "brown sad dog")) is None
    assert fault_of(BEFORE, GIVEN.replace("Give", "Put").replace(" to ", " on ")) is None


def test_the_better_prompt_is_the_written_one() -> None:
    found = judged("", (BEFORE, "Give the red ball to the brown dog."), WRITTEN)
    assert found is not None
    assert found.better == GIVEN


def test_plans_that_were_made_are_exercises_of_the_critic() -> None:
    rng = Random(1)
    assert sample_made_plan(rng, is_right=True).fault == ""
    assert sample_made_plan(rng, is_right=False).better
    answers = [parse_verdict(sample_exercise(rng, ["audit-plan"]).answer) for _ in range(40)]
    assert {each.accepted for each in answers} == {True, False}
