"""Quotes that a model forgot to escape: read where they can only be text, else refused."""

from __future__ import annotations

from contextlib import suppress

import pytest

from interleave.agents.replies import parse_marks, parse_plan, parse_verdict
from interleave.errors import ReplyError
from work import that_ends

TEXTS = [
    "the cat's hat",
    "the cats' bowl",
    "the dog's and the cats' bowls, don't move them",
    "the letter 'u' on a sign",
    "a sign that says 'OPEN'",
    "'OPEN' on a sign",
    "a sign ('OPEN', in red), the baker's",
    "a sign that says 'don't walk' in red",
    "keep the text 'Step 2: mix', in the baker's hand",
    "it's {small} and [round]; it's red",
    "rock-'n'-roll: it's loud",
]


def verdict_with(text: str, quote: str = "'") -> str:
    written = text.replace("'", quote)
    return f"{{'previous_step_success': False, 'refine_prompt': {quote}{written}{quote}}}"


@pytest.mark.parametrize("quote", ["'", '"'])
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(
    "around", ["{}", "<think>It's wrong.</think>\n<answer>\n{}\n</answer>", "```\n{}\n```"]
)
def test_a_better_prompt_with_quotes_is_read_to_the_letter(text: str, quote: str, around: str) -> None:
    verdict = parse_verdict(around.format(verdict_with(text, quote)))
    assert verdict.refined_prompt == text.replace("'", quote)
    assert not verdict.accepted


@pytest.mark.parametrize("text", TEXTS)
def test_a_plan_with_quotes_is_read_to_the_letter(text: str) -> None:
    steps = ", ".join(
        f"{{'step_number': {number}, 'step_name': 'It's {number}', 'instruction': '{text}', "
        f"'prompt': '{text}', 'auxiliary_text': None, 'sources': []}}"
        for number in (1, 2)
    )
    plan = parse_plan(f"<think></think><answer>{{'execution_plan': [{steps}]}}</answer>")
    assert [(step.number, step.name) for step in plan.steps] == [(1, "It's 1"), (2, "It's 2")]
    assert {step.prompt for step in plan.steps} == {step.instruction for step in plan.steps} == {text}
    assert [step.sources for step in plan.steps] == [(), ()]


def test_quotes_that_are_escaped_stay_as_they_are() -> None:
    reply = r"{'previous_step_success': False, 'refine_prompt': 'the cat\'s hat isn't \"red\"'}"
    assert parse_verdict(reply).refined_prompt == "the cat's hat isn't \"red\""


AMBIGUOUS = {
    "a sum": "'a' + 'b'",
    "texts side by side": "'a' 'b'",
    "spaced": "'a ' + ' b'",
    "doubled": "'a '' b'",
    "tripled": "'''a'''",
    "a quotation that is never closed": "'a sign that says 'OPEN in red'",
    "a second value": "'a', 'b'",
    "a text and a word": "'a', b'",
    "an unknown piece of syntax": "'it's', {'a': 'b'}",
    "a lone quote": "'a ' b'",
    "a prefix": "b'it's'",
}


@pytest.mark.parametrize("value", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_what_may_be_syntax_is_refused(value: str) -> None:
    with pytest.raises(ReplyError):
        parse_verdict(f"{{'previous_step_success': False, 'refine_prompt': {value}}}")


def test_no_key_is_swallowed_by_a_text() -> None:
    verdict = parse_verdict(
        "{'previous_step_success': False, 'refine_prompt': 'it's red', 'note': 'isn't it', 'more': 1}"
    )
    assert verdict.refined_prompt == "it's red"
    with pytest.raises(ReplyError, match="the same key twice"):
        parse_verdict("{'success': False, 'refine_prompt': 'it's', 'refine_prompt': 'isn't'}")


@pytest.mark.parametrize("text", TEXTS)
def test_a_reply_that_was_cut_off_is_never_completed(text: str) -> None:
    reply = f"<think>x</think><answer>{verdict_with(text)}</answer>"
    whole = parse_verdict(reply)
    for length in range(len(reply)):
        try:
            assert parse_verdict(reply[:length]) == whole
            assert length >= len(reply) - len("</answer>")
        except ReplyError:
            pass


def test_marks_beside_such_a_text_are_read() -> None:
    assert parse_marks("{'score': [7, 8.5], 'reasoning': 'the cat's tail isn't there'}") == (7.0, 8.5)


@pytest.mark.parametrize("unit", ["'", "it's ", "'a' ", "{'a': 'it's', ", "\\'", "{", "'a': ", " "])
def test_a_long_reply_is_read_to_its_end(unit: str) -> None:
    body = unit * (200_000 // len(unit))
    with that_ends(), pytest.raises(ReplyError):
        parse_verdict(f"{{'previous_step_success': False, 'refine_prompt': 'it's {body}")
    with that_ends(), suppress(ReplyError):
        parse_verdict(f"{{'previous_step_success': False, 'refine_prompt': 'it's {body}'}}")
