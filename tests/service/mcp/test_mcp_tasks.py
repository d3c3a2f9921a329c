"""Documents as tasks, for a client that declares the extension: the SDK's client with the raw messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from calling import id_in, images_in, status_in, with_client
from mcp.client import Client, ClientExtension, ResultClaim
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, Request, Result
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ConfigDict, Field
from running import HeldGenerator, Service, service

from interleave.service.mcp.tasks import IDENTIFIER


class Created(Result):
    model_config = ConfigDict(extra="allow")
    result_type: Literal["task"] = Field(alias="resultType")
    task_id: str = Field(alias="taskId")
    status: str


async def _unresolved(created: Any, context: Any) -> CallToolResult:
    raise AssertionError("these tests ask for the task itself")


class TasksClient(ClientExtension):
    identifier = IDENTIFIER

    def claims(self) -> Any:
        versions = frozenset(MODERN_PROTOCOL_VERSIONS)
        return (
            ResultClaim(result_type="task", model=Created, resolve=_unresolved, protocol_versions=versions),
        )


class Answer(Result):
    model_config = ConfigDict(extra="allow")


async def start(client: Client, name: str, **arguments: Any) -> str:
    made = await client.session.call_tool(name, arguments, allow_claimed=True)
    assert isinstance(made, Created), made
    return made.task_id


async def send(client: Client, method: str, task: str, **more: Any) -> dict[str, Any]:
    request = Request[dict[str, Any], str](method=method, params={"taskId": task, **more})
    return (await client.session.send_request(request, Answer)).model_dump(by_alias=True)


async def until(client: Client, task: str, *states: str) -> dict[str, Any]:
    with anyio.fail_after(60):
        while (found := await send(client, "tasks/get", task))["status"] not in states:
            await anyio.sleep(0.02)
    return found


def run(running: Service, work: Callable[[Client], Awaitable[Any]]) -> Any:
    return with_client(f"{running.url}/mcp", work, extensions=[TasksClient()])


def test_a_document_is_a_task_that_ends_with_its_images(tmp_path: Path) -> None:
    with service(tmp_path, generator=HeldGenerator(free=1)) as running:

        async def work(client: Client) -> Any:
            task = await start(client, "make_document", request="A frog in 3 pictures")
            working = await send(client, "tasks/get", task)
            running.generator.free = 100
            return task, working, await until(client, task, "completed", "failed")

        task, working, done = run(running, work)
    assert working["status"] == "working"
    result = CallToolResult.model_validate(done["result"])
    assert len(images_in(result)) == 3
    assert id_in(result) == task


def test_a_held_plan_requires_input_and_the_answer_releases_it(running: Service) -> None:
    async def work(client: Client) -> Any:
        task = await start(client, "make_document", request="A pond in 2 pictures", review_plan=True)
        asked = await until(client, task, "input_required")
        answer = {"plan": {"action": "accept", "content": {}}}
        await send(client, "tasks/update", task, inputResponses=answer)
        return asked, await until(client, task, "completed")

    asked, done = run(running, work)
    (question,) = asked["inputRequests"].values()
    assert question["method"] == "elicitation/create"
    assert "1. Part 1 of 2" in question["params"]["message"]
    assert len(images_in(CallToolResult.model_validate(done["result"]))) == 2


def test_a_declined_plan_and_a_cancelled_task_make_nothing(running: Service) -> None:
    async def work(client: Client) -> Any:
        declined = await start(client, "make_document", request="A pond in 2 pictures", review_plan=True)
        await until(client, declined, "input_required")
        await send(client, "tasks/update", declined, inputResponses={"plan": {"action": "decline"}})
        cancelled = await start(client, "make_document", request="A hill in 2 pictures", review_plan=True)
        await until(client, cancelled, "input_required")
        await send(client, "tasks/cancel", cancelled)
        return [await until(client, task, "cancelled") for task in (declined, cancelled)]

    before = len(running.generator.calls)
    assert [task["status"] for task in run(running, work)] == ["cancelled", "cancelled"]
    assert len(running.generator.calls) == before


def test_a_plan_is_the_result_of_a_task_that_only_plans(running: Service) -> None:
    async def work(client: Client) -> Any:
        return await until(
            client, await start(client, "plan_document", request="A sea in 2 pictures"), "completed"
        )

    assert status_in(CallToolResult.model_validate(run(running, work)["result"])) == "held"


def test_unknown_tasks_and_refused_calls_are_no_tasks(running: Service) -> None:
    async def work(client: Client) -> Any:
        for task in ("resp_" + "0" * 48, "../../etc/passwd", "resp_" + "0" * 48 + ".plan"):
            with pytest.raises(MCPError, match="no task"):
                await send(client, "tasks/get", task)
        return await client.session.call_tool("make_document", {}, allow_claimed=True)

    refused = run(running, work)
    assert isinstance(refused, CallToolResult)
    assert refused.is_error
