"""HTTP API of the document service, as the MCP tools call it.

The tools use the same routes as every other client, so keys, limits, refusals and the journal are the same.
Every change carries an idempotency key. A call that failed because the service restarted is sent again.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any

import anyio
import httpx2
from mcp.server.mcpserver.exceptions import ToolError

from interleave import InterleaveError

DOCUMENTS = "/v1/documents"
OPEN = ("queued", "in_progress")
READ_SECONDS = 60.0
RETURN_SECONDS = 60.0
"""Time for the service to come back after it ended, including the start of another process."""
BUSY_SECONDS = 10.0
"""Time for which a service that is full, or shutting down, is asked again."""
PAUSE_SECONDS = 0.2
HEADERS = ("authorization", "x-goog-api-key")
"""Headers of an MCP request that carry the key of its sender, and are passed on."""
FindService = Callable[[], Awaitable[str]]
"""Returns the base URL of the service, and starts the service first if that is its task."""


class Api:
    """Client of a document service."""

    def __init__(
        self,
        http: httpx2.AsyncClient,
        find: FindService,
        *,
        headers: Mapping[str, str] | None = None,
        public: str | None = None,
    ) -> None:
        """`public` is the base URL that people open; `None` for the one that is called."""
        self.http = http
        self.find = find
        self.headers = dict(headers or {})
        self.public = public
        self._base: str | None = None

    async def public_url(self, path: str) -> str:
        """Return the address of a path for people."""
        return f"{self.public or await self._address()}{path}"

    async def get(self, path: str, **query: Any) -> httpx2.Response:
        return await self._send("GET", path, params={k: v for k, v in query.items() if v is not None})

    async def json(self, path: str, **query: Any) -> dict[str, Any]:
        found: dict[str, Any] = (await self.get(path, **query)).json()
        return found

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        given = {name: value for name, value in body.items() if value is not None}
        made = await self._send("POST", path, json=given, headers={"idempotency-key": uuid.uuid4().hex})
        answer: dict[str, Any] = made.json()
        return answer

    async def document(self, id_: str) -> dict[str, Any]:
        return await self.json(f"{DOCUMENTS}/{id_}")

    async def shown(self, id_: str) -> dict[str, Any]:
        """Return the document as readers see it."""
        return await self.json(f"{DOCUMENTS}/{id_}/shown")

    async def events(self, id_: str, after: int) -> AsyncIterator[dict[str, Any]]:
        """Yield the events of a document after number `after`; ends if the service ends."""
        address = f"{await self._address()}{DOCUMENTS}/{id_}/events?starting_after={after}"
        try:
            async with self.http.stream("GET", address, headers=self.headers, timeout=READ_SECONDS) as answer:
                if answer.status_code != 200:
                    await answer.aread()
                    raise refusal_of(answer)
                async for line in answer.aiter_lines():
                    if line.startswith("data:"):
                        yield json.loads(line[5:])
        except httpx2.TransportError:
            self._base = None

    async def _send(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """Send a request. While the service is away, send it again for a limited time."""
        headers = {**self.headers, **options.pop("headers", {})}
        began = time.monotonic()
        while True:
            try:
                address = f"{await self._address()}{path}"
                answer = await self.http.request(
                    method, address, headers=headers, timeout=READ_SECONDS, **options
                )
            except httpx2.TransportError as error:
                self._base = None
                if time.monotonic() - began > RETURN_SECONDS:
                    raise ToolError("the document service does not answer: try again later") from error
            else:
                if answer.status_code < 400:
                    return answer
                if answer.status_code != 503 or time.monotonic() - began > BUSY_SECONDS:
                    raise refusal_of(answer)
            await anyio.sleep(PAUSE_SECONDS)

    async def _address(self) -> str:
        if self._base is None:
            try:
                self._base = await self.find()
            except InterleaveError as error:
                raise ToolError(str(error)) from error
        return self._base


def refusal_of(answer: httpx2.Response) -> ToolError:
    """Return the refusal of the service in its own words, with nearby requests that it accepts."""
    try:
        error = answer.json()["error"]
        said = str(error["message"])
        nearest = error.get("nearest") or []
    except (ValueError, LookupError, TypeError):
        said, nearest = f"the document service answered with status {answer.status_code}", []
    if nearest:
        said += "\nRequests it can answer: " + "; ".join(map(repr, nearest))
    return ToolError(said)


CURRENT: ContextVar[Api] = ContextVar("api")
"""The service of the MCP request in progress, with the key of its sender."""


def current() -> Api:
    return CURRENT.get()
