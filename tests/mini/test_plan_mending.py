"""Conflicts between the steps of a plan are repaired, and nothing else changes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from interleave import Message, Plan, PlanStep, Reply, Request, Sampling, VlmCapabilities
from interleave.agents.planner import VlmPlanner
from interleave.agents.prompts import load_pack
from interleave.agents.replies import render_plan
from interleave_mini.plan_check import impossible_step
from interleave_mini.plan_mending import mended
from interleave_mini.requests import PlanCheck
from miniature.grammar.worked_examples import worked_examples


def plan(*prompts: str) -> Plan:
    steps = tuple(
        PlanStep(number=number, prompt=prompt, caption=f"Caption {number}.")
        for number, prompt in enumerate(prompts, start=1)
    )
    return Plan(steps=steps, reasoning="Own steps: it happens.")


@pytest.mark.parametrize(
    ("before", "step", "better"),
    [
        pytest.param(
            "A park with a red cat on the left.",
            "Add a blue dog on the left.",
            "Add a blue dog in the middle.",
            id="a cell that is taken",
        ),
        pytest.param(
            "A park with a red cat on the left and a blue dog in the middle.",
            "Move the red cat to the middle.",
            "Move the red cat to the right.",
            id="a move to a cell that is taken",
        ),
        pytest.param(
            "A park with a red balloon held by a blue boy on the left.",
            "Give a green kite to the blue boy.",
            "Move the red balloon to the middle. Give a green kite to the blue boy.",
            id="a second thing to hold",
        ),
        pytest.param(
            "A garden with a blue boy under a green tree in the middle.",
            "Give a red apple to the blue boy.",
            "Move the blue boy to the left. Give a red apple to the blue boy.",
            id="something for one who is carried",
        ),
        pytest.param(
            "A road with a blue boy on a red bicycle on the left and a blue truck on the right.",
            "Put the red bicycle in the blue truck.",
            "Move the blue boy to the middle. Put the red bicycle in the blue truck.",
            id="a carrier that is to be carried",
        ),
        pytest.param(
            "A bedroom with an orange cat on a brown chair in the middle.",
            "Put the orange cat under the brown chair.",
            "Move the orange cat to the left. Put the orange cat under the brown chair.",
            id="from on to under",
        ),
        pytest.param(
            "A room with a brown box on the left and a red ball on the right.",
            "Put the red ball in the brown box.",
            "Turn the brown box into a brown open box. Put the red ball in the brown open box.",
            id="a closed box",
        ),
        pytest.param(
            "A room with a red ball in a brown open box on the left.",
            "Turn the brown open box into a brown box.",
            "Remove the red ball. Turn the brown open box into a brown box.",
            id="closing a full box",
        ),
        pytest.param(
            "A park with three red balls in the top row and a red girl at the bottom.",
            "Give the red ball to the red girl.",
            "Give the red ball at the top left to the red girl.",
            id="one of several",
        ),
        pytest.param(
            "A farm with a brown wet dog in the middle.",
            "Turn the brown dog into a brown happy dog.",
            "Turn the brown wet dog into a brown happy dog.",
            id="another state",
        ),
        pytest.param(
            "A room with a green man in the middle.",
            "Give the black hat to the green man.",
            "Give a black hat to the green man.",
            id="a thing that is not there",
        ),
        pytest.param(
            "A road with a blue truck on the left.",
            "Move the blue truck to the right. Turn the blue truck into a blue truck.",
            "Move the blue truck to the right.",
            id="a sentence that changes nothing",
        ),
    ],
)
def test_room_is_made(before: str, step: str, better: str) -> None:
    given = plan(before, step)
    made = mended(given)
    assert [each.prompt for each in made.steps] == [before, better]
    assert [each.caption for each in made.steps] == [each.caption for each in given.steps]
    assert impossible_step(made) is None


def test_a_gripper_that_is_needed_hangs_there_from_the_start() -> None:
    made = mended(
        plan("A workbench with a red block on the left.", "Pick up the red block with the gripper.")
    )
    assert made.steps[0].prompt == (
        "A workbench with a small red block on the left and an empty gripper at the top left."
    )
    assert impossible_step(made) is None


def test_a_later_step_counts_on_what_was_mended() -> None:
    made = mended(
        plan(
            "A park with a red cat on the left.",
            "Add a blue dog on the left.",
            "Move the red cat to the middle.",
        )
    )
    assert [each.prompt for each in made.steps[1:]] == [
        "Add a blue dog in the middle.",
        "Move the red cat to the right.",
    ]


@pytest.mark.parametrize(
    "step",
    [
        "Put a grey mouse under the grey rock.",
        "Turn the grey rock into a grey sleeping rock.",
        "Remove the orange dog.",
        "Turn the green dog into a green wet dog.",
        "Swap the grey rock and the green dog.",
        "Sing a song.",
    ],
)
def test_what_cannot_happen_stays_as_it_is(step: str) -> None:
    given = plan("A meadow with a grey rock in the middle.", "Add a red cat on the left.", step)
    assert mended(given) == given


def test_a_full_image_has_no_room() -> None:
    rows = ", ".join(f"three red apples in the {row} row" for row in ("top", "middle"))
    full = plan(f"A farm with {rows} and three red apples in the bottom row.", "Add a cat on the left.")
    assert mended(full) == full


def test_possible_plans_and_plans_with_texts_alone_stay_as_they_are() -> None:
    for example in worked_examples()[::200]:
        given = plan(*(prompt for prompt, _ in example.plan))
        assert mended(given) is given or mended(given) == given
    texts = Plan(steps=(PlanStep(number=1, prompt=None, caption="Once upon a time."),))
    assert mended(texts) is texts


class Says:
    """A model with one reply."""

    capabilities = VlmCapabilities()

    def __init__(self, reply: str) -> None:
        self.reply = reply

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        return Reply(self.reply)


def test_a_planner_returns_the_mended_plan() -> None:
    reply = render_plan(plan("A park with a red cat on the left.", "Add a blue dog on the left."))
    planner = VlmPlanner(Says(reply), load_pack("mini"), check=PlanCheck())
    made = asyncio.run(planner.plan(Request.of("a red cat, then a blue dog")))
    assert [step.prompt for step in made.steps][1] == "Add a blue dog in the middle."


def test_a_prompt_that_mended_changes_nothing_names_what_it_is_about() -> None:
    made = mended(
        plan(
            "A park with two blue dogs in the top row.",
            "Paint the blue dog blue.",
            "Night falls. Add a red cat on the left.",
            "Night falls. The red cat moves to the left. The green bird turns blue.",
        )
    )
    assert made.steps[1].prompt == "Paint the blue dog blue."  # nobody can draw the last one


def test_it_need_not_become_night_twice() -> None:
    made = mended(
        plan(
            "A park with two blue dogs in the top row.",
            "Paint the blue dog blue.",
            "Night falls.",
            "Night falls. Add a red cat at the top left.",
        )
    )
    assert [step.prompt for step in made.steps[1:]] == [
        "Paint the blue dog at the top left blue.",
        "Night falls.",
        "Add a red cat on the left.",
    ]
    assert impossible_step(made) is None
