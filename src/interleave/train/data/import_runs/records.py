"""Reads the reference's files: `execution_record.json` in its two formats, and benchmark result lists.

Data generation records every attempt, in order. The `refine_prompt` of a failed attempt is the next prompt:
the prompt of an image is the `refine_prompt` of the record before it, or the planned prompt for the first.
The benchmark records one image per step, with the last prompt, but neither attempts nor verdicts. Its result
list has answers, each with its images and joined text. No image outside the imported folder is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from interleave import InputError, InterleaveError, Outcome, Plan, PlanStep, Verdict
from interleave.plugin import agents, config, files

UNKNOWN_PROMPT = "(the prompt was not recorded)"
WHITE = "white"
"""File name, without suffix, of the reference's canvas for a step without a source."""
MAX_BYTES = 50_000_000
_STEP_NUMBER = re.compile(r"[1-9][0-9]{0,5}")
_SEED = re.compile(r"step\d+_(\d{1,9})\.")


@dataclass(frozen=True)
class ImportedAttempt:
    """An image with its prompt, verdict and seed."""

    step: int
    prompt: str
    image: Path
    verdict: Verdict | None = None
    seed: int = 0


@dataclass(frozen=True)
class ImportedRun:
    """One run of the reference, read and checked."""

    source: str
    """File relative to the imported folder; for result lists with the item's number."""
    request: tuple[str | Path, ...]
    plan: Plan
    attempts: tuple[ImportedAttempt, ...]
    warnings: tuple[str, ...] = ()
    time: float = 0.0


@dataclass
class Warnings:
    """Warnings about a record."""

    messages: dict[str, None] = field(default_factory=dict)
    """Messages without duplicates, in order: a record may have thousands."""

    def add(self, message: str) -> None:
        self.messages[message] = None


def find_image(name: Any, folder: Path, root: Path) -> Path:
    """Return the file of an image; raises `InputError` if it is missing or outside the imported folder.

    Records contain paths of the machine that made them, so an image is also searched by its file name.
    """
    if not isinstance(name, str) or not name.strip() or "\x00" in name:
        raise InputError(f"{name!r:.80} is not the path of an image")
    if "://" in name:
        raise InputError(f"{name[:80]!r} is a URL: images are not downloaded")
    outside = False
    for candidate in (folder / name, root / name, folder / bare_name(name)):
        try:
            if not candidate.resolve().is_relative_to(root.resolve()):
                outside = outside or candidate.exists()
            elif candidate.is_file():
                return candidate
        except (OSError, ValueError):
            continue
    if outside:
        raise InputError(f"the image {name[:80]!r} is outside {root} and is not read")
    raise InputError(f"the image {name[:80]!r} is missing")


def bare_name(name: str) -> str:
    """Return the last part of a POSIX or Windows path."""
    return PureWindowsPath(PurePosixPath(name).name).name


def is_white_canvas(name: Any) -> bool:
    """Return whether the source of a step means text-to-image."""
    if name is None or name == "":
        return True
    return isinstance(name, str) and bare_name(name).lower().partition(".")[0] == WHITE


def read_json(path: Path) -> Any:
    """Read the JSON value of a file; raises `InputError` with the reason if that fails."""
    try:
        return json.loads(files.read_bytes(path, most_bytes=MAX_BYTES).decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InputError("it is not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"it is not JSON ({error})") from None
    except OSError as error:
        raise InputError(f"it cannot be read ({files.why(error)})") from None


def read_record(
    path: Path, root: Path, *, source: str, request_text: str | None, text: str | None
) -> ImportedRun:
    """Read a run from a record of either format; `request_text` and `text` are those of a result file."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise InputError(f"it contains a {type(value).__name__}, not an object")
    if "steps" in value or "global_context" in value:
        return _run_from_attempts(value, path, root, source)
    return _run_from_steps(value, path, root, source, request_text, text)


def _run_from_attempts(value: dict[str, Any], path: Path, root: Path, source: str) -> ImportedRun:
    warnings = Warnings()
    request_text = value.get("user_input")
    if not isinstance(request_text, str) or not request_text.strip():
        raise InputError('it has no "user_input"')
    rows = value.get("steps")
    if not isinstance(rows, list) or not rows:
        raise InputError('it has no "steps": nothing was drawn')
    plan = _plan_of(value.get("global_context"), warnings)
    attempts = _attempts(rows, plan, path, root, warnings)
    plan, given = _with_sources(plan, rows, attempts, path, root, warnings)
    return ImportedRun(
        source, (*given, request_text), plan, tuple(attempts), tuple(warnings.messages), _time_of(path)
    )


def _plan_of(context: Any, warnings: Warnings) -> Plan:
    if not isinstance(context, dict):
        raise InputError('it has no "global_context" with a plan')
    try:
        plan = agents.parse_plan(json.dumps({"execution_plan": context.get("execution_plan")}))
    except InterleaveError as error:
        raise InputError(f"its plan cannot be read ({getattr(error, 'problem', error)})") from None
    reasoning = context.get("reasoning")
    if reasoning is not None and not isinstance(reasoning, str):
        warnings.add(f'the "reasoning" of the plan is a {type(reasoning).__name__}, and was left out')
        reasoning = None
    return plan.model_copy(update={"reasoning": reasoning or ""})


def _attempts(
    rows: list[Any], plan: Plan, path: Path, root: Path, warnings: Warnings
) -> list[ImportedAttempt]:
    planned = {step.number: step for step in plan.steps}
    order = _StepOrder(plan)
    next_prompt: dict[int, str] = {}
    attempts: list[ImportedAttempt] = []
    for place, row in enumerate(rows, start=1):
        where = f"record {place}"
        if not isinstance(row, dict):
            raise InputError(f"{where} is a {type(row).__name__}, not an object")
        number = _whole_number(row.get("step"), f'"step" of {where}')
        step = planned.get(number)
        if step is None or step.prompt is None:
            raise InputError(f"{where} is for step {number}, for which the plan has no image")
        order.take(number, where)
        if row.get("prompt") not in (None, "", step.prompt):
            warnings.add(f"{where} has another planned prompt than the plan, which was kept")
        verdict = _verdict(row, where, warnings)
        image = find_image(row.get("target_img"), path.parent, root)
        used = next_prompt.get(number) or step.prompt
        attempts.append(ImportedAttempt(number, used, image, verdict, _seed_of(image)))
        next_prompt[number] = verdict.refined_prompt or next_prompt.get(number, "")
    return attempts


class _StepOrder:
    """Checks that steps come in the order of the plan, each with a bounded number of attempts."""

    def __init__(self, plan: Plan) -> None:
        self._numbers = [step.number for step in plan.steps if step.prompt is not None]
        self._places = {number: place for place, number in enumerate(self._numbers)}
        self._current, self._attempts = -1, 0

    def take(self, number: int, where: str) -> None:
        """Count one more attempt of a step; raises `InputError` if the step is out of order."""
        place = self._places[number]
        if place < self._current:
            raise InputError(f"{where} goes back from step {self._numbers[self._current]} to step {number}")
        if place > self._current + 1:
            left_out = self._numbers[self._current + 1]
            raise InputError(f"{where} is for step {number}, but step {left_out} before it was never drawn")
        self._attempts = self._attempts + 1 if place == self._current else 1
        self._current = place
        if self._attempts > config.MOST_ATTEMPTS:
            raise InputError(
                f"step {number} has more than {config.MOST_ATTEMPTS} attempts, more than a run can have"
            )


def _verdict(row: dict[str, Any], where: str, warnings: Warnings) -> Verdict:
    success, refined, reasoning = row.get("success"), row.get("refine_prompt"), row.get("reasoning")
    if refined is not None and not isinstance(refined, str):
        warnings.add(f'the "refine_prompt" of {where} is a {type(refined).__name__}, and was left out')
        refined = None
    if not isinstance(reasoning, str):
        if reasoning is not None:
            warnings.add(f'the "reasoning" of {where} is a {type(reasoning).__name__}, and was left out')
        reasoning = ""
    refined = (refined or "").strip() or None
    if not isinstance(success, bool):
        warnings.add(f'the "success" of {where} is {success!r:.40}, neither true nor false: unjudged')
        return Verdict(outcome=Outcome.UNREADABLE, reasoning=reasoning, refined_prompt=refined)
    if success:
        return Verdict(outcome=Outcome.ACCEPTED, reasoning=reasoning)
    if refined is None:
        warnings.add(f"{where} was rejected without another prompt")
    return Verdict(outcome=Outcome.REJECTED, reasoning=reasoning, refined_prompt=refined)


def _with_sources(
    plan: Plan, rows: list[Any], attempts: list[ImportedAttempt], path: Path, root: Path, warnings: Warnings
) -> tuple[Plan, tuple[Path, ...]]:
    """Return the plan with the sources of each step, and the user's image if the first step had one."""
    given: tuple[Path, ...] = ()
    sources: dict[int, tuple[int, ...]] = {}
    made_by: dict[Path, int] = {}  # image → the last earlier step that shows it
    before: int | None = None
    for number, drawn in groupby(zip(rows, attempts, strict=True), key=lambda each: each[1].step):
        attempts_of_step = list(drawn)
        for row, _ in attempts_of_step:
            name = row.get("source_img")
            if is_white_canvas(name):
                if before is not None:
                    warnings.add(f"step {number} names a white canvas: replaced by the image before it")
                continue
            image = find_image(name, path.parent, root)
            maker = made_by.get(image.resolve())
            if before is None and (not given or given[0].resolve() == image.resolve()):
                given = (image,)
            elif maker is None:
                warnings.add(
                    f"step {number} started from {bare_name(name)!r}, which no earlier step shows: "
                    "replaced by the image before it"
                )
            elif maker != before:
                sources[number] = (maker,)
        made_by[_shown_image(attempt for _, attempt in attempts_of_step).resolve()] = number
        before = number
    steps = tuple(
        step.model_copy(update={"sources": sources[step.number]}) if step.number in sources else step
        for step in plan.steps
    )
    return Plan(steps=steps, reasoning=plan.reasoning), given


def _shown_image(attempts: Iterable[ImportedAttempt]) -> Path:
    """Return the image a step shows: the last accepted one, else the last one."""
    tried = list(attempts)
    accepted = [each for each in tried if each.verdict is not None and each.verdict.accepted]
    return (accepted or tried)[-1].image


def _run_from_steps(
    value: dict[str, Any], path: Path, root: Path, source: str, request_text: str | None, text: str | None
) -> ImportedRun:
    if not request_text:
        raise InputError(
            "neither it nor a result file next to it contains the request: import their common folder"
        )
    warnings = Warnings()
    rows = _steps_by_number(value)
    numbers = sorted(rows)
    if not numbers:
        raise InputError("it has no steps")
    if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        raise InputError(f"its steps are {', '.join(map(str, numbers))}, with gaps")
    steps, attempts = [], []
    given: tuple[Path, ...] = ()
    for number in numbers:
        row = rows[number]
        if not isinstance(row, dict) or not isinstance(row.get("prompt"), str) or not row["prompt"].strip():
            raise InputError(f'step {number} has no "prompt"')
        refined = row.get("refine_prompt")
        used = refined.strip() if isinstance(refined, str) and refined.strip() else row["prompt"]
        attempts.append(ImportedAttempt(number, used, find_image(row.get("target_img"), path.parent, root)))
        steps.append(PlanStep(number=number, prompt=row["prompt"]))
        if number == numbers[0] and not is_white_canvas(row.get("source_img")):
            given = (find_image(row["source_img"], path.parent, root),)
    warnings.add("attempts and judgements were not recorded: each step has its last image, unjudged")
    plan = Plan(steps=(*steps, *text_step(text, numbers[-1] + 1)))
    return ImportedRun(
        source, (*given, request_text), plan, tuple(attempts), tuple(warnings.messages), _time_of(path)
    )


def text_step(text: str | None, number: int) -> Iterable[PlanStep]:
    """Yield the text of an answer as a last step: the reference joins its captions into one."""
    return (PlanStep(number=number, caption=text),) if text and text.strip() else ()


def _steps_by_number(value: dict[str, Any]) -> dict[int, Any]:
    for key in value:
        if not _STEP_NUMBER.fullmatch(key):
            raise InputError(f"{key[:40]!r} is not the number of a step")
    return {int(key): row for key, row in value.items()}


def _whole_number(value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{what} is {value!r:.40}, not a whole number")
    return value


def _seed_of(image: Path) -> int:
    """Return the seed, which the reference puts into the image's name."""
    found = _SEED.match(image.name)
    return int(found[1]) if found else 0


def _time_of(path: Path) -> float:
    return round(path.stat().st_mtime, 3)


@dataclass(frozen=True)
class Answer:
    """One item of a result list."""

    id: str
    request_text: str
    text: str | None
    images: tuple[str, ...]


def is_result_list(value: Any) -> bool:
    """Return whether a JSON value is a result list and not some other file."""
    return isinstance(value, list) and any(
        isinstance(item, dict) and "prompt" in item and ("image_answer" in item or "text_answer" in item)
        for item in value
    )


def read_answer(item: Any) -> Answer:
    """Check one item of a result list."""
    if not isinstance(item, dict):
        raise InputError(f"it is a {type(item).__name__}, not an object")
    identity, request_text = item.get("id"), item.get("prompt")
    if isinstance(identity, bool) or not isinstance(identity, str | int):
        raise InputError(f'its "id" is {identity!r:.40}, neither a string nor a whole number')
    if not isinstance(request_text, str) or not request_text.strip():
        raise InputError('it has no "prompt"')
    text, images = item.get("text_answer"), item.get("image_answer") or []
    if text is not None and not isinstance(text, str):
        raise InputError(f'its "text_answer" is a {type(text).__name__}, not a string')
    if not isinstance(images, list) or not all(isinstance(name, str) for name in images):
        raise InputError('its "image_answer" is not a list of paths')
    return Answer(str(identity), request_text, text, tuple(images))


def run_from_answer(answer: Answer, folder: Path, root: Path, *, source: str, time: float) -> ImportedRun:
    """Build a run from an answer alone: images without their prompts."""
    found = [find_image(name, folder, root) for name in answer.images]
    steps = [PlanStep(number=number, prompt=UNKNOWN_PROMPT) for number in range(1, len(found) + 1)]
    attempts = [ImportedAttempt(number, UNKNOWN_PROMPT, path) for number, path in enumerate(found, start=1)]
    every = (*steps, *text_step(answer.text, len(found) + 1))
    if not every:
        raise InputError("it has neither images nor text")
    warning = (
        "prompts, attempts and judgements were not recorded: usable for viewing, not for training on prompts"
    )
    return ImportedRun(source, (answer.request_text,), Plan(steps=every), tuple(attempts), (warning,), time)
