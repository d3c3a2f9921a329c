"""JSON schemas: bounded, sent where they help, and left out where a server refuses them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import loopback as wire
from interleave.agents.replies import MARKS_SCHEMA, VERDICT_SCHEMA, plan_schema
from interleave.backends.protocols import Message, Sampling
from interleave.backends.registry import load_vlm
from interleave.errors import BackendError
from interleave.remote.options import without_string_bounds
from interleave.types import Text
from loopback import Loopback

HELLO = (Message("user", (Text("hello"),)),)
FIRST = Sampling(schema=plan_schema(4))
AGAIN = Sampling(schema=plan_schema(4), reask=True)


def parts_of(schema: Any) -> list[dict[str, Any]]:
    if isinstance(schema, dict):
        return [schema, *(part for value in schema.values() for part in parts_of(value))]
    return [part for each in schema for part in parts_of(each)] if isinstance(schema, list) else []


@pytest.mark.parametrize("schema", [plan_schema(50), VERDICT_SCHEMA, MARKS_SCHEMA], ids=str)
def test_nothing_in_a_schema_is_without_a_bound(schema: dict[str, Any]) -> None:
    for part in parts_of(schema):
        kind = part.get("type")
        if "string" in (kind if isinstance(kind, list) else [kind]):
            assert 0 < part["maxLength"] < 2000
        if kind == "array":
            assert part["maxItems"] > 0


def test_a_plan_has_as_many_steps_as_are_allowed() -> None:
    assert plan_schema(4)["properties"]["execution_plan"]["maxItems"] == 4


def test_services_that_refuse_bounds_on_strings_get_none() -> None:
    bare = without_string_bounds(plan_schema(4))
    assert not any("maxLength" in part for part in parts_of(bare))
    assert bare["properties"]["execution_plan"]["maxItems"] == 4
    assert any("maxLength" in part for part in parts_of(plan_schema(4))), "the original is left alone"


def ask(vlm: Any, *samplings: Sampling) -> None:
    async def asking() -> None:
        for sampling in samplings:
            await vlm.complete(HELLO, sampling)

    asyncio.run(asking())


def sent(loopback: Loopback) -> list[bool]:
    return ["response_format" in asked.json for asked in loopback.of("/chat/completions")]


@pytest.mark.parametrize(
    ("option", "expected"),
    [("", [False, True]), ("?json_schema=true", [True, True]), ("?json_schema=false", [False] * 2)],
)
def test_a_schema_is_sent_after_an_unreadable_reply_or_when_it_is_asked_for(
    option: str, expected: list[bool], loopback: Loopback
) -> None:
    ask(load_vlm(f"openai:m@{loopback.url}/v1{option}", "planner"), FIRST, AGAIN)
    assert sent(loopback) == expected


def test_a_server_of_ones_own_gets_the_bounds(loopback: Loopback) -> None:
    ask(load_vlm(f"openai:m@{loopback.url}/v1?json_schema=true", "planner"), FIRST)
    schema = loopback.of("/chat")[0].json["response_format"]["json_schema"]["schema"]
    assert schema == plan_schema(4)


def test_gemini_gets_a_schema_without_bounds_on_strings(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(load_vlm(f"gemini:m@{loopback.url}", "planner"), FIRST, AGAIN)
    first, again = (asked.json["generationConfig"] for asked in loopback.of(":generateContent"))
    assert "responseJsonSchema" not in first
    assert again["responseJsonSchema"] == without_string_bounds(plan_schema(4))


def refuses_schemas(number: int, asked: wire.Asked) -> wire.Fault | None:
    told = {"error": {"message": "'response_format.type' must be 'text'", "type": "invalid_request_error"}}
    return wire.status(400, told) if b"response_format" in asked.body else None


@pytest.mark.parametrize("option", ["", "?json_schema=true"])
def test_a_server_that_refuses_schemas_is_asked_without(
    option: str, loopback: Loopback, caplog: pytest.LogCaptureFixture
) -> None:
    loopback.fault = refuses_schemas
    ask(load_vlm(f"openai:m@{loopback.url}/v1{option}", "planner"), AGAIN, AGAIN)
    assert sent(loopback) == [True, False, False]
    assert "supports no JSON schema" in caplog.text


def test_an_error_that_is_not_about_the_schema_says_nothing_about_it(loopback: Loopback) -> None:
    vlm: Any = load_vlm(f"openai:m@{loopback.url}/v1", "planner")
    loopback.fails_with(wire.status(400, {"error": {"message": "the prompt is too long"}}))
    with pytest.raises(BackendError, match="too long"):
        ask(vlm, AGAIN)
    loopback.reset()
    ask(vlm, AGAIN)
    assert sent(loopback) == [True]
