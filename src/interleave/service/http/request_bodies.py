"""Request bodies, JSON or multipart forms, read within limits of size, time and memory.

Lengths, file names, content types and nesting depths from clients are never trusted.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from interleave.plugin import images
from interleave.service.http.connection_limits import ThroughputMeter
from interleave.service.http.decoding import EncodedImage
from interleave.service.http.memory import MemoryLease
from interleave.service.http.refusals import Refusal

if TYPE_CHECKING:
    from starlette.datastructures import FormData
    from starlette.requests import Request

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
MAX_BODY_BYTES = 64_000_000
BODY_SECONDS = 60.0
WINDOW_SECONDS = 10.0
WINDOW_BYTES = 10_000
"""Minimum bytes per window of an incomplete body: 1 kB per second."""
MAX_MARKS = 200_000
"""Maximum quotes, commas and brackets in a JSON body: a million keys are an attack."""
PARSING_COPIES = 5
"""Copies of a JSON body while it is parsed: its text at four bytes per character, and its values."""
SMALL_BODY_BYTES = 200_000
"""Smaller bodies are parsed without a reservation; the thread pool bounds their number."""
_MARKS = (b'"', b",", b"[", b"{")
_DATA_URL = re.compile(r"data:image/[a-z+.-]{1,20};base64,", re.IGNORECASE)
_BLANKS = str.maketrans("", "", " \t\r\n")
MAX_FILES = 17
MAX_FIELDS = 64
MAX_FIELD_BYTES = 1_000_000
"""Limit of all fields together; a part with a file name is a file, which has a separate limit."""
_CHARSETS = frozenset({b"utf-8", b"utf8", b"us-ascii"})


@dataclass(frozen=True)
class ReceivedBody:
    """A received body that is not parsed yet."""

    parse: Callable[[], tuple[Any, ...]]
    """Returns its parts as the API functions take them. Slow, so run it in a thread."""
    working_bytes: int = 0
    """Memory for parsing, in addition to the body."""
    size: int = 0
    """Its size in bytes; 0 for a form, which is already parsed."""


class BoundedBody:
    """ASGI `receive` that limits the size and time of a body and leases memory for it."""

    def __init__(self, receive: Receive, lease: MemoryLease, *, declared: int | None) -> None:
        self.receive = receive
        self.lease = lease
        self.complete = False
        self._most = min(MAX_BODY_BYTES, lease.memory.max_for_bodies)
        self._declared = declared
        self._received = 0
        self._loop = asyncio.get_running_loop()
        self.began_at = self._loop.time()
        self._meter = ThroughputMeter(self.began_at)
        self._window_began_at = self.began_at
        self._window_bytes = 0
        self._waiting: asyncio.Timeout | None = None
        self._cut_off = False

    async def __call__(self) -> Message:
        if self.complete:
            return await self.receive()
        if self._declared is not None and self._declared > self._most:
            raise self._too_large()
        self.lease.memory.arriving.add(self)
        try:
            message = await self._receive_in_time()
        except TimeoutError:
            raise _too_slow() from None
        finally:
            self.lease.memory.arriving.discard(self)
        if message["type"] == "http.request":
            self._count(len(message.get("body", b"")))
            self.complete = not message.get("more_body", False)
        return message

    def rate(self, now: float) -> float:
        """Return the bytes per second over the last few seconds."""
        return self._meter.rate(now)

    def cut_off(self) -> None:
        """End it: another body needs the memory, and this one is too slow."""
        self._cut_off = True
        self.lease.drop_body()
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
            # If the server was busy, the bytes may already have arrived.
            async with asyncio.timeout(0):
                return await self.receive()
        finally:
            self._waiting = None

    def _count(self, size: int) -> None:
        if self._cut_off:
            raise _too_slow()
        if self._received + size > self._most:
            raise self._too_large()
        self.lease.hold_body(size)
        self._received += size
        self._meter.count(size, self._loop.time())
        self._window_bytes += size
        if self._window_bytes >= WINDOW_BYTES:
            self._window_began_at, self._window_bytes = self._loop.time(), 0

    def _too_large(self) -> Refusal:
        return Refusal(f"the request body has more than the {self._most:,} bytes allowed", status=413)


def _too_slow() -> Refusal:
    return Refusal("the request body was sent too slowly and timed out", status=408)


async def read_json(request: Request) -> ReceivedBody:
    """Read the body of a JSON request."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refusal("send the request as JSON, with Content-Type: application/json", status=415)
    body = bytearray()
    async for piece in request.stream():
        body += piece
    working = 0 if len(body) <= SMALL_BODY_BYTES else PARSING_COPIES * len(body)
    return ReceivedBody(lambda: (parse_json(body),), working, len(body))


def parse_json(body: bytes | bytearray) -> dict[str, Any]:
    """Parse one JSON object: no duplicate keys, no NaN, bounded nesting and number of keys."""
    if sum(map(body.count, _MARKS)) > MAX_MARKS:
        raise Refusal("the JSON has too many elements", status=413)
    try:
        # json would also accept UTF-16, which the count above does not cover
        value = json.loads(
            body.decode("utf-8"), object_pairs_hook=_without_duplicates, parse_constant=_no_constant
        )
    except RecursionError:
        raise Refusal("the JSON is nested too deeply", status=400) from None
    except UnicodeDecodeError:
        raise Refusal("the request is not UTF-8 text", status=400) from None
    except ValueError as error:  # also for a number with more digits than Python reads
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


def image_from_base64(text: object, *, name: str) -> EncodedImage:
    """Return a base64 image, with or without `data:image/…;base64,`, as the reference's API sends it."""
    if not isinstance(text, str):
        raise Refusal(f"{name} must be an image as a base64 string", parameter=name)
    if text.startswith(("http://", "https://")):
        raise Refusal(f"{name}: send the image itself; the server fetches nothing", parameter=name)
    start = _DATA_URL.match(text)
    coded = text[start.end() :] if start else text
    try:
        data = base64.b64decode(coded.translate(_BLANKS) if "\n" in coded else coded, validate=True)
    except ValueError:
        raise Refusal(f"{name} is not base64", parameter=name) from None
    return EncodedImage(data, name)


async def read_form(request: Request) -> ReceivedBody:
    """Read the fields of a multipart form, and the bytes of its files by field."""
    _check_kind(request.headers.get("content-type", ""))
    parser = _BoundedParser(
        request.headers,
        request.stream(),
        max_files=MAX_FILES,
        max_fields=MAX_FIELDS,
        max_part_size=MAX_FIELD_BYTES,
    )
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise Refusal(f"the form cannot be read: {error.message}", status=400) from None
    try:
        parts = await _parts(form)
    finally:
        await form.close()
    return ReceivedBody(lambda: parts)


class _BoundedParser(MultiPartParser):
    """Starlette's form parser, with a limit on the total size of all fields."""

    field_bytes = 0

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._current_part.file is None:
            self.field_bytes += end - start
            if self.field_bytes > MAX_FIELD_BYTES:
                raise MultiPartException(f"its fields have more than {MAX_FIELD_BYTES:,} bytes")
        super().on_part_data(data, start, end)


def _check_kind(content_type: str) -> None:
    kind, options = parse_options_header(content_type)
    if kind.lower() != b"multipart/form-data":
        raise Refusal("send the request as a form, with Content-Type: multipart/form-data", status=415)
    # A client could name any Python codec, even one that takes hours for a megabyte.
    if options.get(b"charset", b"utf-8").lower() not in _CHARSETS:
        raise Refusal("send the form in UTF-8", status=415)


async def _parts(form: FormData) -> tuple[dict[str, Any], dict[str, list[bytes]]]:
    fields: dict[str, Any] = {}
    files: dict[str, list[bytes]] = {}
    for name, value in form.multi_items():
        if isinstance(value, UploadFile):
            files.setdefault(name, []).append(await _file_bytes(name, value))
        elif name in fields:
            raise Refusal(f"the field {name[:60]!r} is given twice", status=400, parameter=name[:60])
        else:
            fields[name] = value
    return fields, files


async def _file_bytes(name: str, file: UploadFile) -> bytes:
    data = await file.read(images.MAX_BYTES + 1)
    if len(data) > images.MAX_BYTES:
        raise Refusal(
            f"{name[:60]}: an image may have at most {images.MAX_BYTES:,} bytes",
            status=413,
            parameter=name[:60],
        )
    return data
