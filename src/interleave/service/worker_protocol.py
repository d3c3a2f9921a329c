"""What the server and its workers say to each other: a small JSON object and the bytes that go with it.

Both ends are ours and on one machine. Pictures travel as bytes beside the JSON, never inside it, and nothing
that is read here can turn into code. Large messages are written in pieces, as fast as the other end reads, so
that no end holds a second copy of them.
"""

from __future__ import annotations

import asyncio
import json
import struct
from dataclasses import dataclass
from typing import Any

READ_AHEAD_BYTES = 1_000_000
PIECE_BYTES = 262_144
MAX_HEADER_BYTES = 4_000_000
_SIZES = struct.Struct(">II")


@dataclass(frozen=True)
class Frame:
    """One message."""

    header: dict[str, Any]
    payload: bytes = b""


async def read_header(reader: asyncio.StreamReader) -> tuple[dict[str, Any], int] | None:
    """The next message without its payload, and how many bytes that has; None when the other end is gone."""
    try:
        header_size, payload_size = _SIZES.unpack(await reader.readexactly(_SIZES.size))
        if header_size > MAX_HEADER_BYTES:
            return None
        return json.loads(await reader.readexactly(header_size)), payload_size
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


async def read_frame(reader: asyncio.StreamReader) -> Frame | None:
    """The next message, or None when the other end is gone."""
    found = await read_header(reader)
    if found is None:
        return None
    header, size = found
    try:
        return Frame(header, await reader.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


async def send_frame(writer: asyncio.StreamWriter, header: dict[str, Any], *payload: bytes) -> None:
    """Send a message. Two of them must not be sent at the same time."""
    text = json.dumps(header).encode()
    writer.write(_SIZES.pack(len(text), sum(map(len, payload))) + text)
    for part in payload:
        for at in range(0, len(part), PIECE_BYTES):
            writer.write(part[at : at + PIECE_BYTES])
            await writer.drain()
    await writer.drain()
