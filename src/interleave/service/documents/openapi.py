"""API description, `/openapi.json`: every route with the types of its body and response.

The studio's routes build their responses from these types; for the others, tests check responses against
them. `python -m interleave.service.documents.openapi` prints the description, for type generators.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence, Set
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from interleave import Plan, __version__
from interleave.plugin import journal, render
from interleave.service.documents import schemas as wire
from interleave.service.documents.browser_guard import HEADER
from interleave.service.documents.calls import ModelCalls
from interleave.service.documents.routes import Key, Route, RouteSet, added_routes, all_routes
from interleave.service.documents.shared_images import ROUTE as SHARED

REF = "#/components/schemas/{model}"
_REFERENCE = re.compile(re.escape(REF).replace(r"\{model\}", r"([^\"]+)"))
EVENT = "JournalEvent"
JOB_STATES = ("queued", "held", "asked", "completed", "incomplete", "failed", "cancelled")
NOT_SENT = {"event", "fingerprint", "tokens"}
"""Fields of journal lines that events do not have."""
EVENTS = "text/event-stream"
Schema = dict[str, Any]
LINES: tuple[type[journal.Line], ...] = get_args(get_args(journal.Entry)[0])
MAY_LACK = {"Facts", "Document", "ResponseObject", "ErrorFacts", "DocumentError", "DocumentPart"}
"""Types whose optional fields may be missing in a response."""
TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "integer"}
_STARTED: Schema = {
    "time": {"type": "number"},
    "version": NUMBER,
    "request": {"type": "array", "items": {"$ref": REF.format(model="RequestPart")}},
    "config": {"type": "object"},
    "software": TEXT,
    "hold_plan": {"type": "boolean"},
    "assets": {"type": "array", "items": {"type": "object"}},
    "reading": {"type": "object"},
}
"""Fields of a journal's first line, which has a custom serializer."""
OPTIONAL_FIELDS = {
    *("hold_plan", "assets", "scene", "needs", "chapter"),
    *("drift", "cause", "refused", "identity_by", "anew"),
    *("notes", "question", "reading"),
}
"""Fields that are written only if set, because earlier versions did not have them."""
LIMIT = ("limit", NUMBER)
_AFTER = ("starting_after", NUMBER)
_EXPORT = (
    ("download", TEXT),
    ("paper", {"type": "string", "enum": list(get_args(render.Paper))}),
    ("layout", {"type": "string", "enum": list(get_args(render.PageLayout))}),
)
_OPENAI = "application/json"


def _decision(summary: str, body: type[BaseModel]) -> Route:
    return Route(summary, wire.ResponseObject, body, idempotent=True)


ROUTES: dict[Key, Route] = {
    ("GET", "/openapi.json"): Route("OpenAPI description", "application/json", is_open=True),
    ("GET", "/health"): Route("Health check", wire.Health, is_open=True),
    ("GET", "/health/live"): Route("Whether the process works", wire.Liveness, is_open=True),
    ("GET", "/health/ready"): Route("Whether it takes new work", wire.Readiness, is_open=True),
    ("GET", "/metrics"): Route("Prometheus metrics", "text/plain"),
    ("GET", "/v1/models"): Route("OpenAI's and Google's APIs: list the models", _OPENAI),
    ("GET", "/v1/models/{name}"): Route("OpenAI's and Google's APIs: get a model", _OPENAI),
    ("POST", "/v1/chat/completions"): Route("OpenAI's API: Chat Completions", _OPENAI, _OPENAI),
    ("POST", "/v1/models/{name}"): Route("Google's API: NAME:generateContent", _OPENAI, _OPENAI),
    ("POST", "/v1beta/models/{name}"): Route("Google's API: NAME:generateContent", _OPENAI, _OPENAI),
    ("GET", "/v1beta/models"): Route("Google's API: list the models", _OPENAI),
    ("GET", "/v1beta/models/{name}"): Route("Google's API: get a model", _OPENAI),
    ("POST", "/v1/responses"): Route(
        "Create a document", wire.ResponseObject, wire.Submission, idempotent=True
    ),
    ("GET", "/v1/responses/{id}"): Route(
        "Get a job as a Response, or its events with stream=true",
        wire.ResponseObject,
        query=(("stream", {"type": "boolean"}), _AFTER),
    ),
    ("DELETE", "/v1/responses/{id}"): Route("Delete a document with all its files", wire.Deleted),
    ("POST", "/v1/responses/{id}/cancel"): Route("Cancel a job", wire.ResponseObject, wire.Nothing),
    ("GET", "/v1/responses/{id}/input_items"): Route("Get the request of a job", _OPENAI),
    ("GET", "/v1/documents"): Route("List the newest jobs", wire.Documents, query=(LIMIT, ("after", TEXT))),
    ("GET", "/v1/documents/{id}"): Route("Get a document with all its details", wire.Document),
    ("GET", "/v1/documents/{id}/plan"): Route("Get the plan", Plan),
    ("GET", "/v1/documents/{id}/steps"): Route("Get the steps", wire.Steps),
    ("GET", "/v1/documents/{id}/calls"): Route("Get the model calls with their raw replies", ModelCalls),
    ("GET", "/v1/documents/{id}/events"): Route(
        f"Stream the journal as server-sent events, each a {EVENT}", EVENTS, query=(_AFTER,)
    ),
    ("GET", "/v1/documents/{id}/document.md"): Route("Get the document as Markdown", "text/markdown"),
    ("GET", "/v1/documents/{id}/pictures/{name}"): Route("Get an image", "image/png"),
    ("GET", SHARED): Route("Get an image by its signed address", "image/png", is_open=True),
    ("POST", "/v1/documents/{id}/plan/release"): _decision("Release the held plan", wire.Release),
    ("POST", "/v1/documents/{id}/steps/{step}/redraw"): _decision("Redraw a step", wire.Redraw),
    ("POST", "/v1/documents/{id}/steps/{step}/choose"): _decision("Show another attempt", wire.Choose),
    ("POST", "/v1/documents/{id}/undo"): _decision("Undo the last redraw or choice", wire.Nothing),
    ("POST", "/v1/documents/{id}/branch"): _decision("Branch a new document from a step", wire.BranchOff),
    ("POST", "/v1/documents/{id}/continue"): _decision("Resume a stopped or failed job", wire.Nothing),
    ("POST", "/v1/files"): Route("Upload an image", wire.File, "multipart/form-data"),
    ("GET", "/v1/files"): Route("List the uploads", wire.Files, query=(LIMIT,)),
    ("GET", "/v1/files/{id}"): Route("Get an upload", wire.File),
    ("DELETE", "/v1/files/{id}"): Route("Delete an upload", wire.Deleted),
    ("GET", "/v1/files/{id}/content"): Route("Get the image of an upload", "image/png"),
}


def own_routes() -> dict[Key, Route]:
    """Return the built-in routes, with one for each export format."""
    exports = {
        ("GET", f"/v1/documents/{{id}}/document.{each.name}"): Route(
            f"Get the document as {each.title}", each.media_type, query=_EXPORT
        )
        for each in render.known_formats().values()
    }
    return ROUTES | exports


def openapi(added: Mapping[str, RouteSet] | None = None) -> Schema:
    """Return the OpenAPI 3.1 description with the routes in `added`; by default all installed ones."""
    added = added_routes() if added is None else added
    routes = all_routes(own_routes(), added)
    may_lack = MAY_LACK.union(*(each.may_lack for each in added.values()))
    paths: dict[str, Schema] = {}
    for (method, path), route in routes.items():
        plain = path.replace(":path}", "}")
        paths.setdefault(plain, {})[method.lower()] = _operation(method, plain, route)
    keys = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "google": {"type": "apiKey", "in": "header", "name": "x-goog-api-key"},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "interleave document service", "version": __version__},
        "paths": paths,
        "components": {"schemas": _schemas(list(routes.values()), may_lack), "securitySchemes": keys},
        "security": [{"bearer": []}, {"google": []}, {}],
    }


def _operation(method: str, path: str, route: Route) -> Schema:
    names = [piece[1:-1] for piece in path.split("/") if piece.startswith("{")]
    parameters = [{"name": name, "in": "path", "required": True, "schema": TEXT} for name in names]
    parameters += [{"name": name, "in": "query", "schema": schema} for name, schema in route.query]
    headers = (["Idempotency-Key"] if route.idempotent else []) + ([HEADER] if method != "GET" else [])
    parameters += [{"name": name, "in": "header", "schema": TEXT} for name in headers]
    operation: Schema = {
        "operationId": _operation_id(method, path),
        "summary": route.summary,
        "parameters": parameters,
        "responses": {
            "200" if route.answer else "204": {"description": "Success", **_content(route.answer)},
            "default": {"description": "Error", **_content(wire.ErrorBody)},
        },
    }
    if route.body:
        operation["requestBody"] = {"required": route.body is not wire.Nothing, **_content(route.body)}
    return operation


def _operation_id(method: str, path: str) -> str:
    words = "".join(each if each.isalnum() else " " for each in path).split()
    return "_".join([method.lower(), *words])


def _content(what: type[BaseModel] | str | None) -> Schema:
    if what is None:
        return {}
    if isinstance(what, str):
        schema: Schema = {EVENTS: {"$ref": REF.format(model=EVENT)}, _OPENAI: {"type": "object"}}.get(
            what, TEXT
        )
        return {"content": {what: {"schema": schema}}}
    return {"content": {"application/json": {"schema": {"$ref": REF.format(model=what.__name__)}}}}


def _schemas(routes: Sequence[Route], may_lack: Set[str]) -> dict[str, Schema]:
    """Return all types by name, and the events of a journal."""
    taken = {each.body for each in routes if isinstance(each.body, type)}
    answers = {each.answer for each in routes if isinstance(each.answer, type)}
    sent: set[type[BaseModel]] = {*answers, *LINES, wire.ErrorBody, journal.RequestPart}
    named = [(each, "validation") for each in taken] + [(each, "serialization") for each in sent]
    ordered = sorted(named, key=lambda pair: (pair[0].__name__, pair[1]))
    _, found = models_json_schema(ordered, ref_template=REF)  # type: ignore[arg-type]
    schemas: dict[str, Schema] = found["$defs"]
    for name in _used(schemas, {each.__name__ for each in sent}) - may_lack:
        if fields := schemas[name].get("properties"):  # responses have all their fields
            schemas[name]["required"] = [field for field in fields if field not in OPTIONAL_FIELDS]
            for field in OPTIONAL_FIELDS & fields.keys():  # type generators treat a default as always present
                fields[field].pop("default", None)
    return schemas | _events(schemas)


def _used(schemas: dict[str, Schema], names: set[str]) -> set[str]:
    """Return these types and those they refer to."""
    inner = {each for name in names for each in _REFERENCE.findall(json.dumps(schemas[name]))}
    return names if inner <= names else _used(schemas, names | inner)


def _events(schemas: dict[str, Schema]) -> dict[str, Schema]:
    """Return the journal events: one per kind of line, moved out of `schemas`, and those of the job."""
    events = {f"{line.__name__}Event": _event(schemas.pop(line.__name__), line) for line in LINES}
    events |= {f"Job{state.capitalize()}Event": _job_event(state) for state in JOB_STATES}
    return events | {EVENT: {"oneOf": [{"$ref": REF.format(model=name)} for name in events]}}


def _event(line: Schema, kind: type[journal.Line]) -> Schema:
    """Return the event of a journal line: numbered, without the fields that only a replay needs."""
    known = line.get("properties") or {name: _STARTED.get(name, {}) for name in kind.model_fields}
    given = {name: each for name, each in known.items() if name not in NOT_SENT}
    own: Schema = {"type": {"const": kind.model_fields["event"].default}, "sequence_number": NUMBER}
    if kind is journal.Drawn:
        own["picture"] = TEXT
    required = [*own, *(name for name in given if name not in OPTIONAL_FIELDS)]
    return {"type": "object", "properties": {**own, **given}, "required": required}


def _job_event(state: str) -> Schema:
    own: Schema = {"type": {"const": f"job.{state}"}, "sequence_number": NUMBER}
    if state != "queued":
        error = {"$ref": REF.format(model="DocumentError")}
        own["error"] = {"anyOf": [error, {"type": "null"}]}
    return {"type": "object", "properties": own, "required": list(own)}


if __name__ == "__main__":
    print(json.dumps(openapi(), indent=1, sort_keys=True))
