"""The format reward: only the agreed form passes, to the letter."""

from __future__ import annotations

import pytest

from interleave.agents.replies import render_verdict
from interleave.agents.strict_form import is_strict_verdict
from interleave.types import Outcome, Verdict

GOOD = '<think>seen</think><answer>{"previous_step_success": false, "refine_prompt": "a cat"}</answer>'

NEAR_MISSES = {
    "empty": "",
    "only a bracket": "<",
    "prose": "The image is right.",
    "no thinking": '<answer>{"previous_step_success": true, "refine_prompt": ""}</answer>',
    "no answer tag": '<think>seen</think>{"previous_step_success": true, "refine_prompt": ""}',
    "answer before thinking": GOOD.removeprefix("<think>seen</think>") + "<think>seen</think>",
    "thinking not closed": GOOD.replace("</think>", ""),
    "answer not closed": GOOD.removesuffix("</answer>"),
    "cut off in the object": GOOD[:80],
    "words before": "Sure! " + GOOD,
    "words between": GOOD.replace("</think>", "</think> so: "),
    "words after": GOOD + " Done.",
    "words in the answer": GOOD.replace("<answer>", "<answer>Result: "),
    "fenced": GOOD.replace("<answer>", "<answer>```json\n").replace("</answer>", "\n```</answer>"),
    "capital tags": GOOD.replace("think", "THINK"),
    "spaces in tags": GOOD.replace("<answer>", "< answer >"),
    "tag with an attribute": GOOD.replace("<think>", '<think a="b">'),
    "two thoughts": "<think>one</think>" + GOOD,
    "thought in a thought": GOOD.replace("seen", "<think>seen"),
    "two answers": GOOD + GOOD.split("</think>")[1],
    "two objects": GOOD.replace(
        "}</answer>", '}{"previous_step_success": true, "refine_prompt": ""}</answer>'
    ),
    "a list": GOOD.replace("{", "[{").replace("}", "}]"),
    "python literal": GOOD.replace("false", "False").replace('"', "'"),
    "judgement as text": GOOD.replace("false", '"false"'),
    "judgement as number": GOOD.replace("false", "0"),
    "judgement null": GOOD.replace("false", "null"),
    "prompt null": GOOD.replace('"a cat"', "null"),
    "prompt as list": GOOD.replace('"a cat"', '["a cat"]'),
    "no prompt": '<think>x</think><answer>{"previous_step_success": true}</answer>',
    "no judgement": '<think>x</think><answer>{"refine_prompt": "a cat"}</answer>',
    "other spelling": GOOD.replace("previous_step_success", "success"),
    "key in capitals": GOOD.replace("refine_prompt", "Refine_Prompt"),
    "a key too many": GOOD.replace("}", ', "score": 10}'),
    "a key twice": GOOD.replace("}", ', "refine_prompt": "b"}'),
    "trailing comma": GOOD.replace("}", ",}"),
    "NaN": GOOD.replace("false", "NaN"),
    "a NUL character": GOOD.replace("seen", "se\x00en"),
    "half a surrogate": GOOD.replace("seen", "\ud800"),
    "nested object": GOOD.replace('{"prev', '{"a": {"prev').replace("}</", "}}</"),
    "endless depth": "<think>x</think><answer>" + "[" * 100_000 + "</answer>",
}


@pytest.mark.parametrize("reply", NEAR_MISSES.values(), ids=NEAR_MISSES)
def test_K18_a_near_miss_of_the_format_is_a_miss(reply: str) -> None:
    assert not is_strict_verdict(reply)


def test_K18_the_table_has_thirty_near_misses() -> None:
    assert len(set(NEAR_MISSES.values())) >= 30


@pytest.mark.parametrize(
    "reply",
    [
        GOOD,
        f"\n{GOOD}\n",
        GOOD.replace("</think>", "</think>\n\n"),
        GOOD.replace("seen", ""),
        GOOD.replace("seen", "1 < 2, and\n2 > 1"),
        GOOD.replace('"a cat"', '""'),
        GOOD.replace('"a cat"', '"say <answer> {\\"x\\": 1}"').replace("<answer> {", "(answer) {"),
        '<think>x</think><answer>{"refine_prompt": "", "previous_step_success": true}</answer>',
    ],
)
def test_the_agreed_form_passes(reply: str) -> None:
    assert is_strict_verdict(reply)


@pytest.mark.parametrize("outcome", [Outcome.ACCEPTED, Outcome.REJECTED])
def test_what_we_teach_is_strict(outcome: Outcome) -> None:
    refined = None if outcome is Outcome.ACCEPTED else 'a "cat"\nand <answer> a dog'
    assert is_strict_verdict(
        render_verdict(Verdict(outcome=outcome, reasoning="<think> why", refined_prompt=refined))
    )


PYTHON = "<think>seen</think><answer>\n{'previous_step_success': False, 'refine_prompt': 'a cat'}\n</answer>"
IN_PYTHON = ("python literal", "trailing comma")
"""The near misses of JSON that are good where the prompts ask for a Python literal."""


@pytest.mark.parametrize("reply", [PYTHON, GOOD, PYTHON.replace("'a cat'", '"the cat\'s"')])
def test_a_pack_whose_prompts_show_python_literals_counts_them(reply: str) -> None:
    assert is_strict_verdict(reply, "python")
    assert is_strict_verdict(reply) is (reply is GOOD)


@pytest.mark.parametrize("name", [name for name in NEAR_MISSES if name not in IN_PYTHON])
def test_every_other_near_miss_stays_one(name: str) -> None:
    assert not is_strict_verdict(NEAR_MISSES[name], "python")


@pytest.mark.parametrize(
    "answer",
    [
        "{'previous_step_success': 'False', 'refine_prompt': 'a'}",
        "{'previous_step_success': False, 'refine_prompt': 'the cat's'}",
        "{'previous_step_success': False, 'refine_prompt': None}",
        "dict(previous_step_success=False, refine_prompt='a')",
        "{'previous_step_success': False, 'refine_prompt': 'a'} # done",
    ],
)
def test_a_literal_that_python_would_not_read_so_is_a_miss(answer: str) -> None:
    assert not is_strict_verdict(f"<think>x</think><answer>{answer}</answer>", "python")
