"""Middleware around every request: authorization, limits, response headers, metrics and the request log.

An unauthorized request is refused before its body is read. Each response has a request id, which is also in
the log, and headers that stop browsers from sniffing. The log has one line per request, without query or
headers, so that clients cannot write into it. Unauthenticated requests share lines.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping
from contextlib import suppress
from typing import Any, Protocol

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from interleave.plugin import count as text_count
from interleave.plugin import one_line
from interleave.service.http.connections import CONNECTION
from interleave.service.http.memory import MemoryBudget, MemoryLease
from interleave.service.http.refusals import Refusal
from interleave.service.http.request_bodies import MAX_BODY_BYTES, BoundedBody, Message, Receive

Scope = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
Refuse = Callable[[str, Refusal], Response]
"""Function that writes a refusal in the error format of a path's API."""
ExceptionHandler = Callable[[Request, Any], Coroutine[Any, Any, Response]]

log = logging.getLogger(__name__)
CLIENT_CLOSED_REQUEST = 499
"""Status logged and counted if the client disconnects before the response."""
DISCARD_SECONDS = 2.0
MAX_ADDRESS_BYTES = 8192
UNAUTHENTICATED_LOG_SECONDS = 1.0
REQUEST_ID = "interleave.request_id"
LEASE = "interleave.memory_lease"
"""The scope key of the request's `MemoryLease`."""
CALLER = "interleave.caller"
"""The scope key of the result of `Access.check`: the sender of the request."""
POLLED = frozenset({"/health", "/health/live", "/health/ready", "/metrics", "/v1/studio/queue"})
"""Paths that monitoring and pages poll every few seconds; logged only on failure."""


class Serving(Protocol):
    """Service interface of the middleware."""

    draining: bool
    """Whether it is shutting down, so that connections are not kept alive."""

    @property
    def memory(self) -> MemoryBudget: ...


class AccessCheck(Protocol):
    def check(self, path: str, headers: Mapping[str, str]) -> object:
        """Return the sender of the request, falsy if unknown; raise a `Refusal` if not authorized."""
        ...


class RequestMetrics(Protocol):
    def answered(self, route: str, status: int, seconds: float) -> None: ...


class ServiceMiddleware:
    """Outermost ASGI application of a server."""

    def __init__(
        self,
        app: Application,
        service: Serving,
        access: AccessCheck,
        metrics: RequestMetrics,
        route_of: Callable[[str], str],
        refuse: Refuse,
    ) -> None:
        """`route_of` maps a path to its route, so that clients cannot create metric labels."""
        self.app = app
        self.service = service
        self.access = access
        self.metrics = metrics
        self.route_of = route_of
        self.refuse = refuse
        self._unauthenticated_logged_at = -math.inf
        self._unauthenticated_unlogged = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await _RequestContext(self, scope, receive, send).run()
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        else:
            await self.app(scope, receive, send)

    def unauthenticated_to_log(self, now: float) -> int | None:
        """Return the unauthenticated requests since the last log line; `None` if it is too soon for one."""
        self._unauthenticated_unlogged += 1
        if now - self._unauthenticated_logged_at < UNAUTHENTICATED_LOG_SECONDS:
            return None
        number = self._unauthenticated_unlogged
        self._unauthenticated_unlogged, self._unauthenticated_logged_at = 0, now
        return number


class _RequestContext:
    """One request, from its headers to the end of its response."""

    def __init__(self, middleware: ServiceMiddleware, scope: Scope, receive: Receive, send: Send) -> None:
        self.middleware, self.scope, self.receive, self._send = middleware, scope, receive, send
        self.request_id = uuid.uuid4().hex
        self.headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        self.lease = MemoryLease(middleware.service.memory)
        self.body = BoundedBody(receive, self.lease, declared=_declared_length(self.headers))
        self.status = 500
        self.started = False
        self.closing = False

    async def run(self) -> None:
        began = time.monotonic()
        scope = {**self.scope, REQUEST_ID: self.request_id, LEASE: self.lease}
        try:
            scope[CALLER] = self._check_headers()
            await self.middleware.app(scope, self.body, self.send)
        except Refusal as reason:
            await self._refuse(reason)
        except Exception:
            log.exception("request %s failed", self.request_id)
            await self._refuse(internal_failure(self.request_id))
        finally:
            self.lease.release()
            self._log_request(time.monotonic() - began)

    def _check_headers(self) -> object:
        """Return the sender; refuse what the request line and the headers alone rule out."""
        self.closing = True  # a connection refused here is not kept alive
        _check_framing(self.scope, self.headers)
        _check_address(self.scope)
        known = self.middleware.access.check(self.scope["path"], self.headers)
        if known and CONNECTION in self.scope:
            self.scope[CONNECTION].admit()
        self.closing = False
        return known

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            self.status = message["status"]
            given = message.get("headers", [])
            names = {name.lower() for name, _ in given}
            own = [header for header in self._own_headers() if header[0] not in names]
            message["headers"] = [*given, *own]
        last = message["type"] == "http.response.body" and not message.get("more_body", False)
        if last and self._unread and "expect" not in self.headers:
            # Closing while the client still sends would reset the connection before it reads the response.
            await self._send({**message, "more_body": True})
            await self._discard()
            message = {"type": "http.response.body", "body": b""}
        await self._send(message)

    async def _refuse(self, reason: Refusal) -> None:
        if self.started:
            return
        response = self.middleware.refuse(self.scope["path"], reason)
        await response(self.scope, self.receive, self.send)

    @property
    def _unread(self) -> bool:
        has_body = "transfer-encoding" in self.headers or self.headers.get("content-length", "0") != "0"
        return has_body and not self.body.complete

    def _own_headers(self) -> list[tuple[bytes, bytes]]:
        own = [
            (b"x-request-id", self.request_id.encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"cache-control", b"no-store"),
        ]
        last = self._unread or self.closing or self.middleware.service.draining
        return [*own, (b"connection", b"close")] if last else own

    async def _discard(self) -> None:
        """Read and drop the rest of the body for up to 2 s, so that the client can read its response."""
        left = MAX_BODY_BYTES
        with suppress(TimeoutError):
            async with asyncio.timeout(DISCARD_SECONDS):
                while left > 0:
                    message = await self.receive()
                    if message["type"] != "http.request" or not message.get("more_body", False):
                        return
                    left -= len(message.get("body", b""))

    def _log_request(self, seconds: float) -> None:
        path = self.scope["path"]
        self.middleware.metrics.answered(self.middleware.route_of(path), self.status, seconds)
        if self.status == 401:
            self._log_unauthenticated()
            return
        method, shown = one_line(self.scope["method"], 20), one_line(path, 100)
        level = logging.DEBUG if path in POLLED and self.status < 400 else logging.INFO
        log.log(level, "%s %s %d %.3f s %s", method, shown, self.status, seconds, self.request_id)

    def _log_unauthenticated(self) -> None:
        """Log one line for many requests: a client without a token could fill the disk."""
        number = self.middleware.unauthenticated_to_log(asyncio.get_running_loop().time())
        if number is not None:
            client = (self.scope.get("client") or ("?",))[0]
            log.info("%s without a token refused, the last from %s", text_count(number, "request"), client)


def _check_framing(scope: Scope, headers: MutableMapping[str, str]) -> None:
    """Refuse ambiguous framing: if a proxy sees another end of the body, it may hide a second request."""
    if "transfer-encoding" in headers and ("content-length" in headers or scope["http_version"] == "1.0"):
        raise Refusal("send either Content-Length or Transfer-Encoding, not both", status=400)


def _check_address(scope: Scope) -> None:
    if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > MAX_ADDRESS_BYTES:
        raise Refusal("the URL is too long", status=414)


def internal_failure(request_id: str) -> Refusal:
    return Refusal(f"the server failed; see its log for request {request_id}", status=500)


def exception_handlers(refuse: Refuse) -> dict[Any, ExceptionHandler]:
    """Return handlers for the exceptions of the routes and the framework."""

    async def unrouted(request: Request, error: HTTPException) -> Response:
        status = error.status_code
        words = {404: "no such route", 405: f"{request.method} is not allowed on this route"}
        response = refuse(request.url.path, Refusal(words.get(status, str(error)), status=status))
        response.headers.update(error.headers or {})
        if response.headers.get("allow") == "GET":
            response.headers["allow"] = "GET, HEAD"  # see routing.py
        return response

    async def refused(request: Request, error: Refusal) -> Response:
        return refuse(request.url.path, error)

    async def disconnected(request: Request, error: Exception) -> Response:
        return Response(status_code=CLIENT_CLOSED_REQUEST)

    async def failed(request: Request, error: Exception) -> Response:
        """Answer with the request id only; the error is re-raised and logged under that id."""
        return refuse(request.url.path, internal_failure(request.scope[REQUEST_ID]))

    return {
        HTTPException: unrouted,
        Refusal: refused,
        ClientDisconnect: disconnected,
        Exception: failed,
    }


def _declared_length(headers: MutableMapping[str, str]) -> int | None:
    length = headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() and len(length) < 20 else None
