"""What a request says about places, numbers and order: relations, groups, counting, lists of steps."""

from __future__ import annotations

from random import Random

import pytest

from interleave.errors import InputError
from interleave.types import Plan, PlanStep, Request
from interleave_mini.language.vocabulary import corrections
from interleave_mini.plan_check import is_about_something_else, missing_from
from interleave_mini.requests import PlanCheck, accept_request
from interleave_mini.world.scene import Scene, Thing
from miniature.grammar.edits.places import in_other_words, position
from miniature.grammar.edits.plain import read_edits
from miniature.grammar.lists_of_steps import pieces_of, written_as_list
from miniature.grammar.natural import read_request
from miniature.grammar.own_steps import read_own_steps
from miniature.grammar.tasks import sample_training_task


def prompts(text: str) -> list[str]:
    found = read_request(text)
    assert found is not None, text
    return [step.prompt for step in found.request.story.steps]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (
            "a red house with a tree next to it",
            "A meadow with a red house in the middle and a green tree on the right.",
        ),
        ("under the tree a small house", "A meadow with a green tree in the middle and a small red house"),
        ("a cat to the left of a dog", "A meadow with an orange cat on the left and a brown dog"),
        ("the moon above a castle at night", "A night sky with a yellow moon at the top and a purple castle"),
        ("a ball between two trees", "A meadow with a green tree on the left, a red ball in the middle and"),
        ("three red apples and two bananas", "A meadow with three red apples in the middle row and two"),
        ("2 cats and a dog in the garden", "A meadow with two orange cats in the middle row and a brown dog"),
        ("an empty beach", "An empty beach."),
        ("purple flower", "A meadow with a purple flower in the middle."),
        ("sun top right, house in the middle", "A meadow with a yellow sun at the top right and a red house"),
        ("a car that is blue and a hen in red", "A meadow with a blue car on the left and a red hen"),
        ("a cat with four mushrooms around it", "A meadow with a red mushroom at the top, a red mushroom"),
        (
            "the dog is left of the house and the cat is right of it",
            "A meadow with a brown dog on the left, a red house in the middle and an orange cat on",
        ),
        (
            "the cat is under the tree",
            "A meadow with a green tree in the middle and an orange cat at the bottom",
        ),
        (
            "a small red ball and a big blue ball",
            "A meadow with a small red ball on the left and a blue ball",
        ),
    ],
)
def test_an_image_has_things_where_and_as_often_as_they_are_named(text: str, first: str) -> None:
    assert prompts(text)[0].startswith(first)


@pytest.mark.parametrize(
    ("text", "steps", "last"),
    [
        ("5 fish, one swims away", 2, "Remove the orange fish at the bottom."),
        ("a rabbit eats three carrots one by one", 4, "Remove the orange carrot."),
        ("one star, then another, then a third", 3, "Add a yellow star on the right."),
        ("a hen lays an egg", 2, "Add a small brown egg at the bottom right."),
        ("paint the house blue, then green", 3, "Paint the blue house green."),
        ("a cat goes to the beach, then the forest", 2, "Change the background to the forest."),
        (
            "how do I draw an elephant",
            3,
            "Remove the small blue circle. Replace the blue circle with a blue elephant.",
        ),
        ("a rocket flies to the moon", 4, "Add a yellow moon at the top."),
        ("a balloon flies away", 3, "Remove the red balloon."),
        ("a duckling grows up", 2, "Make the yellow duck large."),
        ("stack the red block on the blue block", 3, "Put the red block down in the middle."),
    ],
)
def test_a_story_comes_to_its_end(text: str, steps: int, last: str) -> None:
    told = prompts(text)
    assert (len(told), told[-1]) == (steps, last)


@pytest.mark.parametrize(
    "text",
    [
        "Put an apple on a table. Add a banana. Take the apple away.",
        "1. put an apple on a table\n2. add a banana\n3. take the apple away",
        "Step 1: put an apple on a table. Step 2: add a banana. Step 3: take the apple away.",
        "- an apple on a table\n- add a banana\n- take the apple away",
        "an apple on a table -> add a banana -> take the apple away",
        "Sequence of three frames: an apple on a table; add a banana; take the apple away",
        "first put an apple on a table, then add a banana, finally take the apple away",
    ],
)
def test_own_steps_may_be_listed_in_any_way(text: str) -> None:
    steps = read_own_steps(text)
    assert steps is not None
    assert [step.prompt for step in steps] == [
        "A kitchen table with a red apple in the middle.",
        "Add a yellow banana on the right.",
        "Remove the red apple.",
    ]


def test_a_list_is_read_as_it_was_written() -> None:
    clauses = ["draw a cat", "add a dog", "remove the cat", "make it night"]
    for seed in range(200):
        text, template = written_as_list(clauses, Random(seed))
        assert clauses in [[piece.lower() for piece in pieces] for pieces in pieces_of(text)], text
        assert ("{n}" in template) == any(
            number in text.lower() for number in ("four ", "4 f", "4 p", "4 i", "4 s")
        )


# Places beside things in edits


def test_next_to_something_is_where_there_is_room() -> None:
    cat = Thing("cat", "orange")
    assert position(Scene.of("meadow", {4: cat}), "next to the cat") == 5
    assert position(Scene.of("meadow", {4: cat, 5: Thing("dog", "brown")}), "beside the cat") == 3
    assert position(Scene.of("meadow", {5: cat}), "by the cat") == 4
    assert position(Scene.of("meadow", {4: cat}), "on top of the cat") == 1
    steps = read_edits("Add a ball in front of the cat", Scene.of("meadow", {4: cat}))
    assert steps is not None
    assert steps[0].scene.cells[7] == Thing("ball", "red")


def test_other_words_for_a_place_mean_the_same() -> None:
    scene = Scene.of("meadow", {4: Thing("cat", "orange")})
    for where, cell in (("left of the cat", 3), ("to the right of the cat", 5), ("under the cat", 7)):
        for seed in range(30):
            assert position(scene, in_other_words(where, scene, cell, Random(seed))) == cell


# Typing mistakes


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("hte cat", {"hte": "the"}),
        ("a dgo and a bal", {"dgo": "dog", "bal": "ball"}),
        ("show a sunn", {"sunn": "sun"}),
        ("wat does a tadpole becom", {"wat": "what", "becom": "become"}),  # not wait
        ("the dos and don'ts of a dgo", {"dgo": "dog"}),  # a rare word is a word
        ("a pik of a cat, thn nite", {"pik": "picture", "thn": "then", "nite": "night"}),  # not pink, nor ten
    ],
)
def test_short_words_are_corrected_where_one_is_meant(text: str, found: dict[str, str]) -> None:
    assert corrections(text) == found


def test_a_colour_that_the_world_lacks_is_named_where_it_is_wanted() -> None:
    with pytest.raises(InputError, match="turquoise"):
        accept_request(Request.of("draw a rabbit, then make it turquoise"), {})
    accept_request(Request.of("plant an apple tree and make it bear fruit"), {})


def test_the_words_of_listed_steps_are_checked_and_corrected() -> None:
    with pytest.raises(InputError, match="unicorn"):
        accept_request(Request.of("Step 1: draw a unicorn. Step 2: make it night."), {})
    accepted = accept_request(Request.of("Step 1: draw a dgo. Step 2: make it night."), {})
    assert accepted.text == "Step 1: draw a dgo. Step 2: make it night."
    assert "draw a dog" in accepted.as_read.text


# Plans held against it


def plan(*told: str) -> Plan:
    steps = (PlanStep(number=at, prompt=prompt, caption=prompt) for at, prompt in enumerate(told, start=1))
    return Plan(steps=tuple(steps), reasoning="")


def test_a_plan_with_a_wrong_number_of_things_or_on_the_wrong_side_is_seen() -> None:
    few = plan("A meadow with two red apples in the middle row and three yellow bananas in the bottom row.")
    assert missing_from(few, Request.of("three red apples and two bananas")) == [
        "three apples",
        "two bananas",
    ]
    wrong = plan("A meadow with an orange cat on the right and a brown dog in the middle.")
    assert missing_from(wrong, Request.of("a cat to the left of a dog")) == ["cat to the left of a dog"]
    assert not missing_from(wrong, Request.of("a cat next to a dog"))


def test_an_empty_place_is_about_the_place() -> None:
    assert not is_about_something_else(
        plan("An empty beach."), Request.of("just the beach, and nobody there")
    )
    assert is_about_something_else(plan("An empty beach."), Request.of("good morning"))


def test_true_plans_of_the_new_kinds_are_not_refused() -> None:
    rng, refused = Random(5), []
    for _ in range(150):
        task = sample_training_task("story", rng)
        if task.domain in ("arranging and counting", "own steps"):
            refused += [task.text] if PlanCheck().problem(Request.of(task.text), task.plan()) else []
    assert not refused
