"""What planner, critic and scorer answer, and the literals inside."""

from __future__ import annotations

import json
import math
from typing import Any

from fuzzing import REFUSED, attempt, spare_text, target
from interleave.agents.critic import acceptance_probability
from interleave.agents.literals import find_objects, read_literal
from interleave.agents.replies import parse_marks, parse_plan, parse_verdict, render_plan, render_verdict
from interleave.backends.protocols import Reply, Token
from interleave.errors import ReplyError, UnreadableLiteral
from interleave.text import unusable
from interleave.types import Outcome, Plan, Verdict

STEPS: list[dict[str, Any]] = [
    {"step_number": 1, "step_name": "Eggs", "instruction": "Eggs lie in water.", "prompt": "eggs in a pond"},
    {
        "step_number": 2,
        "step_name": None,
        "instruction": 'It\'s "all tail".',
        "prompt": "Step 2: one {black} tadpole",
        "auxiliary_text": "After 10 days, [most] hatch.\nThey eat algae.",
        "sources": [1],
    },
    {"step_number": 3, "prompt": None, "auxiliary_text": "The end. 🐸"},
]
REJECTED = {"previous_step_success": False, "refine_prompt": "Remove the dog's second tail."}
PLANS = (
    f"<think>Three steps.</think><answer>{json.dumps({'execution_plan': STEPS})}</answer>",
    f"<think>\nA {{draft}}\n</think>\n<answer>\n{ {'execution_plan': STEPS} }\n</answer>",
    f"Here it is:\n```json\n{json.dumps({'execution_plan': STEPS[:1]}, indent=1)}\n```\nEnjoy!",
    json.dumps({"execution_plan": [{"prompt": "a"}, {"prompt": "b"}]}),
)
VERDICTS = (
    f"<think>Two tails.</think><answer>{json.dumps(REJECTED)}</answer>",
    f"<think>Two tails.</think>\n<answer>{REJECTED}</answer>",
    "It is right.</think>{'previous_step_success': True, 'refine_prompt': ''}",
    '{"success": false, "refined_prompt": "a \\u00e9t\\u00e9 \\ud83d\\ude00"}',
)
MARKS = ('{"score": [7, 8.5], "reasoning": "Six fingers."}', "```\n{'score': [0, 10], 'reasoning': ''}\n```")
WORDS = tuple(
    word.encode()
    for word in (
        *(
            "<think>",
            "</think>",
            "<answer>",
            "</answer>",
            "< Think >",
            "```json\n",
            "}]}",
            "u'",
            "'''",
            "Step 2: ",
        ),
        *(
            "(1) ",
            '"success": true,',
            '"execution_plan": [',
            '"score": [1, 2]',
            '{"success": true}',
            "\\'",
            "1. ",
        ),
        *('"step_number"', '"sources"', "step 1 of 2", "\\x41", "\\U0001F438", ", }"),
    )
)


def encoded(texts: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple(text.encode() for text in texts)


@target(encoded(PLANS), words=WORDS, examples=48)
def planner(data: bytes) -> bool:
    plan = attempt(lambda: parse_plan(spare_text(data)), errors=ReplyError)
    if not isinstance(plan, Plan):
        return False
    assert Plan.model_validate_json(plan.model_dump_json()) == plan
    texts = [text for step in plan.steps for text in (step.name, step.instruction, step.prompt, step.caption)]
    assert not any(unusable(text) for text in [*texts, plan.reasoning] if text is not None)
    assert parse_plan(render_plan(plan)) == plan
    return True


@target(encoded(VERDICTS), words=WORDS, examples=48)
def critic(data: bytes) -> bool:
    verdict = attempt(lambda: parse_verdict(spare_text(data)), errors=ReplyError)
    if not isinstance(verdict, Verdict):
        return False
    assert verdict.outcome is not Outcome.UNREADABLE
    assert Verdict.model_validate_json(verdict.model_dump_json()) == verdict
    assert parse_verdict(render_verdict(verdict)) == verdict
    return True


@target(encoded(MARKS), words=WORDS)
def scorer(data: bytes) -> bool:
    marks = attempt(lambda: parse_marks(spare_text(data)), errors=ReplyError)
    if marks is REFUSED:
        return False
    assert isinstance(marks, tuple) and len(marks) == 2
    assert all(type(mark) is float and 0 <= mark <= 10 for mark in marks)
    return True


@target([json.dumps([[text, 0.9] for text in VERDICTS[3]]).encode()], words=WORDS)
def confidence(data: bytes) -> bool:
    """Token probabilities of any numbers: a confidence is a probability, or there is none."""
    try:
        pairs = json.loads(data)
        tokens = tuple(Token(text, probability) for text, probability in pairs)
    except (ValueError, TypeError, RecursionError):
        return False
    if not all(isinstance(t.text, str) and isinstance(t.probability, int | float) for t in tokens):
        return False  # the backends' own business
    reply = Reply("".join(token.text for token in tokens), tokens=tokens)
    probability = acceptance_probability(reply)
    assert probability is None or 0 <= probability <= 1
    return True


LITERALS: tuple[Any, ...] = (
    {"a": [1, -2.5, None, True, {"b": 'it\'s "quoted" \\ and\nbroken'}], "c": {}, "é": "🐸"},
    [["x", 0], {"y": [[], {}]}, False],
)


@target(
    [*(json.dumps(each).encode() for each in LITERALS), *(repr(each).encode() for each in LITERALS)],
    words=WORDS,
    examples=48,
)
def literal(data: bytes) -> bool:
    """What `json` reads is read alike here; what is read here can be written and read again."""
    text = spare_text(data)
    value = attempt(lambda: read_literal(text), errors=UnreadableLiteral)
    attempt(lambda: list(find_objects(text)), errors=UnreadableLiteral)
    if value is REFUSED:
        return False
    try:
        expected = json.loads(text)
    except ValueError:
        pass
    else:
        assert same(value, expected), (value, expected)
    assert same(read_literal(json.dumps(value)), value)
    if "\\" not in repr(value):  # Python's escapes are more than JSON's
        assert same(read_literal(repr(value)), value)
    return True


def same(one: Any, other: Any) -> bool:
    """Equal with types, in which 1, 1.0 and true differ."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other and (not isinstance(one, float) or math.copysign(1, one) == math.copysign(1, other))
