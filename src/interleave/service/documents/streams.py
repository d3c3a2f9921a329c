"""Server-sent events of a job, and JSON with images, sent as fast as the client reads."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from interleave import RunError
from interleave.plugin import ImageStore
from interleave.service.documents.events import Event
from interleave.service.documents.refusals import error_body
from interleave.service.documents.stored_images import StoredImage
from interleave.service.documents.stream_limits import take_place
from interleave.service.generator.request_handling import PiecewiseResponse, sent_in_time
from interleave.service.http.memory import MemoryLease
from interleave.service.http.refusals import Refusal

HEARTBEAT = b": still here\n"
"""A comment not followed by an empty line, which some clients read as an event without data."""


def encoded(value: Any, store: ImageStore, *, ascii_only: bool = False) -> bytes:
    """Return a value with its images as JSON text. Reads image files, so run it in a thread."""

    def text(each: object) -> Any:
        if not isinstance(each, StoredImage):
            raise TypeError(f"{type(each).__name__} is not JSON serializable")
        try:
            return each.value(store)
        except (OSError, RunError):
            return None  # removed in the meantime

    return json.dumps(value, default=text, ensure_ascii=ascii_only).encode("utf-8", "backslashreplace")


def images_in(value: Any) -> Iterator[StoredImage]:
    """Yield all images in a value."""
    if isinstance(value, StoredImage):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from images_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from images_in(each)


def encoded_bytes(value: Any, store: ImageStore) -> int:
    """Return the memory needed to send a value."""
    sizes = 0
    for image in images_in(value):
        try:
            sizes += image.sending_bytes(store)
        except (OSError, RunError):
            continue
    return sizes


async def json_response(value: Any, store: ImageStore, lease: MemoryLease, seconds: float = 60.0) -> Response:
    """Return a value with its images as a JSON response, within the memory budget."""
    if size := encoded_bytes(value, store):
        await lease.reserve(size, asyncio.get_running_loop().time() + seconds)
        body = await asyncio.to_thread(encoded, value, store)
    else:
        body = encoded(value, store)
    lease.keep(len(body))
    return PiecewiseResponse([body], {})


class EventStream(Response):
    """Events of a job as server-sent events, until the job ends or the client disconnects."""

    media_type = "text/event-stream"
    heartbeat = HEARTBEAT
    ascii_only = False
    separator = b"\n\n"
    """Bytes after each event."""
    end = b""
    """Bytes after the last event."""

    def __init__(
        self,
        events: AsyncGenerator[Event | None],
        store: ImageStore,
        lease: MemoryLease,
        *,
        client_gone: Callable[[], object] | None = None,
    ) -> None:
        super().__init__(headers={"x-accel-buffering": "no"}, media_type=self.media_type)
        del self.headers["content-length"]
        self.events = events
        self.store = store
        self.lease = lease
        self.client_gone = client_gone
        """Called if the client disconnects before the end."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        take_place(scope)
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        sending = asyncio.ensure_future(self._send_all(scope, send))
        gone = asyncio.ensure_future(disconnected(receive))
        try:
            await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
            read_to_its_end = sending.done() and sending.result()
            if not read_to_its_end and self.client_gone is not None:
                self.client_gone()
        finally:
            sending.cancel()
            gone.cancel()
            await asyncio.gather(sending, gone, return_exceptions=True)

    async def _send_all(self, scope: Scope, send: Send) -> bool:
        """Send all events. Return False if the client was too slow and was disconnected."""
        end = self.end
        try:
            async with aclosing(self.events) as events:
                async for event in events:
                    if not await sent_in_time([await self._text(event)], scope, send):
                        return False
                    self.lease.keep(0)
        except Refusal as reason:  # for example, no memory for an image
            end = self.failed(reason)
        await send({"type": "http.response.body", "body": end})
        return True

    def failed(self, reason: Refusal) -> bytes:
        """Return the end of a stream that fails, or raise."""
        raise reason

    def head(self, event: Event) -> bytes:
        """Return the bytes before the JSON of an event."""
        return f"event: {event['type']}\nid: {event['sequence_number']}\ndata: ".encode()

    async def _text(self, event: Event | None) -> bytes:
        if event is None:
            return self.heartbeat
        size = encoded_bytes(event, self.store)
        if size:
            await self.lease.reserve(size, asyncio.get_running_loop().time() + 600)
            data = await asyncio.to_thread(encoded, event, self.store, ascii_only=self.ascii_only)
        else:
            data = encoded(event, self.store, ascii_only=self.ascii_only)
        return b"".join((self.head(event), data, self.separator))


class ChunkStream(EventStream):
    """Events without names and numbers, for the APIs of OpenAI and Google.

    ASCII only: some clients read U+2028 and U+0085 as the end of a line.
    """

    ascii_only = True

    def head(self, event: Event) -> bytes:
        return b"data: "

    def failed(self, reason: Refusal) -> bytes:
        error = self.error(reason)
        return b"".join((self.head(error), json.dumps(error).encode(), self.separator, self.end))

    def error(self, reason: Refusal) -> dict[str, Any]:
        """Return a refusal in the error format of this API."""
        return error_body(reason)


async def disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
