"""Forms are bounded as a whole, and in the one charset there is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from serving import png
from starlette.requests import Request

from interleave.service.http.refusals import Refusal
from interleave.service.http.request_bodies import read_form


def part(name: str, value: bytes, more: str = "") -> bytes:
    return (
        b'--x\r\nContent-Disposition: form-data; name="' + f'{name}"{more}\r\n\r\n'.encode() + value + b"\r\n"
    )


def read(*parts: bytes, kind: str = "multipart/form-data; boundary=x", size: int = 65_536) -> tuple[Any, ...]:
    """A form that arrives in pieces of this size."""
    body = b"".join(parts) + b"--x--\r\n"
    pieces = [body[at : at + size] for at in range(0, len(body), size)]

    async def receive() -> Any:
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    async def form() -> tuple[Any, ...]:
        scope = {"type": "http", "method": "POST", "headers": [(b"content-type", kind.encode("latin-1"))]}
        return (await read_form(Request(scope, receive))).parse()

    return asyncio.run(form())


def test_fields_and_files_are_told_apart_however_they_arrive() -> None:
    for size in (1, 7, 65_536):
        fields, files = read(
            part("prompt", "ü".encode()),
            part("image", png(), '; filename="../x"'),
            part("n", b"2"),
            size=size,
        )
        assert (fields, files) == ({"prompt": "ü", "n": "2"}, {"image": [png()]})


def test_many_fields_are_bounded_together() -> None:
    """Each is small enough, and as text they would take many times their size."""
    with pytest.raises(Refusal, match="its fields have more than 1,000,000 bytes"):
        read(*(part(f"p{n}", b"x" * 40_000) for n in range(30)))
    fields, _ = read(*(part(f"p{n}", b"x" * 40_000) for n in range(20)))
    assert len(fields) == 20


@pytest.mark.parametrize(
    "charset", ["punycode", "idna", "utf-16", "utf-7", "unicode_escape", "zlib", '"x y"']
)
def test_a_form_is_in_utf_8_whatever_codecs_there_are(charset: str) -> None:
    """Some of Python's codecs take a time that grows with the square of what they read."""
    with pytest.raises(Refusal) as refusal:
        read(part("prompt", b"abc-def"), kind=f"multipart/form-data; boundary=x; charset={charset}")
    assert refusal.value.status == 415
    read(part("prompt", b"x"), kind="multipart/form-data; boundary=x; charset=UTF-8")


@pytest.mark.parametrize(
    "kind",
    ["", "multipart/mixed; boundary=x", "multipart/form-data", "multipart/form-data; boundary*0*=x''%zz"],
)
def test_what_is_no_form_is_refused(kind: str) -> None:
    with pytest.raises(Refusal) as refusal:
        read(part("prompt", b"x"), kind=kind)
    assert refusal.value.status in (400, 415)
