"""`interleave models check SPEC --report`: a trial of a real model, and one file to send to us.

The file holds what was tried, what held, what did not, times, tokens and dollars, replies to our own tasks
and small copies of the images. It holds no key, no address, no user name and no path.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import time
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interleave import DocumentModel, load_generator, load_vlm
from interleave.diagnostics.budget import (
    Budget,
    BudgetedDocuments,
    BudgetedGenerator,
    BudgetedVlm,
    OutOfBudget,
)
from interleave.diagnostics.contract import Known, Result, Status, examine
from interleave.diagnostics.doctor import anonymous, gpus, machine
from interleave.diagnostics.trials import Trial, try_model
from interleave.plugin import RetriedVlm, Spec, backends, make_console, parse_spec, say, slug, write_atomic

if TYPE_CHECKING:
    from PIL.Image import Image

VERSION = 1
MAX_SECONDS, MAX_COST, MAX_CALLS = 600.0, 1.0, 80
THUMBNAIL = 128
MAX_TEXT = 4000
MARKS = {"held": "✓", "failed": "✗", "not tried": "–"}
CONTRACT = {Status.PASSED: "held", Status.FAILED: "failed", Status.SKIPPED: "not tried"}


def report_on(spec: str, role: str, *, max_cost: float, max_seconds: float, json_output: bool) -> int:
    """Try a model within the limits and write the report into the current folder; return the exit code."""
    budget = Budget(max_cost, max_seconds, MAX_CALLS)
    backend = _loaded(parse_spec(spec), role, budget)
    say(f"trying the {role} for at most {max_seconds:g} s, {MAX_CALLS} calls and ${max_cost:g}…")
    if not _knows_price(backend):
        say("its price is unknown, so the limit of dollars has no effect: the other two hold")
    trials = asyncio.run(_tried(role, backend, budget, show=not json_output))
    report = _report(spec, role, budget, trials)
    path = Path(f"interleave-report-{role}-{slug(_named(parse_spec(spec))) or 'model'}.json")
    write_atomic(path, anonymous(json.dumps(report, ensure_ascii=False, indent=1)).encode() + b"\n")
    if json_output:
        print(json.dumps({"report": str(path), **report["summary"]}))
    else:
        counts = ", ".join(f"{number} {name}" for name, number in report["summary"].items() if name in MARKS)
        make_console(stderr=False).print(f"{counts}\n{path}: read it, then send it to us", highlight=False)
    if all(trial.status == "not tried" for trial in trials):
        return 3
    return 1 if any(trial.status == "failed" for trial in trials) else 0


def _loaded(spec: Spec, role: str, budget: Budget) -> Any:
    """Return the backend of a spec within the budget, with retries."""
    if role == "generator":
        return BudgetedGenerator(backends.RetriedGenerator(str(spec), load_generator(spec)), budget)
    if backends.writes_documents(spec):
        return BudgetedDocuments(backends.load_agent(spec, "planner"), budget)
    return BudgetedVlm(RetriedVlm(str(spec), load_vlm(spec, role)), budget)


def _knows_price(backend: Any) -> bool:
    price = getattr(backend.capabilities, "price_per_image", None)
    return price is not None or bool(getattr(backend.capabilities, "knows_its_price", False))


async def _tried(role: str, backend: Any, budget: Budget, *, show: bool) -> list[Trial]:
    trials = []
    async for trial in _all(role, backend, budget):
        trials.append(trial)
        if show:
            why = f": {trial.reason}" if trial.reason else ""
            say(f"{MARKS[trial.status]} {trial.name} ({trial.seconds:.1f} s){why}")
    return trials


async def _all(role: str, backend: Any, budget: Budget) -> AsyncIterator[Trial]:
    """Yield the tasks of the role first, which tell most, then the contract."""
    async for trial in try_model(role, backend, budget):
        yield trial
    if isinstance(backend, DocumentModel):  # the contract has no checks of native systems
        return
    async for result in examine(backend, Known(role=role), quick=True):
        yield _of_contract(result)


def _of_contract(result: Result) -> Trial:
    status = CONTRACT[result.status]
    if OutOfBudget.MESSAGE in result.reason:
        status = "not tried"
    return Trial(f"contract: {result.check}", status, result.reason, result.seconds)


def _report(spec: str, role: str, budget: Budget, trials: list[Trial]) -> dict[str, Any]:
    summary: dict[str, Any] = {name: sum(trial.status == name for trial in trials) for name in MARKS}
    summary |= {
        "seconds": round(budget.seconds, 1),
        "calls": budget.calls,
        "cost": round(budget.cost, 4) if budget.is_cost_known else None,
        "tokens": budget.tokens,
    }
    return {
        "version": VERSION,
        "made": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": machine() | {"gpus": gpus()},
        "model": _named(parse_spec(spec)),
        "options": {key: _without_path(value) for key, value in parse_spec(spec).options.items()},
        "role": role,
        "limits": {"seconds": budget.max_seconds, "dollars": budget.max_cost, "calls": budget.max_calls},
        "summary": summary,
        "trials": [_as_json(trial) for trial in trials],
    }


def _named(spec: Spec) -> str:
    """Return backend and model, without an address or a path of this machine."""
    return f"{spec.name}:{_without_path(spec.model or '')}".rstrip(":")


def _without_path(value: str) -> str:
    return Path(value).name if value.startswith(("/", ".", "~")) else value


def _as_json(trial: Trial) -> dict[str, Any]:
    fields = {**asdict(trial), "images": [_thumbnail(image) for image in trial.images]}
    return {name: _shortened(value) for name, value in fields.items() if value not in ("", {}, [])}


def _shortened(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _shortened(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_shortened(each) for each in value]
    is_image = isinstance(value, str) and value.startswith("data:")
    return value[:MAX_TEXT] if isinstance(value, str) and not is_image else value


def _thumbnail(image: Image) -> str:
    small = image.convert("RGB")
    small.thumbnail((THUMBNAIL, THUMBNAIL))
    data = io.BytesIO()
    small.save(data, "JPEG", quality=80)
    return f"data:image/jpeg;base64,{base64.b64encode(data.getvalue()).decode()}"
