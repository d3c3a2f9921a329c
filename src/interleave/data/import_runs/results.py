"""Result files of the reference's benchmark: a list of answers, each with its pictures and joined text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interleave.data.import_runs.pictures import find_picture
from interleave.data.import_runs.records import text_step
from interleave.data.import_runs.values import UNKNOWN_PROMPT, ImportedAttempt, ImportedRun
from interleave.errors import InputError
from interleave.types import Plan, PlanStep


@dataclass(frozen=True)
class Answer:
    """One item of a result file."""

    id: str
    asked: str
    text: str | None
    pictures: tuple[str, ...]


def is_result_list(value: Any) -> bool:
    """Whether a JSON value is such a list: this tells it from other files that lie about."""
    return isinstance(value, list) and any(
        isinstance(item, dict) and "prompt" in item and ("image_answer" in item or "text_answer" in item)
        for item in value
    )


def read_answer(item: Any) -> Answer:
    """An item, checked."""
    if not isinstance(item, dict):
        raise InputError(f"it is a {type(item).__name__}, not an object")
    identity, asked = item.get("id"), item.get("prompt")
    if isinstance(identity, bool) or not isinstance(identity, str | int):
        raise InputError(f'its "id" is {identity!r:.40}, neither a text nor a whole number')
    if not isinstance(asked, str) or not asked.strip():
        raise InputError('it has no "prompt"')
    text, pictures = item.get("text_answer"), item.get("image_answer") or []
    if text is not None and not isinstance(text, str):
        raise InputError(f'its "text_answer" is a {type(text).__name__}, not a text')
    if not isinstance(pictures, list) or not all(isinstance(name, str) for name in pictures):
        raise InputError('its "image_answer" is not a list of paths')
    return Answer(str(identity), asked, text, tuple(pictures))


def run_of(answer: Answer, beside: Path, root: Path, *, source: str, time: float) -> ImportedRun:
    """A run from the answer alone: its pictures without the prompts that made them."""
    found = [find_picture(name, beside, root) for name in answer.pictures]
    steps = [PlanStep(number=number, prompt=UNKNOWN_PROMPT) for number in range(1, len(found) + 1)]
    attempts = [ImportedAttempt(number, UNKNOWN_PROMPT, path) for number, path in enumerate(found, start=1)]
    every = (*steps, *text_step(answer.text, len(found) + 1))
    if not every:
        raise InputError("it has neither pictures nor text")
    warning = (
        "prompts, attempts and judgements were not recorded: fit to be looked at, not to learn prompts from"
    )
    return ImportedRun(source, (answer.asked,), Plan(steps=every), tuple(attempts), (warning,), time)
