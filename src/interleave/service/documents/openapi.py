"""The description of the API, `/openapi.json`: every route with the types of what is sent and answered.

The types of the studio's routes are those that answers are made from; the others are held against real ones
by tests. `python -m interleave.service.documents.openapi` prints it, for programs that make types of it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from interleave import Plan, __version__
from interleave.bench.labels import Kind
from interleave.plugin import journal, render
from interleave.service.documents import schemas as wire
from interleave.service.documents.calls import ModelCalls
from interleave.service.documents.shared_images import ROUTE as SHARED
from interleave.studio import label_schemas as judging
from interleave.studio import report_schemas as report_wire
from interleave.studio import schemas as studio
from interleave.studio.guard import HEADER
from interleave.studio.thumbnails import SIDES

REF = "#/components/schemas/{model}"
EVENT = "JournalEvent"
JOB_STATES = ("queued", "held", "completed", "incomplete", "failed", "cancelled")
NOT_SENT = {"event", "fingerprint", "tokens"}
"""Fields of the journal's lines that events do not have."""
EVENTS = "text/event-stream"
Schema = dict[str, Any]
LINES: tuple[type[journal.Line], ...] = get_args(get_args(journal.Entry)[0])
MAY_LACK = {"Facts", "Document", "ResponseObject", "ErrorFacts", "DocumentError", "DocumentPart"}
"""Answers that have some of their fields only where there is something to say."""
TAKEN = {
    "EditedPlan",
    "NewLabel",
    "Subject",
    "EditedStep",
    "InputAsset",
    "InputImage",
    "InputMessage",
    "InputText",
    "OwnOptions",
}
"""Parts of what clients send: fields with a default may be left out."""


@dataclass(frozen=True)
class Route:
    """What a route is for, takes and answers."""

    summary: str
    answer: type[BaseModel] | str | None = None
    """A type, or a media type; None for no body."""
    body: type[BaseModel] | str | None = None
    query: tuple[tuple[str, Schema], ...] = ()
    idempotent: bool = False
    """Whether it takes an `Idempotency-Key`."""


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
}
"""The fields of a journal's first line, which writes itself in a way of its own."""
LATER = {
    *("hold_plan", "assets", "scene", "needs", "chapter"),
    *("drift", "cause", "refused", "identity_by", "anew"),
}
"""Fields that are written only where they say something: earlier versions did not have them."""
_LIMIT = ("limit", NUMBER)
_AFTER = ("starting_after", NUMBER)
_SEARCH = (
    ("q", TEXT),
    ("profile", TEXT),
    ("outcome", {"type": "string", "enum": list(get_args(studio.Outcome))}),
    ("since", TEXT),
    ("until", TEXT),
    ("order", {"type": "string", "enum": ["newest", "oldest"]}),
    _LIMIT,
    ("cursor", TEXT),
)
_EXPORT = (
    ("download", TEXT),
    ("paper", {"type": "string", "enum": list(get_args(render.Paper))}),
    ("layout", {"type": "string", "enum": list(get_args(render.PageLayout))}),
)
_RATER = ("rater", TEXT)
_KIND = ("kind", {"type": "string", "enum": [each.value for each in Kind]})
_OPENAI = "application/json"
_JSONL = "application/jsonl"


def _decision(summary: str, body: type[BaseModel]) -> Route:
    return Route(summary, wire.ResponseObject, body, idempotent=True)


ROUTES: dict[tuple[str, str], Route] = {
    ("GET", "/"): Route("The studio's page", "text/html"),
    ("GET", "/openapi.json"): Route("This description", "application/json"),
    ("GET", "/health"): Route("Whether it can work", wire.Health),
    ("GET", "/metrics"): Route("Figures for Prometheus", "text/plain"),
    ("GET", "/v1/models"): Route("OpenAI's and Google's APIs: the models", _OPENAI),
    ("GET", "/v1/models/{name}"): Route("OpenAI's and Google's APIs: a model", _OPENAI),
    ("POST", "/v1/chat/completions"): Route("OpenAI's API: Chat Completions", _OPENAI, _OPENAI),
    ("POST", "/v1/models/{name}"): Route("Google's API: NAME:generateContent", _OPENAI, _OPENAI),
    ("POST", "/v1beta/models/{name}"): Route("Google's API: NAME:generateContent", _OPENAI, _OPENAI),
    ("GET", "/v1beta/models"): Route("Google's API: the models", _OPENAI),
    ("GET", "/v1beta/models/{name}"): Route("Google's API: a model", _OPENAI),
    ("POST", "/v1/responses"): Route(
        "Make a document", wire.ResponseObject, wire.Submission, idempotent=True
    ),
    ("GET", "/v1/responses/{id}"): Route(
        "A job as a Response; with stream=true its events",
        wire.ResponseObject,
        query=(("stream", {"type": "boolean"}), _AFTER),
    ),
    ("DELETE", "/v1/responses/{id}"): Route("Delete a document and everything of it", wire.Deleted),
    ("POST", "/v1/responses/{id}/cancel"): Route("Stop a job", wire.ResponseObject, wire.Nothing),
    ("GET", "/v1/responses/{id}/input_items"): Route("The request of a job", _OPENAI),
    ("GET", "/v1/documents"): Route("The newest jobs", wire.Documents, query=(_LIMIT, ("after", TEXT))),
    ("GET", "/v1/documents/{id}"): Route("A document with everything about it", wire.Document),
    ("GET", "/v1/documents/{id}/plan"): Route("Its plan", Plan),
    ("GET", "/v1/documents/{id}/steps"): Route("Its steps", wire.Steps),
    ("GET", "/v1/documents/{id}/calls"): Route("Its model calls with their raw replies", ModelCalls),
    ("GET", "/v1/documents/{id}/events"): Route(
        f"Its journal as server-sent events, each a {EVENT}", EVENTS, query=(_AFTER,)
    ),
    ("GET", "/v1/documents/{id}/document.md"): Route("The document as Markdown", "text/markdown"),
    **{
        ("GET", f"/v1/documents/{{id}}/document.{each.name}"): Route(
            f"The document as {each.title}", each.media_type, query=_EXPORT
        )
        for each in render.known_formats().values()
    },
    ("GET", "/v1/documents/{id}/pictures/{name}"): Route("A picture", "image/png"),
    ("GET", "/v1/documents/{id}/thumbnails/{name}"): Route(
        "A small copy of a picture",
        "image/webp",
        query=(("side", {"type": "integer", "enum": list(SIDES)}),),
    ),
    ("GET", SHARED): Route("A picture at a signed address", "image/png"),
    ("POST", "/v1/documents/{id}/plan/release"): _decision("Draw the plan that is held", wire.Release),
    ("POST", "/v1/documents/{id}/steps/{step}/redraw"): _decision("Draw a step again", wire.Redraw),
    ("POST", "/v1/documents/{id}/steps/{step}/choose"): _decision("Show another attempt", wire.Choose),
    ("POST", "/v1/documents/{id}/undo"): _decision("Undo the last redraw or choice", wire.Nothing),
    ("POST", "/v1/documents/{id}/branch"): _decision("A new document from a step on", wire.BranchOff),
    ("POST", "/v1/documents/{id}/continue"): _decision("Go on with what failed or was stopped", wire.Nothing),
    ("POST", "/v1/robot/check"): Route(
        "Whether a robot has done a sub-task", wire.SubTaskVerdict, wire.SubTaskQuestion
    ),
    ("POST", "/v1/files"): Route("Upload a picture", wire.File, "multipart/form-data"),
    ("GET", "/v1/files"): Route("The uploads", wire.Files, query=(_LIMIT,)),
    ("GET", "/v1/files/{id}"): Route("An upload", wire.File),
    ("DELETE", "/v1/files/{id}"): Route("Delete an upload", wire.Deleted),
    ("GET", "/v1/files/{id}/content"): Route("The picture of an upload", "image/png"),
    ("GET", "/v1/studio/start"): Route("What the studio can do here", studio.Start),
    ("POST", "/v1/studio/session"): Route("Keep the key of this request in a cookie"),
    ("DELETE", "/v1/studio/session"): Route("Forget the key"),
    ("GET", "/v1/studio/documents"): Route("The gallery, searched", studio.Gallery, query=_SEARCH),
    ("GET", "/v1/studio/reports"): Route("The reports under the studio's folders", report_wire.Reports),
    ("GET", "/v1/studio/reports/{ticket}/{path:path}"): Route("A file of a folder of reports", "text/html"),
    ("GET", "/v1/studio/queue"): Route("The queue", studio.Queue),
    ("POST", "/v1/studio/queue/pause"): Route("Start nothing more", studio.Queue, wire.Nothing),
    ("POST", "/v1/studio/queue/resume"): Route("Start again what waits", studio.Queue, wire.Nothing),
    ("POST", "/v1/studio/queue/{id}/move"): Route("Another place in the queue", studio.Queue, studio.Move),
    ("POST", "/v1/studio/queue/retry-failed"): Route(
        "Go on with all that failed", studio.Retried, wire.Nothing
    ),
    ("GET", "/v1/studio/documents/{id}/related"): Route(
        "What a document can be compared with", judging.Related
    ),
    ("GET", "/v1/studio/judging/{task}"): Route(
        "What a rater has not judged yet",
        judging.JudgeItems,
        query=(_RATER, ("runs", TEXT), ("unit", TEXT), _LIMIT, ("cursor", TEXT)),
    ),
    ("GET", "/v1/studio/labels"): Route(
        "The labels of a rater, the newest first",
        judging.RunLabels,
        query=(_RATER, _KIND, ("runs", TEXT), _LIMIT, ("cursor", TEXT)),
    ),
    ("POST", "/v1/studio/labels"): Route("Store labels", judging.StoredLabels, judging.NewLabels),
    ("POST", "/v1/studio/labels/undo"): Route(
        "Take back what a rater said last", judging.UndoneLabels, judging.Undo
    ),
    ("POST", "/v1/studio/labels/reveal"): Route(
        "Note that a rater knows which systems drew these documents", None, judging.Reveal
    ),
    ("GET", "/v1/studio/labels/export"): Route("Labels as a file", _JSONL, query=(_RATER, _KIND)),
    ("POST", "/v1/studio/labels/import"): Route("Labels from a file", judging.StoredLabels, _JSONL),
    ("GET", "/v1/studio/agreement"): Route("How far raters agree", judging.AgreementFacts),
}


@cache
def openapi() -> Schema:
    """The description, as OpenAPI 3.1."""
    schemas = _schemas()
    paths: dict[str, Schema] = {}
    for (method, path), route in ROUTES.items():
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
        "components": {"schemas": schemas, "securitySchemes": keys},
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
            "200" if route.answer else "204": {"description": "done", **_content(route.answer)},
            "default": {"description": "refused or failed", **_content(wire.ErrorBody)},
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


def _schemas() -> dict[str, Schema]:
    """All types by their names, and the events of a journal."""
    bodies = {each.body for each in ROUTES.values()}
    answers = {each.answer for each in ROUTES.values()} | {wire.ErrorBody}
    named = [(each, "validation") for each in bodies if isinstance(each, type)]
    named += [
        (each, "serialization") for each in (*answers, *LINES, journal.RequestPart) if isinstance(each, type)
    ]
    ordered = sorted(named, key=lambda pair: (pair[0].__name__, pair[1]))
    _, found = models_json_schema(ordered, ref_template=REF)  # type: ignore[arg-type]
    schemas: dict[str, Schema] = found["$defs"]
    taken = {each.__name__ for each in bodies if isinstance(each, type)} | MAY_LACK | TAKEN
    for name, schema in schemas.items():
        if name not in taken and "properties" in schema:  # answers have all their fields
            schema["required"] = [field for field in schema["properties"] if field not in LATER]
            for field in LATER & schema["properties"].keys():  # generators of types take a default for given
                schema["properties"][field].pop("default", None)
    return schemas | _events(schemas)


def _events(schemas: dict[str, Schema]) -> dict[str, Schema]:
    """The events of a journal: one for each kind of line, taken out of `schemas`, and those of the job."""
    events = {f"{line.__name__}Event": _event(schemas.pop(line.__name__), line) for line in LINES}
    events |= {f"Job{state.capitalize()}Event": _job_event(state) for state in JOB_STATES}
    return events | {EVENT: {"oneOf": [{"$ref": REF.format(model=name)} for name in events]}}


def _event(line: Schema, kind: type[journal.Line]) -> Schema:
    """The event of a line of the journal: numbered, and without what only a replay needs."""
    known = line.get("properties") or {name: _STARTED.get(name, {}) for name in kind.model_fields}
    given = {name: each for name, each in known.items() if name not in NOT_SENT}
    own: Schema = {"type": {"const": kind.model_fields["event"].default}, "sequence_number": NUMBER}
    if kind is journal.Drawn:
        own["picture"] = TEXT
    required = [*own, *(name for name in given if name not in LATER)]
    return {"type": "object", "properties": {**own, **given}, "required": required}


def _job_event(state: str) -> Schema:
    own: Schema = {"type": {"const": f"job.{state}"}, "sequence_number": NUMBER}
    if state != "queued":
        error = {"$ref": REF.format(model="DocumentError")}
        own["error"] = {"anyOf": [error, {"type": "null"}]}
    return {"type": "object", "properties": own, "required": list(own)}


if __name__ == "__main__":
    print(json.dumps(openapi(), indent=1, sort_keys=True))
