"""Codec between the text of models and typed values. Only this module has the wire names.

A reply is `<think>…</think>` and then `<answer>{…}</answer>`. The tags may be missing, unclosed or misspelt,
and the object may be JSON or a Python literal. Parsing finds exactly one object of the right form, or raises
`ReplyError` with the problem as text for the model. Everything that is rendered here can be parsed here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar, get_args

from pydantic import ValidationError

from interleave.agents.literals import MAX_CHARACTERS, escape_inner_quotes, find_objects, read_literal
from interleave.backends.protocols import Reply
from interleave.errors import ReplyError, UnreadableLiteral
from interleave.types import (
    MAX_REQUEST_ASSETS,
    Asset,
    AssetKind,
    Chapter,
    Finding,
    Lettering,
    Outcome,
    Plan,
    PlanStep,
    Verdict,
)

T = TypeVar("T")

_TAG = re.compile(r"<\s*(?:(/)\s*)?(think|answer)\s*>", re.IGNORECASE)
_OBJECT_NEXT = re.compile(r"[\s\ufeff]*(?:```\w*\s*)?\{")
_LABEL = re.compile(
    r"(?:\b(?P<named>step)\s*([0-9]{1,7})\s*(?:of\s*[0-9]+\s*)?(?:[:)–—](?![0-9])|[.\-](?=\s))"
    r"|\(([0-9]{1,7})\)\s|\b([0-9]{1,7})[.)]\s)\s*",
    re.IGNORECASE,
)
_DIGITS = re.compile(r"[0-9]{1,7}")
_ABSENT = {"", "none", "null"}
_TRUTHS = {"true": True, "false": False}
_WIRE_NAMES = {
    "number": "step_number",
    "name": "step_name",
    "caption": "auxiliary_text",
    "refined_prompt": "refine_prompt",
}

PLAN_KEYS = ("execution_plan",)
ASSETS_KEY = "assets"
LETTERING_KEY = "lettering"
JUDGEMENT_KEYS = ("previous_step_success", "success")
REFINEMENT_KEYS = ("refine_prompt", "refined_prompt")
SCORE_KEYS = ("score",)
FINDING_KEYS = ("findings",)


def object_schema(**properties: Any) -> dict[str, Any]:
    """Return the schema of an object with exactly these keys, as strict structured output needs."""
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


MAX_TEXT = 1000
"""Maximum characters of a text under a schema, because a weak model may repeat itself up to its token limit.
llama.cpp refuses bounds of 2000 and more."""
TEXT_SCHEMA = {"type": "string", "maxLength": MAX_TEXT}
_TEXT_OR_NULL = {"type": ["string", "null"], "maxLength": MAX_TEXT}
_STEP_SCHEMA = object_schema(
    step_number={"type": "integer"},
    step_name=_TEXT_OR_NULL,
    instruction=_TEXT_OR_NULL,
    prompt=_TEXT_OR_NULL,
    auxiliary_text=_TEXT_OR_NULL,
)
_CHAPTER_STEP_SCHEMA = object_schema(
    **_STEP_SCHEMA["properties"],
    scene=_TEXT_OR_NULL,
    needs={"type": ["array", "null"], "items": {"type": "integer"}},
)
_ASSET_NAME = {"type": "string", "maxLength": 60}
_NAMES = {"type": ["array", "null"], "items": _ASSET_NAME}
_ASSETS_SCHEMA = {"assets": _NAMES, "scene": _TEXT_OR_NULL}
_KINDS = ("caption", "speech", "label")
_LETTERING_SCHEMA = {
    LETTERING_KEY: {
        "type": ["array", "null"],
        "items": object_schema(
            kind={"type": "string", "enum": list(_KINDS)},
            text={"type": "string", "maxLength": 500},
            target={"type": "string", "maxLength": 120},
        ),
    }
}
_ASSET_SCHEMA = object_schema(
    name=_ASSET_NAME, kind={"type": "string", "enum": list(get_args(AssetKind))}, description=TEXT_SCHEMA
)
VERDICT_SCHEMA = object_schema(previous_step_success={"type": "boolean"}, refine_prompt=TEXT_SCHEMA)
MARKS_SCHEMA = object_schema(
    score={"type": "array", "items": {"type": "number"}, "maxItems": 2}, reasoning=TEXT_SCHEMA
)
FINDINGS_SCHEMA = object_schema(
    findings={
        "type": "array",
        "items": object_schema(
            step={"type": "integer"},
            problem=TEXT_SCHEMA,
            prompt=TEXT_SCHEMA,
            assets={"type": "array", "items": {"type": "string", "maxLength": 60}},
        ),
    }
)
"""JSON schemas of the same forms, for backends with constrained decoding."""


def plan_schema(max_steps: int, *, with_assets: bool = False, with_lettering: bool = False) -> dict[str, Any]:
    """Return the JSON schema of a plan with a maximum number of steps.

    Optionally it has assets and scenes, or words to set upon the images.
    """
    step = object_schema(
        **_STEP_SCHEMA["properties"],
        **(_ASSETS_SCHEMA if with_assets else {}),
        **(_LETTERING_SCHEMA if with_lettering else {}),
    )
    assets = {"type": "array", "items": _ASSET_SCHEMA, "maxItems": MAX_REQUEST_ASSETS}
    return object_schema(
        **({"assets": assets} if with_assets else {}),
        execution_plan={"type": "array", "items": step, "maxItems": max_steps},
    )


def parse_plan(reply: Reply | str) -> Plan:
    """Return the plan in a planner's reply."""
    return parse_reply(reply, PLAN_KEYS, read_plan)


def chapter_schema(max_steps: int, *, with_lettering: bool = False) -> dict[str, Any]:
    """Return the JSON schema of a chapter with a maximum number of steps, optionally with lettering."""
    more = _LETTERING_SCHEMA if with_lettering else {}
    step = object_schema(**_CHAPTER_STEP_SCHEMA["properties"], **more)
    steps = {"type": "array", "items": step, "maxItems": max_steps}
    assets = {"type": "array", "items": object_schema(name=_ASSET_NAME, description=TEXT_SCHEMA)}
    return object_schema(
        summary={"type": "string", "maxLength": 2 * MAX_TEXT - 1},
        finished={"type": "boolean"},
        assets=assets,
        execution_plan=steps,
    )


def parse_chapter(reply: Reply | str, before: Plan | None = None) -> Plan:
    """Return the plan extended by the chapter in a planner's reply. Only the last chapter may be empty."""
    return parse_reply(reply, PLAN_KEYS, lambda value, thinking: _chapter(value, thinking, before))


def parse_verdict(reply: Reply | str) -> Verdict:
    """Return the verdict in a critic's reply. A rejection may lack a refined prompt."""
    return parse_reply(reply, JUDGEMENT_KEYS, _verdict)


def parse_prompt(reply: Reply | str) -> str | None:
    """Return the prompt in a critic's reply, whether or not it accepts the image."""
    return parse_reply(
        reply, JUDGEMENT_KEYS, lambda value, _: _refinement(require_object(value, "a verdict"))
    )


def parse_marks(reply: Reply | str) -> tuple[float, float]:
    """Return the two scores, 0 to 10, in a scorer's reply."""
    return parse_reply(reply, SCORE_KEYS, _marks)


def parse_findings(reply: Reply | str) -> tuple[Finding, ...]:
    """Return the findings in an auditor's reply, the first of each step."""
    return parse_reply(reply, FINDING_KEYS, _findings)


def render_findings(findings: Sequence[Finding]) -> str:
    """Return the reply of an auditor with these findings."""
    listed = [
        {
            "step": each.step,
            "problem": each.reasoning,
            "prompt": each.prompt or "",
            "assets": list(each.assets),
        }
        for each in findings
    ]
    return _render("", {FINDING_KEYS[0]: listed})


def render_plan(plan: Plan) -> str:
    """Return the reply of a planner with this plan."""
    steps = [
        {
            "step_number": step.number,
            "step_name": step.name,
            "instruction": step.instruction,
            "prompt": step.prompt,
            "auxiliary_text": step.caption,
            **({"sources": list(step.sources)} if step.sources is not None else {}),
            **({"assets": list(step.assets)} if step.assets is not None else {}),
            **({"scene": step.scene} if step.scene is not None else {}),
            **({"needs": list(step.needs)} if step.needs is not None else {}),
            **({LETTERING_KEY: _as_written(step.lettering)} if step.lettering is not None else {}),
        }
        for step in plan.steps
    ]
    assets = [asset.model_dump(exclude_none=True) for asset in plan.assets]
    return _render(plan.reasoning, {**({ASSETS_KEY: assets} if assets else {}), PLAN_KEYS[0]: steps})


def _as_written(lettering: Sequence[Lettering]) -> list[dict[str, str]]:
    """Return words upon an image as planners write them; where they stand is found in the image."""
    return [{"kind": each.kind, "text": each.text, "target": each.target} for each in lettering]


def render_verdict(verdict: Verdict) -> str:
    """Return the reply of a critic with this verdict. Raises for an unreadable one."""
    if verdict.outcome is Outcome.UNREADABLE:
        raise ValueError("an unreadable verdict cannot be rendered")
    answer = {"previous_step_success": verdict.accepted, "refine_prompt": verdict.refined_prompt or ""}
    return _render(verdict.reasoning, answer)


def _render(thinking: str, answer: object) -> str:
    body = json.dumps(answer, ensure_ascii=False)
    return f"<think>{_clean(thinking)}</think><answer>{body}</answer>"


def parse_reply(reply: Reply | str, keys: tuple[str, ...], read: Callable[[Any, str], T]) -> T:
    """Return `read` of the one object with one of these keys and of the thinking before it."""
    text, finish_reason = (reply, "stop") if isinstance(reply, str) else (reply.text, reply.finish_reason)
    if finish_reason == "length":
        raise ReplyError("the reply was cut off at its length limit: answer more briefly", reply=text)
    if finish_reason == "content_filter":
        raise ReplyError("the model or its content filter refused to answer", reply=text)
    if len(text) > MAX_CHARACTERS:
        raise ReplyError(f"the reply has {len(text):,} characters, more than {MAX_CHARACTERS:,}", reply=text)
    try:
        thinking, answer_at = _split(text)
        return _the_one(text, answer_at, keys, lambda value: read(value, _clean(thinking)))
    except ValueError as error:
        raise ReplyError(_explain(error), reply=text) from None


def _the_one(text: str, start: int, keys: tuple[str, ...], read: Callable[[Any], T]) -> T:
    """Return the only answer, even if quotes in its texts are not escaped."""
    try:
        return _the_only(text, start, keys, read)
    except UnreadableLiteral:
        escaped = escape_inner_quotes(text, start)
        if escaped is None or escaped in text:
            raise
        return _the_only(escaped, 0, keys, read)


def _the_only(text: str, start: int, keys: tuple[str, ...], read: Callable[[Any], T]) -> T:
    """Return the only answer. A repeated one counts once. Raises for different or malformed answers.

    An answer is an object with one of the keys in quotes. Other brackets belong to the prose.
    """
    named = re.compile(rf"[\"'](?:{'|'.join(keys)})[\"']")
    values: list[T] = []
    for found in find_objects(text, start):
        if named.search(found) and (value := read(read_literal(found))) not in values:
            values.append(value)
    if not values:
        raise UnreadableLiteral(f'the answer contains no object in curly brackets with "{keys[0]}"')
    if len(values) > 1:
        raise UnreadableLiteral("the reply contains several answers that differ: give exactly one")
    return values[0]


def _split(text: str) -> tuple[str, int]:
    """Return the thinking and the start of the answer. Tags inside an object are text."""
    if _OBJECT_NEXT.match(text):
        return "", 0
    tags = [((tag[1] or "") + tag[2].lower(), tag) for tag in _TAG.finditer(text)]
    thoughts: list[str] = []
    start, opened = 0, None
    for name, tag in tags:
        if name == "think" and opened is None:
            opened = tag
        elif name == "/think" and (opened or not start):
            thoughts.append(text[opened.end() if opened else 0 : tag.start()])
            start, opened = tag.end(), None
            if _OBJECT_NEXT.match(text, start):
                return "".join(thoughts), start
        elif name == "answer" and not opened:
            return "".join(thoughts), tag.end()
    if not opened:
        return "".join(thoughts), start
    # unclosed thinking ends only at an answer that closes the reply
    answer = next((tag for name, tag in tags if name == "answer" and tag.start() > opened.start()), None)
    name, last = tags[-1]
    if answer is None or name != "/answer" or text[last.end() :].strip():
        raise UnreadableLiteral("the thinking is never closed: the reply looks cut off")
    return "".join(thoughts) + text[opened.end() : answer.start()], answer.end()


def read_plan(value: Any, thinking: str) -> Plan:
    """Return the plan in an object of a reply."""
    plan = require_object(value, "a plan")
    planned = _listed_steps(plan)
    assets = _assets(plan.get(ASSETS_KEY))
    renumbered = _without_gaps(planned)
    places = {old.number: new.number for old, new in zip(planned, renumbered, strict=True)}
    moved = tuple(each.model_copy(update={"step": places.get(each.step or 0, each.step)}) for each in assets)
    return Plan(steps=renumbered, reasoning=thinking, assets=moved)


def _listed_steps(plan: Mapping[str, Any]) -> list[PlanStep]:
    steps = plan.get(PLAN_KEYS[0])
    if not isinstance(steps, list):
        raise UnreadableLiteral(f'the answer must be one object with a list under "{PLAN_KEYS[0]}"')
    if not steps:
        raise UnreadableLiteral("the plan has no steps")
    numbered = [require_object(step, f"step {position}") for position, step in enumerate(steps, start=1)]
    if not any("step_number" in step for step in numbered):
        numbered = [{**step, "step_number": position} for position, step in enumerate(numbered, start=1)]
    return [_step(step) for step in numbered]


def _chapter(value: Any, thinking: str, before: Plan | None) -> Plan:
    fields = require_object(value, "a chapter")
    finished = fields.get("finished", False)
    if isinstance(finished, str):
        finished = _TRUTHS.get(finished.strip().lower())
    if not isinstance(finished, bool):
        raise UnreadableLiteral('"finished" must be true or false')
    summary = _text(fields, "summary", 0) or ""
    number = before.chapter.number + 1 if before and before.chapter else 1
    chapter = Chapter(number=number, summary=summary, is_last=finished)
    if before is None:
        plan = read_plan(value, thinking)
        began = chapter.model_copy(update={"first": plan.steps[0].number})
        return plan.model_copy(update={"chapter": began})
    known = {asset.name.lower() for asset in before.assets}
    if fields.get(PLAN_KEYS[0]) == [] and finished:
        return before.continued((), before.assets, chapter)
    first = before.steps[-1].number + 1
    chapter = chapter.model_copy(update={"first": first})
    steps = _moved_to(first, _without_gaps(_listed_steps(fields), earlier=first - 1))
    new = tuple(asset for asset in _assets(fields.get(ASSETS_KEY)) if asset.name.lower() not in known)
    return before.continued(steps, (*before.assets, *new), chapter)


def _moved_to(first: int, steps: tuple[PlanStep, ...]) -> tuple[PlanStep, ...]:
    """Return the steps numbered from `first` on, with the steps that they name renumbered."""
    move = first - steps[0].number
    own = {step.number for step in steps}

    def moved(numbers: tuple[int, ...] | None) -> tuple[int, ...] | None:
        return None if numbers is None else tuple(n + move if n in own else n for n in numbers)

    return tuple(
        step.model_copy(
            update={"number": step.number + move, "sources": moved(step.sources), "needs": moved(step.needs)}
        )
        for step in steps
    )


def _assets(value: Any) -> tuple[Asset, ...]:
    """Return the assets of a plan, given as objects with a name or as names with descriptions."""
    if value is None:
        return ()
    if isinstance(value, dict):
        value = [{"name": name, "description": said} for name, said in value.items()]
    if not isinstance(value, list):
        raise UnreadableLiteral(f'"{ASSETS_KEY}" must be a list of objects with a "name"')
    assets = []
    for each in value:
        fields = {"name": each} if isinstance(each, str) else dict(require_object(each, "an asset"))
        known = {key: fields[key] for key in Asset.model_fields if fields.get(key) is not None}
        assets.append(Asset.model_validate(known))
    return tuple(assets)


def _without_gaps(steps: Sequence[PlanStep], earlier: int = 0) -> tuple[PlanStep, ...]:
    """Return the steps numbered consecutively, if their numbers only have gaps.

    Steps up to `earlier` were planned before, and may be named.
    """
    numbers = [step.number for step in steps]
    if numbers[-1] - numbers[0] == len(numbers) - 1 or any(a >= b for a, b in pairwise(numbers)):
        return tuple(steps)  # no gap, or no order, which `Plan` refuses
    renumbered = {number: number for number in range(1, earlier + 1)}
    renumbered |= {number: numbers[0] + position for position, number in enumerate(numbers)}
    named = {number for step in steps for number in (*(step.sources or ()), *(step.needs or ()))}
    if unknown := named - renumbered.keys():
        raise UnreadableLiteral(f"a step starts from step {min(unknown)}, and the plan has no such step")

    def moved(numbers: tuple[int, ...] | None) -> tuple[int, ...] | None:
        return None if numbers is None else tuple(map(renumbered.__getitem__, numbers))

    return tuple(
        step.model_copy(
            update={
                "number": renumbered[step.number],
                "sources": moved(step.sources),
                "needs": moved(step.needs),
            }
        )
        for step in steps
    )


def _step(fields: Mapping[str, Any]) -> PlanStep:
    number = _whole(fields.get("step_number"))
    return PlanStep(
        number=number,
        name=_text(fields, "step_name", number),
        instruction=_text(fields, "instruction", number),
        prompt=_text(fields, "prompt", number),
        caption=_text(fields, "auxiliary_text", number),
        sources=_step_numbers(fields, "sources", number),
        assets=_shown_assets(fields.get(ASSETS_KEY), number),
        scene=_text(fields, "scene", number),
        needs=_step_numbers(fields, "needs", number),
        lettering=_lettering(fields[LETTERING_KEY], number) if LETTERING_KEY in fields else None,
    )


def _lettering(value: Any, number: int) -> tuple[Lettering, ...] | None:
    """Return the words upon the image of a step; entries without text are left out."""
    if value is None:
        return None
    if not isinstance(value, list):
        raise UnreadableLiteral(f'"{LETTERING_KEY}" of step {number} must be a list')
    found = []
    for each in value:
        fields = require_object(each, f'an entry of "{LETTERING_KEY}" of step {number}')
        if fields.get("kind") not in _KINDS:
            raise UnreadableLiteral(
                f'"kind" of "{LETTERING_KEY}" of step {number} must be one of {", ".join(_KINDS)}'
            )
        if text := _text(fields, "text", 0):
            target = _text(fields, "target", 0) or ""
            found.append(Lettering(kind=fields["kind"], text=text, target=target))
    return tuple(found) or None


def _step_numbers(fields: Mapping[str, Any], key: str, number: int) -> tuple[int, ...] | None:
    value = fields.get(key)
    if value is None:
        return None
    if not (isinstance(value, list) and all(type(item) is int for item in value)):
        raise UnreadableLiteral(f'"{key}" of step {number} must be a list of step numbers')
    return tuple(value)


def _shown_assets(value: Any, number: int) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise UnreadableLiteral(f'"{ASSETS_KEY}" of step {number} must be a list of names')
    return tuple(value)


def _whole(value: Any, key: str = "step_number") -> int:
    """Return a step's number, which some models write as a text."""
    if isinstance(value, str) and _DIGITS.fullmatch(value.strip()):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise UnreadableLiteral(f'"{key}" must be a whole number, not {value!r:.60}')
    return value


def _text(fields: Mapping[str, Any], key: str, number: int) -> str | None:
    value = fields.get(key)
    if value is None:
        return None
    if not isinstance(value, str):
        raise UnreadableLiteral(
            f'"{key}" of step {number} must be a text or null, not {type(value).__name__}'
        )
    text = strip_step_prefix(value.strip(), number)
    return None if text.lower() in _ABSENT else text


def strip_step_prefix(text: str, number: int) -> str:
    """Return the text without a leading "Step 3:", and without "(3)" or "3." if that is the step's number.

    A text of several lines, or one that continues with the next number, is a list and stays unchanged.
    """
    end, following = 0, set[str]()
    while (label := _LABEL.match(text, end)) and (label["named"] or _number(label) == str(number)):
        end = label.end()
        following.add(str(int(_number(label)) + 1))
    if "\n" in text[end:] or any(_number(later) in following for later in _LABEL.finditer(text, end)):
        return text
    return text[end:] or text


def _number(label: re.Match[str]) -> str:
    return label[label.lastindex or 0]


def _verdict(value: Any, thinking: str) -> Verdict:
    fields = require_object(value, "a verdict")
    judgement = _truth(_only(fields, JUDGEMENT_KEYS))
    if not isinstance(judgement, bool):
        raise UnreadableLiteral(f'"{JUDGEMENT_KEYS[0]}" must be true or false, not {judgement!r:.60}')
    refined = _refinement(fields)
    if not judgement and (phrase := contradiction_in(thinking)):
        raise UnreadableLiteral(f"the picture is refused for what is right ({phrase}): look again")
    outcome = Outcome.ACCEPTED if judgement else Outcome.REJECTED
    return Verdict(outcome=outcome, reasoning=thinking, refined_prompt=None if judgement else refined)


def _refinement(fields: Mapping[str, Any]) -> str | None:
    refined = _only(fields, REFINEMENT_KEYS)
    if refined is not None and not isinstance(refined, str):
        raise UnreadableLiteral(f'"{REFINEMENT_KEYS[0]}" must be a text, not {type(refined).__name__}')
    return None if refined is None or refined.strip().lower() in _ABSENT else refined.strip()


def _truth(value: Any) -> Any:
    """Return the value, with the texts "true" and "false" converted."""
    return _TRUTHS.get(value.strip().lower(), value) if isinstance(value, str) else value


def _findings(value: Any, thinking: str) -> tuple[Finding, ...]:
    listed = require_object(value, "an audit").get(FINDING_KEYS[0])
    if not isinstance(listed, list):
        raise UnreadableLiteral(f'"{FINDING_KEYS[0]}" must be a list, empty when all is well')
    found: dict[int, Finding] = {}
    for each in listed:
        fields = require_object(each, "a finding")
        number = _whole(fields.get("step"), "step")
        finding = Finding(
            step=number,
            reasoning=_text(fields, "problem", number) or "",
            prompt=_text(fields, "prompt", number),
            assets=_shown_assets(fields.get(ASSETS_KEY), number) or (),
        )
        found.setdefault(number, finding)
    return tuple(found.values())


def _marks(value: Any, thinking: str) -> tuple[float, float]:
    marks = require_object(value, "a score").get(SCORE_KEYS[0])
    if not isinstance(marks, list) or len(marks) != 2:
        raise UnreadableLiteral('"score" must be a list of two numbers from 0 to 10')
    for mark in marks:
        if isinstance(mark, bool) or not isinstance(mark, int | float) or not 0 <= mark <= 10:
            raise UnreadableLiteral(f'"score" must hold numbers from 0 to 10, not {mark!r:.60}')
    return float(marks[0]), float(marks[1])


def _only(fields: Mapping[str, Any], spellings: tuple[str, ...]) -> Any:
    """Return the value under any spelling of a key. Raises if two values differ."""
    values = [fields[key] for key in spellings if key in fields]
    if any(type(value) is not type(values[0]) or value != values[0] for value in values[1:]):
        raise UnreadableLiteral(f"{' and '.join(spellings)} contradict each other")
    return values[0] if values else None


def require_object(value: Any, what: str) -> Mapping[str, Any]:
    """Return `value` if it is an object, else raise `UnreadableLiteral`."""
    if not isinstance(value, dict):
        raise UnreadableLiteral(f"{what} must be an object in curly brackets, not a {type(value).__name__}")
    return value


def _clean(thinking: str) -> str:
    """Return the reasoning without tags and without characters that a file cannot store."""
    storable = thinking.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")
    return _TAG.sub(r"[\1\2]", storable).strip()


def _explain(error: ValueError) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(_WIRE_NAMES.get(str(piece), str(piece)) for piece in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        return f"{place}: {message}" if place else message
    return str(error)


_CONTRAST = re.compile(r"\b(?:instead of|rather than|in place of)\b|, not\b", re.IGNORECASE)
_WORD_OR_MARK = re.compile(r"\w+(?:['’-]\w+)*|[.;:!?,\n]")
_ENDS = frozenset(".;:!?\n")
_ARTICLES = frozenset(("a", "an", "the", "any", "another"))
_STARTS = """is are was were be been has have had shows show showing contains contain there there's it's now
still only drew drawn painted placed see sees became becomes got stays remains that but because so as"""
_BEFORE = frozenset(_STARTS.split())
"""Words after which a phrase begins that extends up to "instead of"."""
_AFTER = frozenset(("but", "so", "because", "which", "while", "as", "therefore", "yet"))
"""Words that end a phrase, also after a comma. "and" may continue it."""
MAX_WORDS = 30
WINDOW = 400
"""Characters to read on either side. A phrase is short, and reasoning may be long."""


def contradiction_in(reasoning: str) -> str | None:
    """Return the first phrase that is contrasted with itself: "a blue butterfly instead of a blue butterfly".

    Weak critics write such sentences, and a rejection by one is no judgement. Only unambiguous cases are
    found: the same words, except for case and articles, on both sides of "instead of", as whole phrases. "A
    small blue ball instead of a blue ball" names a difference, as do "a cat and a dog instead of a dog", "an
    image of a dog instead of a dog" and "a dog instead of a dog on the left".
    """
    for contrast in _CONTRAST.finditer(reasoning):
        start, end = contrast.start() - WINDOW, contrast.end() + WINDOW
        before = ("\n" if start <= 0 else "") + reasoning[max(start, 0) : contrast.start()]
        after = reasoning[contrast.end() : end] + ("\n" if end >= len(reasoning) else "")
        wanted = _phrase_after(_tokens(after))
        if wanted and _ends_with_phrase(_tokens(before), wanted):
            return " ".join((*wanted, contrast[0].strip(", ").lower(), *wanted))
    return None


def _tokens(text: str) -> list[str]:
    return [token for token in _WORD_OR_MARK.findall(text.lower()) if token not in _ARTICLES]


def _phrase_after(tokens: list[str]) -> list[str]:
    """Return the words up to the end of their clause. Empty if the clause continues after a comma."""
    for place, token in enumerate(tokens[:MAX_WORDS]):
        if token in _ENDS or token in _AFTER:
            return tokens[:place]
        if token == ",":
            ended = place + 1 < len(tokens) and tokens[place + 1] in _AFTER
            return tokens[:place] if ended else []
    return []


def _ends_with_phrase(tokens: list[str], phrase: list[str]) -> bool:
    """Return whether the tokens end with `phrase` as a whole phrase."""
    start = len(tokens) - len(phrase)
    if start <= 0 or tokens[start:] != phrase:
        return False
    return tokens[start - 1] in _ENDS or tokens[start - 1] in _BEFORE
