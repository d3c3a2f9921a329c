"""The protocol between the server and a worker process: frames over one socket, heartbeats over another.

A frame is a small JSON header and a payload of bytes: images travel beside the JSON, and nothing that is
read here can turn into code. Large payloads are written in chunks, as fast as the other end reads, so that
neither end holds a second copy.

A heartbeat is sent by a thread of its own and says how long the worker's event loop has not turned. A
generator may rightly block the loop, or even the interpreter, for minutes; so while drawings are in flight a
missing heartbeat counts only if the process uses no CPU time. How long a drawing may take is decided by its
deadline.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

READ_AHEAD_BYTES = 1_000_000
PIECE_BYTES = 262_144
MAX_HEADER_BYTES = 4_000_000
_SIZES = struct.Struct(">II")
BEAT_SECONDS = 0.5
_BEAT = struct.Struct(">d")
NOT_READ_YET = frozenset({errno.EAGAIN, errno.ENOBUFS})
"""The server has not read the last heartbeats yet, as Linux and macOS say it."""


@dataclass(frozen=True)
class Frame:
    """One message: a JSON header and its payload."""

    header: dict[str, Any]
    payload: bytes = b""


async def read_header(reader: asyncio.StreamReader) -> tuple[dict[str, Any], int] | None:
    """The header of the next frame and the size of its payload; None when the other end is gone."""
    try:
        header_size, payload_size = _SIZES.unpack(await reader.readexactly(_SIZES.size))
        if header_size > MAX_HEADER_BYTES:
            return None
        return json.loads(await reader.readexactly(header_size)), payload_size
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


async def read_frame(reader: asyncio.StreamReader) -> Frame | None:
    """The next frame, or None when the other end is gone."""
    found = await read_header(reader)
    if found is None:
        return None
    header, size = found
    try:
        return Frame(header, await reader.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


async def send_frame(writer: asyncio.StreamWriter, header: dict[str, Any], *payload: bytes) -> None:
    """Send one frame; concurrent calls on one writer must be serialized by the caller."""
    text = json.dumps(header).encode()
    writer.write(_SIZES.pack(len(text), sum(map(len, payload))) + text)
    for part in payload:
        for at in range(0, len(part), PIECE_BYTES):
            writer.write(part[at : at + PIECE_BYTES])
            await writer.drain()
    await writer.drain()


class HeartbeatSender:
    """The worker's side: sends heartbeats until the server is gone, then exits the process."""

    def __init__(self, handle: int) -> None:
        self._socket = socket.socket(fileno=handle)
        self._loop_turned_at = time.monotonic()

    def start(self) -> None:
        threading.Thread(target=self._beat, name="heartbeats", daemon=True).start()

    def loop_turned(self) -> None:
        """Record that the event loop has turned."""
        self._loop_turned_at = time.monotonic()

    def _beat(self) -> None:
        while True:
            try:
                self._socket.send(_BEAT.pack(time.monotonic() - self._loop_turned_at), socket.MSG_DONTWAIT)
            except OSError as error:
                if error.errno not in NOT_READ_YET:
                    os._exit(0)  # the server is gone, and a blocked event loop would never notice
            time.sleep(BEAT_SECONDS)


class HeartbeatMonitor:
    """The server's side: heartbeats and CPU time of one worker process."""

    def __init__(self, now: float) -> None:
        self.ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.ours.setblocking(False)
        self._last_heartbeat_at = now
        self._loop_blocked_for = 0.0
        self._last_progress_at = now
        self._cpu_seconds = -1.0

    def close(self) -> None:
        self.ours.close()
        self.theirs.close()

    def poll(self, now: float, pid: int | None) -> None:
        """Read the heartbeats that came and the CPU time used; call it about every second."""
        with suppress(OSError):
            while beat := self.ours.recv(_BEAT.size):
                self._last_heartbeat_at = now
                (self._loop_blocked_for,) = _BEAT.unpack(beat)
        cpu = None if pid is None else processor_seconds(pid)
        if cpu is None or cpu > self._cpu_seconds:  # unknown counts as progress
            self._cpu_seconds, self._last_progress_at = cpu or 0.0, now

    def is_stalled(self, now: float, seconds: float, *, drawing: bool) -> bool:
        """Whether the worker has made no progress for this many seconds although it should."""
        if now - self._last_heartbeat_at > seconds:
            return not drawing or now - self._last_progress_at > seconds
        return self._loop_blocked_for > seconds and not drawing


def processor_seconds(pid: int) -> float | None:
    """CPU time of a process; None where the system does not report it."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    ticks = os.sysconf("SC_CLK_TCK")
    return (int(fields[11]) + int(fields[12])) / ticks
