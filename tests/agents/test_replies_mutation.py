"""The codec against thousands of damaged replies: a valid value or a `ReplyError`, quickly, nothing else."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from interleave.agents.literals import MAX_CHARACTERS
from interleave.agents.replies import parse_marks, parse_plan, parse_verdict, render_plan, render_verdict
from interleave.errors import ReplyError
from interleave.text import unusable
from interleave.types import Outcome, Plan, PlanStep, Verdict
from sampling import one_in
from work import that_ends

SEED = "replies-1"
MUTANTS = 21_000
BATCHES = 7

# Good replies, as models write them

STEPS: list[dict[str, Any]] = [
    {
        "step_number": 1,
        "step_name": "Eggs",
        "instruction": "Frog eggs lie in still water.",
        "prompt": "A cluster of frog eggs in a pond, watercolour, soft light",
        "auxiliary_text": None,
    },
    {
        "step_number": 2,
        "step_name": "Tadpole",
        "instruction": 'A tadpole hatches; it\'s "all tail".',
        "prompt": "Replace the eggs' cluster with one tadpole {black, small}",
        "auxiliary_text": "After 10 days, [most] hatch.\nThey eat algae.",
    },
]
WORDS_ONLY = [
    {"step_number": 4, "step_name": None, "instruction": None, "prompt": None, "auxiliary_text": "蛙 🐸"}
]
WITH_SOURCES = [
    STEPS[0],
    {**STEPS[1], "sources": [1]},
    {"step_number": 3, "prompt": "both", "sources": [1, 2]},
]
REFUSAL = {
    "previous_step_success": False,
    "refine_prompt": 'Remove the dog\'s second tail; keep "EXIT" as it is.',
}

GOOD = [
    f"<think>Two steps, it's enough.</think><answer>{json.dumps({'execution_plan': STEPS})}</answer>",
    f"<think>\nA {{draft}}: [eggs, tadpole]\n</think>\n<answer>\n{ {'execution_plan': STEPS} }\n</answer>",
    f"Here's the plan:\n```json\n{json.dumps({'execution_plan': WITH_SOURCES}, indent=1)}\n```\nEnjoy!",
    f"<think></think><answer>{json.dumps({'execution_plan': WORDS_ONLY}, ensure_ascii=False)}</answer>",
    repr({"execution_plan": [*WORDS_ONLY, {"step_number": 5, "prompt": "Step 5: add a <b>fly</b>"}]}),
    f"<think>The image says {{'success': true}}.</think><answer>{json.dumps(REFUSAL)}</answer>",
    f"<think>Two tails.</think>\n<answer>{REFUSAL}</answer>",
    '<think></think><answer>{"success": true, "refined_prompt": ""}</answer>',
    "It does what was asked.</think>{'previous_step_success': True, 'refine_prompt': ''}",
    '{"success": false, "refine_prompt": "a \\u00e9t\\u00e9 \\ud83d\\ude00 \\"sign\\""}',
    '{"score": [7, 8.5], "reasoning": "Six fingers, else fine."}',
    "```\n{'score': [0, 10], 'reasoning': 'It\\'s wrong [see the hand].'}\n```",
]

# Damage

INSERTS = [
    *"{}[]()<>\"'\\,:#-/ \n\r\t\x00\x1b\x7f\ud800\udfff\u202e\ufeff\u2028🐸",
    *("<think>", "</think>", "<answer>", "</answer>", "< Think >", "```json\n", "{}", "[]", "[[[[", "}]}"),
    *("\\ud800", "\\u0000", "\\x41", "\\N{DOT}", "\\", "u'", "'''", "Step 2: ", "(1) ", "1. "),
    *("None", "True", "false", "null", "NaN", "-Infinity", "1e999", "9" * 30, "-1", "0x1", "1_0", "07"),
    *("None}, {'step_number'", '"success": true,', '"execution_plan": [', '"score": [1, 2]'),
    *("{" * 40, "[" * 40, "-" * 40, "\\" * 41, "(" * 40 + ")" * 40, '{"success": true}', '{"score": [1, 1]}'),
]
QUOTES = str.maketrans("\"'", "'\"")


def a_slice(text: str, dice: random.Random) -> tuple[int, int]:
    start = dice.randrange(len(text) + 1)
    return start, min(len(text), start + dice.choice((1, 1, 2, 5, 20, 100)))


def damaged(text: str, dice: random.Random) -> str:
    start, end = a_slice(text, dice)
    match dice.randrange(9):
        case 0:
            return text[:start] + text[end:]
        case 1 | 2 | 3:
            return text[:start] + dice.choice(INSERTS) + text[start:]
        case 4:
            return text[:start] + dice.choice(INSERTS) + text[end:]
        case 5:
            return text[:end] + text[start:]
        case 6:
            return text[:start] + text[start:end].translate(QUOTES) + text[end:]
        case 7:
            low, high = sorted((a_slice(text, dice), (start, end)))
            return text[: low[0]] + text[high[0] : high[1]] + text[low[0] : high[0]] + text[high[1] :]
    return dice.choice((text[:start], text[start:], text + dice.choice(GOOD)))


def mutant(number: int) -> str:
    dice = random.Random(f"{SEED}/{number}")
    text = dice.choice(GOOD)
    for _ in range(dice.randint(1, 5)):
        text = damaged(text, dice)
    return text


# The rules every reply must keep


def check_plan(plan: Plan) -> None:
    assert Plan.model_validate(plan.model_dump()) == plan
    texts = [text for step in plan.steps for text in (step.name, step.instruction, step.prompt, step.caption)]
    assert not any(unusable(text) for text in [*texts, plan.reasoning] if text is not None)
    assert parse_plan(render_plan(plan)) == plan


def check_verdict(verdict: Verdict) -> None:
    assert Verdict.model_validate(verdict.model_dump()) == verdict
    assert not unusable(verdict.refined_prompt or "") and not unusable(verdict.reasoning)
    assert verdict.outcome is not Outcome.UNREADABLE
    assert parse_verdict(render_verdict(verdict)) == verdict


def check_marks(marks: tuple[float, float]) -> None:
    assert all(type(mark) is float and 0 <= mark <= 10 for mark in marks)


CHECKS: list[tuple[Callable[[str], Any], Callable[[Any], None]]] = [
    (parse_plan, check_plan),
    (parse_verdict, check_verdict),
    (parse_marks, check_marks),
]


def read_to_the_end(parse: Callable[[str], Any], text: str) -> Any:
    """What the parser reads, or None where it refuses."""
    try:
        with that_ends():
            return parse(text)
    except ReplyError as error:
        error.problem.encode("utf-8")  # the model is told this
        return None


def readings(text: str) -> int:
    """How many of the three parsers read a value here; raises where a rule is broken."""
    count = 0
    for parse, check in CHECKS:
        if (value := read_to_the_end(parse, text)) is not None:
            check(value)
            count += 1
    return count


@pytest.mark.parametrize("text", GOOD)
def test_the_undamaged_replies_are_good(text: str):
    assert readings(text) == 1


@pytest.mark.parametrize(
    "batch", [0, *(pytest.param(each, marks=pytest.mark.slow) for each in range(1, BATCHES))]
)
def test_a_damaged_reply_is_a_valid_value_or_a_reply_error(batch: int):
    numbers = range(batch, MUTANTS, BATCHES)
    read = 0
    for number in numbers:
        text = mutant(number)
        try:
            read += readings(text)
        except Exception as error:
            pytest.fail(f"mutant {number} of seed {SEED!r}: {type(error).__name__}: {error}\n{text!r}")
    assert len(numbers) / 20 < read < len(numbers) * 0.9  # the damage is neither deadly nor harmless


# What is rendered is read back. The codec trims texts, drops labels such as "Step 3:" and takes "None" for
# nothing, all by design; hence every text here begins and ends with a plain word.

TAGS = ("<think>", "</think>", "<answer>", "</answer>", "< Think >")
PIECES = [
    *TAGS,
    *"'\"\\{}[],:#` \n\r\t\x01\x7f\x85\u2028\u202e\u200f\ufeff\U0010ffff🐸",
    *("'''", '"""', "```", "{{x}}", "<image>", "<|im_end|>", "</script>", "👩\u200d👧", "e\u0301"),
    *("\x1b[31m", "\\u0041", "\\ud800", "\\n", "\\'", "\\\\", "\r\n"),
    *("None", "null", "NaN", "(2)", "3.5", "Step 3: ", "2. ", "word", "word"),
    *("None}, {'step_number'", '"success": true', "{'success': True}"),
    *('{"execution_plan": []}', '{"score": [1, 2]}'),
]


def nasty_text(dice: random.Random) -> str:
    return "so" + "".join(dice.choices(PIECES, k=dice.randrange(12))) + "on"


def maybe(dice: random.Random) -> str | None:
    return nasty_text(dice) if dice.random() < 0.6 else None


def nasty_plan(dice: random.Random) -> Plan:
    first = dice.choice((1, 1, 4, 99_999))
    steps: list[PlanStep] = []
    for number in range(first, first + dice.randint(1, 5)):
        drawn = [step.number for step in steps if step.prompt is not None]
        sources = tuple(dice.sample(drawn, dice.randint(0, len(drawn)))) if dice.random() < 0.3 else None
        fields = {"name": maybe(dice), "instruction": maybe(dice), "prompt": maybe(dice)}
        steps.append(PlanStep(number=number, caption=nasty_text(dice), sources=sources, **fields))
    return Plan(steps=tuple(steps), reasoning=nasty_reasoning(dice))


def nasty_reasoning(dice: random.Random) -> str:
    """Reasoning holds no tags: the codec writes them in square brackets."""
    text = nasty_text(dice)
    for tag in TAGS:
        text = text.replace(tag, "(tag)")
    return text


@pytest.mark.parametrize("batch", one_in(3, range(3)))
def test_any_plan_survives_being_rendered_and_parsed(batch: int):
    for number in range(batch * 700, (batch + 1) * 700):
        plan = nasty_plan(random.Random(f"{SEED}/plan/{number}"))
        assert parse_plan(render_plan(plan)) == plan, f"plan {number} of seed {SEED!r}: {render_plan(plan)!r}"


def test_any_plan_survives_as_a_python_literal_without_tags():
    for number in range(700):
        plan = nasty_plan(random.Random(f"{SEED}/python/{number}")).model_copy(update={"reasoning": ""})
        text = repr(
            json.loads(render_plan(plan).removeprefix("<think></think><answer>").removesuffix("</answer>"))
        )
        assert parse_plan(text) == plan, f"plan {number} of seed {SEED!r}: {text!r}"


def test_any_verdict_survives_being_rendered_and_parsed():
    for number in range(3000):
        dice = random.Random(f"{SEED}/verdict/{number}")
        outcome = dice.choice((Outcome.ACCEPTED, Outcome.REJECTED))
        refined = maybe(dice) if outcome is Outcome.REJECTED else None
        verdict = Verdict(outcome=outcome, reasoning=nasty_reasoning(dice), refined_prompt=refined)
        text = render_verdict(verdict)
        assert parse_verdict(text) == verdict, f"verdict {number} of seed {SEED!r}: {text!r}"


# The worst a quarter of a megabyte can do

FLOODS = {
    "double-quotes": '"',
    "single-quotes": "'",
    "odd-quotes": "\"'",
    "empty-texts": '"",',
    "opening-brackets": "[",
    "closing-brackets": "]",
    "pairs": "[]",
    "nested-pairs": "[[[[[[]]]]]],",
    "small-objects": '{"a": 1},',
    "small-answers": '{"success": true}',
    "backslashes": "\\",
    "escaped-quotes": "\\'\\\"",
    "unicode-escapes": "\\u00e9",
    "less-than": "<",
    "half-tags": "< /",
    "opened-thoughts": "<think>",
    "closed-thoughts": "</think>",
    "thoughts": "<think></think>",
    "answers": "<answer>",
    "tags-in-tags": "<th<think>ink>",
    "spaced-tags": "<" + " " * 500,
    "one-spaced-tag": "<" + " " * 250_000,
    "one-spaced-closing-tag": "< /" + " " * 250_000,
    "one-spaced-label": "step 1 of 2" + " " * 250_000,
    "one-spaced-comma": "1," + " " * 250_000,
    "spaces": " ",
    "commas": ",",
    "spaced-commas": "1,  ",
    "minus-signs": "-",
    "nots": "not ",
    "sums": "1+",
    "digits": "9",
    "words": "step ",
    "labels": "Step 1: ",
    "bare-labels": "1. ",
    "numbers-in-words": "step 1 of ",
    "byte-order-marks": "\ufeff",
    "surrogates": "\ud800",
    "emoji": "🐸",
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_the_worst_replies_are_read_or_refused_in_the_end(flood: str):
    filling = flood * ((MAX_CHARACTERS - 100) // len(flood))
    head, tail = '{"execution_plan": [{"prompt": ', "}]}"
    for text in (
        head + filling + tail,
        f"{head}'{filling}'{tail}",
        f"<think>{filling}</think>{head}'a'{tail}",
        f"<think>{filling}<answer>{head}'a'{tail}</answer>",
    ):
        assert len(text) <= MAX_CHARACTERS
        read_to_the_end(parse_plan, text)
    read_to_the_end(parse_marks, f'{{"score": [7, {filling}')
