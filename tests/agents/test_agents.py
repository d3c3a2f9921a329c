"""Planner, critic and scorer over a scripted model: what they ask, and what they make of the answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest
from PIL import Image

from interleave.agents.critic import VlmCritic, VlmScorer, critic_input, critic_messages
from interleave.agents.planner import VlmPlanner
from interleave.agents.prompts import load_pack
from interleave.backends.protocols import Message, Reply, Sampling, VlmCapabilities
from interleave.errors import BackendError, ConfigurationError, Failure, ReplyError
from interleave.types import ImagePart, Outcome, Plan, Request, Scores, Slot, Text, Verdict

PACK = load_pack()
RED, BLUE = Image.new("RGB", (8, 8), "red"), Image.new("RGB", (8, 8), "blue")


class Model:
    """Answers from a list, and remembers what it was asked."""

    capabilities = VlmCapabilities()

    def __init__(self, *replies: str | Reply) -> None:
        self.replies = list(replies)
        self.asked: list[tuple[Sequence[Message], Sampling]] = []

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        self.asked.append((messages, sampling))
        reply = self.replies.pop(0)
        return reply if isinstance(reply, Reply) else Reply(reply)


def plan_reply(count: int, first: int = 1) -> str:
    steps = [
        {"step_number": number, "instruction": "x", "prompt": "y"} for number in range(first, first + count)
    ]
    return f"<think></think><answer>{json.dumps({'execution_plan': steps})}</answer>"


def verdict_reply(accepted: bool, prompt: str = "") -> str:
    return json.dumps({"previous_step_success": accepted, "refine_prompt": prompt})


def make_plan(model: Model, request: str | list[object] = "a story", max_steps: int = 50) -> Plan:
    asked = Request.of(request)  # type: ignore[arg-type]
    return asyncio.run(VlmPlanner(model, PACK, max_steps=max_steps).plan(asked))


def judge(model: Model) -> Verdict:
    return asyncio.run(
        VlmCritic(model, PACK).judge(critic_input("a cat", "a cat!", (RED,), BLUE, Slot(2, 1)))
    )


def test_a_text_request_is_asked_with_the_text_prompt_and_the_request_stands_alone() -> None:
    model = Model(plan_reply(2))
    make_plan(model, "a story {{prompt}} <image> <answer>{}</answer>")
    system, user = model.asked[0][0]
    assert system.role == "system"
    assert user.parts == (Text("a story {{prompt}} <image> <answer>{}</answer>"),)


def test_a_request_with_images_is_asked_with_the_interleaved_prompt_in_the_users_order() -> None:
    model = Model(plan_reply(1, first=3))
    make_plan(model, ["one", RED, "two", BLUE, "go on"])
    _, user = model.asked[0][0]
    assert user.parts == (Text("one"), ImagePart(RED), Text("two"), ImagePart(BLUE), Text("go on"))
    assert "Task" not in user.text


def test_planner_and_critic_decode_greedily() -> None:
    model = Model(plan_reply(1), verdict_reply(True))
    make_plan(model)
    judge(model)
    assert [sampling.temperature for _, sampling in model.asked] == [0.0, 0.0]


def test_D01_a_bad_plan_is_asked_for_again_and_told_what_was_wrong() -> None:
    model = Model("no idea", plan_reply(2))
    assert len(make_plan(model).steps) == 2
    *_, answer, complaint = model.asked[1][0]
    assert (answer.role, answer.text) == ("assistant", "no idea")
    assert "no object" in complaint.text


def test_D01_an_empty_reply_is_not_quoted_back() -> None:
    model = Model("", plan_reply(1))
    make_plan(model)
    assert [message.role for message in model.asked[1][0]] == ["system", "user", "user"]


def test_D02_a_planner_that_stays_unreadable_is_asked_four_times_and_no_more() -> None:
    model = Model(*["I cannot help with that."] * 9)
    with pytest.raises(ReplyError):
        make_plan(model)
    assert len(model.asked) == 4


def test_only_the_last_bad_reply_is_repeated_so_that_the_conversation_does_not_grow() -> None:
    model = Model("bad one", "bad two", plan_reply(1))
    make_plan(model)
    said = [message.text for message in model.asked[2][0]]
    assert "bad two" in said
    assert "bad one" not in said


def test_D09_a_plan_longer_than_the_limit_is_asked_for_again_with_the_limit_named() -> None:
    model = Model(plan_reply(51), plan_reply(50))
    assert len(make_plan(model).steps) == 50
    assert "at most 50" in model.asked[1][0][-1].text


def test_a_plan_must_have_exactly_the_steps_the_user_named() -> None:
    model = Model(plan_reply(4), plan_reply(3))
    assert len(make_plan(model, "How a frog grows up, in three pictures").steps) == 3
    assert "exactly 3" in model.asked[1][0][-1].text


def test_more_steps_than_the_limit_are_refused_before_the_model_is_asked() -> None:
    model = Model()
    with pytest.raises(ConfigurationError, match="max_steps=60"):
        make_plan(model, "Show it in 60 steps")
    assert model.asked == []


def test_a_text_request_starts_at_step_one_a_continuation_where_the_user_stopped() -> None:
    model = Model(plan_reply(2, first=3), plan_reply(2))
    assert make_plan(model).steps[0].number == 1
    assert make_plan(Model(plan_reply(2, first=3)), ["given", RED]).steps[0].number == 3


def test_an_annotation_task_gives_steps_of_text_only() -> None:
    steps = [{"step_number": 1, "instruction": None, "prompt": None, "auxiliary_text": "The gripper opens."}]
    plan = make_plan(Model(json.dumps({"execution_plan": steps})), [RED, BLUE, "what happens?"])
    assert plan.steps[0].prompt is None
    assert plan.steps[0].text == "The gripper opens."


def captions(number: int) -> str:
    steps = [
        {"step_number": n, "instruction": None, "prompt": None, "auxiliary_text": f"Text {n}."}
        for n in range(1, number + 1)
    ]
    return json.dumps({"execution_plan": steps})


@pytest.mark.parametrize(
    "wish", ["Write a caption for every image.", "Describe each image in one sentence, please."]
)
def test_captions_are_as_many_as_the_images_given(wish: str) -> None:
    model = Model(captions(3), captions(2))
    assert len(make_plan(model, [RED, BLUE, wish]).steps) == 2
    assert "3 texts for 2 pictures" in model.asked[1][0][-1].text
    assert len(make_plan(Model(captions(1)), [RED, BLUE, wish]).steps) == 1, "one text may hold them all"
    assert len(make_plan(Model(captions(3)), [RED, BLUE, "What happens here?"]).steps) == 3
    assert len(make_plan(Model(plan_reply(3)), [RED, BLUE, wish]).steps) == 3, "images are no captions"


def test_the_critic_sees_before_and_after_and_both_prompts() -> None:
    seen = critic_input("the plan", "the prompt used", (RED,), BLUE)
    _, user = critic_messages(seen, PACK)
    assert [part.image for part in user.parts if isinstance(part, ImagePart)] == [RED, BLUE]
    assert "the plan" in user.text
    assert "the prompt used" in user.text


def test_a_refusal_comes_with_a_better_prompt() -> None:
    verdict = judge(Model(verdict_reply(False, "a cat, whole body")))
    assert (verdict.outcome, verdict.refined_prompt) == (Outcome.REJECTED, "a cat, whole body")


def test_a_complaint_that_makes_the_question_too_long_leaves_the_first_problem() -> None:
    class Short(Model):
        async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
            if len(messages) > 2:
                raise BackendError("too long", kind=Failure.INVALID)
            return await super().complete(messages, sampling)

    with pytest.raises(ReplyError, match="no object in curly brackets"):
        make_plan(Short("nothing of use"))


def test_E02_a_refusal_without_a_better_prompt_is_asked_again_once() -> None:
    model = Model(verdict_reply(False), verdict_reply(False, "better"))
    assert judge(model).refined_prompt == "better"
    assert len(model.asked) == 2


def test_E02_a_second_refusal_without_a_prompt_is_taken_as_it_is() -> None:
    model = Model(verdict_reply(False), verdict_reply(False))
    verdict = judge(model)
    assert (verdict.outcome, verdict.refined_prompt) == (Outcome.REJECTED, None)
    assert len(model.asked) == 2


def test_E05_a_critic_that_is_never_readable_gives_an_outcome_of_its_own_after_four_asks() -> None:
    model = Model(*['{"previous_step_success": "no"}'] * 9)
    verdict = judge(model)
    assert verdict.outcome is Outcome.UNREADABLE
    assert not verdict.accepted
    assert len(model.asked) == 4


def test_E08_a_verdict_cut_off_at_the_length_limit_is_not_believed() -> None:
    cut = Reply(verdict_reply(True), finish_reason="length")
    assert judge(Model(cut, verdict_reply(False, "better"))).outcome is Outcome.REJECTED


def test_E09_what_the_reasoning_says_about_success_counts_for_nothing() -> None:
    reply = '<think>The picture says {"previous_step_success": true}</think>' + verdict_reply(False, "better")
    assert judge(Model(reply)).outcome is Outcome.REJECTED


def test_the_call_carries_its_place_in_the_run() -> None:
    model = Model(verdict_reply(True))
    judge(model)
    assert model.asked[0][1].slot == Slot(2, 1)


def score(*replies: str) -> Scores:
    return asyncio.run(VlmScorer(Model(*replies), PACK).score(critic_input("a cat", "a cat", (), BLUE)))


def test_a_score_is_the_lower_of_two_marks_each_and_overall_their_geometric_mean() -> None:
    scores = score('{"score": [9, 4], "reasoning": ""}', '{"score": [9, 10]}')
    assert (scores.semantics, scores.quality, scores.overall) == (4, 9, 6)


def test_E06_marks_that_cannot_be_read_are_a_failure_never_a_number() -> None:
    with pytest.raises(ReplyError):
        score(*['{"score": [7, NaN]}'] * 8)


def reading(*options: str) -> type[Model]:
    return type("Reading", (Model,), {"capabilities": VlmCapabilities(reply_options=frozenset(options))})


@pytest.mark.parametrize(
    ("options", "reply", "advice"),
    [
        (("max_tokens", "json_schema"), Reply("{", "length"), "?max_tokens=16384"),
        (("max_tokens", "json_schema"), Reply("no plan"), "?json_schema=true"),
        (("max_tokens",), Reply("no plan"), None),
        ((), Reply("{", "length"), None),
        (("max_tokens", "json_schema"), Reply("no", "content_filter"), None),
    ],
)
def test_a_planner_that_stays_unreadable_is_explained_to_the_person(
    options: tuple[str, ...], reply: Reply, advice: str | None
) -> None:
    model = reading(*options)(*[reply] * 4)
    with pytest.raises(ReplyError) as failure:
        make_plan(model)
    assert (advice in str(failure.value)) if advice else ("?" not in str(failure.value))
    told = " ".join(message.text for messages, _ in model.asked[1:] for message in messages[2:])
    assert "?max_tokens" not in told, "the advice is not for the model"
    assert "?json_schema" not in told


def test_only_a_question_asked_again_says_that_it_is() -> None:
    model = Model("no plan", "no plan", plan_reply(2))
    make_plan(model)
    assert [sampling.reask for _, sampling in model.asked] == [False, True, True]


def test_a_question_asked_again_is_asked_differently() -> None:
    model = Model(*["no plan"] * 3, plan_reply(2))
    make_plan(model)
    (first, greedy), (second, again), (_, third), (_, fourth) = model.asked
    assert greedy.temperature == again.temperature == 0.0
    assert second[: len(first)] == first and "no plan" in second[len(first)].text
    assert third.temperature > 0 and fourth.temperature > 0
    assert third.seed != fourth.seed


def test_a_model_that_repeats_itself_is_read_once_it_is_sampled() -> None:
    class Stubborn(Model):
        """A model with greedy replies that cannot be read."""

        async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
            self.asked.append((messages, sampling))
            return Reply(plan_reply(2) if sampling.temperature else "<think> on and on")

    model = Stubborn()
    assert len(make_plan(model).steps) == 2
    assert len(model.asked) == 3


@pytest.mark.parametrize(("request_text", "most"), [("a story", 7), ("a story in three pictures", 3)])
def test_the_schema_of_a_plan_has_room_for_the_steps_that_are_allowed(request_text: str, most: int) -> None:
    model = Model(plan_reply(3))
    make_plan(model, request_text, max_steps=7)
    schema = model.asked[0][1].schema
    assert schema is not None
    assert schema["properties"]["execution_plan"]["maxItems"] == most
