"""The codec: model text to typed values and back. The only place that knows the wire names.

A reply is `<think>…</think>` and then `<answer>{…}</answer>`; the tags may be missing, unclosed or oddly
written, the object may be JSON or a Python literal. Either exactly one object of the right form is found, or
`ReplyError` says what was wrong in words that the model can be told. What this module renders it can parse.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from interleave.agents.literals import MAX_CHARACTERS, UnreadableLiteral, find_objects, read_literal
from interleave.backends.protocols import Reply
from interleave.errors import ReplyError
from interleave.types import Outcome, Plan, PlanStep, Verdict

T = TypeVar("T")

_TAG = re.compile(r"<\s*(/?)\s*(think|answer)\s*>", re.IGNORECASE)
_ABSENT = {"", "none", "null"}

JUDGEMENT_KEYS = ("previous_step_success", "success")
REFINEMENT_KEYS = ("refine_prompt", "refined_prompt")


def parse_plan(reply: Reply | str) -> Plan:
    """The plan in a planner's reply."""
    return _parse(reply, _plan)


def parse_verdict(reply: Reply | str) -> Verdict:
    """The verdict in a critic's reply; a refusal may come without a refined prompt."""
    return _parse(reply, _verdict)


def parse_marks(reply: Reply | str) -> tuple[float, float]:
    """The two marks, 0 to 10, in a scorer's reply."""
    return _parse(reply, _marks)


def render_plan(plan: Plan) -> str:
    """The text a planner would have written for this plan."""
    steps = [
        {
            "step_number": step.number,
            "step_name": step.name,
            "instruction": step.instruction,
            "prompt": step.prompt,
            "auxiliary_text": step.caption,
            **({"sources": list(step.sources)} if step.sources is not None else {}),
        }
        for step in plan.steps
    ]
    return _render(plan.reasoning, {"execution_plan": steps})


def render_verdict(verdict: Verdict) -> str:
    """The text a critic would have written for this verdict; an unreadable one has no text."""
    if verdict.outcome is Outcome.UNREADABLE:
        raise ValueError("an unreadable verdict cannot be rendered: there is nothing it says")
    answer = {"previous_step_success": verdict.accepted, "refine_prompt": verdict.refined_prompt or ""}
    return _render(verdict.reasoning, answer)


def _render(thinking: str, answer: object) -> str:
    body = json.dumps(answer, ensure_ascii=False)
    return f"<think>{_TAG.sub('', thinking).strip()}</think><answer>{body}</answer>"


def _parse(reply: Reply | str, read: Callable[[Any, str], T]) -> T:
    text, finish_reason = (reply, "stop") if isinstance(reply, str) else (reply.text, reply.finish_reason)
    if finish_reason == "length":
        raise ReplyError("the reply was cut off at its length limit: answer more briefly", reply=text)
    if len(text) > MAX_CHARACTERS:
        raise ReplyError(f"the reply has {len(text):,} characters, more than {MAX_CHARACTERS:,}", reply=text)
    thinking, answer_at = _split(text)
    try:
        return _the_one(text, answer_at, lambda value: read(value, thinking))
    except (UnreadableLiteral, ValidationError, ValueError) as error:
        raise ReplyError(_explain(error), reply=text) from None


def _the_one(text: str, start: int, read: Callable[[Any], T]) -> T:
    """The only value of the right form; a value told twice is one, two different ones are none."""
    values: list[T] = []
    problem: Exception = UnreadableLiteral("the answer contains no object in curly brackets")
    for found in find_objects(text, start):
        try:
            value = read(read_literal(found.text))
        except (UnreadableLiteral, ValidationError, ValueError) as error:
            problem = error
            continue
        if value not in values:
            values.append(value)
    if not values:
        raise problem
    if len(values) > 1:
        raise UnreadableLiteral("the reply contains several answers that differ: give exactly one")
    return values[0]


def _split(text: str) -> tuple[str, int]:
    """The thinking, and where the answer starts."""
    tags = [(match.group(1) == "/", match.group(2).lower(), match) for match in _TAG.finditer(text)]
    opens = next((match for closing, name, match in tags if name == "think" and not closing), None)
    closes = next((match for closing, name, match in tags if name == "think" and closing), None)
    answers = [match for closing, name, match in tags if name == "answer" and not closing]
    if (
        closes
        and (opens is None or opens.start() > closes.start())
        and answers
        and answers[0].start() < closes.start()
    ):
        closes = None  # a stray </think> inside the answer
    if opens and answers and answers[0].start() < opens.start():
        opens = closes = None  # a stray <think> inside the answer
    after_thinking = closes.end() if closes else 0
    answer = next((match for match in answers if match.start() >= after_thinking), None)
    start = answer.end() if answer else after_thinking
    if closes:
        thinking = text[opens.end() if opens and opens.start() < closes.start() else 0 : closes.start()]
    elif opens and answer:
        thinking = text[opens.end() : answer.start()]
    else:
        thinking = ""
    return _TAG.sub("", thinking).strip(), start


def _plan(value: Any, thinking: str) -> Plan:
    steps = _object(value, "a plan").get("execution_plan")
    if not isinstance(steps, list):
        raise UnreadableLiteral('the answer must be one object with a list under "execution_plan"')
    if not steps:
        raise UnreadableLiteral("the plan has no steps")
    numbered = [_object(step, f"step {position}") for position, step in enumerate(steps, start=1)]
    if not any("step_number" in step for step in numbered):
        numbered = [{**step, "step_number": position} for position, step in enumerate(numbered, start=1)]
    return Plan(steps=tuple(_step(step) for step in numbered), reasoning=_clean(thinking))


def _step(fields: Mapping[str, Any]) -> PlanStep:
    number = fields.get("step_number")
    if not isinstance(number, int) or isinstance(number, bool):
        raise UnreadableLiteral(f'"step_number" must be a whole number, not {number!r:.60}')
    sources = fields.get("sources")
    if sources is not None and not (isinstance(sources, list) and all(type(item) is int for item in sources)):
        raise UnreadableLiteral(f'"sources" of step {number} must be a list of step numbers')
    return PlanStep(
        number=number,
        name=_text(fields, "step_name", number),
        instruction=_text(fields, "instruction", number),
        prompt=_text(fields, "prompt", number),
        caption=_text(fields, "auxiliary_text", number),
        sources=None if sources is None else tuple(sources),
    )


def _text(fields: Mapping[str, Any], key: str, number: int) -> str | None:
    value = fields.get(key)
    if value is None:
        return None
    if not isinstance(value, str):
        raise UnreadableLiteral(
            f'"{key}" of step {number} must be a text or null, not {type(value).__name__}'
        )
    if value.strip().lower() in _ABSENT:
        return None
    return strip_step_prefix(value.strip(), number) or None


def strip_step_prefix(text: str, number: int) -> str:
    """The text without a leading "Step 3:", and without "(3)" or "3." where that is this step's number."""
    named = re.match(r"step\s*\d+\s*(?:of\s*\d+\s*)?[:.)\-–—]\s*", text, re.IGNORECASE)
    bare = re.match(rf"(?:\({number}\)|{number}[.)])\s+", text) if "\n" not in text else None
    prefix = named or bare
    return strip_step_prefix(text[prefix.end() :], number) if prefix else text


def _verdict(value: Any, thinking: str) -> Verdict:
    fields = _object(value, "a verdict")
    judgement = _only(fields, JUDGEMENT_KEYS)
    if not isinstance(judgement, bool):
        raise UnreadableLiteral(f'"{JUDGEMENT_KEYS[0]}" must be true or false, not {judgement!r:.60}')
    refined = _only(fields, REFINEMENT_KEYS)
    if refined is not None and not isinstance(refined, str):
        raise UnreadableLiteral(f'"{REFINEMENT_KEYS[0]}" must be a text, not {type(refined).__name__}')
    wanted = None if judgement or refined is None or refined.strip().lower() in _ABSENT else refined.strip()
    outcome = Outcome.ACCEPTED if judgement else Outcome.REJECTED
    return Verdict(outcome=outcome, reasoning=_clean(thinking), refined_prompt=wanted)


def _marks(value: Any, thinking: str) -> tuple[float, float]:
    marks = _object(value, "a score").get("score")
    if not isinstance(marks, list) or len(marks) != 2:
        raise UnreadableLiteral('"score" must be a list of two numbers from 0 to 10')
    for mark in marks:
        if isinstance(mark, bool) or not isinstance(mark, int | float) or not 0 <= mark <= 10:
            raise UnreadableLiteral(f'"score" must hold numbers from 0 to 10, not {mark!r:.60}')
    return float(marks[0]), float(marks[1])


def _only(fields: Mapping[str, Any], spellings: tuple[str, ...]) -> Any:
    """The value under any of the spellings of a key; two that differ are a contradiction."""
    values = [fields[key] for key in spellings if key in fields]
    if any(value != values[0] for value in values[1:]):
        raise UnreadableLiteral(f"{' and '.join(spellings)} contradict each other")
    return values[0] if values else None


def _object(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise UnreadableLiteral(f"{what} must be an object in curly brackets, not a {type(value).__name__}")
    return value


def _clean(thinking: str) -> str:
    """Reasoning is kept for people to read; it must be storable, nothing more."""
    return thinking.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")


def _explain(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        place = ".".join(str(piece) for piece in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        return f"{place}: {message}" if place else message
    return str(error)
