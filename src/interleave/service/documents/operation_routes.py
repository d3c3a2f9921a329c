"""Routes for operators and programs: health, metrics and the description of the API."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from starlette.responses import PlainTextResponse, Response

from interleave.service.documents import schemas as wire
from interleave.service.documents.metrics import CONTENT_TYPE
from interleave.service.documents.routes import OPEN, Admin, Router, Service, plain_json

router = Router()


@router.get("/openapi.json", response_model=dict[str, Any], openapi_extra=OPEN)
async def describe(request: Request) -> Response:
    """OpenAPI description."""
    return plain_json(request.app.openapi())


@router.get("/health", response_model=wire.Health, openapi_extra=OPEN)
async def health(documents: Service) -> Response:
    """Health check."""
    state = str(documents.model_cache.state)
    if documents.draining:
        state = "stopping"
    elif documents.worker.storage_problem:
        state = "disk failing"
    body = {
        "status": state,
        "models": documents.model_cache.state,
        "queued": documents.queue.depth,
        "in_progress": documents.queue.in_flight,
    }
    return plain_json(body, 200 if state in ("ready", "loading") else 503)


@router.get("/metrics", response_class=PlainTextResponse)
async def scrape(request: Request, caller: Admin) -> Response:
    """Prometheus metrics."""
    return Response(request.app.state.metrics.text(), media_type=CONTENT_TYPE)
