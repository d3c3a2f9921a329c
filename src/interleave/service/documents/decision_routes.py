"""Routes for decisions about jobs. Each returns the Response of the reopened or new job."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any

from fastapi import Depends, Path, Request
from pydantic import ValidationError
from starlette.responses import Response

from interleave import InputError, Plan
from interleave.plugin import Value, first_problem, runs
from interleave.service.documents import schemas as wire
from interleave.service.documents.bodies import json_body, json_object
from interleave.service.documents.job_decisions import Branch, DecisionRequest, Decisions
from interleave.service.documents.jobs import Decision
from interleave.service.documents.refusals import ApiRefusal
from interleave.service.documents.responses import Answer, answer_to
from interleave.service.documents.routes import IdempotencyKey, Router, caller_of, per_service
from interleave.service.documents.submissions import parameters_of
from interleave.service.http.middleware import REQUEST_ID

router = Router(prefix="/v1/documents/{id}")
StepNumber = Annotated[int, Path(ge=0, le=999_999)]
Line = Callable[[runs.DecidedRun], Decision]


class Deciding:
    """A decision about the job in the path."""

    def __init__(self, decisions: Decisions, answer: Answer, path: str, asked: DecisionRequest) -> None:
        self.decisions = decisions
        self.answer = answer
        self.path = path
        self.asked = asked

    @property
    def by(self) -> str:
        return self.asked.caller.key

    def about(self, body: Value | Mapping[str, Any]) -> DecisionRequest:
        """Return the request with the digest of its body, for its idempotency key."""
        given = body.model_dump(mode="json", exclude_unset=True) if isinstance(body, Value) else body
        said = json.dumps([self.path, given], sort_keys=True)
        return replace(self.asked, digest=hashlib.sha256(said.encode()).hexdigest())

    async def decide(self, body: Value | Mapping[str, Any], line: Line) -> Response:
        return await self.answer.whole(await self.decisions.decide(self.about(body), line))


_decisions = per_service(Decisions)


async def _deciding(request: Request, id: str, key: IdempotencyKey = None) -> Deciding:
    asked = DecisionRequest(
        caller=caller_of(request),
        job=id,
        digest="",
        idempotency_key=key,
        request_id=request.scope[REQUEST_ID],
    )
    return Deciding(await _decisions(request), await answer_to(request), request.url.path, asked)


OwnDeciding = Annotated[Deciding, Depends(_deciding)]


@router.post("/plan/release", response_model=wire.ResponseObject)
async def release(
    deciding: OwnDeciding, body: Annotated[dict[str, Any], json_object(wire.Release)]
) -> Response:
    """Release the held plan: unchanged with `{}`, edited with `{"plan": {"steps": […]}}`."""
    given = parameters_of(body, ("plan",))
    value = given.take("plan")
    given.refuse_unknown()
    return await deciding.decide(
        body,
        lambda run: runs.release_line(run, None if value is None else _plan(value, run), by=deciding.by),
    )


@router.post("/steps/{step}/redraw", response_model=wire.ResponseObject)
async def redraw(
    deciding: OwnDeciding, step: StepNumber, body: Annotated[wire.Redraw, json_body(wire.Redraw)]
) -> Response:
    """Redraw a step."""
    return await deciding.decide(
        body,
        lambda run: runs.redraw_line(
            run,
            step,
            prompt=body.prompt,
            seed=body.seed,
            generator=None,
            only_step=bool(body.only_step),
            by=deciding.by,
        ),
    )


@router.post("/steps/{step}/choose", response_model=wire.ResponseObject)
async def choose(
    deciding: OwnDeciding, step: StepNumber, body: Annotated[wire.Choose, json_body(wire.Choose)]
) -> Response:
    """Show another attempt."""
    return await deciding.decide(
        body,
        lambda run: runs.choice_line(run, step, body.attempt, only_step=bool(body.only_step), by=deciding.by),
    )


@router.post("/undo", response_model=wire.ResponseObject)
async def undo(deciding: OwnDeciding, body: Annotated[wire.Nothing, json_body(wire.Nothing)]) -> Response:
    """Undo the last redraw or choice."""
    return await deciding.decide(body, lambda run: runs.undo_line(run, by=deciding.by))


@router.post("/continue", response_model=wire.ResponseObject)
async def resume(deciding: OwnDeciding, body: Annotated[wire.Nothing, json_body(wire.Nothing)]) -> Response:
    """Resume a stopped or failed job."""
    return await deciding.answer.whole(await deciding.decisions.resume(deciding.about(body)))


@router.post("/branch", response_model=wire.ResponseObject)
async def branch(
    deciding: OwnDeciding, body: Annotated[wire.BranchOff, json_body(wire.BranchOff)]
) -> Response:
    """Branch a new document from a step."""
    new = Branch(body.step, body.prompt, body.seed)
    return await deciding.answer.whole(await deciding.decisions.branch(deciding.about(body), new))


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
