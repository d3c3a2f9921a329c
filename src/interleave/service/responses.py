"""Answers with pictures in them, without a copy of every picture at every step."""

from __future__ import annotations

import asyncio
import base64
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from interleave.service.connections import CONNECTION

PIECE_BYTES = 262_144
SEND_SECONDS = 60.0
SEND_BYTES_A_SECOND = 1_000_000
"""How much longer than that a large answer may take to be read."""


def compose(answer: Mapping[str, Any]) -> list[bytes]:
    """The JSON text of an answer in pieces; bytes in it become base64."""
    mark = uuid.uuid4().hex  # nothing a client could have written
    pictures: list[bytes] = []

    def set_aside(value: object) -> str:
        if not isinstance(value, bytes):
            raise TypeError(f"{type(value).__name__} is no JSON")
        pictures.append(value)
        return mark

    texts = json.dumps(answer, default=set_aside).encode().split(mark.encode())
    pieces = [texts[0]]
    for picture, text in zip(pictures, texts[1:], strict=True):
        pieces += [base64.b64encode(picture), text]
    return pieces


class PiecewiseResponse(Response):
    """Sends pieces as fast as the client reads them, and hangs up on one who hardly does."""

    def __init__(self, pieces: Sequence[bytes], headers: Mapping[str, str]) -> None:
        self.pieces = list(pieces)
        self.size = sum(map(len, pieces))
        super().__init__(headers={**headers, "content-length": str(self.size)}, media_type="application/json")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            async with asyncio.timeout(SEND_SECONDS + self.size / SEND_BYTES_A_SECOND):
                for piece in self.pieces:
                    for at in range(0, len(piece), PIECE_BYTES):
                        body = piece[at : at + PIECE_BYTES]
                        await send({"type": "http.response.body", "body": body, "more_body": True})
        except TimeoutError:
            scope[CONNECTION].abort()
            return
        await send({"type": "http.response.body", "body": b""})
