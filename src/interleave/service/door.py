"""What every request passes on its way in and its answer on the way out.

Refused at the door, before its body is read: who may not come in. Bounded: what is read. On every answer: an
id that the log has too, and headers that keep browsers from guessing. The log has one line a request, without
its query, its headers or anything else a client could hide in it; requests without a token share lines.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
import uuid
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from interleave.service.access import Access
from interleave.service.bodies import MAX_BODY_BYTES, BoundedBody, Message, Receive
from interleave.service.connections import CONNECTION
from interleave.service.memory import Share
from interleave.service.metrics import Metrics
from interleave.service.pool import Pool
from interleave.service.values import Refusal
from interleave.service.wires import openai, reference
from interleave.text import count as text_count
from interleave.text import one_line

if TYPE_CHECKING:
    from starlette.responses import Response

Scope = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

log = logging.getLogger(__name__)
DISCARD_SECONDS = 2.0
MAX_ADDRESS_BYTES = 8192
STRANGERS_SECONDS = 1.0
IDENTITY = "interleave.request_id"
SHARE = "interleave.share"
"""Where the application finds what a request holds of the memory."""
POLLED = frozenset({"/health", "/metrics"})
"""Asked every few seconds by machines: logged only when something is wrong."""


class Door:
    """The outermost layer of the server."""

    def __init__(
        self, app: Application, pool: Pool, access: Access, metrics: Metrics, routes: frozenset[str]
    ) -> None:
        self.app = app
        self.pool = pool
        self.access = access
        self.metrics = metrics
        self.routes = routes
        self._told_of_strangers_at = -math.inf
        self._untold = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await _Visit(self, scope, receive, send).run()
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        else:
            await self.app(scope, receive, send)

    def strangers_to_tell_of(self, now: float) -> int | None:
        """How many requests without a token a line of the log now stands for; None while it is too early."""
        self._untold += 1
        if now - self._told_of_strangers_at < STRANGERS_SECONDS:
            return None
        told, self._untold, self._told_of_strangers_at = self._untold, 0, now
        return told


class _Visit:
    """One request from its first line to its last byte."""

    def __init__(self, door: Door, scope: Scope, receive: Receive, send: Send) -> None:
        self.door, self.scope, self.receive, self._send = door, scope, receive, send
        self.identity = uuid.uuid4().hex
        self.headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        self.share = Share(door.pool.memory)
        self.body = BoundedBody(receive, self.share, declared=_declared_length(self.headers))
        self.status = 500
        self.started = False
        self.closing = False

    async def run(self) -> None:
        began = time.monotonic()
        scope = {**self.scope, IDENTITY: self.identity, SHARE: self.share}
        try:
            self._check_in()
            await self.door.app(scope, self.body, self.send)
        except Refusal as reason:
            await self._refuse(reason)
        except Exception:
            log.exception("request %s failed", self.identity)
            await self._refuse(internal_failure(self.identity))
        finally:
            self.share.let_go()
            self._report(time.monotonic() - began)

    def _check_in(self) -> None:
        """Everything that can be refused by the first line and the headers alone."""
        self.closing = True  # whoever is refused here is not waited for again
        _check_framing(self.scope, self.headers)
        _check_address(self.scope)
        known = self.door.access.check(self.scope["path"], self.headers)
        if known and CONNECTION in self.scope:
            self.scope[CONNECTION].admit()
        self.closing = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            self.status = message["status"]
            message["headers"] = [*message.get("headers", []), *self._own_headers()]
        last = message["type"] == "http.response.body" and not message.get("more_body", False)
        if last and self._unread and "expect" not in self.headers:
            # Closing on a client that is still sending would tear the answer away from it.
            await self._send({**message, "more_body": True})
            await self._discard()
            message = {"type": "http.response.body", "body": b""}
        await self._send(message)

    async def _refuse(self, reason: Refusal) -> None:
        if self.started:
            return
        response = refusal_response(self.scope["path"], reason)
        await response(self.scope, self.receive, self.send)

    @property
    def _unread(self) -> bool:
        has_body = "transfer-encoding" in self.headers or self.headers.get("content-length", "0") != "0"
        return has_body and not self.body.complete

    def _own_headers(self) -> list[tuple[bytes, bytes]]:
        own = [
            (b"x-request-id", self.identity.encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"cache-control", b"no-store"),
        ]
        last = self._unread or self.closing or self.door.pool.draining
        return [*own, (b"connection", b"close")] if last else own

    async def _discard(self) -> None:
        """Read on for a moment without keeping anything, so that the client gets to read its answer."""
        left = MAX_BODY_BYTES
        with suppress(TimeoutError):
            async with asyncio.timeout(DISCARD_SECONDS):
                while left > 0:
                    message = await self.receive()
                    if message["type"] != "http.request" or not message.get("more_body", False):
                        return
                    left -= len(message.get("body", b""))

    def _report(self, seconds: float) -> None:
        path = self.scope["path"]
        route = path if path in self.door.routes else "other"
        self.door.metrics.answered(route, self.status, seconds)
        if self.status == 401:
            self._report_stranger()
            return
        method, shown = one_line(self.scope["method"], 20), one_line(path, 100)
        level = logging.DEBUG if path in POLLED and self.status < 400 else logging.INFO
        log.log(level, "%s %s %d %.3f s %s", method, shown, self.status, seconds, self.identity)

    def _report_stranger(self) -> None:
        """Not a line for each: whoever has no token could fill the disk with them."""
        number = self.door.strangers_to_tell_of(asyncio.get_running_loop().time())
        if number is not None:
            client = (self.scope.get("client") or ("?",))[0]
            log.info("%s without a token refused, the last from %s", text_count(number, "request"), client)


def _check_framing(scope: Scope, headers: MutableMapping[str, str]) -> None:
    """A body whose end a proxy may see elsewhere than we do could hide a second request."""
    if "transfer-encoding" in headers and ("content-length" in headers or scope["http_version"] == "1.0"):
        raise Refusal("a request has either a Content-Length or a Transfer-Encoding", status=400)


def _check_address(scope: Scope) -> None:
    if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > MAX_ADDRESS_BYTES:
        raise Refusal("the address is too long", status=414)


def internal_failure(identity: str) -> Refusal:
    return Refusal(f"the server failed; its log tells why, under {identity}", status=500)


def refusal_response(path: str, reason: Refusal) -> Response:
    """A refusal as the wire of this path words it."""
    from starlette.responses import Response

    is_openai = path.startswith("/v1/")
    body = openai.refusal(reason) if is_openai else reference.refusal(reason)
    status = openai.status_of(reason) if is_openai else reason.status
    headers = {} if reason.retry_after is None else {"retry-after": str(max(1, round(reason.retry_after)))}
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    return Response(json.dumps(body), status, headers, media_type="application/json")


def _declared_length(headers: MutableMapping[str, str]) -> int | None:
    length = headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() and len(length) < 20 else None
