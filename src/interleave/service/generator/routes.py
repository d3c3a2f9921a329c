"""Routes of the generator server. FastAPI describes them in `/openapi.json`."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

from fastapi import Request
from starlette.responses import Response

from interleave.service.generator import bodies
from interleave.service.generator import edit_api as reference
from interleave.service.generator import openai_images_api as openai
from interleave.service.generator.docs_page import SECURITY_POLICY, docs_page
from interleave.service.generator.messages import Job
from interleave.service.generator.metrics import CONTENT_TYPE
from interleave.service.generator.request_handling import RequestHandler, Service, cancelled_on_disconnect
from interleave.service.http.middleware import LEASE, REQUEST_ID
from interleave.service.http.refusals import Refusal
from interleave.service.http.request_bodies import ReceivedBody, read_form, read_json
from interleave.service.http.routing import OPEN, LimitedRouter, described_body

FORM = "multipart/form-data"
router = LimitedRouter(
    default_response_class=Response,
    responses={200: {"description": "Success"}, "default": {"description": "Error, with its reason"}},
)


@router.post("/generate", dependencies=[described_body(bodies.Generate)])
async def generate(request: Request) -> Response:
    """Generate an image from text."""
    return await _draw(request, read_json, reference.generate)


@router.post("/edit", dependencies=[described_body(bodies.Edit)])
async def edit(request: Request) -> Response:
    """Edit an image, or generate one from text."""
    return await _draw(request, read_json, reference.edit)


@router.post("/fill", dependencies=[described_body(bodies.Edit)])
async def fill(request: Request) -> Response:
    """Redraw the white areas of a mask."""
    return await _draw(request, read_json, reference.edit)


@router.post("/edit-upload", dependencies=[described_body(bodies.EditUpload, media_type=FORM)])
async def edit_upload(request: Request) -> Response:
    """Edit an uploaded image."""
    return await _draw(request, read_form, reference.edit_upload)


@router.post("/v1/images/generations", dependencies=[described_body(bodies.ImageGenerations)])
async def generations(request: Request) -> Response:
    """OpenAI's API: generate images from text."""
    return await _draw(request, read_json, openai.generations)


@router.post("/v1/images/edits", dependencies=[described_body(bodies.ImageEdits, media_type=FORM)])
async def edits(request: Request) -> Response:
    """OpenAI's API: edit images."""
    return await _draw(request, read_form, openai.edits)


@router.get("/")
async def root(request: Request) -> Response:
    """Name and status of the server."""
    message = f"interleave generator server: {_service(request).models[0]}"
    return _json({"message": message, "status": "Running"})


@router.get("/health", openapi_extra=OPEN)
async def health(request: Request) -> Response:
    """Health check; needs no token."""
    state = _service(request).pool.state
    alive = state in ("ready", "degraded")
    words = "Healthy" if state == "ready" else state.capitalize()
    body = {"status": words, "gpu_manager_ready": alive, "timestamp": time.time()}
    return _json(body, 200 if alive else 503)


@router.get("/status")
async def status(request: Request) -> Response:
    """Workers, queue and generator settings."""
    return _json(_status(_service(request)))


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Prometheus metrics."""
    return Response(_service(request).metrics.text(), media_type=CONTENT_TYPE)


@router.get("/v1/models")
async def models(request: Request) -> Response:
    """OpenAI's API: list the models."""
    service = _service(request)
    return _json(openai.models_list(service.models, service.created))


@router.get("/v1/models/{name:path}", include_in_schema=False)
async def model(request: Request, name: str) -> Response:
    service = _service(request)
    if name not in service.models:
        raise Refusal(f"no model {name[:80]!r}; see /v1/models", status=404, parameter="model")
    return _json(openai.model_card(name, service.created))


@router.get("/docs")
async def docs(request: Request) -> Response:
    """This page."""
    headers = {"content-security-policy": SECURITY_POLICY}
    page = docs_page(await asyncio.to_thread(request.app.openapi))
    return Response(page, headers=headers, media_type="text/html")


@router.get("/openapi.json")
async def describe(request: Request) -> Response:
    """OpenAPI description."""
    return _json(await asyncio.to_thread(request.app.openapi))


async def _draw(
    request: Request, read: Callable[[Request], Awaitable[ReceivedBody]], wire: Callable[..., Job]
) -> Response:
    """Read the request, draw its images, respond. Cancel everything if the client disconnects."""
    service = _service(request)
    handler = RequestHandler(service, request.scope[LEASE], service.pool.deadline())
    service.pool.check_admission()
    body = [await read(request)]
    more = service.models if request.url.path.startswith("/v1/") else request.scope[REQUEST_ID]
    return await cancelled_on_disconnect(request, handler.run(body, wire, more))


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def _status(service: Service) -> dict[str, Any]:
    """Return the fields of the reference's services with actual values, and more for operators."""
    pool = service.pool
    ready = sum(worker.state == "ready" for worker in pool.workers)
    return {
        "active_workers": ready,
        "task_queue_size": len(pool.waiting),
        "result_queue_size": 0,
        "pending_tasks": len(pool.waiting) + pool.in_flight,
        "total_gpus": len(pool.workers),
        "system_ready": pool.state in ("ready", "degraded"),
        "state": pool.state,
        "models": list(service.models),
        "queue": {"waiting": len(pool.waiting), "limit": pool.limits.queue, "held_bytes": pool.memory.held},
        "capabilities": asdict(pool.info.capabilities) if pool.info else None,
        "settings": pool.info.settings if pool.info else None,
        "ignored_parameters": sorted(pool.ignored),
        "workers": [
            {
                "number": worker.number,
                "device": worker.device,
                "state": str(worker.state),
                "pid": worker.pid,
                "in_flight": len(worker.in_flight),
                "capacity": worker.capacity,
                "drawn": worker.drawn,
                "restarts": worker.restarts,
                "last_error": worker.last_error,
            }
            for worker in pool.workers
        ],
    }


def _json(body: dict[str, Any], status: int = 200) -> Response:
    return Response(json.dumps(body), status, media_type="application/json")
