"""The routes of the generator server."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from interleave.service.auth import Access
from interleave.service.decoding import Decoder, to_the_end
from interleave.service.forms import read_form
from interleave.service.memory import Share
from interleave.service.messages import ClientGone, Drawing, Refusal
from interleave.service.metrics import CONTENT_TYPE, Metrics
from interleave.service.middleware import IDENTITY, SHARE, Door, internal_failure, refusal_response
from interleave.service.pool import Pool
from interleave.service.request_bodies import Brought, read_json
from interleave.service.responses import PiecewiseResponse, compose
from interleave.service.wires import Job, openai, reference

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

T = TypeVar("T")
GONE = 499
"""What is logged and counted when nobody is there to read an answer."""
ANSWER_COPIES = 3
"""Of a drawn picture, until its answer is sent: as it came, and as base64."""


@dataclass(frozen=True)
class Service:
    """A generator and everything around it that the routes need."""

    pool: Pool
    models: tuple[str, ...]
    """The names under which `/v1/models` lists the generator."""
    metrics: Metrics
    decoder: Decoder = field(default_factory=Decoder)
    created: int = field(default_factory=lambda: int(time.time()))


def build_app(service: Service, access: Access) -> Door:
    """The server as an ASGI application; the pool is started and stopped by whoever runs it."""
    from fastapi import FastAPI
    from starlette.exceptions import HTTPException

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    routes = Routes(service)
    table = {
        "/": routes.root,
        "/health": routes.health,
        "/status": routes.status,
        "/metrics": routes.metrics,
        "/v1/models": routes.models,
        "/v1/models/{name:path}": routes.model,
    }
    drawing = {
        "/edit": routes.edit,
        "/edit-upload": routes.edit_upload,
        "/generate": routes.generate,
        "/v1/images/generations": routes.generations,
        "/v1/images/edits": routes.edits,
    }
    # Bodies are read by bodies.py, within its bounds, and never by the framework.
    for path, handler in table.items():
        app.add_route(path, handler, methods=["GET"])
    for path, handler in drawing.items():
        app.add_route(path, handler, methods=["POST"])
    app.add_exception_handler(HTTPException, _unrouted)
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(Exception, _failed)
    return Door(app, service.pool, access, service.metrics, frozenset({*table, *drawing}))


async def _unrouted(request: Request, error: Exception) -> Response:
    """What the framework refuses, in the words of the wire."""
    status = getattr(error, "status_code", 500)
    words = {404: "there is nothing here", 405: f"{request.method} is not allowed here"}
    response = refusal_response(request.url.path, Refusal(words.get(status, str(error)), status=status))
    response.headers.update(getattr(error, "headers", None) or {})
    return response


async def _refused(request: Request, error: Exception) -> Response:
    reason = error if isinstance(error, Refusal) else Refusal(str(error), status=500)
    return refusal_response(request.url.path, reason)


async def _failed(request: Request, error: Exception) -> Response:
    """A fault of our own: the door logs it under the request's id, and the client gets nothing but the id."""
    return refusal_response(request.url.path, internal_failure(request.scope[IDENTITY]))


class Routes:
    """What each address answers."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.pool = service.pool

    async def edit(self, request: Request) -> Response:
        return await self._draw(request, read_json, reference.edit, request.scope[IDENTITY])

    async def edit_upload(self, request: Request) -> Response:
        return await self._draw(request, read_form, reference.edit_upload, request.scope[IDENTITY])

    async def generate(self, request: Request) -> Response:
        return await self._draw(request, read_json, reference.generate, request.scope[IDENTITY])

    async def generations(self, request: Request) -> Response:
        return await self._draw(request, read_json, openai.generations, self.service.models)

    async def edits(self, request: Request) -> Response:
        return await self._draw(request, read_form, openai.edits, self.service.models)

    async def _draw(
        self,
        request: Request,
        read: Callable[[Request], Awaitable[Brought]],
        wire: Callable[..., Job],
        *more: object,
    ) -> Response:
        """Read what is asked for, draw it, answer; give it up as soon as the client has gone."""
        from starlette.responses import Response

        errand = Errand(self.service, request.scope[SHARE], self.pool.deadline())
        try:
            self.pool.check_newcomer()
            brought = [await read(request)]
            return await _unless_gone(request, errand.run(brought, wire, *more))
        except ClientGone:
            return Response(status_code=GONE)

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
        from starlette.responses import Response

        return Response(self.service.metrics.text(), media_type=CONTENT_TYPE)

    async def models(self, request: Request) -> Response:
        return _json(openai.models_list(self.service.models, self.service.created))

    async def model(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self.service.models:
            raise Refusal("there is no such model here", status=404, parameter="model")
        return _json(openai.model_card(name, self.service.created))


@dataclass(frozen=True)
class Errand:
    """One request for pictures, from its body to its answer: what it may hold, and how long it may take."""

    service: Service
    share: Share
    ends_at: float

    async def run(self, brought: list[Brought], wire: Callable[..., Job], *more: object) -> Response:
        """`brought` is emptied, so that the body is freed as soon as it has been read."""
        pool = self.service.pool
        with pool.arriving():
            job = await self._read(brought.pop(), wire, *more)
            drawings = await self._with_sources(job)
        dropped, answer = job.dropped, job.answer
        del job
        pictures = await pool.draw(drawings, self.ends_at)
        del drawings
        self.share.keep(ANSWER_COPIES * sum(len(picture.data) for picture in pictures))
        pieces = await to_the_end(asyncio.to_thread(lambda: compose(answer(pictures))))
        headers = {"x-ignored-parameters": ", ".join(dropped)} if dropped else {}
        return PiecewiseResponse(pieces, headers)

    async def _read(self, brought: Brought, wire: Callable[..., Job], *more: object) -> Job:
        facts = await self.service.pool.loaded_facts(self.ends_at)
        if brought.working_bytes:
            await self.share.reserve(brought.working_bytes, self.ends_at)
        return await to_the_end(asyncio.to_thread(lambda: wire(*brought.parse(), facts, *more)))

    async def _with_sources(self, job: Job) -> list[Drawing]:
        """The drawings with their sources decoded; of what the client sent nothing is left."""
        self.share.keep(0)
        drawings = job.drawings
        if job.sources:
            sources = await self.service.decoder.decode(job.sources, self.share, self.ends_at)
            drawings = [replace(drawing, sources=sources) for drawing in drawings]
        self.share.drop_body()
        return drawings


async def _unless_gone(request: Request, work: Awaitable[T]) -> T:
    """The result of the work; the work is cancelled when the client hangs up first."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_client_leaves(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientGone
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _client_leaves(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _status(service: Service) -> dict[str, Any]:
    """The reference's fields, with true values, and what an operator wants to know besides."""
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
        "capabilities": asdict(pool.facts.capabilities) if pool.facts else None,
        "settings": pool.facts.settings if pool.facts else None,
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
    from starlette.responses import Response

    return Response(json.dumps(body), status, media_type="application/json")
