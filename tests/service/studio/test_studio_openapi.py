"""The description of the API is true: every route is in it, and real answers have the types that it says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from running import Service

from interleave.service.documents.openapi import openapi

jsonschema = pytest.importorskip("jsonschema")
DESCRIBED = openapi()


def check(value: Any, schema: dict[str, Any]) -> None:
    jsonschema.validate(value, {**schema, "components": DESCRIBED["components"]})


def answer_schema(method: str, path: str, status: int = 200) -> dict[str, Any]:
    responses = DESCRIBED["paths"][path][method.lower()]["responses"]
    found = responses.get(str(status), responses["default"])
    schema: dict[str, Any] = found["content"]["application/json"]["schema"]
    return schema


@pytest.fixture(scope="module")
def held(running: Service) -> str:
    own = {"interleave": {"hold_plan": True}}
    return str(running.sdk().responses.create(input="two images", extra_body=own).id)


@pytest.fixture(scope="module")
def made(running: Service) -> str:
    id_ = str(running.sdk().responses.create(input="two images", metadata={"a": "b"}).id)
    running.http.post(f"/v1/documents/{id_}/steps/2/choose", json={"attempt": 1})
    running.until(lambda: running.http.get(f"/v1/documents/{id_}").json()["status"] == "completed")
    label = {"kind": "accept", "run": id_, "step": 1, "attempt": 1, "value": True}
    running.http.post("/v1/studio/labels", json={"rater": "ann", "labels": [label]}).raise_for_status()
    return id_


def test_every_route_is_described_and_no_other(running: Service) -> None:
    served = {(method, path.replace(":path}", "}")) for method, path in running.routes}
    described = {(method.upper(), path) for path, methods in DESCRIBED["paths"].items() for method in methods}
    assert served == described
    assert running.http.get("/openapi.json").json() == json.loads(json.dumps(DESCRIBED))


RATER = {"rater": "ann"}
READ = [
    "/health",
    "/health/live",
    "/health/ready",
    "/v1/documents",
    "/v1/documents/{id}",
    "/v1/documents/{id}/plan",
    "/v1/documents/{id}/steps",
    "/v1/documents/{id}/calls",
    "/v1/responses/{id}",
    "/v1/files",
    "/v1/studio/start",
    "/v1/studio/reports",
    "/v1/studio/documents",
    "/v1/studio/queue",
    "/v1/studio/documents/{id}/related",
    "/v1/studio/judging/{task}",
    "/v1/studio/labels",
    "/v1/studio/agreement",
]


@pytest.mark.parametrize("path", READ)
def test_answers_have_the_types_that_are_described(running: Service, held: str, made: str, path: str) -> None:
    for id_ in (held, made):
        answer = running.http.get(path.replace("{id}", id_).replace("{task}", "better"), params=RATER)
        assert answer.status_code == 200
        check(answer.json(), answer_schema("GET", path))


def test_answers_have_no_field_that_is_not_described(running: Service, held: str, made: str) -> None:
    known = DESCRIBED["components"]["schemas"]
    for id_ in (held, made):
        found = running.http.get(f"/v1/documents/{id_}").json()
        assert set(found) <= set(known["Document"]["properties"])
        for step in found["steps"]:
            assert set(step) == set(known["Step"]["properties"])
            for attempt in step["attempts"]:
                assert set(attempt) == set(known["Attempt"]["properties"])


def test_a_document_that_waits_and_refusals_have_their_types(running: Service) -> None:
    running.http.post("/v1/studio/queue/pause")
    try:
        job = running.sdk().responses.create(input="one image", background=True)
        check(running.http.get(f"/v1/documents/{job.id}").json(), answer_schema("GET", "/v1/documents/{id}"))
        check(running.http.get("/v1/studio/queue").json(), answer_schema("GET", "/v1/studio/queue"))
        running.http.delete(f"/v1/responses/{job.id}")
    finally:
        running.http.post("/v1/studio/queue/resume")
    refused = running.http.get("/v1/documents/none")
    check(refused.json(), answer_schema("GET", "/v1/documents/{id}", refused.status_code))


def test_every_event_has_the_type_that_is_described(running: Service, held: str, made: str) -> None:
    schemas = DESCRIBED["components"]["schemas"]
    kinds = {
        schemas[name.rpartition("/")[2]]["properties"]["type"]["const"]: schemas[name.rpartition("/")[2]]
        for name in (each["$ref"] for each in schemas["JournalEvent"]["oneOf"])
    }
    seen = set()
    for id_ in (held, made):
        with running.http.stream("GET", f"/v1/documents/{id_}/events") as events:
            lines = [line.removeprefix("data: ") for line in events.iter_lines() if line.startswith("data")]
        for event in map(json.loads, lines):
            seen.add(event["type"])
            check(event, kinds[event["type"]])
            assert set(event) <= set(kinds[event["type"]]["properties"])
    assert {"job.held", "planned", "drawn", "judged", "attempt_chosen", "ended", "job.completed"} <= seen


def test_names_of_operations_and_types_are_unique_and_resolved() -> None:
    text = json.dumps(DESCRIBED)
    names = re.findall(r'"operationId": "([^"]+)"', text)
    assert len(names) == len(set(names)) == sum(map(len, DESCRIBED["paths"].values()))
    for name in re.findall(r'"#/components/schemas/([^"]+)"', text):
        assert name in DESCRIBED["components"]["schemas"]


def test_the_description_names_no_machine(tmp_path: Path) -> None:
    assert str(Path.home()) not in json.dumps(DESCRIBED)
