"""What the facades make of the events of a job, and how their streams are written and end."""

from __future__ import annotations

import asyncio
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from interleave.runs.folder import ImageStore
from interleave.service.documents.chat import ChatStream
from interleave.service.documents.document_parts import PartsInOrder, failure_of
from interleave.service.documents.gemini import GeminiArray, GeminiStream
from interleave.service.documents.stored_images import DataUrl, StoredImage, as_jpeg
from interleave.service.documents.streams import encoded_bytes
from interleave.service.http.memory import MEGABYTE, MemoryBudget, MemoryLease
from interleave.service.http.refusals import Refusal

IMAGE = StoredImage("0" * 64 + ".png")


def done(index: int, part: str | StoredImage | None) -> dict[str, Any]:
    if isinstance(part, str):
        item: dict[str, Any] = {"type": "message", "content": [{"text": part}]}
    else:
        item = {"type": "image_generation_call", "result": part}
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def test_parts_are_given_once_and_in_the_order_of_the_document() -> None:
    order = PartsInOrder()
    assert order.add(done(0, "One")) == ["One"]
    assert order.add(done(2, "Two")) == []  # the image before it is still being drawn
    assert order.add({"type": "response.image_generation_call.generating", "output_index": 1}) == []
    assert order.add(done(1, IMAGE)) == [IMAGE, "Two"]
    assert order.add(done(1, StoredImage("1" * 64 + ".png"))) == []  # it has been shown
    assert order.add(done(3, None)) == []  # one that could not be drawn holds up nothing
    assert order.add(done(4, "Three")) == ["Three"]


def test_the_error_of_a_job_is_the_error_of_its_request() -> None:
    def failure(status: str, code: str = "server_error") -> int | None:
        response = {"status": status, "error": {"code": code, "message": "x" * 100_000}}
        found = failure_of(response)
        assert found is None or len(str(found)) < 3000
        return found.status if found else None

    assert failure("completed") is failure("incomplete") is None
    assert failure("failed") == 500
    assert failure("failed", "invalid_prompt") == 400
    assert failure("cancelled") == 409


def sent_before_a_failure(folder: Path, kind: Any) -> bytes:
    async def events() -> Any:
        yield {"text": "one\u2028two\u0085three"}
        raise Refusal("no memory for an image", status=503)

    async def sent() -> bytes:
        bodies: list[bytes] = []

        async def send(message: Any) -> None:
            bodies.append(message.get("body", b""))

        async def receive() -> Any:
            await asyncio.Event().wait()

        stream = kind(events(), ImageStore(folder), MemoryLease(MemoryBudget(64 * MEGABYTE)))
        await stream({"type": "http"}, receive, send)
        return b"".join(bodies)

    return asyncio.run(sent())


@pytest.mark.parametrize(("kind", "end"), [(ChatStream, b"data: [DONE]\n\n"), (GeminiStream, b"")])
def test_a_stream_that_cannot_go_on_ends_with_an_error(tmp_path: Path, kind: Any, end: bytes) -> None:
    body = sent_before_a_failure(tmp_path, kind)
    assert body.isascii()  # some clients end a line at U+2028
    first, _, rest = body.partition(b"\n\n")
    assert first.startswith(b"data: {")
    assert rest.startswith(b'data: {"error": ')
    assert b"no memory for an image" in rest
    assert rest.endswith(b"}}\n\n" + end)


def test_an_array_that_cannot_go_on_is_closed_with_an_error(tmp_path: Path) -> None:
    first, last = json.loads(sent_before_a_failure(tmp_path, GeminiArray))
    assert first["text"].startswith("one")
    assert last["error"]["message"] == "no memory for an image"


def test_an_image_is_made_as_small_as_it_must_be_and_no_smaller(tmp_path: Path) -> None:
    noise = Image.frombytes("RGB", (256, 256), os.urandom(256 * 256 * 3))
    sizes = []
    for most in (1_000_000, 40_000, 5_000, 900):
        data = as_jpeg(noise, most)
        assert len(data) <= most
        sizes.append(Image.open(io.BytesIO(data)).width)
    assert sizes[0] == 256
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < 256
    store = ImageStore(tmp_path)
    name = store.put(noise)
    assert DataUrl(name).value(store).startswith("data:image/png;")
    assert DataUrl(name, most_bytes=5_000).value(store).startswith("data:image/jpeg;")
    assert (
        encoded_bytes(DataUrl(name, most_bytes=5_000), store) > 256 * 256 * 3
    )  # it is decoded to be made smaller
