"""Routes for decisions about jobs. Each returns the Response of the reopened or new job."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any

from fastapi import Path
from pydantic import ValidationError
from starlette.responses import Response

from interleave import InputError, Plan
from interleave.plugin import Value, first_problem, runs
from interleave.service.documents import schemas as wire
from interleave.service.documents.bodies import json_body, json_object
from interleave.service.documents.job_decisions import DecisionRequest, Decisions
from interleave.service.documents.jobs import Decision
from interleave.service.documents.refusals import ApiRefusal
from interleave.service.documents.responses import answer
from interleave.service.documents.routes import IDEMPOTENT, RequestContext, Router, SubmitCall
from interleave.service.documents.submissions import parameters_of

router = Router(prefix="/v1/documents/{id}", dependencies=IDEMPOTENT)
StepNumber = Annotated[int, Path(ge=0, le=999_999)]
Line = Callable[[runs.DecidedRun], Decision]


def _asked(call: RequestContext, id_: str, body: Value | Mapping[str, Any]) -> DecisionRequest:
    """Return the request with the digest of its body, for its idempotency key."""
    given = body.model_dump(mode="json", exclude_unset=True) if isinstance(body, Value) else body
    said = json.dumps([call.request.url.path, given], sort_keys=True)
    digest = hashlib.sha256(said.encode()).hexdigest()
    return DecisionRequest(call.caller, id_, digest, call.idempotency_key, call.request_id)


async def decide(call: RequestContext, id_: str, body: Value | Mapping[str, Any], line: Line) -> Response:
    """Make a decision about a job; return the Response of the reopened job."""
    return await answer(call, await Decisions(call.documents).decide(_asked(call, id_, body), line))


@router.post("/plan/release", response_model=wire.ResponseObject)
async def release(
    call: SubmitCall, id: str, body: Annotated[dict[str, Any], json_object(wire.Release)]
) -> Response:
    """Release the held plan: unchanged with `{}`, edited with `{"plan": {"steps": […]}}`."""
    given, by = parameters_of(body, ("plan",)), call.caller.key
    plan = given.take("plan")
    given.refuse_unknown()
    return await decide(
        call, id, body, lambda run: runs.release_line(run, None if plan is None else _plan(plan, run), by=by)
    )


@router.post("/steps/{step}/redraw", response_model=wire.ResponseObject)
async def redraw(
    call: SubmitCall, id: str, step: StepNumber, body: Annotated[wire.Redraw, json_body(wire.Redraw)]
) -> Response:
    """Redraw a step."""
    given: dict[str, Any] = {"prompt": body.prompt, "seed": body.seed, "only_step": bool(body.only_step)}
    line = partial(runs.redraw_line, step=step, **given, generator=None, by=call.caller.key)
    return await decide(call, id, body, line)


@router.post("/steps/{step}/choose", response_model=wire.ResponseObject)
async def choose(
    call: SubmitCall, id: str, step: StepNumber, body: Annotated[wire.Choose, json_body(wire.Choose)]
) -> Response:
    """Show another attempt."""
    given: dict[str, Any] = {"attempt": body.attempt, "only_step": bool(body.only_step)}
    return await decide(call, id, body, partial(runs.choice_line, step=step, **given, by=call.caller.key))


@router.post("/words", response_model=wire.ResponseObject)
async def words(
    call: SubmitCall, id: str, body: Annotated[dict[str, Any], json_object(wire.EditedWords)]
) -> Response:
    """Change what the document shows: title, headings, texts, alternative texts, order and visibility.

    No model is called, and the job stays ended.
    """
    changes = {name: value for name, value in body.items() if value is not None}
    return await decide(call, id, body, partial(runs.words_line, given=changes, by=call.caller.key))


@router.post("/undo", response_model=wire.ResponseObject)
async def undo(call: SubmitCall, id: str, body: Annotated[wire.Nothing, json_body(wire.Nothing)]) -> Response:
    """Undo the last redraw, choice or edit of words."""
    return await decide(call, id, body, partial(runs.undo_line, by=call.caller.key))


@router.post("/continue", response_model=wire.ResponseObject)
async def resume(
    call: SubmitCall, id: str, body: Annotated[wire.Nothing, json_body(wire.Nothing)]
) -> Response:
    """Resume a stopped or failed job."""
    return await answer(call, await Decisions(call.documents).resume(_asked(call, id, body)))


@router.post("/branch", response_model=wire.ResponseObject)
async def branch(
    call: SubmitCall, id: str, body: Annotated[wire.BranchOff, json_body(wire.BranchOff)]
) -> Response:
    """Branch a new document from a step."""
    given: dict[str, Any] = {"prompt": body.prompt, "seed": body.seed, "by": call.caller.key}
    new = partial(runs.check_branch, step=body.step, **given)
    return await answer(call, await Decisions(call.documents).branch(_asked(call, id, body), new))


@router.post("/steps/{step}/add", response_model=wire.ResponseObject)
async def add(
    call: SubmitCall, id: str, step: StepNumber, body: Annotated[wire.NewStep, json_body(wire.NewStep)]
) -> Response:
    """Branch a new document with one more step, shown after this one; 0 for before all.

    Its image starts from the one before it. All other images stay.
    """
    given: dict[str, Any] = {"prompt": body.prompt, "text": body.text, "name": body.name}
    new = partial(runs.check_new_step, after=step, **given, by=call.caller.key)
    return await answer(call, await Decisions(call.documents).branch(_asked(call, id, body), new))


def _plan(value: Any, run: runs.DecidedRun) -> Plan:
    """Parse a client's plan; its steps are numbered by their position."""
    steps = value.get("steps") if isinstance(value, dict) else None
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise ApiRefusal(
            "plan must be an object with a list of steps, as returned by GET …/plan", parameter="plan"
        )
    held = run.record.plan
    first = held.steps[0].number if held else 1
    assets = value.get("assets")
    if assets is None:
        assets = [asset.model_dump() for asset in held.assets] if held else []
    try:
        numbered = {
            "steps": runs.numbered_steps(steps, first),
            "assets": runs.moved_assets(assets, steps, first),
        }
        kept = {"chapter": held.chapter, "notes": held.notes} if held else {}
        return Plan.model_validate({**kept, **value, **numbered})
    except InputError as error:
        raise ApiRefusal(f"plan: {error}", parameter="plan") from None
    except ValidationError as error:
        raise ApiRefusal(f"plan: {first_problem(error)}", parameter="plan") from None
