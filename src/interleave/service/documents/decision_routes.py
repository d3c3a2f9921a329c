"""Routes for decisions about jobs. Each returns the Response of the reopened or new job."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from interleave import GeneratorCapabilities, InputError, Plan
from interleave.plugin import first_problem, runs
from interleave.service.documents.job_decisions import Branch, DecisionRequest, Decisions
from interleave.service.documents.jobs import Decision, Job
from interleave.service.documents.refusals import ApiRefusal, unknown
from interleave.service.documents.routes import caller_of
from interleave.service.documents.service import Documents
from interleave.service.generator.messages import GeneratorInfo
from interleave.service.generator.parameters import MAX_SEED, Parameters
from interleave.service.http.middleware import REQUEST_ID
from interleave.service.http.request_bodies import read_json

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

MAX_NUMBER = 1_000_000
Answer = Callable[["Request", Job], Awaitable["Response"]]


class DecisionRoutes:
    """Handlers of decisions; `answer` converts a job to a response."""

    def __init__(self, documents: Documents, answer: Answer) -> None:
        self.decisions = Decisions(documents)
        self.answer = answer

    async def release(self, request: Request) -> Response:
        """Draw the held plan: unchanged with `{}`, edited with `{"plan": {"steps": […]}}`."""

        def line(body: dict[str, Any], by: str) -> Callable[[runs.DecidedRun], Decision]:
            given = _taken(body, "plan")
            value = given.take("plan")
            given.refuse_unknown()
            return lambda run: runs.release_line(run, _plan(value, run) if value is not None else None, by=by)

        return await self._decided(request, line)

    async def redraw(self, request: Request) -> Response:
        step = _step(request)

        def line(body: dict[str, Any], by: str) -> Callable[[runs.DecidedRun], Decision]:
            given = _taken(body, "prompt", "seed", "only_step")
            prompt, seed = given.text("prompt"), given.integer("seed", 0, MAX_SEED)
            only_step = given.boolean("only_step")
            given.refuse_unknown()
            return lambda run: runs.redraw_line(
                run, step, prompt=prompt, seed=seed, generator=None, only_step=only_step, by=by
            )

        return await self._decided(request, line)

    async def choose(self, request: Request) -> Response:
        step = _step(request)

        def line(body: dict[str, Any], by: str) -> Callable[[runs.DecidedRun], Decision]:
            given = _taken(body, "attempt", "only_step")
            attempt, only_step = given.integer("attempt", 1, MAX_NUMBER), given.boolean("only_step")
            given.refuse_unknown()
            if attempt is None:
                raise ApiRefusal("attempt is missing: send its number", parameter="attempt")
            return lambda run: runs.choice_line(run, step, attempt, only_step=only_step, by=by)

        return await self._decided(request, line)

    async def undo(self, request: Request) -> Response:
        def line(body: dict[str, Any], by: str) -> Callable[[runs.DecidedRun], Decision]:
            _taken(body).refuse_unknown()
            return lambda run: runs.undo_line(run, by=by)

        return await self._decided(request, line)

    async def resume(self, request: Request) -> Response:
        """Resume a failed, cancelled or incomplete job."""

        async def work(asked: DecisionRequest, body: dict[str, Any]) -> Job:
            _taken(body).refuse_unknown()
            return await self.decisions.resume(asked)

        return await self._worked(request, work)

    async def branch(self, request: Request) -> Response:
        """Create a new job that branches from a step."""

        async def work(asked: DecisionRequest, body: dict[str, Any]) -> Job:
            given = _taken(body, "step", "prompt", "seed")
            step, seed = given.integer("step", 1, MAX_NUMBER), given.integer("seed", 0, MAX_SEED)
            prompt = given.text("prompt")
            given.refuse_unknown()
            if step is None:
                raise ApiRefusal("step is missing: send the step to branch from", parameter="step")
            return await self.decisions.branch(asked, Branch(step, prompt, seed))

        return await self._worked(request, work)

    async def _decided(
        self, request: Request, line: Callable[[dict[str, Any], str], Callable[[runs.DecidedRun], Decision]]
    ) -> Response:
        return await self._worked(
            request, lambda asked, body: self.decisions.decide(asked, line(body, asked.caller.key))
        )

    async def _worked(
        self, request: Request, work: Callable[[DecisionRequest, dict[str, Any]], Awaitable[Job]]
    ) -> Response:

        body = await _body(request)
        said = json.dumps([request.url.path, body], sort_keys=True)
        asked = DecisionRequest(
            caller=caller_of(request),
            job=request.path_params["id"],
            digest=hashlib.sha256(said.encode()).hexdigest(),
            idempotency_key=request.headers.get("idempotency-key"),
            request_id=request.scope[REQUEST_ID],
        )
        return await self.answer(request, await work(asked, body))


async def _body(request: Request) -> dict[str, Any]:
    """Return the JSON object of a request; an empty one if it has no body."""
    if request.headers.get("content-length", "0") == "0" and "transfer-encoding" not in request.headers:
        return {}
    body: dict[str, Any] = (await read_json(request)).parse()[0]
    return body


def _taken(body: dict[str, Any], *known: str) -> Parameters:
    return Parameters(body, GeneratorInfo(GeneratorCapabilities()), known=known)


def _step(request: Request) -> int:
    text = request.path_params["step"]
    if not text.isascii() or not text.isdigit() or len(text) > 6:
        raise unknown("step", text)
    return int(text)


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
