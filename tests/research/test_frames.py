"""Frames: requests composed from verbs and things that fit them, with plans that can be carried out."""

from __future__ import annotations

from random import Random

import pytest

from interleave.errors import InputError
from interleave_mini.bench.splits import has_held_out_pair
from miniature.grammar.frames import frames, parse_frames, sample_frame, try_frame
from miniature.grammar.past_tense import in_past
from miniature.grammar.told_stories import sample_told_story
from miniature.grammar.worked_examples import WorkedExample
from miniature.train.composed_requests import sample_composed_request
from miniature.train.vision_examples import sample_exercise

FRAME = """
{a} bites into {b}
  kitchen: a l; b r # {the a} sees {the b}.
  b = eaten; a = happy # {he a} likes it.
a: girl
b: cake
"""


def test_a_frame_is_filled_in_request_and_plan_alike() -> None:
    [frame] = parse_frames(FRAME)
    made = [each for seed in range(80) if (each := try_frame(frame, Random(seed)))]
    assert len({request for _, request, _ in made}) > 20
    for _, request, (first, second) in made:
        girl, cake = first.scene.things.values()
        assert girl.colour == "red" or girl.colour in request, request
        assert cake.colour == "pink" or cake.colour in request, request
        assert second.scene.cells[5].noun == "half-eaten cake"
        assert second.caption == "She likes it."


def test_what_no_slot_can_be_is_refused() -> None:
    with pytest.raises(InputError, match="nothing can be in slot b"):
        [*parse_frames(FRAME.replace("b: cake", "b: rock"))]


@pytest.mark.parametrize("frame", frames(), ids=lambda frame: frame.wordings[0].words[:40])
def test_a_frame_can_be_carried_out_almost_always(frame) -> None:
    rng = Random(3)
    made = [try_frame(frame, rng) for _ in range(10)]
    assert sum(each is not None for each in made) >= 7, frame.steps


def carried_out_as_prompts(steps) -> list:
    return [
        step.scene for step in WorkedExample("", ("",), tuple((s.prompt, s.caption) for s in steps)).steps()
    ]


def test_prompts_say_what_the_steps_do_and_requests_differ() -> None:
    rng = Random(8)
    made = [sample_composed_request(rng) for _ in range(600)]
    assert len({request for _, request, _ in made}) > 0.95 * len(made)
    for _, request, steps in made:
        assert "{" not in request + "".join(step.caption for step in steps), request
        assert carried_out_as_prompts(steps) == [step.scene for step in steps]
        assert not any(has_held_out_pair(step.scene) for step in steps)


def test_captions_of_a_story_are_its_sentences() -> None:
    rng = Random(9)
    for _ in range(100):
        _, request, steps = sample_told_story(rng)
        for step in steps:
            assert step.caption.rstrip(".!?").lower() in request.lower()


def test_the_past_tense_leaves_gaps_and_what_somebody_says() -> None:
    told = in_past('{the a} hurries home, says: "It is late!" and loses the leaves')
    assert told == '{the a} hurried home, said: "It is late!" and lost the leaves'


def test_only_who_holds_a_thing_drops_it() -> None:
    rng = Random(11)
    for _ in range(400):
        for step in sample_told_story(rng)[2]:
            if " drops the " in step.caption or " dropped the " in step.caption:
                before, after = step.before.things, step.scene.things
                assert len(after) == len(before) + 1, step.caption


def test_about_half_of_the_requests_of_frames_are_for_one_image() -> None:
    rng = Random(10)
    single = sum(len(sample_frame(rng)[2]) == 1 for _ in range(400))
    assert 120 < single < 280


def test_composed_requests_are_an_exercise() -> None:
    exercise = sample_exercise(Random(1), ["plan-frames"])
    assert exercise.name == "plan-frames"
    assert "<" in exercise.answer or "1" in exercise.answer


def test_a_slot_can_be_of_the_same_kind_as_another_in_another_colour() -> None:
    [frame] = parse_frames(
        "= {a}: then {b}\n  *: a l; b r # {a} and {b}.\na: cat dog ~c\nb: as a ~d\nc: colour\nd: colour\n"
    )
    made = [each for seed in range(40) if (each := try_frame(frame, Random(seed)))]
    for _, _, [step] in made:
        left, right = step.scene.things.values()
        assert left.kind == right.kind and left.colour != right.colour
    assert {request.split()[-1] for _, request, _ in made if "cat" in request}


def test_a_gap_without_a_slot_is_refused_and_parentheses_are_kept() -> None:
    with pytest.raises(InputError, match="gaps without a slot"):
        [*parse_frames("{a} sees {b}\n  *: a l # {a}.\na: cat\n")]
    [frame] = parse_frames("= {a} (alone)\n  *: a l # {a}.\na: cat\n")
    made = [each for seed in range(20) if (each := try_frame(frame, Random(seed)))]
    assert any("(alone)" in request for _, request, _ in made)


def test_what_a_request_names_again_is_the_same_thing() -> None:
    [frame] = parse_frames("{a} sleeps until {a} wakes\n  *: a l # {a}.\na: dragon\n")
    made = [each for seed in range(40) if (each := try_frame(frame, Random(seed)))]
    assert any("until the " in request for _, request, _ in made)
    assert not any("until a " in request for _, request, _ in made)


def test_some_stories_are_one_sentence_and_each_begins_somewhere() -> None:
    rng = Random(12)
    told = [sample_told_story(rng)[1] for _ in range(300)]
    assert any(", and finally " in each or ", and in the end " in each for each in told)
    assert not any(" were, " in each or " was, " in each or "(were|are)" in each for each in told)
