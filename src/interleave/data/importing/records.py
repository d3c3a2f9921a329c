"""`execution_record.json` of the reference, in its two shapes.

Data generation keeps every attempt, in order. The `refine_prompt` of a failed attempt is what comes next:
the prompt that made a picture is the `refine_prompt` of the record before it, or the planned prompt for the
first. Its benchmark keeps one picture a step, with the last prompt, and neither attempts nor judgements.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from interleave.agents.replies import parse_plan
from interleave.data.importing.pictures import bare_name, find_picture, is_white_canvas
from interleave.data.importing.values import ImportedAttempt, ImportedRun, Notes
from interleave.errors import InputError, InterleaveError
from interleave.types import Outcome, Plan, PlanStep, Verdict

MAX_BYTES = 50_000_000
_SEED = re.compile(r"step\d+_(\d{1,9})\.")


def read_json(path: Path) -> Any:
    """The value in a file; raises `InputError` with the reason where it is none."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"it has more than {MAX_BYTES:,} bytes")
        return json.loads(path.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InputError("it is not UTF-8") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"it is not JSON ({error})") from None
    except OSError as error:
        raise InputError(f"it cannot be read ({error.strerror})") from None


def read_record(path: Path, root: Path, *, source: str, asked: str | None, text: str | None) -> ImportedRun:
    """A run from a record of either shape; `asked` and `text` come from a result file, where there is one."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise InputError(f"it holds a {type(value).__name__}, not an object")
    if "steps" in value or "global_context" in value:
        return _of_attempts(value, path, root, source)
    return _of_steps(value, path, root, source, asked, text)


def _of_attempts(value: dict[str, Any], path: Path, root: Path, source: str) -> ImportedRun:
    notes = Notes()
    asked = value.get("user_input")
    if not isinstance(asked, str) or not asked.strip():
        raise InputError('it has no "user_input"')
    rows = value.get("steps")
    if not isinstance(rows, list) or not rows:
        raise InputError('it has no "steps": nothing was drawn')
    plan = _plan_of(value.get("global_context"), notes)
    attempts = _attempts(rows, plan, path, root, notes)
    plan, given = _with_sources(plan, rows, attempts, path, root, notes)
    return ImportedRun(source, (*given, asked), plan, tuple(attempts), tuple(notes.said), _time_of(path))


def _plan_of(context: Any, notes: Notes) -> Plan:
    if not isinstance(context, dict):
        raise InputError('it has no "global_context" with a plan')
    try:
        plan = parse_plan(json.dumps({"execution_plan": context.get("execution_plan")}))
    except InterleaveError as error:
        raise InputError(f"its plan cannot be read ({getattr(error, 'problem', error)})") from None
    reasoning = context.get("reasoning")
    if reasoning is not None and not isinstance(reasoning, str):
        notes.add(f'the "reasoning" of the plan is a {type(reasoning).__name__}, and was left out')
        reasoning = None
    return plan.model_copy(update={"reasoning": reasoning or ""})


def _attempts(rows: list[Any], plan: Plan, path: Path, root: Path, notes: Notes) -> list[ImportedAttempt]:
    planned = {step.number: step for step in plan.steps}
    next_prompt: dict[int, str] = {}
    attempts: list[ImportedAttempt] = []
    for place, row in enumerate(rows, start=1):
        where = f"record {place}"
        if not isinstance(row, dict):
            raise InputError(f"{where} is a {type(row).__name__}, not an object")
        number = _whole_number(row.get("step"), f'"step" of {where}')
        step = planned.get(number)
        if step is None or step.prompt is None:
            raise InputError(f"{where} is of step {number}, for which the plan has no picture")
        _refuse_jump(number, attempts, plan, where)
        if row.get("prompt") not in (None, "", step.prompt):
            notes.add(f"{where} names another planned prompt than the plan: the plan's was kept")
        verdict = _verdict(row, where, notes)
        picture = find_picture(row.get("target_img"), path.parent, root)
        used = next_prompt.get(number) or step.prompt
        attempts.append(ImportedAttempt(number, used, picture, verdict, _seed_of(picture)))
        next_prompt[number] = verdict.refined_prompt or next_prompt.get(number, "")
    return attempts


def _refuse_jump(number: int, attempts: list[ImportedAttempt], plan: Plan, where: str) -> None:
    drawn = {attempt.step for attempt in attempts}
    if attempts and number < attempts[-1].step:
        raise InputError(f"{where} goes back from step {attempts[-1].step} to step {number}")
    for step in plan.steps:
        if step.prompt is not None and step.number < number and step.number not in drawn:
            raise InputError(f"{where} is of step {number}, and step {step.number} before it was never drawn")


def _verdict(row: dict[str, Any], where: str, notes: Notes) -> Verdict:
    success, refined, reasoning = row.get("success"), row.get("refine_prompt"), row.get("reasoning")
    if refined is not None and not isinstance(refined, str):
        notes.add(f'the "refine_prompt" of {where} is a {type(refined).__name__}, and was left out')
        refined = None
    if not isinstance(reasoning, str):
        if reasoning is not None:
            notes.add(f'the "reasoning" of {where} is a {type(reasoning).__name__}, and was left out')
        reasoning = ""
    refined = (refined or "").strip() or None
    if not isinstance(success, bool):
        notes.add(f'the "success" of {where} is {success!r:.40}, neither true nor false: unjudged')
        return Verdict(outcome=Outcome.UNREADABLE, reasoning=reasoning, refined_prompt=refined)
    if success:
        return Verdict(outcome=Outcome.ACCEPTED, reasoning=reasoning)
    if refined is None:
        notes.add(f"{where} was rejected without another prompt")
    return Verdict(outcome=Outcome.REJECTED, reasoning=reasoning, refined_prompt=refined)


def _with_sources(
    plan: Plan, rows: list[Any], attempts: list[ImportedAttempt], path: Path, root: Path, notes: Notes
) -> tuple[Plan, tuple[Path, ...]]:
    """The plan with what each step was drawn from, and the user's own picture if the first step had one."""
    shown: dict[int, Path] = {}
    settled: set[int] = set()
    given: tuple[Path, ...] = ()
    sources: dict[int, tuple[int, ...]] = {}
    for row, attempt in zip(rows, attempts, strict=True):
        named = row.get("source_img")
        earlier = [number for number in shown if number < attempt.step]
        if not is_white_canvas(named):
            picture = find_picture(named, path.parent, root)
            made_by = [number for number in earlier if _same(shown[number], picture)]
            if not earlier and not (given and not _same(given[0], picture)):
                given = (picture,)
            elif not made_by:
                notes.add(
                    f"step {attempt.step} started from {bare_name(named)!r}, which no earlier step shows: "
                    "the picture before it stands in"
                )
            elif made_by[-1] != earlier[-1]:
                sources[attempt.step] = (made_by[-1],)
        elif earlier:
            notes.add(f"step {attempt.step} names a white canvas: the picture before it stands in")
        accepted = attempt.verdict is not None and attempt.verdict.accepted
        if accepted or attempt.step not in settled:
            shown[attempt.step] = attempt.picture
        settled |= {attempt.step} if accepted else set()
    steps = tuple(
        step.model_copy(update={"sources": sources[step.number]}) if step.number in sources else step
        for step in plan.steps
    )
    return Plan(steps=steps, reasoning=plan.reasoning), given


def _same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()


def _of_steps(
    value: dict[str, Any], path: Path, root: Path, source: str, asked: str | None, text: str | None
) -> ImportedRun:
    if not asked:
        raise InputError(
            "it does not say what was asked, and no result file beside it does: "
            "import the folder that holds both"
        )
    notes = Notes()
    numbers = sorted(_step_numbers(value))
    if not numbers:
        raise InputError("it has no steps")
    if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        raise InputError(f"its steps are {', '.join(map(str, numbers))}, and some are missing between")
    steps, attempts = [], []
    given: tuple[Path, ...] = ()
    for number in numbers:
        row = value[str(number)]
        if not isinstance(row, dict) or not isinstance(row.get("prompt"), str) or not row["prompt"].strip():
            raise InputError(f'step {number} has no "prompt"')
        refined = row.get("refine_prompt")
        used = refined.strip() if isinstance(refined, str) and refined.strip() else row["prompt"]
        attempts.append(ImportedAttempt(number, used, find_picture(row.get("target_img"), path.parent, root)))
        steps.append(PlanStep(number=number, prompt=row["prompt"]))
        if number == numbers[0] and not is_white_canvas(row.get("source_img")):
            given = (find_picture(row["source_img"], path.parent, root),)
    notes.add("attempts and judgements were not recorded: each step has its last picture, unjudged")
    plan = Plan(steps=(*steps, *text_step(text, numbers[-1] + 1)))
    return ImportedRun(source, (*given, asked), plan, tuple(attempts), tuple(notes.said), _time_of(path))


def text_step(text: str | None, number: int) -> Iterable[PlanStep]:
    """The text of an answer as a last step: the reference joins its captions, so none can be told apart."""
    return (PlanStep(number=number, caption=text),) if text and text.strip() else ()


def _step_numbers(value: dict[str, Any]) -> Iterable[int]:
    for key in value:
        if not key.isdecimal() or int(key) < 1:
            raise InputError(f"{key[:40]!r} is not the number of a step")
        yield int(key)


def _whole_number(value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{what} is {value!r:.40}, not a whole number")
    return value


def _seed_of(picture: Path) -> int:
    """The reference draws with the number in the picture's name as its seed."""
    found = _SEED.match(picture.name)
    return int(found[1]) if found else 0


def _time_of(path: Path) -> float:
    return round(path.stat().st_mtime, 3)
