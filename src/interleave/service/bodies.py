"""Request bodies: read within bounds of size, time and memory, then JSON or a form.

Nothing here trusts a length, a file name, a content type or a nesting depth that a client states.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from interleave.service.measuring import EncodedPicture
from interleave.service.memory import Share
from interleave.service.pace import Meter
from interleave.service.values import ClientGone, Refusal

if TYPE_CHECKING:
    from starlette.requests import Request

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]

MAX_BODY_BYTES = 64_000_000
BODY_SECONDS = 60.0
WINDOW_SECONDS = 10.0
WINDOW_BYTES = 10_000
"""What a body that is not complete must bring in every window: 1 kB a second."""
MAX_MARKS = 200_000
"""Quotes, commas and brackets in a JSON body. A prompt may have many; a million keys are an attack."""
PARSING_COPIES = 5
"""Copies of a JSON body while it is parsed: its text with four bytes a character, and its values."""
SMALL_BODY_BYTES = 200_000
"""Bodies for which no memory is reserved: as many are parsed at once as there are threads for it."""
_MARKS = (b'"', b",", b"[", b"{")
_DATA_URL = re.compile(r"data:image/[a-z+.-]{1,20};base64,", re.IGNORECASE)
_BLANKS = str.maketrans("", "", " \t\r\n")


@dataclass(frozen=True)
class Brought:
    """A body that has arrived and is still to be parsed."""

    parse: Callable[[], tuple[Any, ...]]
    """Its parts, as the functions of the wires take them; takes a while."""
    working_bytes: int = 0
    """What parsing takes beyond the body itself."""


class BoundedBody:
    """A `receive` that ends a body which is too long or too slow, and counts what the server holds of it."""

    def __init__(self, receive: Receive, share: Share, *, declared: int | None) -> None:
        self.receive = receive
        self.share = share
        self.complete = False
        self._most = min(MAX_BODY_BYTES, share.memory.most_for_bodies)
        self._declared = declared
        self._received = 0
        self._loop = asyncio.get_running_loop()
        self.began_at = self._loop.time()
        self._meter = Meter(self.began_at)
        self._window_began_at = self.began_at
        self._window_bytes = 0
        self._waiting: asyncio.Timeout | None = None
        self._cut_off = False

    async def __call__(self) -> Message:
        if self.complete:
            return await self.receive()
        if self._declared is not None and self._declared > self._most:
            raise self._too_large()
        self.share.memory.arriving.add(self)
        try:
            message = await self._receive_in_time()
        except TimeoutError:
            raise _too_slow() from None
        finally:
            self.share.memory.arriving.discard(self)
        if message["type"] == "http.request":
            self._count(len(message.get("body", b"")))
            self.complete = not message.get("more_body", False)
        return message

    def pace(self, now: float) -> float:
        """Bytes a second, lately."""
        return self._meter.pace(now)

    def cut_off(self) -> None:
        """End it: another body needs the room, and this one is too slow to be waited for."""
        self._cut_off = True
        self.share.drop_body()
        if self._waiting is not None:
            self._waiting.reschedule(self._loop.time())

    async def _receive_in_time(self) -> Message:
        ends_at = min(self.began_at + BODY_SECONDS, self._window_began_at + WINDOW_SECONDS)
        try:
            async with asyncio.timeout_at(ends_at) as self._waiting:
                return await self.receive()
        except TimeoutError:
            if self._cut_off:
                raise
            # When the server itself was busy, the bytes may have been there all the time.
            async with asyncio.timeout(0):
                return await self.receive()
        finally:
            self._waiting = None

    def _count(self, size: int) -> None:
        if self._cut_off:
            raise _too_slow()
        if self._received + size > self._most:
            raise self._too_large()
        self.share.hold_body(size)
        self._received += size
        self._meter.count(size, self._loop.time())
        self._window_bytes += size
        if self._window_bytes >= WINDOW_BYTES:
            self._window_began_at, self._window_bytes = self._loop.time(), 0

    def _too_large(self) -> Refusal:
        return Refusal(f"the request has more than the {self._most:,} bytes allowed", status=413)


def _too_slow() -> Refusal:
    return Refusal("the request was sent too slowly: it was not received in time", status=408)


async def read_json(request: Request) -> Brought:
    """The body of a request that brings JSON."""
    from starlette.requests import ClientDisconnect

    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refusal("send the request as JSON, with Content-Type: application/json", status=415)
    body = bytearray()
    try:
        async for piece in request.stream():
            body += piece
    except ClientDisconnect:
        raise ClientGone from None
    working = 0 if len(body) <= SMALL_BODY_BYTES else PARSING_COPIES * len(body)
    return Brought(lambda: (parse_json(body),), working)


def parse_json(body: bytes | bytearray) -> dict[str, Any]:
    """One JSON object without tricks: no duplicate keys, no NaN, no depth or number of keys that costs."""
    if sum(map(body.count, _MARKS)) > MAX_MARKS:
        raise Refusal("the JSON has too many pieces for a request", status=413)
    try:
        # decoded here: json would guess UTF-16 as well, in which the marks above are not counted
        value = json.loads(
            body.decode("utf-8"), object_pairs_hook=_without_duplicates, parse_constant=_no_constant
        )
    except RecursionError:
        raise Refusal("the JSON is nested too deeply", status=400) from None
    except UnicodeDecodeError:
        raise Refusal("the request is not UTF-8 text", status=400) from None
    except ValueError as error:  # also a number of more digits than Python reads
        raise Refusal(f"the request is not JSON: {error}", status=400) from None
    if not isinstance(value, dict):
        raise Refusal("the request must be one JSON object", status=400)
    return value


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is given twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def picture_from_base64(text: object, *, name: str) -> EncodedPicture:
    """A picture as the reference's wire sends it: base64, with or without `data:image/…;base64,`."""
    if not isinstance(text, str):
        raise Refusal(f"{name} must be a picture as base64 text", parameter=name)
    if text.startswith(("http://", "https://")):
        raise Refusal(f"{name}: send the picture itself; nothing is fetched from the web", parameter=name)
    start = _DATA_URL.match(text)
    coded = text[start.end() :] if start else text
    try:
        data = base64.b64decode(coded.translate(_BLANKS) if "\n" in coded else coded, validate=True)
    except ValueError:
        raise Refusal(f"{name} is not base64", parameter=name) from None
    return EncodedPicture(data, name)
