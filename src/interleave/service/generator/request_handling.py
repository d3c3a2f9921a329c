"""Handling of an image request of the generator server, from body to response."""

from __future__ import annotations

import asyncio
import base64
import json
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from interleave.service.generator.messages import GenerationTask, Job
from interleave.service.generator.metrics import Metrics
from interleave.service.generator.pool import Pool
from interleave.service.http.connections import CONNECTION
from interleave.service.http.decoding import Decoder, RawImage, finish_despite_cancel
from interleave.service.http.memory import MemoryLease
from interleave.service.http.refusals import Refusal
from interleave.service.http.request_bodies import ReceivedBody

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


async def cancelled_on_disconnect(request: Request, work: Awaitable[T]) -> T:
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
