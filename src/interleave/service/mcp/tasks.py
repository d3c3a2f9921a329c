"""Documents as tasks: the extension `io.modelcontextprotocol/tasks` (SEP-2663).

A client that declares the extension gets a task instead of a result that takes minutes. The id of a task is
the id of its document, so a task survives every process, and each service on the same job table knows it.
A plan that waits for a person is `input_required`: the answer releases the plan or stops the document.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolRequestParams, RequestParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import Field

from interleave.service.mcp import results
from interleave.service.mcp.api import DOCUMENTS, OPEN, current
from interleave.service.mcp.tools import STARTED

IDENTIFIER = "io.modelcontextprotocol/tasks"
POLL_MILLISECONDS = 1_000
PLAN = "plan"
"""Key of the question about a held plan."""
PLAN_ONLY = ".plan"
"""Ends the id of a task whose result is the held plan itself."""
_TASK_ID = re.compile(r"(resp_[0-9a-f]{48})(\.plan)?\Z")
AS_TASKS = frozenset({"plan_document", "make_document", "redraw_step", "choose_attempt"})
"""Tools whose calls may take minutes."""
TaskStatus = Literal["working", "input_required", "completed", "failed", "cancelled"]
Context = ServerRequestContext[Any, Any]


class TaskParams(RequestParams):
    task_id: str = Field(alias="taskId")


class UpdateParams(TaskParams):
    input_responses: dict[str, Any] = Field(alias="inputResponses")


class Tasks(Extension):
    """Runs long calls as tasks for clients that declare the extension."""

    identifier = IDENTIFIER

    def methods(self) -> Sequence[MethodBinding]:
        versions = frozenset(MODERN_PROTOCOL_VERSIONS)
        return [
            MethodBinding("tasks/get", TaskParams, _get, versions),
            MethodBinding("tasks/update", UpdateParams, _update, versions),
            MethodBinding("tasks/cancel", TaskParams, _cancel, versions),
        ]

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: Context, call_next: CallNext
    ) -> HandlerResult:
        if params.name not in AS_TASKS or not _wants_tasks(ctx):
            return await call_next(ctx)
        started: list[str] = []
        token = STARTED.set(started)
        try:
            result = await call_next(ctx)
        finally:
            STARTED.reset(token)
        if not started:  # the call was refused
            return result
        ending = PLAN_ONLY if params.name == "plan_document" else ""
        document = await current().document(started[0])
        return {"resultType": "task", **_task(started[0] + ending, document)}


def _wants_tasks(ctx: Context) -> bool:
    capabilities = ctx.session.client_capabilities
    return (
        ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        and capabilities is not None
        and IDENTIFIER in (capabilities.extensions or {})
    )


async def _get(ctx: Context, params: TaskParams) -> HandlerResult:
    id_, _ = _parsed(params.task_id)
    document = await _document(id_)
    task = _task(params.task_id, document)
    more: dict[str, Any] = {}
    match task["status"]:
        case "completed":
            result = await results.document_result(current(), document)
            more["result"] = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        case "failed":
            error = document.get("error") or {}
            more["error"] = {"code": -32000, "message": error.get("message", "the document failed")}
        case "input_required":
            more["inputRequests"] = {PLAN: _question(document)}
    return {"resultType": "complete", **task, **more}


async def _update(ctx: Context, params: UpdateParams) -> HandlerResult:
    id_, plan_only = _parsed(params.task_id)
    document = await _document(id_)
    answer = params.input_responses.get(PLAN)
    if document["status"] in ("held", "asked") and not plan_only and isinstance(answer, dict):
        if answer.get("action") == "accept":
            await current().post(f"{DOCUMENTS}/{id_}/plan/release", {})
        else:
            await _stop(id_)
    return {"resultType": "complete"}


async def _cancel(ctx: Context, params: TaskParams) -> HandlerResult:
    id_, _ = _parsed(params.task_id)
    await _document(id_)
    await _stop(id_)
    return {"resultType": "complete"}


async def _stop(id_: str) -> None:
    await current().post(f"/v1/responses/{id_}/cancel", {})


def _parsed(task: str) -> tuple[str, bool]:
    """Return the document of a task, and whether its result is the plan."""
    found = _TASK_ID.match(task)
    if found is None:
        raise _unknown(task)
    return found[1], found[2] is not None


async def _document(id_: str) -> dict[str, Any]:
    try:
        return await current().document(id_)
    except ToolError as error:
        if "not found" in str(error):
            raise _unknown(id_) from None
        raise MCPError(code=-32000, message=str(error)) from None


def _unknown(task: str) -> MCPError:
    return MCPError(code=INVALID_PARAMS, message=f"no task {task[:80]!r}")


def _task(task: str, document: dict[str, Any]) -> dict[str, Any]:
    changed = document.get("finished_at") or document["created_at"]
    return {
        "taskId": task,
        "status": _status(document["status"], plan_only=task.endswith(PLAN_ONLY)),
        "statusMessage": _message(document),
        "createdAt": _time(document["created_at"]),
        "lastUpdatedAt": _time(changed),
        "ttlMs": None,
        "pollIntervalMs": POLL_MILLISECONDS,
    }


def _status(status: str, *, plan_only: bool) -> TaskStatus:
    if status in OPEN:
        return "working"
    if status in ("held", "asked"):
        return "completed" if plan_only else "input_required"
    return "failed" if status == "failed" else "cancelled" if status == "cancelled" else "completed"


def _message(document: dict[str, Any]) -> str:
    steps = document.get("steps") or []
    done = sum(step["finished"] for step in steps)
    return f"{document['status']}: {done} of {len(steps)} steps" if steps else document["status"]


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _question(document: dict[str, Any]) -> dict[str, Any]:
    """Return the question about a held plan, for the person at the client."""
    asked = document.get("reason") if document["status"] == "asked" else None
    said = f"{asked or 'Make the document with this plan?'}\n\n{results.plan_text(document)}"
    return {
        "method": "elicitation/create",
        "params": {
            "mode": "form",
            "message": said,
            "requestedSchema": {"type": "object", "properties": {}},
        },
    }
