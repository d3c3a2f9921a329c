"""Multipart forms: fields as text, files as bytes; file names mean nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect

from interleave.pictures import MAX_BYTES
from interleave.service.messages import ClientGone, Refusal
from interleave.service.request_bodies import Brought

if TYPE_CHECKING:
    from starlette.datastructures import FormData
    from starlette.requests import Request

MAX_FILES = 17
MAX_FIELDS = 64
MAX_FIELD_BYTES = 1_000_000
"""Of all fields together. A file is a part with a file name, and has a limit of its own."""
_CHARSETS = frozenset({b"utf-8", b"utf8", b"us-ascii"})


async def read_form(request: Request) -> Brought:
    """The fields of a multipart form, and the bytes of its files by field."""
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
    except ClientDisconnect:
        raise ClientGone from None
    except MultiPartException as error:
        raise Refusal(f"the form cannot be read: {error.message}", status=400) from None
    try:
        parts = await _parts(form)
    finally:
        await form.close()
    return Brought(lambda: parts)


class _BoundedParser(MultiPartParser):
    """Starlette's parser bounds a field and their number; we bound all of them together too."""

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
    # Any codec of Python could be named here, also those that take hours for a megabyte.
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
    data = await file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise Refusal(
            f"{name[:60]}: a picture may have at most {MAX_BYTES:,} bytes", status=413, parameter=name[:60]
        )
    return data
