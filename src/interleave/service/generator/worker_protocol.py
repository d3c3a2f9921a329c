"""Protocol between the server and a worker process: frames over one socket, heartbeats over another.

A frame is a small JSON header and a binary payload. Images travel in the payload, and nothing read here can
execute code. Large payloads are written in chunks, as fast as the other end reads, so that neither end holds
a second copy.

A separate thread sends heartbeats, each with the time since the worker's event loop last ran. A generator
may legitimately block the loop, or the interpreter, for minutes. So while tasks are in flight, a missing
heartbeat counts only if the process uses no CPU time. The duration of a task is limited by its deadline.
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
"""Errors of Linux and macOS if the server has not read the last heartbeats yet."""


@dataclass(frozen=True)
class Frame:
    """One message: a JSON header and a payload."""

    header: dict[str, Any]
    payload: bytes = b""


async def read_header(reader: asyncio.StreamReader) -> tuple[dict[str, Any], int] | None:
    """Read the next frame's header and payload size; `None` if the other end is gone."""
    try:
        header_size, payload_size = _SIZES.unpack(await reader.readexactly(_SIZES.size))
        if header_size > MAX_HEADER_BYTES:
            return None
        return json.loads(await reader.readexactly(header_size)), payload_size
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


async def read_frame(reader: asyncio.StreamReader) -> Frame | None:
    """Read the next frame; `None` if the other end is gone."""
    found = await read_header(reader)
    if found is None:
        return None
    header, size = found
    try:
        return Frame(header, await reader.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


async def send_frame(writer: asyncio.StreamWriter, header: dict[str, Any], *payload: bytes) -> None:
    """Send one frame. The caller must serialize concurrent calls on one writer."""
    text = json.dumps(header).encode()
    writer.write(_SIZES.pack(len(text), sum(map(len, payload))) + text)
    for part in payload:
        for at in range(0, len(part), PIECE_BYTES):
            writer.write(part[at : at + PIECE_BYTES])
            await writer.drain()
    await writer.drain()


class HeartbeatSender:
    """Worker side: sends heartbeats until the server is gone, then exits the process."""

    def __init__(self, handle: int) -> None:
        self._socket = socket.socket(fileno=handle)
        self._loop_turned_at = time.monotonic()

    def start(self) -> None:
        threading.Thread(target=self._beat, name="heartbeats", daemon=True).start()

    def loop_turned(self) -> None:
        """Record that the event loop has run."""
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
    """Server side: heartbeats and CPU time of one worker process."""

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
        """Read pending heartbeats and the CPU time used. Call it about once a second."""
        with suppress(OSError):
            while beat := self.ours.recv(_BEAT.size):
                self._last_heartbeat_at = now
                (self._loop_blocked_for,) = _BEAT.unpack(beat)
        cpu = None if pid is None else processor_seconds(pid)
        if cpu is None or cpu > self._cpu_seconds:  # unknown counts as progress
            self._cpu_seconds, self._last_progress_at = cpu or 0.0, now

    def is_stalled(self, now: float, seconds: float, *, busy: bool) -> bool:
        """Return whether the worker has made no progress for `seconds`."""
        if now - self._last_heartbeat_at > seconds:
            return not busy or now - self._last_progress_at > seconds
        return self._loop_blocked_for > seconds and not busy


def processor_seconds(pid: int) -> float | None:
    """Return the CPU time of a process; `None` if the system does not report it."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    ticks = os.sysconf("SC_CLK_TCK")
    return (int(fields[11]) + int(fields[12])) / ticks
