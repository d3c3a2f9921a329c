"""Edits of the words of a document: title, order, and names, texts and alternative texts of the steps.

`words_of` returns all words as one JSON value for a person to edit. `words_line` turns what differs from the
document into one line of the journal. No model is called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from interleave.errors import InputError, first_problem
from interleave.redaction import secret_in
from interleave.runs.decisions import DecidedRun, refuse_undecidable
from interleave.runs.document_layer import DocumentLayer
from interleave.runs.journal import DocumentEdited, Words
from interleave.runs.record import RunRecord
from interleave.types import PlanStep


def words_of(record: RunRecord) -> dict[str, Any]:
    """Return all words of a document as JSON; `alt` is null if it is the text of the step."""
    layer = record.words or DocumentLayer()
    steps = {step.plan.number: step.plan for step in record.steps}
    order = layer.in_order(steps)
    shown = [_words_of_step(steps[number], layer) for number in order]
    return {"title": record.title, "order": order, "steps": shown}


def _words_of_step(planned: PlanStep, layer: DocumentLayer) -> dict[str, Any]:
    own = layer.of(planned.number)
    return {
        "number": planned.number,
        "name": own.name_of(planned),
        "text": own.text_of(planned),
        "alt": own.alt,
        "hidden": own.hidden,
        "lettering": [each.model_dump(mode="json") for each in own.lettering_of(planned)],
    }


def words_given(
    document: Mapping[str, Any] | None, step: int | None, of_step: Mapping[str, Any], **others: Any
) -> dict[str, Any]:
    """Return an edit as JSON: a whole document, if given, with the changes of one step and of `others`."""
    given = {**(document or {}), **{key: value for key, value in others.items() if value not in (None, [])}}
    changes = {key: value for key, value in of_step.items() if value is not None}
    if changes and step is None:
        raise InputError("a name, text, alternative text or visibility needs the number of its step")
    if changes and isinstance(steps := given.get("steps", []), list):
        given["steps"] = [*steps, {"number": step, **changes}]
    return given


def words_line(run: DecidedRun, given: Mapping[str, Any], *, by: str = "") -> DocumentEdited:
    """Check an edit and return its line: the fields of `Words` that differ from the document.

    A line that changes nothing is not journalled.
    """
    refuse_undecidable(run)
    try:
        words = Words.model_validate(_changed(given, words_of(run.record)))
    except ValidationError as error:
        raise InputError(f"the words cannot be used: {first_problem(error)}") from None
    if problem := next(_problems(words, run), None):
        raise InputError(problem)
    layer, numbers = run.steering.layer, [step.plan.number for step in run.record.steps]
    new_order = layer.model_copy(update={"order": words.order or layer.order}).in_order(numbers)
    outdated = {step.plan.number for step in run.record.steps if step.words_for is not None}
    return DocumentEdited(
        by=by,
        title=words.title,
        order=words.order if new_order != layer.in_order(numbers) else (),
        steps=words.steps,
        keep=tuple(number for number in words.keep if number in outdated),
    )


def _changed(given: Mapping[str, Any], current: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that differ from the current ones, which may be longer than a person's may be."""
    changed = {key: value for key, value in given.items() if value != current.get(key, ...)}
    if isinstance(steps := changed.get("steps"), list | tuple):
        words = {step["number"]: step for step in current["steps"]}
        different = [_changed_step(step, words) for step in steps]
        changed["steps"] = [
            step for step in different if not isinstance(step, dict) or step.keys() != {"number"}
        ]
    return changed


def _changed_step(step: Any, words: Mapping[int, Mapping[str, Any]]) -> Any:
    if not isinstance(step, Mapping) or not isinstance(number := step.get("number"), int):
        return step  # validation reports it
    current = dict(words.get(number, {}), number=None)
    if current.get("alt", "") is None and step.get("alt") == "":
        current["alt"] = ""  # both mean the text of the step
    return {key: value for key, value in step.items() if value != current.get(key, ...)}


def _problems(words: Words, run: DecidedRun) -> Iterator[str]:
    steps = {step.plan.number: step.plan for step in run.record.steps}
    for number in words.named_steps:
        if number not in steps:
            yield f"no step {number}: the plan has steps {min(steps)} to {max(steps)}"
    for numbers in (words.order, words.keep, [each.number for each in words.steps]):
        for number, times in Counter(numbers).items():
            if times > 1:
                yield f"step {number} is named twice: name it once"
    if words.title is not None and not words.title.strip():
        yield "the title is blank: write one"
    if variable := secret_in(words.model_dump_json()):
        yield f"the words contain the key in {variable}: remove it"
    layer = run.steering.layer.edited(words, steps.values())
    for each in words.steps:
        planned = steps[each.number]
        if planned.prompt is None and each.alt:
            yield f"step {each.number} has no image, so it takes no alternative text"
        if planned.prompt is None and each.lettering:
            yield f"step {each.number} has no image, so it takes no lettering"
        if planned.prompt is None and not layer.text_of(planned).strip():
            yield f"step {each.number} is text only and would have no text: hide it instead"
    if all(layer.of(number).hidden for number in steps):
        yield "no step would be shown: leave at least one"
