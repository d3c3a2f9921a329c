"""Routes for operators and programs: health, metrics and the description of the API."""

from __future__ import annotations

from typing import Any

from starlette.responses import PlainTextResponse, Response

from interleave import StorageError
from interleave.service.documents import schemas as wire
from interleave.service.documents.health import status_of
from interleave.service.documents.metrics import CONTENT_TYPE
from interleave.service.documents.routes import OPEN, AdminCall, Call, Router, plain_json

router = Router()


@router.get("/openapi.json", response_model=dict[str, Any], openapi_extra=OPEN)
async def describe(call: Call) -> Response:
    """OpenAPI description."""
    return plain_json(await call.documents.in_thread(call.request.app.openapi))


@router.get("/health", response_model=wire.Health, openapi_extra=OPEN)
async def health(call: Call) -> Response:
    """Health check."""
    documents = call.documents
    state = str(documents.model_cache.state)
    try:
        load = await documents.load()
    except StorageError:
        load, state = documents.last_load, "job table failing"
    if documents.draining:
        state = "stopping"
    elif documents.worker.storage_problem:
        state = "disk failing"
    body = {
        "status": state,
        "models": documents.model_cache.state,
        "queued": load.waiting,
        "in_progress": load.running,
    }
    return plain_json(body, 200 if state in ("ready", "loading") else 503)


@router.get("/health/live", response_model=wire.Liveness, openapi_extra=OPEN)
async def live(call: Call) -> Response:
    """Whether the process works."""
    found = call.documents.health.live()
    return plain_json(found, status_of(found))


@router.get("/health/ready", response_model=wire.Readiness, openapi_extra=OPEN)
async def ready(call: Call) -> Response:
    """Whether it takes new work."""
    found = await call.documents.health.ready()
    return plain_json(found, status_of(found))


@router.get("/metrics", response_class=PlainTextResponse)
async def scrape(call: AdminCall) -> Response:
    """Prometheus metrics."""
    await call.documents.load()
    return Response(call.request.app.state.metrics.text(), media_type=CONTENT_TYPE)
