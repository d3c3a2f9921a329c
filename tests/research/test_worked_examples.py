"""Worked examples: requests in anybody's words, with plans that can be carried out."""

from __future__ import annotations

from random import Random

import pytest

from interleave.errors import InputError
from interleave_mini.bench.splits import has_held_out_pair
from interleave_mini.bench.tasks import Task
from interleave_mini.requests import PlanCheck, accept_request
from interleave_mini.world.kinds import BACKGROUNDS, COLOURS, NOUNS
from miniature.grammar.worked_counts import kind_of, masked, near_duplicates
from miniature.grammar.worked_examples import (
    LEARNED,
    WorkedExample,
    parse_worked_examples,
    parsed_examples,
    worked_examples,
)
from miniature.train.retold_examples import _nouns_for, retold, sample_worked_example
from miniature.train.vision_examples import sample_exercise

BLOCK = r"""
# a remark
= a meal
the dog ate my cake!
my dog, in the room:\nhalf of the cake is gone
  A room with a brown dog on the left and a pink cake on the right. # A brown dog and a pink cake.
  Turn the pink cake into a pink half-eaten cake. # Half of the pink cake is left.
"""

STEPS = (
    "  A room with a brown dog on the left and a pink cake on the right. # The dog ate my cake.",
    "  Turn the pink cake into a pink half-eaten cake. # Half is left.",
)


def only(text: str) -> WorkedExample:
    [example] = parse_worked_examples(text)
    return example


def test_a_block_is_some_wordings_and_the_steps_of_their_plan() -> None:
    example = only(BLOCK)
    assert example.topic == "a meal"
    assert example.requests == ("the dog ate my cake!", "my dog, in the room:\nhalf of the cake is gone")
    first, second = example.steps()
    assert first.before is None
    assert second.before == first.scene
    assert second.prompt == "Turn the pink cake into a pink half-eaten cake."
    assert second.caption == "Half of the pink cake is left."


@pytest.mark.parametrize(
    ("text", "topic"),
    [("cat\n  A meadow with an orange cat in the middle. # A cat.", "a picture"), (BLOCK, "a meal")],
)
def test_a_block_without_a_topic_has_the_usual_one(text: str, topic: str) -> None:
    assert only(text).topic == topic


@pytest.mark.parametrize(
    "text",
    [
        "a request without steps",
        "  A meadow with an orange cat in the middle. # Steps without a request.",
        "no caption\n  A meadow with an orange cat in the middle.",
    ],
)
def test_an_incomplete_block_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="a request, and steps with captions"):
        only(text)


@pytest.mark.parametrize(
    "step",
    [
        "Move the orange cat to the middle.",
        "Move the orange cat to the left. Move the orange cat to the middle.",
    ],
)
def test_a_step_that_changes_nothing_is_refused(step: str) -> None:
    example = only(f"cat\n  A meadow with an orange cat in the middle. # A cat.\n  {step} # Still there.")
    with pytest.raises(InputError):
        example.steps()


def test_there_are_many_all_can_be_carried_out_and_none_has_a_held_out_pair() -> None:
    examples = worked_examples()
    assert len(examples) > 1500
    for example in examples:
        assert not any(has_held_out_pair(step.scene) for step in example.steps()), example.requests


def test_few_requests_are_near_duplicates() -> None:
    requests = [text for each in worked_examples() for text in each.requests]
    assert len(requests) >= 17_480
    assert near_duplicates(requests) <= 0.1 * len(requests)


def test_near_duplicates_differ_in_nouns_colours_and_numbers_of_a_list() -> None:
    assert masked("1. The red cat sleeps\n2. A storm cloud comes") == "the _ sleeps a _ comes"
    assert near_duplicates(["paint the ball blue", "Paint the yellow tree!", "paint the ball quickly"]) == 1


def test_own_sentences_explanations_and_single_images_are_told_apart() -> None:
    told = "The dog ate my cake. Half is left."
    series = only("\n".join((told, "1. The dog ate my cake\\n2. Half is left", "why is it half?", *STEPS)))
    kinds = [kind_of(series, request) for request in series.requests]
    assert kinds == ["own sentences", "own sentences", "explanation"]
    assert kind_of(only(f"a dog\n{STEPS[0]}"), "a dog") == "one image"


def is_of_the_learned_world(example: WorkedExample) -> bool:
    scenes = [step.scene for step in example.steps()]
    things = [thing for scene in scenes for thing in scene.everything.values()]
    return all(scene.background in BACKGROUNDS for scene in scenes) and all(
        thing.noun in NOUNS and thing.colour in COLOURS for thing in things
    )


def test_few_plans_of_the_former_world_are_said_to_contradict_their_requests() -> None:
    # That world had no sad cat: some of its plans show less than the request says, which is asked about now.
    # It is one in seven of all such examples; a sample of 150 has up to 27.
    check, complaints = PlanCheck(), []
    learned = [each for each in parsed_examples(*LEARNED) if is_of_the_learned_world(each)]
    asked = Random(5).sample(learned, 150)
    for example in asked:
        task = Task("story", "", example.topic, "", example.requests[:1], example.steps())
        try:
            request = accept_request(task.request(), {})
        except InputError as error:
            complaints.append(str(error))
            continue
        if problem := check.problem(request, task.plan()):
            complaints.append(f"{request.text}: {problem}")
    assert len(complaints) <= 0.18 * len(asked), complaints


def test_an_example_is_told_of_other_things_in_request_and_plan_alike() -> None:
    example = only(
        "a dog and a red car\n  A city with a brown dog on the left and a red car on the right. # Both."
    )
    told = {retold(example, example.requests[0], Random(seed)) for seed in range(60)}
    assert len(told) > 10
    for each in told:
        [request], [(prompt, _)] = each.requests, each.plan
        [step] = each.steps()
        one, other = step.scene.things.values()
        nouns = {each.noun: (each.noun, *_nouns_for(each.noun)) for each in (one, other)}
        assert any(noun in request for noun in nouns[one.noun]), (request, prompt)
        assert any(f"{other.colour} {noun}" in request for noun in nouns[other.noun]), (request, prompt)


def test_a_colour_whose_thing_cannot_be_told_stays_with_its_thing() -> None:
    example = only(
        "a new chair, the brown one goes\n  A room with a brown chair in the middle. # A brown chair.\n"
        "  Remove the brown chair. # It is gone."
    )
    told = {retold(example, example.requests[0], Random(seed)).requests[0] for seed in range(40)}
    assert told == {"a new chair, the brown one goes"}


def test_samples_are_exercises_of_planning() -> None:
    rng = Random(3)
    topics = {sample_worked_example(rng)[0] for _ in range(60)}
    assert {"a picture", "own steps"} <= topics
    exercise = sample_exercise(rng, ["plan-worked"])
    assert exercise.question[0] == "Plan: "
    assert "execution_plan" in exercise.answer
