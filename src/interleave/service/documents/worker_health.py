"""Metrics and health of a worker over HTTP, in threads of their own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from socketserver import ThreadingMixIn
from threading import Thread
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app

from interleave import ConfigurationError
from interleave.service.documents.health import Health, status_of

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

ANSWER_SECONDS = 5.0
"""Time for a busy event loop to answer, after which the process counts as stuck."""
CLIENT_SECONDS = 10.0


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Handler(WSGIRequestHandler):
    timeout = CLIENT_SECONDS

    def log_message(self, *arguments: Any) -> None:
        """Log nothing: probes come every few seconds."""


def serve_health(
    port: int, registry: CollectorRegistry, health: Health, loop: asyncio.AbstractEventLoop
) -> WSGIServer:
    """Serve `/metrics`, `/health/live` and `/health/ready` in a thread, until the process ends."""
    metrics = make_wsgi_app(registry)

    def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO")
        if path not in ("/health/live", "/health/ready"):
            answered: Iterable[bytes] = metrics(environ, start)
            return answered
        found = _in_loop(loop, health, path)
        lines = {200: "200 OK", 503: "503 Service Unavailable"}
        start(lines[status_of(found)], [("Content-Type", "application/json"), ("Cache-Control", "no-store")])
        return [json.dumps(found).encode()]

    try:
        server = make_server("", port, answer, _Server, _Handler)
    except OSError as error:
        raise ConfigurationError(f"--metrics-port {port}: {error.strerror or error}") from None
    Thread(target=server.serve_forever, name="health", daemon=True).start()
    return server


def _in_loop(loop: asyncio.AbstractEventLoop, health: Health, path: str) -> dict[str, Any]:
    """Ask in the event loop, so that a blocked one shows."""

    async def ask() -> dict[str, Any]:
        return await health.ready() if path.endswith("ready") else health.live()

    asking = asyncio.run_coroutine_threadsafe(ask(), loop)
    try:
        return asking.result(ANSWER_SECONDS)
    except TimeoutError:
        asking.cancel()
        return {"status": "failing", "reasons": [f"the event loop is blocked for {ANSWER_SECONDS:g} s"]}
