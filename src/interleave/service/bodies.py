"""Request bodies: read within bounds of size and time, then JSON or a form, then pictures.

Nothing here trusts a length, a file name, a content type or a nesting depth that a client states.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from interleave.errors import InputError
from interleave.pictures import MAX_BYTES, decode_picture
from interleave.service.values import ClientGone, RawPicture, Refusal

if TYPE_CHECKING:
    from starlette.datastructures import UploadFile
    from starlette.requests import Request

    from interleave.service.pool import Pool

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]

MAX_BODY_BYTES = 64_000_000
BODY_SECONDS = 60.0
MAX_MARKS = 200_000
"""Quotes, commas and brackets in a JSON body. A prompt may have many; a million keys are an attack."""
MAX_FILES = 17
MAX_FIELDS = 64
MAX_FIELD_BYTES = 1_000_000
_MARKS = b'",[{'
_DATA_URL = re.compile(r"data:image/[a-z+.-]{1,20};base64,", re.IGNORECASE)
_BLANKS = str.maketrans("", "", " \t\r\n")


class BoundedBody:
    """A `receive` that ends a body which is too long or too slow, and counts what the server holds of it."""

    def __init__(self, receive: Receive, pool: Pool, *, declared: int | None) -> None:
        self.receive = receive
        self.pool = pool
        self.held = 0
        self.complete = False
        self._declared = declared
        self._ends_at = asyncio.get_running_loop().time() + BODY_SECONDS

    async def __call__(self) -> Message:
        if self.complete:
            return await self.receive()
        if self._declared is not None and self._declared > MAX_BODY_BYTES:
            raise _too_large()
        try:
            async with asyncio.timeout_at(self._ends_at):
                message = await self.receive()
        except TimeoutError:
            raise Refusal(f"the request was not received within {BODY_SECONDS:g} s", status=408) from None
        if message["type"] == "http.request":
            self._count(len(message.get("body", b"")))
            self.complete = not message.get("more_body", False)
        return message

    def _count(self, size: int) -> None:
        if self.held + size > MAX_BODY_BYTES:
            raise _too_large()
        self.pool.hold(size)
        self.held += size

    def let_go(self) -> None:
        """The bytes are in nobody's memory any more."""
        self.pool.release(self.held)
        self.held = 0


def _too_large() -> Refusal:
    return Refusal(f"the request has more than the {MAX_BODY_BYTES:,} bytes allowed", status=413)


async def read_json(request: Request) -> dict[str, Any]:
    """The JSON object of a request."""
    from starlette.requests import ClientDisconnect

    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refusal("send the request as JSON, with Content-Type: application/json", status=415)
    try:
        body = await request.body()
    except ClientDisconnect:
        raise ClientGone from None
    return await asyncio.to_thread(parse_json, body)


def parse_json(body: bytes) -> dict[str, Any]:
    """One JSON object without tricks: no duplicate keys, no NaN, no depth or number of keys that costs."""
    if len(body) - len(body.translate(None, _MARKS)) > MAX_MARKS:
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


async def read_form(request: Request) -> tuple[dict[str, Any], dict[str, list[bytes]]]:
    """The fields of a multipart form, and the bytes of its files by field; file names mean nothing."""
    from starlette.datastructures import UploadFile
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect

    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "multipart/form-data":
        raise Refusal("send the request as a form, with Content-Type: multipart/form-data", status=415)
    fields: dict[str, Any] = {}
    files: dict[str, list[bytes]] = {}
    try:
        form = await request.form(max_files=MAX_FILES, max_fields=MAX_FIELDS, max_part_size=MAX_FIELD_BYTES)
    except ClientDisconnect:
        raise ClientGone from None
    except HTTPException as error:  # how Starlette says that a form cannot be read
        raise Refusal(f"the form cannot be read: {error.detail}", status=400) from None
    try:
        for name, value in form.multi_items():
            if isinstance(value, UploadFile):
                files.setdefault(name, []).append(await _file_bytes(name, value))
            elif name in fields:
                raise Refusal(f"the field {name[:60]!r} is given twice", status=400, parameter=name[:60])
            else:
                fields[name] = value
    finally:
        await form.close()
    return fields, files


async def _file_bytes(name: str, file: UploadFile) -> bytes:
    data = await file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise Refusal(
            f"{name[:60]}: a picture may have at most {MAX_BYTES:,} bytes", status=413, parameter=name[:60]
        )
    return data


def picture_from_base64(text: object, *, name: str) -> RawPicture:
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
    return picture_from_bytes(data, name=name)


def picture_from_bytes(data: bytes, *, name: str) -> RawPicture:
    """A picture through the one door for pictures."""
    try:
        return RawPicture.of(decode_picture(data, name=name))
    except InputError as error:
        raise Refusal(str(error), parameter=name) from None
