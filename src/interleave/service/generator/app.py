"""Routes of the generator server, and the handling of an image request from body to response."""

from __future__ import annotations

import asyncio
import base64
import json
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from interleave.service.generator import edit_api as reference
from interleave.service.generator import openai_images_api as openai
from interleave.service.generator.messages import GenerationTask, Job
from interleave.service.generator.metrics import CONTENT_TYPE, Metrics
from interleave.service.generator.openapi import SECURITY_POLICY, docs_page, openapi
from interleave.service.generator.pool import Pool
from interleave.service.http.auth import Access
from interleave.service.http.connections import CONNECTION
from interleave.service.http.decoding import Decoder, RawImage, finish_despite_cancel
from interleave.service.http.memory import MemoryLease
from interleave.service.http.middleware import (
    LEASE,
    REQUEST_ID,
    ServiceMiddleware,
    exception_handlers,
)
from interleave.service.http.refusals import Refusal, error_response
from interleave.service.http.request_bodies import ReceivedBody, read_form, read_json

if TYPE_CHECKING:
    from starlette.requests import Request

T = TypeVar("T")
RESPONSE_COPIES = 3
"""Copies of a generated image held until its response is sent: the file, and its base64 text."""
PIECE_BYTES = 262_144
SEND_SECONDS = 60.0
SEND_BYTES_A_SECOND = 1_000_000
"""Minimum rate at which a client must read a large response, after `SEND_SECONDS`."""


@dataclass(frozen=True)
class Service:
    """The generator pool and everything else the routes need."""

    pool: Pool
    models: tuple[str, ...]
    """Names of the generator in `/v1/models`."""
    metrics: Metrics
    decoder: Decoder = field(default_factory=Decoder)
    created: int = field(default_factory=lambda: int(time.time()))


def build_app(service: Service, access: Access) -> ServiceMiddleware:
    """Build the ASGI application. The caller starts and stops the pool."""
    from fastapi import FastAPI

    # FastAPI's documentation page loads scripts from another site; openapi.py serves ours.
    app = FastAPI(
        openapi_url=None,
        redirect_slashes=False,
        exception_handlers=exception_handlers(refusal_response),
    )
    routes = Routes(service)
    get_routes = {
        "/": routes.root,
        "/health": routes.health,
        "/status": routes.status,
        "/metrics": routes.metrics,
        "/docs": routes.docs,
        "/openapi.json": routes.openapi,
        "/v1/models": routes.models,
        "/v1/models/{name:path}": routes.model,
    }
    post_routes = {
        "/edit": partial(routes.draw, read_json, reference.edit),
        "/fill": partial(routes.draw, read_json, reference.edit),
        "/edit-upload": partial(routes.draw, read_form, reference.edit_upload),
        "/generate": partial(routes.draw, read_json, reference.generate),
        "/v1/images/generations": partial(routes.draw, read_json, openai.generations),
        "/v1/images/edits": partial(routes.draw, read_form, openai.edits),
    }
    # request_bodies.py reads bodies within its limits; the framework never reads them.
    for path, handler in get_routes.items():
        app.add_route(path, handler, methods=["GET"])
    for path, handler in post_routes.items():
        app.add_route(path, handler, methods=["POST"])
    routes_known = frozenset({*get_routes, *post_routes})
    return ServiceMiddleware(
        app,
        service.pool,
        access,
        service.metrics,
        lambda path: path if path in routes_known else "other",
        refusal_response,
    )


def refusal_response(path: str, reason: Refusal) -> Response:
    """Return a refusal in the error format of the path's API."""
    if path.startswith("/v1/"):
        return error_response(reason, openai.refusal(reason), openai.status_of(reason))
    return error_response(reason, reference.refusal(reason), reason.status)


class Routes:
    """The handlers of all routes."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.pool = service.pool

    async def draw(
        self, read: Callable[[Request], Awaitable[ReceivedBody]], wire: Callable[..., Job], request: Request
    ) -> Response:
        """Read the request, draw its images, respond. Cancel everything if the client disconnects."""
        handler = RequestHandler(self.service, request.scope[LEASE], self.pool.deadline())
        self.pool.check_admission()
        body = [await read(request)]
        more = self.service.models if request.url.path.startswith("/v1/") else request.scope[REQUEST_ID]
        return await _cancelled_on_disconnect(request, handler.run(body, wire, more))

    async def root(self, request: Request) -> Response:
        message = f"interleave generator server: {self.service.models[0]}"
        return _json({"message": message, "status": "Running"})

    async def health(self, request: Request) -> Response:
        state = self.pool.state
        alive = state in ("ready", "degraded")
        words = "Healthy" if state == "ready" else state.capitalize()
        body = {"status": words, "gpu_manager_ready": alive, "timestamp": time.time()}
        return _json(body, 200 if alive else 503)

    async def status(self, request: Request) -> Response:
        return _json(_status(self.service))

    async def metrics(self, request: Request) -> Response:
        return Response(self.service.metrics.text(), media_type=CONTENT_TYPE)

    async def docs(self, request: Request) -> Response:
        headers = {"content-security-policy": SECURITY_POLICY}
        return Response(docs_page(), headers=headers, media_type="text/html")

    async def openapi(self, request: Request) -> Response:
        return _json(openapi())

    async def models(self, request: Request) -> Response:
        return _json(openai.models_list(self.service.models, self.service.created))

    async def model(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self.service.models:
            raise Refusal(f"no model {name[:80]!r}; see /v1/models", status=404, parameter="model")
        return _json(openai.model_card(name, self.service.created))


@dataclass(frozen=True)
class RequestHandler:
    """Handler of one image request, from body to response, within its memory lease and deadline."""

    service: Service
    lease: MemoryLease
    ends_at: float

    async def run(self, body: list[ReceivedBody], wire: Callable[..., Job], *more: object) -> Response:
        """Run the request. `body` is a list that is emptied, which frees the body once it is parsed."""
        pool = self.service.pool
        with pool.arriving():
            job = await self._read(body.pop(), wire, *more)
            tasks = await self._with_sources(job)
        dropped, answer, events = job.dropped, job.answer, job.events
        del job
        images = await pool.draw(tasks, self.ends_at)
        del tasks
        self.lease.keep(RESPONSE_COPIES * sum(len(image.data) for image in images))
        headers = {"x-ignored-parameters": ", ".join(dropped)} if dropped else {}
        if events is not None:
            streamed = events(images)
            pieces = await finish_despite_cancel(asyncio.to_thread(lambda: compose_events(streamed)))
            return PiecewiseResponse(pieces, headers, media_type="text/event-stream")
        pieces = await finish_despite_cancel(asyncio.to_thread(lambda: compose(answer(images))))
        return PiecewiseResponse(pieces, headers)

    async def _read(self, body: ReceivedBody, wire: Callable[..., Job], *more: object) -> Job:
        info = await self.service.pool.loaded_info(self.ends_at)
        if body.working_bytes:
            await self.lease.reserve(body.working_bytes, self.ends_at)
        return await finish_despite_cancel(asyncio.to_thread(lambda: wire(*body.parse(), info, *more)))

    async def _with_sources(self, job: Job) -> list[GenerationTask]:
        """Return the tasks with their sources decoded, and release the body."""
        self.lease.keep(0)
        tasks = job.tasks
        if job.sources:
            masks = () if job.mask is None else (job.mask,)
            decoded = await self.service.decoder.decode((*job.sources, *masks), self.lease, self.ends_at)
            sources, mask = decoded[: len(job.sources)], decoded[-1] if masks else None
            _check_mask(sources, mask)
            tasks = [replace(task, sources=sources, mask=mask) for task in tasks]
        self.lease.drop_body()
        return tasks


def _check_mask(sources: Sequence[RawImage], mask: RawImage | None) -> None:
    first = sources[0]
    if mask is not None and (mask.width, mask.height) != (first.width, first.height):
        raise Refusal(
            f"the mask is {mask.width}x{mask.height} and the image {first.width}x{first.height}: "
            "both must have the same size",
            parameter="mask",
        )


async def _cancelled_on_disconnect(request: Request, work: Awaitable[T]) -> T:
    """Return the result of `work`; cancel it if the client disconnects first."""
    working = asyncio.ensure_future(work)
    disconnect = asyncio.ensure_future(_wait_for_disconnect(request))
    try:
        await asyncio.wait({working, disconnect}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        working.cancel()
        disconnect.cancel()
        await asyncio.gather(working, disconnect, return_exceptions=True)


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


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


def compose(answer: Mapping[str, Any]) -> list[bytes]:
    """Return the JSON text of a response in pieces. Bytes become base64, each copied only once."""
    mark = uuid.uuid4().hex  # a client cannot guess it
    images: list[bytes] = []

    def placeholder(value: object) -> str:
        if not isinstance(value, bytes):
            raise TypeError(f"{type(value).__name__} is not JSON serializable")
        images.append(value)
        return mark

    texts = json.dumps(answer, default=placeholder).encode().split(mark.encode())
    pieces = [texts[0]]
    for image, text in zip(images, texts[1:], strict=True):
        pieces += [base64.b64encode(image), text]
    return pieces


def compose_events(events: Sequence[Mapping[str, Any]]) -> list[bytes]:
    """Return the text of server-sent events in pieces, one event per image."""
    pieces: list[bytes] = []
    for event in events:
        pieces += [f"event: {event['type']}\ndata: ".encode(), *compose(event), b"\n\n"]
    return pieces


class PiecewiseResponse(Response):
    """Response sent in pieces as fast as the client reads them; aborts the connection of a slow client."""

    def __init__(
        self, pieces: Sequence[bytes], headers: Mapping[str, str], media_type: str = "application/json"
    ) -> None:
        self.pieces = list(pieces)
        self.size = sum(map(len, pieces))
        super().__init__(headers={**headers, "content-length": str(self.size)}, media_type=media_type)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        if await sent_in_time(self.pieces, scope, send):
            await send({"type": "http.response.body", "body": b""})


async def sent_in_time(pieces: Sequence[bytes], scope: Scope, send: Send) -> bool:
    """Send pieces as fast as the client reads them. Return False if it was too slow and was disconnected."""
    try:
        async with asyncio.timeout(SEND_SECONDS + sum(map(len, pieces)) / SEND_BYTES_A_SECOND):
            for piece in pieces:
                for at in range(0, len(piece), PIECE_BYTES):
                    body = piece[at : at + PIECE_BYTES]
                    await send({"type": "http.response.body", "body": body, "more_body": True})
    except TimeoutError:
        scope[CONNECTION].abort()
        return False
    return True
