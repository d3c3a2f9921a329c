"""`plan.json`: the plan of a held run, to be edited by hand and given back."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from interleave.errors import RunError
from interleave.files import read_from, write_atomic
from interleave.runs.record import PLAN_NAME, RunRecord
from interleave.runs.store import FOLDER as IMAGES
from interleave.types import Plan


def plan_text(plan: Plan, request: Iterable[dict[str, str]]) -> str:
    """A plan with its request as JSON; sources only where a step names them."""
    value: dict[str, Any] = {
        "request": list(request),
        **plan.model_dump(mode="json", exclude={"steps": {"__all__": {"sources"}}}),
    }
    for step, shown in zip(plan.steps, value["steps"], strict=True):
        if step.sources is not None:
            shown["sources"] = list(step.sources)
    return json.dumps(value, ensure_ascii=False, indent=2)


def write_plan_file(folder: Path, record: RunRecord) -> Path:
    """Write the plan of a held run into its folder, unless a person may have edited it there already."""
    path = folder / PLAN_NAME
    if record.plan is not None and not path.exists():
        write_atomic(path, _text_of(record, record.plan).encode() + b"\n")
    return path


def refuse_edited(folder: Path, record: RunRecord) -> None:
    """Refuse to release the planner's plan where the file in the folder says something else."""
    path = folder / PLAN_NAME
    try:
        written = read_from(path)
    except OSError:
        return
    if record.plan is not None and written.strip() != _text_of(record, record.plan).encode():
        raise RunError(
            f"{path} is not as the planner wrote it: draw it with --plan {path}, "
            "or delete it to draw the plan as it was"
        )


def _text_of(record: RunRecord, plan: Plan) -> str:
    parts = [
        {"image": f"{IMAGES}/{part.image}"} if part.image else {"text": part.text or ""}
        for part in record.request
    ]
    return plan_text(plan, parts)
