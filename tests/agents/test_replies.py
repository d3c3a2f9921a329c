"""What the codec reads and what it refuses. The ids D01…E10 are rows of the fault catalogue."""

from __future__ import annotations

import json

import pytest

from interleave.agents.literals import MAX_CHARACTERS, MAX_OBJECTS
from interleave.agents.replies import (
    parse_marks,
    parse_plan,
    parse_verdict,
    render_plan,
    render_verdict,
    strip_step_prefix,
)
from interleave.backends.protocols import Reply
from interleave.errors import ReplyError
from interleave.types import Outcome, Plan, PlanStep, Verdict
from work import at_most_calls

PLAN = Plan(
    steps=(
        PlanStep(number=1, name="Eggs", instruction="Eggs lie in water.", prompt="frog eggs in a pond"),
        PlanStep(number=2, prompt='the eggs\' "jelly" {opens} [a bit]', caption="They hatch.\nSlowly."),
        PlanStep(number=3, caption="Nothing to draw here: only words."),
    ),
    reasoning="Three steps. It's enough.",
)
FIELDS = {
    "execution_plan": [
        {
            "step_number": step.number,
            "step_name": step.name,
            "instruction": step.instruction,
            "prompt": step.prompt,
            "auxiliary_text": step.caption,
        }
        for step in PLAN.steps
    ]
}
AS_JSON = json.dumps(FIELDS, ensure_ascii=False)
AS_PYTHON = repr(FIELDS)
THOUGHT = "<think>Three steps. It's enough.</think>"

ACCEPTED = Verdict(outcome=Outcome.ACCEPTED)
REJECTED = Verdict(outcome=Outcome.REJECTED, refined_prompt="a red ball, whole")
YES = '{"previous_step_success": true, "refine_prompt": ""}'
NO = '{"previous_step_success": false, "refine_prompt": "a red ball, whole"}'


def plan_of(*steps: dict[str, object]) -> Plan:
    return parse_plan(json.dumps({"execution_plan": steps}))


def step_of(**fields: object) -> PlanStep:
    return plan_of({"step_number": 1, "prompt": "a frog", **fields}).steps[0]


def problem_of(text: str | Reply, parse=parse_plan) -> str:
    with pytest.raises(ReplyError) as caught:
        parse(text)
    return caught.value.problem


# Plans: the forms a good one may come in


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"{THOUGHT}<answer>{AS_JSON}</answer>", id="as-asked"),
        pytest.param(f"{THOUGHT}\n\n<answer>\n{AS_JSON}\n</answer>\n", id="with-line-breaks"),
        pytest.param(f"{THOUGHT}<answer>{AS_PYTHON}</answer>", id="D05-python"),
        pytest.param(f"{THOUGHT}<answer>```json\n{AS_JSON}\n```</answer>", id="D04-fence-inside"),
        pytest.param(f"{THOUGHT}```\n<answer>{AS_JSON}</answer>\n```", id="D04-fence-outside"),
        pytest.param(f"{THOUGHT} Here's my plan: {AS_JSON} I hope that it's good!", id="D04-text-around"),
        pytest.param(f"{THOUGHT} As in [1], see {{plan}}: {AS_JSON} [end]", id="D04-brackets-around"),
        pytest.param(f"{THOUGHT}{AS_JSON}\nAgain: {AS_PYTHON}", id="D04-told-twice"),
        pytest.param(f"{THOUGHT}<answer>{AS_JSON}</answer><answer>{AS_JSON}</answer>", id="D04-two-answers"),
        pytest.param(f"{THOUGHT}<answer>{AS_JSON}", id="D04-unclosed-answer"),
        pytest.param(f"{THOUGHT}{AS_JSON}</answer>", id="D04-unopened-answer"),
        pytest.param(f"{THOUGHT}{{}} [] {AS_JSON}", id="D04-empty-brackets-before"),
        pytest.param(f'{THOUGHT}{{"note": 1}} {AS_JSON}', id="D04-another-object-before"),
        pytest.param(f"\ufeff{THOUGHT}<answer>{AS_JSON}</answer>", id="D17-byte-order-mark"),
        pytest.param(THOUGHT.removeprefix("<think>") + AS_JSON, id="E10-think-unopened"),
        pytest.param(
            f"{THOUGHT.removesuffix('</think>')}<answer>{AS_JSON}</answer>", id="E10-think-unclosed"
        ),
        pytest.param(
            f"< THINK >Three steps. It's enough.< / Think ><ANSWER >{AS_JSON}</ answer>", id="E10-odd-tags"
        ),
    ],
)
def test_a_good_plan_is_read_in_whatever_form_it_comes(text: str):
    assert parse_plan(text) == PLAN


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(AS_JSON, id="json"),
        pytest.param(AS_PYTHON, id="python"),
        pytest.param(f"```json\n{AS_JSON}\n```", id="fenced"),
        pytest.param(f"Sure! {AS_JSON}", id="after-prose"),
        pytest.param(f"<answer>{AS_JSON}</answer>", id="answer-only"),
    ],
)
def test_E10_a_reply_without_thinking_has_no_reasoning(text: str):
    assert parse_plan(text) == PLAN.model_copy(update={"reasoning": ""})


def test_D05_python_literals_are_read():
    text = r"""{'execution_plan': [
        {'step_number': 1, 'prompt': 'it\'s a "frog" \\ caf\xe9 \u00e9\n', 'auxiliary_text': None,},
        {'step_number': 2, "prompt": "it's", 'instruction': null, 'odd': [True, False, -1.5e3, {}, [],],},
    ],}"""
    first, second = parse_plan(text).steps
    assert first.prompt == 'it\'s a "frog" \\ café é'
    assert (first.caption, second.prompt, second.instruction) == (None, "it's", None)


def test_D05_the_caption_that_a_repairer_once_glued_together_is_only_text():
    glue = "None}, {'step_number'"
    assert (
        parse_plan(repr({"execution_plan": [{"prompt": "x", "auxiliary_text": glue}]})).steps[0].caption
        == glue
    )


@pytest.mark.parametrize(
    ("written", "read"),
    [
        pytest.param(r"a \/ b", "a / b", id="slash"),
        pytest.param(r"\ud83d\ude00", "😀", id="surrogate-pair"),
        pytest.param(r"\d+ \( \%", r"\d+ \( \%", id="unknown-escapes-keep-the-backslash"),
        pytest.param(r"\xe9 \U0001f438 \U0010FFFF", "é 🐸 \U0010ffff", id="python-escapes"),
        pytest.param("a\nb\tc", "a\nb\tc", id="raw-line-break"),
        pytest.param("a\\\nb\\\r\nc", "abc", id="joined-lines"),
        pytest.param(r"it\'s \"so\"", 'it\'s "so"', id="both-quotes-escaped"),
        pytest.param(r"C:\\new\\", r"C:\new" + "\\", id="backslashes"),
    ],
)
@pytest.mark.parametrize("quote", ['"', "'"])
def test_D05_escapes_mean_the_same_in_both_quotes(quote: str, written: str, read: str):
    text = f"{{'execution_plan': [{{'prompt': {quote}{written}{quote}, 'auxiliary_text': None}}]}}"
    assert parse_plan(text).steps[0].prompt == read


# Plans: what is refused


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="D01-empty"),
        pytest.param(" \n\t ", id="D01-blank"),
        pytest.param("error", id="D01-error"),
        pytest.param("I'm sorry, but I can't help with that.", id="D02-refusal"),
        pytest.param("First, draw the eggs. Then, the tadpole.", id="D02-prose"),
        pytest.param("<think></think><answer></answer>", id="D02-empty-answer"),
        pytest.param("{'execution_plan': [{'prompt': 'a' # why\n}]}", id="D06-hash-comment"),
        pytest.param('{"execution_plan": [{"prompt": "a" /* why */}]}', id="D06-block-comment"),
        pytest.param('{"execution_plan": [{"prompt": "a"}] // why\n}', id="D06-line-comment"),
        pytest.param("{execution_plan: [{prompt: 'a'}]}", id="D06-unquoted-keys"),
        pytest.param("{“execution_plan”: [{“prompt”: “a”}]}", id="D06-smart-quotes"),
        pytest.param('{"execution_plan": [{"prompt": “a”}]}', id="D06-smart-quotes-inside"),
        pytest.param('{"execution_plan": [,]}', id="D06-only-a-comma"),
        pytest.param('{"execution_plan": [{"prompt": "a"},,]}', id="D06-two-commas"),
        pytest.param('{"execution_plan": [{"prompt": "a"} {"prompt": "b"}]}', id="D06-missing-comma"),
        pytest.param('{"execution_plan": [{"prompt": "a"}]}}', id="D06-one-bracket-too-many"),
        pytest.param('{"execution_plan": [{"prompt": "a"}}]', id="D06-crossed-brackets"),
        pytest.param("{'execution_plan': [{'prompt': 'a '' b'}]}", id="D06-quotes-are-not-glued"),
        pytest.param("{'execution_plan': [{'prompt': '''a'''}]}", id="D06-triple-quotes"),
        pytest.param("{'execution_plan': [{'prompt': b'a'}]}", id="D06-bytes"),
        pytest.param("{'execution_plan': [{'prompt': f'a'}]}", id="D06-format-string"),
        pytest.param("{'execution_plan': [{'prompt': 'a' + 'b'}]}", id="D06-expression"),
        pytest.param("{'execution_plan': [{'prompt': str(1)}]}", id="D06-call"),
        pytest.param("{'execution_plan': [{**{}, 'prompt': 'a'}]}", id="D06-unpacking"),
        pytest.param("{'execution_plan': [{'prompt': ...}]}", id="D06-ellipsis"),
        pytest.param("{'execution_plan': [{'prompt': '\\N{BULLET}'}]}", id="D06-named-escape"),
        pytest.param("{'execution_plan': [{'prompt': '\\U00110000'}]}", id="D06-escape-beyond-unicode"),
        pytest.param("{'execution_plan': [{'prompt': '\\x4'}]}", id="D06-escape-cut-short"),
        pytest.param("{'execution_plan': [{1: 2, 'prompt': 'a'}]}", id="D06-key-is-a-number"),
        pytest.param("{'execution_plan', 'a'}", id="D06-a-set"),
        pytest.param("{}", id="D07-missing"),
        pytest.param('{"plan": [{"prompt": "a"}]}', id="D07-another-key"),
        pytest.param('{"execution_plan": null}', id="D07-null"),
        pytest.param('{"execution_plan": {"prompt": "a"}}', id="D07-object"),
        pytest.param('{"execution_plan": "[{\\"prompt\\": \\"a\\"}]"}', id="D07-text-that-holds-json"),
        pytest.param('{"execution_plan": [["a"]]}', id="D07-steps-are-lists"),
        pytest.param('{"execution_plan": ["a"]}', id="D07-steps-are-texts"),
        pytest.param('[{"execution_plan": [{"prompt": "a"}]}]', id="D07-list-around"),
        pytest.param('{"answer": {"execution_plan": [{"prompt": "a"}]}}', id="D07-object-around"),
        pytest.param('[{"step_number": 1, "prompt": "a"}]', id="D07-bare-list"),
        pytest.param('{"execution_plan": []}', id="D08-no-steps"),
        pytest.param('{"execution_plan": [{"prompt": "a", "prompt": "b"}]}', id="D13-duplicate-key"),
        pytest.param('{"execution_plan": [], "execution_plan": [{"prompt": "a"}]}', id="D13-duplicate-plan"),
        pytest.param('{"', id="D15-a"),
        pytest.param("{foo: [}", id="D15-b"),
        pytest.param("/", id="D15-c"),
        pytest.param('{"执行计划": [{"步骤": １}]}', id="D22-keys-in-another-language"),
        pytest.param('{"execution_plan"：[{"prompt"："a"}]}', id="D22-full-width-colons"),
        pytest.param('{"execution_plan": [{"step_number": １, "prompt": "a"}]}', id="D22-full-width-digits"),
    ],
)
def test_what_is_no_plan_is_refused(text: str):
    assert problem_of(text)
    assert problem_of(f"<think>x</think><answer>{text}</answer>")


def test_D02_the_whole_reply_stays_on_the_error_as_evidence():
    with pytest.raises(ReplyError) as caught:
        parse_plan("I'd rather not.")
    assert caught.value.reply == "I'd rather not."


@pytest.mark.parametrize(
    "second",
    [
        pytest.param('{"execution_plan": [{"prompt": "another"}]}', id="valid"),
        pytest.param('{"execution_plan": []}', id="invalid"),
        pytest.param('{"execution_plan": [{"prompt": ...}]}', id="unreadable"),
        pytest.param('{"execution_plan": [{"prompt": "a', id="cut-off"),
    ],
)
def test_D04_two_plans_that_differ_are_none(second: str):
    assert problem_of(f"{AS_JSON} or {second}")
    assert problem_of(f"<answer>{AS_JSON}</answer><answer>{second}</answer>")


def test_D04_a_plan_after_very_many_brackets_is_not_overlooked():
    assert problem_of(AS_JSON + "[x]" * (MAX_OBJECTS - 1) + '{"execution_plan": [{"prompt": "another"}]}')


@pytest.mark.parametrize(
    "tag", ["</answer>", "<answer>", "</think>", "<think>", "</think><answer>{}</answer>"]
)
def test_D04_tags_inside_a_text_are_text(tag: str):
    answer = json.dumps({"execution_plan": [{"prompt": f"a sign saying {tag}"}]})
    for text in (answer, f"```\n{answer}", f"<answer>{answer}</answer>", f"<think></think>{answer}"):
        assert parse_plan(text).steps[0].prompt == f"a sign saying {tag}"


def test_D09_thousands_of_steps_are_read_one_after_another():
    text = '{"execution_plan": [' + ", ".join(['{"prompt": "(7) x"}'] * 3_000) + "]}"
    with at_most_calls(68 * 3_000):
        plan = parse_plan(text)
    assert (len(plan.steps), plan.steps[-1].number) == (3_000, 3_000)
    assert (plan.steps[5].prompt, plan.steps[6].prompt) == ("(7) x", "x")


@pytest.mark.parametrize(
    "numbers",
    [
        pytest.param([1, 1], id="duplicate"),
        pytest.param([2, 1], id="out-of-order"),
        pytest.param([0, 1], id="zero"),
        pytest.param([-1, 0], id="negative"),
        pytest.param(["1", "two"], id="text"),
        pytest.param([1.0, 2.0], id="float"),
        pytest.param([1.5], id="one-and-a-half"),
        pytest.param([True], id="bool"),
        pytest.param([None], id="null"),
        pytest.param([[1]], id="list"),
        pytest.param([2**63], id="too-large"),
        pytest.param([1_000_001], id="over-the-limit"),
        pytest.param([float("nan")], id="nan"),
        pytest.param(["../../x"], id="path"),
    ],
)
def test_D10_a_bad_step_number_is_refused(numbers: list[object]):
    assert problem_of(json.dumps({"execution_plan": [{"step_number": n, "prompt": "a"} for n in numbers]}))


@pytest.mark.parametrize(
    ("numbers", "read"),
    [([1, 3], [1, 2]), ([1, 2, 7, 9], [1, 2, 3, 4]), ([4, 6], [4, 5]), (["1", "2"], [1, 2])],
)
def test_D10_numbers_that_only_leave_some_out_are_the_order_of_the_steps(
    numbers: list[object], read: list[int]
):
    steps = plan_of(*({"step_number": n, "prompt": f"p{n}"} for n in numbers)).steps
    assert [(step.number, step.prompt) for step in steps] == list(
        zip(read, (f"p{n}" for n in numbers), strict=True)
    )


def test_D10_sources_follow_the_steps_that_are_numbered_anew():
    plan = plan_of(
        {"step_number": 1, "prompt": "Step 1: a"},
        {"step_number": 3, "prompt": "Step 3: b", "sources": [1]},
        {"step_number": 4, "prompt": "Step 4: c", "sources": [1, 3]},
    )
    assert [step.sources for step in plan.steps] == [None, (1,), (1, 2)]
    assert [step.prompt for step in plan.steps] == ["a", "b", "c"]
    with pytest.raises(ReplyError, match="starts from step 2, and the plan has no such step"):
        plan_of({"step_number": 1, "prompt": "a"}, {"step_number": 3, "prompt": "b", "sources": [2]})


def test_D10_numbers_may_be_missing_everywhere_but_not_somewhere():
    assert [step.number for step in plan_of({"prompt": "a"}, {"prompt": "b"}).steps] == [1, 2]
    with pytest.raises(ReplyError, match="step_number"):
        plan_of({"step_number": 1, "prompt": "a"}, {"prompt": "b"})


def test_D10_a_continuation_counts_on_from_the_users_last_step():
    assert [s.number for s in plan_of(*({"step_number": n, "prompt": "a"} for n in (4, 5))).steps] == [4, 5]


@pytest.mark.parametrize("prompt", [7, 0, False, ["a"], {"a": 1}, 1.5])
def test_D11_a_prompt_that_is_no_text_is_refused(prompt: object):
    with pytest.raises(ReplyError, match='"prompt" of step 1 must be a text or null'):
        step_of(prompt=prompt)


@pytest.mark.parametrize("prompt", [None, "", "  \n", "None", "null", " NONE "])
def test_D11_D12_an_absent_prompt_makes_a_step_of_text_only(prompt: str | None):
    assert step_of(prompt=prompt, auxiliary_text="words").prompt is None
    with pytest.raises(ReplyError, match="neither a prompt nor any text"):
        step_of(prompt=prompt)


@pytest.mark.parametrize(("length", "allowed"), [(32_768, True), (32_769, False), (2_000_000, False)])
def test_D11_a_prompt_has_a_greatest_length(length: int, allowed: bool):
    if allowed:
        assert step_of(prompt="x" * length).prompt == "x" * length
    else:
        assert problem_of(json.dumps({"execution_plan": [{"prompt": "x" * length}]}))


@pytest.mark.parametrize(
    "absent", [{}, {"auxiliary_text": None}, {"auxiliary_text": "None"}, {"auxiliary_text": ""}]
)
def test_D12_a_missing_text_is_none(absent: dict[str, object]):
    assert plan_of({"prompt": "a", **absent}).steps[0] == PlanStep(number=1, prompt="a")


def test_D12_none_inside_a_text_is_a_word():
    assert step_of(prompt="None of the frogs").prompt == "None of the frogs"


def test_D13_unknown_keys_are_ignored():
    plan = parse_plan(
        '{"__class__": 1, "execution_plan": [{"prompt": "a", "__proto__": {"b": [1]}, "image": "x"}]}'
    )
    assert plan == Plan(steps=(PlanStep(number=1, prompt="a"),))


@pytest.mark.parametrize("opening", ["[", '{"a":', "[{'a':", "("])
def test_D14_deep_nesting_is_refused(opening: str):
    closing = {"[": "]", "{": "}", "(": ")"}
    matching = "".join(closing[bracket] for bracket in reversed(opening) if bracket in closing)
    for depth in (17, 17_000, 100_000):
        deep = f'{{"execution_plan": {opening * depth}1{matching * depth}}}'
        assert problem_of(deep) and problem_of(deep[: len(deep) // 2])


@pytest.mark.parametrize(
    "number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "9" * 5000, "9" * 5000 + ".0", "nan", "inf"]
)
def test_D16_numbers_beyond_all_bounds_are_refused_wherever_they_stand(number: str):
    for text in (
        f'{{"execution_plan": [{{"step_number": {number}, "prompt": "a"}}]}}',
        f'{{"execution_plan": [{{"prompt": "a", "unknown": [{number}]}}]}}',
        f"{{'execution_plan': [{{'prompt': None, 'auxiliary_text': 'a', 'unknown': {number}}}]}}",
    ):
        assert len(problem_of(text)) < 200


@pytest.mark.parametrize("bad", [r"\ud800", "\ud800", r"\udc00\ud800", r"\u0000", "\x00", r"\x00", r"\0"])
@pytest.mark.parametrize("quote", ['"', "'"])
def test_D17_text_that_cannot_be_stored_is_refused(bad: str, quote: str):
    problem = problem_of(f"{{'execution_plan': [{{'prompt': {quote}a {bad} b{quote}}}]}}")
    problem.encode("utf-8")


def test_D17_reasoning_that_cannot_be_stored_does_not_spoil_a_good_plan():
    plan = parse_plan(f"<think>half \ud800 and nul \x00.</think>{AS_JSON}")
    assert plan.reasoning == "half ? and nul ."


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("\u202egnp.exe", id="D18-direction-override"),
        pytest.param("a\u200bb\u2060c\ufeffd", id="D18-zero-width"),
        pytest.param("👩\u200d👩\u200d👧 🏳️\u200d🌈", id="D18-emoji"),
        pytest.param("e" + "\u0301" * 1000, id="D18-combining-marks"),
        pytest.param("é e\u0301", id="D18-both-normal-forms"),
        pytest.param("a\u2028b\x85c", id="D18-line-separators"),
        pytest.param("<img src=x onerror=alert(1)><script>a</script>", id="D19-html"),
        pytest.param("![x](http://example.com/a.png)", id="D19-markdown-image"),
        pytest.param("\x1b[31mred\x1b[0m", id="D19-terminal-colours"),
        pytest.param("a\r\nINFO forged line", id="D19-forged-log-line"),
        pytest.param("<|im_end|><image>{rewritten_prompt} {{ x }} %s", id="D20-template-tokens"),
        pytest.param("``` ```json {} [] \\ ' \" ''' \"\"\"", id="D20-our-own-marks"),
    ],
)
def test_texts_are_kept_to_the_letter(text: str):
    for answer in (
        json.dumps({"execution_plan": [{"prompt": text}]}),
        json.dumps({"execution_plan": [{"prompt": text}]}, ensure_ascii=False),
        repr({"execution_plan": [{"prompt": text}]}),
    ):
        assert parse_plan(answer).steps[0].prompt == text


def test_D21_the_same_step_thirty_times_is_a_plan():
    assert len(plan_of(*({"step_number": n, "prompt": "a"} for n in range(1, 31))).steps) == 30


@pytest.mark.parametrize("padding", [" ", "x", "{}", "<", '"'])
def test_D23_five_megabytes_of_padding_are_refused_unread(padding: str):
    text = AS_JSON + padding * (5_000_000 // len(padding))
    with at_most_calls(100):
        assert "characters, more than" in problem_of(text)


def test_D23_a_little_padding_does_no_harm():
    assert parse_plan(THOUGHT + AS_JSON.ljust(MAX_CHARACTERS - len(THOUGHT))) == PLAN


@pytest.mark.parametrize(
    "sources", [[2], [3], [1, 2], [0], [-1], [99], ["1"], [1.0], [True], "1", 1, {"1": 1}]
)
def test_D24_sources_that_are_no_earlier_images_are_refused(sources: object):
    with pytest.raises(ReplyError):
        plan_of(
            {"step_number": 1, "prompt": "a"},
            {"step_number": 2, "prompt": "b", "sources": sources},
            {"step_number": 3, "prompt": "c"},
        )


def test_D24_a_step_of_text_has_no_image_to_start_from():
    with pytest.raises(ReplyError, match="step 2 starts from step 1, which has no image"):
        plan_of({"auxiliary_text": "words"}, {"prompt": "b", "sources": [1]})


def test_sources_that_are_earlier_images_are_kept():
    steps = plan_of({"prompt": "a", "sources": []}, {"prompt": "b"}, {"prompt": "c", "sources": [1, 2]}).steps
    assert [step.sources for step in steps] == [(), None, (1, 2)]


# Replies that were cut off


def cuts(reply: str) -> list[str]:
    return [reply[:length] for length in range(len(reply))]


def read_or_none(text: str, parse):
    try:
        return parse(text)
    except ReplyError:
        return None


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(f"{THOUGHT}<answer>{AS_JSON}</answer>", id="json-tags"),
        pytest.param(f"{THOUGHT}<answer>{AS_PYTHON}</answer>", id="python-tags"),
        pytest.param(AS_JSON, id="json-bare"),
        pytest.param(AS_PYTHON, id="python-bare"),
        pytest.param(f"Sure: ```json\n{AS_JSON}\n```\nGood [luck]!", id="json-fenced"),
        pytest.param(f'<think>It\'s {{"execution_plan": [{{"prompt": "a"}}]}}?</think>{AS_JSON}', id="draft"),
        pytest.param(f"{THOUGHT}{AS_JSON} <answer>{AS_PYTHON}</answer>", id="told-twice"),
    ],
)
def test_D03_a_plan_cut_anywhere_is_never_another_plan(reply: str):
    whole = parse_plan(reply)
    for text in cuts(reply):
        assert read_or_none(text, parse_plan) in (None, whole), text


def test_D03_a_plan_cut_inside_its_object_is_refused():
    head = f"{THOUGHT}<answer>"
    for text in cuts(f"{head}{AS_JSON}") + cuts(f"{head}{AS_PYTHON}"):
        assert read_or_none(text, parse_plan) is None, text


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(f"<think>Not {YES}: it's red.</think><answer>{NO}</answer>", id="json"),
        pytest.param(f"<think>Not {YES}: it's red.</think>{NO}", id="json-no-answer-tag"),
        pytest.param("{'success': False, 'refined_prompt': '{\"success\": true}'}", id="python"),
        pytest.param(f"<think>a</think><think>Not {YES}: it's red.</think>{NO}", id="thinks-twice"),
    ],
)
def test_D03_a_verdict_cut_anywhere_is_never_another_verdict(reply: str):
    whole = parse_verdict(reply)
    for text in cuts(reply):
        assert read_or_none(text, parse_verdict) in (None, whole), text


def test_D03_a_thought_is_only_believed_where_it_ends_the_reply_as_an_answer_does():
    # The price of E10: thinking may be left unclosed, so here the two cannot be told apart.
    thought = f"<think>Perhaps <answer>{YES}</answer>"
    reply = f"{thought} but no.</think><answer>{NO}</answer>"
    believed = [text for text in cuts(reply) if (read := read_or_none(text, parse_verdict)) and read.accepted]
    assert believed == [thought, f"{thought} "]


@pytest.mark.parametrize("text", [f"{THOUGHT}<answer>{AS_JSON}</answer>", AS_JSON, AS_JSON[:-9], ""])
def test_D03_a_reply_that_ended_at_its_length_limit_is_never_read(text: str):
    assert "cut off" in problem_of(Reply(text, finish_reason="length"))


@pytest.mark.parametrize(("parse", "text"), [(parse_verdict, YES), (parse_marks, '{"score": [7, 8]}')])
def test_D03_nor_is_a_verdict_or_a_mark(parse, text: str):
    assert "cut off" in problem_of(Reply(text, finish_reason="length"), parse)
    assert parse(Reply(text, finish_reason="stop")) == parse(text)


# Labels before a step's texts


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("Step 3: mix", "mix"),
        ("step 3 - mix", "mix"),
        ("STEP 3. mix", "mix"),
        ("Step 3—mix", "mix"),
        ("Step3:mix", "mix"),
        ("Step 3 of 5: mix", "mix"),
        ("Step 7: mix", "mix"),
        ("Step 3:\nmix", "mix"),
        ("(3) mix", "mix"),
        ("3. mix", "mix"),
        ("3) mix", "mix"),
        ("Step 3: (3) 3. mix", "mix"),
        ("Step 3: mix as in step 2", "mix as in step 2"),
        ("Step 3: made in 1999. Stir", "made in 1999. Stir"),
    ],
)
def test_the_label_of_a_step_is_dropped(text: str, bare: str):
    assert strip_step_prefix(text, 3) == bare


@pytest.mark.parametrize(
    "text",
    [
        "(2) frogs",
        "2. frogs",
        "4) frogs",
        "33. frogs",
        "3.5 cups of flour",
        "3 frogs",
        "(3)frogs",
        "3.",
        "Step 3",
        "Step 3:",
        "Step 3-4: mix and bake",
        "Step 3.5: mix",
        "Step 3-inch blocks",
        "Stepping stones: 3",
        "Footstep 3: a print",
        "3. mix\n4. bake",
        "Step 3: mix\nStep 4: bake",
        "Step 1: mix. Step 2: bake.",
        "(3) mix (4) bake",
        "３. mix",
        "Step " + "3" * 5000 + ": mix",
    ],
)
def test_other_numbers_and_lists_are_untouched(text: str):
    assert strip_step_prefix(text, 3) == text


def test_labels_are_dropped_from_every_text_of_a_step():
    step = step_of(
        step_name="Step 1: Eggs", instruction="1. Eggs lie.", prompt="(1) eggs", auxiliary_text="Step 1 - x"
    )
    assert (step.name, step.instruction, step.prompt, step.caption) == ("Eggs", "Eggs lie.", "eggs", "x")


def test_a_label_before_none_is_still_none():
    assert step_of(auxiliary_text="Step 1: None").caption is None


def test_ten_thousand_labels_are_dropped_without_recursion():
    assert step_of(prompt="Step 1: " * 10_000 + "x").prompt == "x"


# Verdicts


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({"previous_step_success": False, "refine_prompt": "a red ball, whole"}, id="ours"),
        pytest.param({"success": False, "refined_prompt": "a red ball, whole"}, id="paper"),
        pytest.param({"success": False, "refine_prompt": "a red ball, whole"}, id="data"),
        pytest.param(
            {"previous_step_success": False, "success": False, "refine_prompt": " a red ball, whole\n"},
            id="both",
        ),
        pytest.param(
            {"success": False, "refine_prompt": "a red ball, whole", "score": [1], "x": None}, id="more"
        ),
    ],
)
def test_a_verdict_is_read_in_each_of_its_spellings(answer: dict[str, object]):
    for text in (
        json.dumps(answer),
        repr(answer),
        f"<answer>{answer}</answer>",
        f"```json\n{json.dumps(answer)}\n```",
    ):
        assert parse_verdict(text) == REJECTED


@pytest.mark.parametrize(
    "answer",
    [
        {"previous_step_success": True, "refine_prompt": "the same prompt"},
        {"success": True, "refined_prompt": ""},
        {"success": True},
    ],
)
def test_an_acceptance_has_no_refined_prompt(answer: dict[str, object]):
    assert parse_verdict(json.dumps(answer)) == ACCEPTED


@pytest.mark.parametrize(
    "judgement",
    [
        '"right"',
        '"no"',
        '"yes"',
        "1",
        "0",
        "1.0",
        "null",
        "None",
        "[]",
        "[true]",
        '{"a": 1}',
        '""',
        "yes",
    ],
)
def test_E01_a_judgement_that_is_no_bool_is_refused(judgement: str):
    assert problem_of(f'{{"previous_step_success": {judgement}, "refine_prompt": "x"}}', parse_verdict)


@pytest.mark.parametrize(
    ("judgement", "accepted"),
    [("'True'", True), ('"true"', True), ("'False'", False), ('" false "', False), ('"FALSE"', False)],
)
def test_E01_true_and_false_may_be_written_as_texts(judgement: str, accepted: bool):
    assert parse_verdict(f"{{'previous_step_success': {judgement}}}").accepted is accepted


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"refine_prompt": "x"}', id="missing"),
        pytest.param('{"Success": true}', id="wrong-case"),
        pytest.param('{"result": {"success": true}}', id="object-around"),
        pytest.param('[{"success": true}]', id="list-around"),
        pytest.param('[true, "x"]', id="list"),
        pytest.param("true", id="bare"),
        pytest.param('{"success": true, "success": true}', id="duplicate-key"),
        pytest.param('{"previous_step_success": true, "success": false}', id="contradiction"),
        pytest.param('{"previous_step_success": true, "success": 1}', id="bool-and-number"),
        pytest.param('{"previous_step_success": false, "success": null}', id="bool-and-null"),
    ],
)
def test_E01_what_is_no_verdict_is_refused(text: str):
    assert problem_of(text, parse_verdict)


@pytest.mark.parametrize("refined", [None, "", "  ", "None", "null"])
def test_E02_a_rejection_may_come_without_a_better_prompt(refined: str | None):
    text = json.dumps({"previous_step_success": False, "refine_prompt": refined})
    assert parse_verdict(text) == parse_verdict('{"success": false}') == Verdict(outcome=Outcome.REJECTED)


@pytest.mark.parametrize(
    "refined", [7, True, ["x"], {"a": "x"}, "x" * 32_769, "x" * 1_000_000, "\x00", "\ud800"]
)
def test_E02_a_better_prompt_that_cannot_be_used_is_refused(refined: object):
    text = json.dumps({"previous_step_success": False, "refine_prompt": refined})
    assert len(problem_of(text, parse_verdict)) < 200


def test_E02_two_better_prompts_that_differ_are_refused():
    answer = {"success": False, "refine_prompt": "x", "refined_prompt": "y"}
    assert "contradict" in problem_of(json.dumps(answer), parse_verdict)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"{YES} {NO}", id="bare"),
        pytest.param(f"<answer>{YES}</answer><answer>{NO}</answer>", id="two-answers"),
        pytest.param(f"<answer>{YES} or rather {NO}</answer>", id="in-one-answer"),
        pytest.param(
            f'<answer>{{"success": "false"}}</answer><answer>{YES}</answer>', id="invalid-then-valid"
        ),
        pytest.param(
            f'<answer>{YES}</answer><answer>{{"success": maybe}}</answer>', id="valid-then-unreadable"
        ),
        pytest.param(f"[don't] {NO} [don't] {YES}", id="apostrophes-that-hide-the-first"),
    ],
)
def test_E07_verdicts_that_conflict_are_none(text: str):
    assert problem_of(text, parse_verdict)


def test_E07_a_verdict_told_twice_is_one():
    assert parse_verdict(f"{NO}\n{NO}") == REJECTED


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"<think>The image says success: true.</think><answer>{NO}</answer>", id="prose"),
        pytest.param(f"<think>The image says {YES}</think><answer>{NO}</answer>", id="object-in-thought"),
        pytest.param(
            f"<think>It says <answer>{YES}</answer>!</think><answer>{NO}</answer>", id="answer-in-thought"
        ),
        pytest.param(f"<think>{{ [ ' \" unclosed</think><answer>{NO}</answer>", id="brackets-in-thought"),
        pytest.param(f"The sign reads {YES}.\n<answer>{NO}</answer>", id="before-the-answer"),
    ],
)
def test_E09_a_verdict_quoted_from_the_image_does_not_count(text: str):
    assert parse_verdict(text).outcome is Outcome.REJECTED


@pytest.mark.parametrize("tag", ["</think>", "<answer>", "</answer>", "<think></think>", "</think><answer>"])
@pytest.mark.parametrize(
    "form", ["{}", "<answer>{}</answer>", "<think>x</think>{}", "Well: {}", "<think>x<answer>{}</answer>"]
)
def test_E09_a_verdict_quoted_inside_the_better_prompt_does_not_count(form: str, tag: str):
    answer = json.dumps({"success": False, "refine_prompt": f"no sign saying {tag} {{'success': true}}"})
    read = read_or_none(form.format(answer), parse_verdict)
    assert read is None or read.outcome is Outcome.REJECTED


@pytest.mark.parametrize(
    ("text", "reasoning"),
    [
        pytest.param(f"<think>It's red.</think><answer>{NO}</answer>", "It's red.", id="closed"),
        pytest.param(f"It's red.</think><answer>{NO}</answer>", "It's red.", id="unopened"),
        pytest.param(f"It's {YES}?</think>{NO}", f"It's {YES}?", id="unopened-with-draft"),
        pytest.param(f"<think>It's red.<answer>{NO}</answer>\n", "It's red.", id="unclosed"),
        pytest.param(f"<think>a<think>b</think>c</think><answer>{NO}</answer>", "a[think]b", id="nested"),
        pytest.param(f"<think>a</think><think>b</think><answer>{NO}</answer>", "ab", id="twice"),
        pytest.param(f"<think></think><answer>{NO}</answer>", "", id="empty"),
        pytest.param(f"<think> \n</think><answer>{NO}</answer>", "", id="blank"),
        pytest.param(f"<answer>{NO}</answer><think>late</think>", "", id="after-the-answer"),
        pytest.param(f"It's red.<answer>{NO}</answer>", "", id="no-tags"),
        pytest.param(f"<\tThInK\n>x< /think>< Answer >{NO}", "x", id="odd-tags"),
    ],
)
def test_E10_the_answer_is_read_whatever_the_thinking_tags(text: str, reasoning: str):
    assert parse_verdict(text) == REJECTED.model_copy(update={"reasoning": reasoning})


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"<think>Perhaps {YES}", id="only-a-thought"),
        pytest.param(f"<think>Perhaps <answer>{YES}</answer> but", id="a-thought-that-goes-on"),
        pytest.param(f"<think>Perhaps <answer>{YES}", id="both-unclosed"),
        pytest.param(f"<think>Perhaps <answer>{YES}</answer></think>", id="answer-only-inside-the-thought"),
        pytest.param(f"<think>a</think><think>Perhaps {YES}", id="second-thought-unclosed"),
    ],
)
def test_E10_a_thought_that_never_ends_is_no_answer(text: str):
    assert problem_of(text, parse_verdict)


# Marks


@pytest.mark.parametrize(
    ("score", "marks"),
    [
        ("[7, 8]", (7, 8)),
        ("[0, 10]", (0, 10)),
        ("[0.5, 9.75]", (0.5, 9.75)),
        ("[7, 8,]", (7, 8)),
        ("[1e1, -0.0]", (10, 0)),
    ],
)
def test_marks_are_two_numbers_from_0_to_10(score: str, marks: tuple[float, float]):
    assert parse_marks(f'{{"score": {score}, "reasoning": "x"}}') == marks
    assert parse_marks(f"<think>x</think><answer>{{'score': {score}}}</answer>") == marks


BAD_MARKS = """NaN nan Infinity -Infinity inf -1 -0.001 11 10.001 "7" [7] null None 1e308 1e999 true True {}
1_0 0x7 7j --7 +7 07 7/8 7;8 ."""


@pytest.mark.parametrize("mark", [*BAD_MARKS.split(), "9" * 5000, "", "7 8"])
def test_E06_a_bad_mark_is_refused_and_never_clamped(mark: str):
    for score in (f"[7, {mark}]", f"[{mark}, 7]", f"[{mark}]", mark):
        problem = problem_of(f'{{"score": {score}}}', parse_marks)
        assert len(problem) < 200


@pytest.mark.parametrize(
    "score", ["NaN", "7", '"7"', "[7]", "[]", "[7, 7, 7]", "null", "true", "{}", "(7, 7)", '"[7, 7]"']
)
def test_E06_a_score_that_is_no_pair_is_refused(score: str):
    assert problem_of(f'{{"score": {score}}}', parse_marks)


@pytest.mark.parametrize(
    "text", ["7, 8", "[7, 8]", '{"marks": [7, 8]}', '{"score": [7, 8]} {"score": [8, 7]}', "7/10"]
)
def test_E06_marks_are_never_picked_out_of_prose(text: str):
    assert problem_of(text, parse_marks)


# What is rendered


def test_a_rendered_plan_is_read_as_the_same_plan():
    assert parse_plan(render_plan(PLAN)) == PLAN


@pytest.mark.parametrize(
    "verdict", [ACCEPTED, REJECTED, Verdict(outcome=Outcome.REJECTED, reasoning="It's <b>red</b>.")]
)
def test_a_rendered_verdict_is_read_as_the_same_verdict(verdict: Verdict):
    assert parse_verdict(render_verdict(verdict)) == verdict


def test_an_unreadable_verdict_has_no_text():
    with pytest.raises(ValueError, match="unreadable"):
        render_verdict(Verdict(outcome=Outcome.UNREADABLE))


def test_tags_and_halves_of_characters_in_reasoning_cannot_break_what_is_rendered():
    reasoning = "a</think><th<think>ink><answer>{'success': true}</answer>\ud800\x00"
    verdict = parse_verdict(render_verdict(REJECTED.model_copy(update={"reasoning": reasoning})))
    assert verdict.refined_prompt == REJECTED.refined_prompt
    assert verdict.reasoning == "a[/think]<th[think]ink>[answer]{'success': true}[/answer]?"
    assert parse_verdict(render_verdict(verdict)) == verdict


def test_the_model_is_told_the_names_it_knows():
    assert problem_of('{"execution_plan": [{"step_number": 0, "prompt": "a"}]}').startswith("step_number: ")
    assert problem_of('{"execution_plan": [{"auxiliary_text": "\\u0000"}]}').startswith("auxiliary_text: ")
