"""Google's `generateContent` over the same jobs, whole or streamed, and the models in both APIs' forms."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import Request
from starlette.responses import Response

from interleave.service.documents.bodies import described_body
from interleave.service.documents.document_parts import Ending, ShownPart, failure_of, parts_of, shown_parts
from interleave.service.documents.events import Event
from interleave.service.documents.gemini_request import parse_content
from interleave.service.documents.jobs import Job
from interleave.service.documents.keys import GOOGLE_KEY
from interleave.service.documents.refusals import ApiRefusal, status_of
from interleave.service.documents.request_handling import Handling
from interleave.service.documents.routes import Call, Router, plain_json
from interleave.service.documents.stored_images import InlineData
from interleave.service.documents.streams import ChunkStream, json_response
from interleave.service.documents.submissions import OWN_FIELD
from interleave.service.generator import openai_images_api as openai
from interleave.service.http.refusals import Refusal, error_response

router = Router()
CREATED = int(time.time())
METHODS = ("generateContent", "streamGenerateContent")
STREAMED_IMAGE_BYTES = 3_000_000
"""Google's asynchronous client reads lines of at most 4 MiB."""
FINISH = {"completed": "STOP", "incomplete": "MAX_TOKENS"}
STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    422: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
}


def is_gemini_path(path: str) -> bool:
    """Return whether a path belongs to Google's API; its SDKs use both v1 and v1beta."""
    return path.startswith("/v1beta/") or (path.startswith("/v1/models/") and ":" in path)


def gemini_error(reason: Refusal) -> dict[str, Any]:
    """Return a refusal in Google's format. Its SDK recognizes an error in a stream by the first key."""
    status = status_of(reason)
    words = STATUSES.get(status, "INTERNAL" if status >= 500 else "INVALID_ARGUMENT")
    error: dict[str, Any] = {"code": status, "message": str(reason), "status": words}
    if reason.parameter is not None:
        violation = {"field": reason.parameter, "description": str(reason)}
        kind = "type.googleapis.com/google.rpc.BadRequest"
        error["details"] = [{"@type": kind, "fieldViolations": [violation]}]
    return {"error": error}


def gemini_refusal(reason: Refusal) -> Response:
    return error_response(reason, gemini_error(reason), status_of(reason))


class GeminiStream(ChunkStream):
    """Chunks of a streamed answer."""

    heartbeat = b"\n"
    """An empty line, which is ignored between events. Google's SDK would parse a comment as JSON."""

    def error(self, reason: Refusal) -> dict[str, Any]:
        return gemini_error(reason)


class GeminiArray(GeminiStream):
    """Chunks of a streamed answer as items of one JSON array, which is Google's default."""

    media_type = "application/json"
    separator = b"\n"
    end = b"]\n"
    _begun = False

    def head(self, event: Event) -> bytes:
        before = b",\r\n" if self._begun else b"["
        self._begun = True
        return before


STREAMS = {"sse": GeminiStream, "json": GeminiArray}
"""Stream types by the query parameter `alt`."""


@router.get("/v1/models", response_model=dict[str, Any])
@router.get("/v1beta/models", response_model=dict[str, Any])
async def models(call: Call) -> Response:
    """List the models, in the form of OpenAI's or Google's API."""
    names = call.documents.settings.models
    if _is_openai(call.request):
        return plain_json(openai.models_list(names, CREATED))
    return plain_json({"models": [_model(name) for name in names]})


@router.get("/v1/models/{name}", response_model=dict[str, Any])
@router.get("/v1beta/models/{name}", response_model=dict[str, Any])
async def model(call: Call, name: str) -> Response:
    """Get a model, in the form of OpenAI's or Google's API."""
    is_openai = _is_openai(call.request)
    if name not in call.documents.settings.models:
        where, code = ("/v1/models", "model_not_found") if is_openai else ("/v1beta/models", None)
        raise ApiRefusal(f"no model {name[:80]!r}; see {where}", status=404, code=code)
    return plain_json(openai.model_card(name, CREATED) if is_openai else _model(name))


def _is_openai(request: Request) -> bool:
    return request.url.path.startswith("/v1/") and GOOGLE_KEY not in request.headers


@router.post("/v1/models/{name}", response_model=dict[str, Any])
@router.post("/v1beta/models/{name}", response_model=dict[str, Any])
async def generate(
    call: Handling,
    name: str,
    body: Annotated[None, described_body(dict[str, Any])],
    alt: Literal["sse", "json"] = "json",
) -> Response:
    """Google's API: NAME:generateContent."""
    model, _, method = name.partition(":")
    if method == "countTokens":
        raise ApiRefusal(
            "tokens are counted by the models of a document as they run, and not before: "
            "see usageMetadata of its answer",
            status=501,
            code="not_supported",
        )
    if method not in METHODS:
        raise ApiRefusal(f"no such method; models have {' and '.join(METHODS)}", status=404)
    asked, documents = await call.read(partial(parse_content, model=model)), call.documents
    job = await call.submit(asked)
    if method == "streamGenerateContent":
        parts = chunks(job, shown_parts(documents.events(job)))
        leaving = call.on_leaving(asked, job)
        return STREAMS[alt](parts, call.images(job), call.lease, client_gone=leaving)
    job = await call.wait(asked, job)
    response = await documents.in_thread(documents.response, job)
    if (failure := failure_of(response)) is not None:
        return gemini_refusal(failure)
    return await json_response(full_answer(job, response), call.images(job), call.lease)


def full_answer(job: Job, response: dict[str, Any]) -> dict[str, Any]:
    """Return the document as one answer."""
    parts = [_part(part, None) for part in parts_of(response["output"])]
    ended = _answer(job, parts or [{"text": ""}], FINISH[response["status"]])
    return {**ended, "usageMetadata": _usage(response["usage"]), OWN_FIELD: response[OWN_FIELD]}


async def chunks(
    job: Job, parts: AsyncGenerator[ShownPart | Ending | None]
) -> AsyncGenerator[dict[str, Any] | None]:
    """Yield the document as it becomes final, one part per chunk."""
    async with aclosing(parts):
        async for part in parts:
            if part is None:
                yield None
            elif not isinstance(part, Ending):
                yield _answer(job, [_part(part, STREAMED_IMAGE_BYTES)])
            elif (failure := part.failure) is not None:
                yield gemini_error(failure)
            else:
                response = part.response or {}
                # Google's SDK drops the chat history after an answer whose content has no parts.
                last = _answer(job, [{"text": ""}], FINISH[response["status"]])
                yield {**last, "usageMetadata": _usage(response["usage"])}


def _part(part: ShownPart, most_bytes: int | None) -> dict[str, Any]:
    return (
        {"text": part}
        if isinstance(part, str)
        else {"inlineData": InlineData(part.name, most_bytes=most_bytes)}
    )


def _answer(job: Job, parts: list[dict[str, Any]], finish: str | None = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": job.model, "responseId": job.id}


def _usage(usage: dict[str, Any]) -> dict[str, Any]:
    return {
        "promptTokenCount": usage["input_tokens"],
        "candidatesTokenCount": usage["output_tokens"],
        "totalTokenCount": usage["total_tokens"],
    }


def _model(name: str) -> dict[str, Any]:
    return {
        "name": f"models/{name}",
        "version": "1",
        "displayName": name,
        "description": "documents of text and images",
        "supportedGenerationMethods": list(METHODS),
    }
