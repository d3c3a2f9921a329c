"""The plan of a run as an editable JSON file; a held run has it in `plan.json`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from interleave.errors import InputError, RunError
from interleave.files import read_from, write_atomic
from interleave.runs.folder import IMAGES_FOLDER as IMAGES
from interleave.runs.record import PLAN_NAME, RunRecord
from interleave.types import Plan


def plan_text(plan: Plan, request: Iterable[dict[str, str]]) -> str:
    """Return a plan with its request as JSON text."""
    return json.dumps(plan_value(plan, request), ensure_ascii=False, indent=2)


def plan_value(plan: Plan, request: Iterable[dict[str, str]]) -> dict[str, Any]:
    """Return a plan with its request as JSON; sources, assets and scenes only if a step has them."""
    value: dict[str, Any] = {
        "request": list(request),
        **plan.model_dump(mode="json", exclude={"steps": {"__all__": {"sources"}}}),
    }
    for step, shown in zip(plan.steps, value["steps"], strict=True):
        if step.sources is not None:
            shown["sources"] = list(step.sources)
    return value


def numbered_steps(steps: list[dict[str, Any]], first: int) -> list[dict[str, Any]]:
    """Number edited steps by position, and update their `sources` and `needs` to the new numbers.

    Steps can thus be added, moved and deleted freely. A step without a number gets that of its position.
    """
    places = _places(steps, first)
    return [
        {**step, "number": first + place, **_moved(step, places, first + place)}
        for place, step in enumerate(steps)
    ]


def moved_assets(assets: Any, steps: list[dict[str, Any]], first: int) -> Any:
    """Return the assets of an edited plan, with the new numbers of the steps that they are taken from."""
    if not isinstance(assets, list):
        return assets  # the check of the plan reports it
    places, moved = _places(steps, first), []
    for asset in assets:
        step = asset.get("step") if isinstance(asset, dict) else None
        if step is not None and step not in places:
            raise InputError(f"the asset {asset.get('name')!r} is taken from missing step {step}")
        moved.append(asset if step is None else {**asset, "step": places[step]})
    return moved


def _places(steps: list[dict[str, Any]], first: int) -> dict[Any, int]:
    """Return the new number of each step by its old number."""
    given = (step.get("number") for step in steps)
    before = [number if type(number) is int else first + place for place, number in enumerate(given)]
    return {number: first + place for place, number in enumerate(before)}


def _moved(step: dict[str, Any], places: dict[Any, int], number: int) -> dict[str, Any]:
    """Return the `sources` and `needs` of a step with the new numbers."""
    moved = {}
    for key, does in (("sources", "starts from"), ("needs", "needs")):
        named = step.get(key)
        if not isinstance(named, list) or not all(type(each) is int for each in named):
            continue  # the check of the plan reports it
        if gone := [each for each in named if each not in places]:
            raise InputError(f"step {number} {does} step {gone[0]}, which is not in the plan")
        moved[key] = [places[each] for each in named]
    return moved


def write_plan_file(folder: Path, record: RunRecord) -> Path:
    """Write the plan of a held run into its folder, unless the file exists and may have been edited."""
    path = folder / PLAN_NAME
    if record.plan is not None and not path.exists():
        write_atomic(path, _text_of(record, record.plan).encode() + b"\n")
    return path


def refuse_edited(folder: Path, record: RunRecord) -> None:
    """Refuse to release the planner's plan if `plan.json` differs from it."""
    path = folder / PLAN_NAME
    try:
        written = read_from(path)
    except OSError:
        return
    if record.plan is not None and written.strip() != _text_of(record, record.plan).encode():
        raise RunError(
            f"{path} has been edited: draw it with plan={path}, or delete it to draw the planner's version"
        )


def plan_of_record(record: RunRecord) -> dict[str, Any] | None:
    """Return the plan of a run with its request; images have paths relative to the run folder."""
    return plan_value(record.plan, _parts(record)) if record.plan else None


def _text_of(record: RunRecord, plan: Plan) -> str:
    return plan_text(plan, _parts(record))


def _parts(record: RunRecord) -> list[dict[str, str]]:
    return [
        {"image": f"{IMAGES}/{part.image}"} if part.image else {"text": part.text or ""}
        for part in record.request
    ]
