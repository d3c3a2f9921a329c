"""What the server and its workers say to each other: a small JSON object and the bytes that go with it.

Both ends are ours and on one machine. Pictures travel as bytes beside the JSON, never inside it, and nothing
that is read here can turn into code.
"""

from __future__ import annotations

import asyncio
import json
import struct
from dataclasses import dataclass
from typing import Any

READ_AHEAD_BYTES = 4_000_000
MAX_HEADER_BYTES = 4_000_000
_SIZES = struct.Struct(">II")


@dataclass(frozen=True)
class Frame:
    """One message."""

    header: dict[str, Any]
    payload: bytes = b""


async def read_frame(reader: asyncio.StreamReader) -> Frame | None:
    """The next message, or None when the other end is gone."""
    try:
        header_size, payload_size = _SIZES.unpack(await reader.readexactly(_SIZES.size))
        if header_size > MAX_HEADER_BYTES:
            return None
        header = json.loads(await reader.readexactly(header_size))
        return Frame(header, await reader.readexactly(payload_size))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def write_frame(writer: asyncio.StreamWriter, header: dict[str, Any], *payload: bytes) -> None:
    """Send a message; all of it is handed over at once, so that messages never mix."""
    text = json.dumps(header).encode()
    writer.writelines([_SIZES.pack(len(text), sum(map(len, payload))), text, *payload])
