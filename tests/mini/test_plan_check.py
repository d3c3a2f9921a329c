"""Plans held against requests: what was named must be in them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

import pytest

from interleave.agents.planner import VlmPlanner
from interleave.agents.prompts import load_pack
from interleave.agents.replies import render_plan
from interleave.backends.protocols import Message, Reply, Sampling, VlmCapabilities
from interleave.backends.registry import load_vlm
from interleave.errors import InputError
from interleave.types import Asked, ImagePart, Plan, PlanStep, Request, Text
from interleave_mini.language.prompts import parse_prompt
from interleave_mini.plan_audit import PlanAudit
from interleave_mini.plan_check import (
    NEGATED,
    impossible_step,
    is_about_something_else,
    missing_from,
    more_than_fit,
    unwanted_in,
)
from interleave_mini.requests import PlanCheck, accept_request
from interleave_mini.world.drawing import draw
from miniature.grammar.negations import with_negation
from miniature.grammar.tasks import sample_task


def plan(*prompts: str) -> Plan:
    steps = tuple(
        PlanStep(number=number, prompt=prompt, caption=prompt)
        for number, prompt in enumerate(prompts, start=1)
    )
    return Plan(steps=steps, reasoning="")


CAT = plan("A meadow with a orange cat on the left.", "Add a red ball in the middle.")


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("a kitty plays with a red ball in the park", []),
        ("a cat and a dog", ["dog"]),
        ("a cat plays with a blue ball", ["blue ball"]),
        ("a cat on the beach", ["on the beach"]),
        ("three cats and a ball", ["three cats"]),
        ("a cat and a ball, not a dog", []),
        ("a cat without a dog or a hen, and a ball that is blue", ["blue ball"]),
        ("a dog, no wait, a cat and a ball", []),
        ("a cat with a blue ball. Sorry, I meant red", []),
        ("a cat with a ball, I mean a dog with a ball", ["dog"]),
        ("a cat with a red ball that looks like an apple", []),
        ("A cat named Mia is outside, and it's for my picture book", []),
        ("the cover of my book: a cat with a ball", []),
        ("a cat with a ball, and two children", ["two children"]),
        ("a cat with a ball and a bed", ["bed"]),
        ("a circle of friends: a cat and a ball", []),
        ("a house made of three squares, a cat and a ball", []),
        ("the ball is blue and the cat plays", ["blue ball"]),
        ("a cat with a ball in the meadow, not on the beach", []),
        ("step 1 cat left\nstep 2 ball in the middle", []),
        ("a cat and a strawberry ice cream", ["strawberry", "ice cream"]),
    ],
)
def test_what_a_request_names_must_be_in_the_plan(text: str, missing: list[str]) -> None:
    assert missing_from(CAT, Request.of(text)) == missing


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("a picture for Grandma: a ball", []),
        ("A story for small children about a ball", []),
        ("My son says next we need a ball. My daughter just turned four.", []),
        ("a ball, my son has 6 years", []),
        ("a ball and my son", ["son"]),
        ("my son has a ball", ["son"]),
        ("my son has two balls", ["son", "two balls"]),
        ("a ball belongs to children", ["children"]),
        ("a ball is a gift for mum", ["gift", "mum"]),
    ],
)
def test_who_a_request_is_for_need_not_be_in_the_plan(text: str, missing: list[str]) -> None:
    ball = plan("A meadow with a red ball in the middle.")
    assert missing_from(ball, Request.of(text)) == missing


CHANGES = plan(
    "A room with an orange sleeping cat on a brown chair on the left, a brown door in the middle "
    "and a red ball at the bottom.",
    "Put the red ball on the brown door. Turn the brown door into a brown open door.",
)

HOUSE = plan("A meadow with a red house in the middle.")


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("My son asked how people build a house", []),
        ("a house. The children asked for this one.", []),
        ("a house, my little sister is 3 and she wants it too", []),
        ("show my kids a house for our grandma", []),
        ("my daughter builds a house", ["daughter"]),
        ("a house, and my sister asks the children in", ["children"]),
        ("a king wants a house", ["king"]),
        ("a house, and put it on the page", []),
        ("I'm a young baker. Draw a house", []),
        ("a house in the colours of the rainbow, to hang above my desk", []),
        ("a house and a rainbow, and a bed", ["rainbow", "bed"]),
        ("The sun rose over the meadow. There is a house.", ["sun"]),
    ],
)
def test_who_asks_need_not_be_drawn(text: str, missing: list[str]) -> None:
    assert missing_from(HOUSE, Request.of(text)) == missing


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("The cat sleeps on the chair. Someone opens the door.", []),
        ("the cat eats", ["eats"]),
        ("the cat is asleep, then the ball is dirty", ["dirty"]),
        ("the cat snores and it rains", ["rains"]),
        ("the cat is not wet", []),
        ("a break for the cat", []),
        ("at midnight the cat sleeps", ["midnight"]),
    ],
)
def test_what_happens_in_a_request_must_be_shown(text: str, missing: list[str]) -> None:
    assert missing_from(CHANGES, Request.of(text)) == missing


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("two yellow ducks and a brown one", []),
        ("three ducks, two of them yellow", []),
        ("four ducks", ["four ducks"]),
        ("three yellow ducks", []),
    ],
)
def test_things_are_counted_in_all_and_by_colour(text: str, missing: list[str]) -> None:
    ducks = plan("The sea with two yellow ducks in the middle row and a brown duck on the right.")
    assert missing_from(ducks, Request.of(text)) == missing


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("two happy children on a playground, a boy and a girl", []),
        ("two kids swap toys", []),
        ("three kids swap toys", ["three kids"]),
        ("two boys", ["two boys"]),
    ],
)
def test_children_are_boys_and_girls(text: str, missing: list[str]) -> None:
    children = plan("A playground with a blue happy boy on the left and a red happy girl on the right.")
    assert missing_from(children, Request.of(text)) == missing


def test_a_block_that_is_to_be_put_down_must_not_be_held_at_the_end() -> None:
    bench = "A workbench with a small red block on the left and an empty gripper at the top."
    held = plan(bench, "Pick up the red block with the gripper.")
    assert missing_from(held, Request.of("pick up the red block and put it on the right")) == ["put it"]
    assert missing_from(held, Request.of("pick up the red block")) == []


def test_a_topic_that_a_plan_makes_up_draws_nothing() -> None:
    made_up = Plan(steps=CAT.steps, reasoning="A duck grows up: 2 to do.")
    assert missing_from(made_up, Request.of("the life of a duck")) == ["duck"]


@pytest.mark.parametrize(
    ("text", "prompt"),
    [
        ("it rains, then it is sunny", "A meadow with a blue cloud at the top."),
        ("the bud opens", "A meadow with a red flower bud in the middle."),
        ("nothing but dunes", "An empty desert."),
        ("day becomes night", "A meadow with a yellow sun at the top."),
    ],
)
def test_words_that_speak_of_a_thing_make_its_plan_fit(text: str, prompt: str) -> None:
    assert not is_about_something_else(plan(prompt), Request.of(text))


@pytest.mark.parametrize(
    ("text", "topic", "prompt"),
    [
        ("who won the world cup 2014?", "filling a cup", "A kitchen table with a blue cup in the middle."),
        ("draw the Eiffel tower", "a tower of blocks", "A room with a red block at the bottom."),
        ("an image of my grandma", "an image", "A meadow with a red flower in the middle."),
    ],
)
def test_names_of_something_else_do_not_make_a_plan_fit(text: str, topic: str, prompt: str) -> None:
    drawn = Plan(steps=plan(prompt).steps, reasoning=f"{topic.capitalize()}: 1 to do.")
    assert is_about_something_else(drawn, Request.of(text))


@pytest.mark.parametrize(
    ("text", "unwanted"),
    [
        ("not a blue ball but a red one, and a cat", []),
        ("a cat and not a single ball", ["ball"]),
        ("a cat, leave the ball out", ["ball"]),
        ("a cat, no balls", ["balls"]),
        ("a cat but not a ball and not a dog", ["ball"]),
        ("a cat plays with a ball until there is no ball left", []),
        ("a cat without any dogs", []),
        ("oh no a ball hits a cat", []),
    ],
)
def test_what_is_not_wanted_must_not_be_in_the_last_image(text: str, unwanted: list[str]) -> None:
    assert unwanted_in(CAT, Request.of(text)) == unwanted


@pytest.mark.parametrize("text", ["100 balls", "a dozen red apples", "draw twelve small cats"])
def test_more_things_than_there_is_room_for_are_refused_with_the_reason(text: str) -> None:
    with pytest.raises(InputError, match="room for nine things"):
        accept_request(Request.of(text), {})


def test_numbers_of_other_things_are_no_numbers_of_things() -> None:
    assert more_than_fit("A story of a cat in 12 pictures") is None
    assert more_than_fit("a frog after 100 days") is None
    assert more_than_fit("twenty-seven elephants in a line") == "twenty-seven elephants"


@pytest.mark.parametrize("seed", range(20))
def test_a_negation_in_training_is_one_that_the_check_finds(seed: int) -> None:
    text = with_negation("A cat and a dog in the meadow.", {"cat", "dog"}, Random(seed))
    assert NEGATED.search(text)
    assert not {"cat", "dog"} & {
        word.lower() for found in NEGATED.finditer(text) for word in found[0].split()
    }


def told(topic: str, *prompts: str) -> Plan:
    return plan(*prompts).model_copy(update={"reasoning": f"{topic.capitalize()}: {len(prompts)} to do."})


@pytest.mark.parametrize(
    ("text", "topic", "prompt"),
    [
        ("what's the weather in Lisbon tomorrow?", "what comes next", "A meadow with a yellow lamp."),
        ("assemble an ikea billy shelf", "an empty place", "An empty snowy field."),
        ("change the spark plugs on a 2009 Honda", "a group", "A meadow with two green planes."),
        ("how much is the fish", "riddles", "A meadow with a yellow lamp in the middle."),
        ("what is it that you do", "coloured riddles", "A meadow with a red egg in the middle."),
    ],
)
def test_small_words_do_not_make_a_plan_fit_a_request(text: str, topic: str, prompt: str) -> None:
    assert is_about_something_else(told(topic, prompt), Request.of(text))


def test_a_riddle_fits_the_plan_of_its_answer() -> None:
    tasks = [sample_task("know", Random(seed)) for seed in range(100)]
    assert not [task.text for task in tasks if PlanCheck().problem(Request.of(task.text), task.plan())]


def test_true_plans_are_hardly_ever_complained_about() -> None:
    rng, complaints = Random(3), 0
    for _ in range(300):
        task = sample_task("story", rng)
        complaints += bool(missing_from(task.plan(), Request.of(task.text)))
    assert complaints <= 24


class Says:
    """A model that gives these replies, one after the other, and keeps what it was asked."""

    capabilities = VlmCapabilities()

    def __init__(self, *plans: Plan) -> None:
        self.replies = [render_plan(each) for each in plans]
        self.asked: list[Sequence[Message]] = []
        self.samplings: list[Sampling] = []

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        self.asked.append(messages)
        self.samplings.append(sampling)
        return Reply(self.replies[len(self.asked) - 1])


def planned(model: Says, text: str, samples: int = 8) -> Plan:
    planner = VlmPlanner(model, load_pack("mini"), check=PlanCheck(samples))  # type: ignore[arg-type]
    return asyncio.run(planner.plan(Request.of(text)))


def test_a_plan_that_leaves_something_out_is_asked_for_once_more_with_it_named() -> None:
    better = plan("A meadow with a orange cat on the left.", "Add a brown dog in the middle.")
    model = Says(CAT, better)
    assert planned(model, "a cat and a dog").steps == better.steps
    assert "The plan leaves out dog." in str(model.asked[1][-1])


def test_after_that_plans_are_sampled_and_the_one_most_agree_on_is_taken() -> None:
    one = plan("A meadow with a orange cat on the left.", "Add a brown dog in the middle.")
    other = plan("A meadow with a brown dog in the middle.", "Add a orange cat on the left.")
    same = plan("A meadow with an orange cat on the left.", "Add a brown dog in the middle.")
    model = Says(CAT, CAT, CAT, other, one, CAT, CAT, same, CAT, CAT)
    assert planned(model, "a cat and a dog").steps == one.steps
    first, again, *sampled = model.samplings
    assert first.temperature == again.temperature == 0.0
    assert all(each.temperature > 0 for each in sampled)
    assert len({each.seed for each in sampled}) == len(sampled) == 8
    assert all(asked == model.asked[0] for asked in model.asked[2:])


@pytest.mark.parametrize(("samples", "calls"), [(0, 1), (8, 10)])
def test_the_user_is_asked_with_what_was_understood_and_what_is_missing(samples: int, calls: int) -> None:
    model = Says(*[CAT] * calls)
    with pytest.raises(Asked) as asked:
        planned(model, "a cat and a dog", samples)
    assert len(model.asked) == calls
    assert str(asked.value).startswith("the miniature understood “cat”, but its plan leaves out “dog”.")
    assert asked.value.question.understood == ("cat",)
    assert asked.value.question.missing == ("dog",)
    assert asked.value.plan.steps == CAT.steps


def test_a_question_never_says_that_nothing_can_be_drawn_if_a_thing_was_named() -> None:
    other = told("an empty place", "An empty snowy field.")
    question = PlanCheck().question(Request.of("what a nice day"), other)
    assert question is not None
    assert question.understood == ()
    assert "instead of what you asked for" in question.text
    question = PlanCheck().question(Request.of("a city at night with a cat"), other)
    assert question is not None
    assert question.missing == ("cat", "night")


def test_own_sentences_need_as_many_steps_as_there_are() -> None:
    request = accept_request(Request.of("A cat sits. A ball comes. A dog comes."), {})
    question = PlanCheck().question(request.as_read, CAT)
    assert question is not None
    assert question.missing == ("dog",)
    request = accept_request(Request.of("A cat sits. A ball comes. Time goes by."), {})
    question = PlanCheck().question(request.as_read, CAT)
    assert question is not None
    assert "has 2 steps for your 3 sentences" in question.text


def test_a_plan_for_an_image_is_held_against_what_it_shows_and_stands_if_no_other_is_better() -> None:
    scene = parse_prompt("A meadow with a green circle in the middle.", None)
    request = Request((ImagePart(draw(scene)), Text("How about the circle in purple?")))
    wrong, right = plan("Paint the blue circle purple."), plan("Paint the green circle purple.")
    assert PlanCheck().problem(request, wrong) == "Nobody can draw “Paint the blue circle purple.”."
    assert PlanCheck().problem(request, right) == ""
    for replies, taken in (
        ((wrong, right), right),
        ((wrong, wrong, wrong, right, *[wrong] * 6), right),
        ([wrong] * 10, wrong),
    ):
        planner = VlmPlanner(Says(*replies), load_pack("mini"), check=PlanCheck(8))  # type: ignore[arg-type]
        assert asyncio.run(planner.plan(request)).steps == taken.steps


def test_painting_what_has_the_colour_already_is_no_contradiction() -> None:
    assert impossible_step(plan("A meadow with a red car in the middle.", "Paint the red car red.")) is None
    gone = "Remove the blue cat."
    assert impossible_step(plan("A meadow with a red car in the middle.", gone)) == gone


def test_another_number_of_images_is_named_with_that_of_the_plan() -> None:
    request = Request.of("a cat finds a red ball, in 5 pictures")
    assert PlanCheck().problem(request, CAT) == "The plan has 2 steps, and 5 are wanted."
    question = PlanCheck().question(request, CAT)
    assert question is not None
    assert "its plan has 2 steps, not 5" in question.text
    assert question.missing == ("5 steps",)


class Objecting(PlanAudit):
    """An audit that finds every plan wrong."""

    async def objection(self, request: Request, plan: Plan) -> str:
        return "seems to lack something"


@pytest.mark.parametrize(("topic", "asks"), [("A cat and a ball", True), ("Riddles", False)])
def test_the_critic_has_a_say_in_plans_but_not_in_riddles(topic: str, asks: bool) -> None:
    check = PlanCheck(audit=Objecting(load=lambda: load_vlm("mini", "critic")))
    question = asyncio.run(
        check.doubt(Request.of("a cat"), Plan(steps=CAT.steps, reasoning=f"{topic}: 1 to do."))
    )
    assert (question is not None) == asks


@pytest.mark.parametrize(
    ("text", "prompts", "missing"),
    [
        ("A bus drove on the road. It got dirty.", ["Turn the yellow bus into a yellow dirty bus."], []),
        ("A bus stood on the road. It drove.", ["Turn the yellow bus into a yellow dirty bus."], ["drove"]),
        ("A bus stood on the road. It drove.", ["Move the yellow bus to the right."], []),
        ("A bus drove on the road. It broke.", ["Turn the yellow bus into a yellow dirty bus."], ["broke"]),
    ],
)
def test_the_first_image_of_a_story_stands_still(text: str, prompts: list[str], missing: list[str]) -> None:
    request = accept_request(Request.of(text), {}).as_read
    assert missing_from(plan("A road with a yellow bus on the left.", *prompts), request) == missing


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("a dog beside a closed door", []),
        ("a dog closes the door", ["closes"]),
        ("a dog opens the door", ["opens"]),
    ],
)
def test_a_closed_door_need_not_be_closed_first(text: str, missing: list[str]) -> None:
    door = plan("A room with a brown door in the middle and a brown dog on the right.")
    assert missing_from(door, Request.of(text)) == missing


def test_a_plan_in_which_a_step_changes_nothing_is_drawn() -> None:
    asleep = plan("A room with a green sleeping man in a blue bed in the middle.")
    same = plan(asleep.steps[0].prompt or "", "Turn the green sleeping man into a green sleeping man.")
    assert impossible_step(same) is None
