"""How the server knows that a worker is alive: heartbeats from a thread of their own.

A beat says how long the worker's event loop has not turned. A generator may rightly draw for minutes, and
block the loop or even the interpreter all the while; so silence alone is no proof, and as long as there are
pictures under way it counts only while the process does not compute. How long a picture may take is another
question, which its deadline answers.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from contextlib import suppress
from pathlib import Path

BEAT_SECONDS = 0.5
_BEAT = struct.Struct(">d")


class Heart:
    """The worker's side: beats until the server is gone, and then ends the process."""

    def __init__(self, handle: int) -> None:
        self._socket = socket.socket(fileno=handle)
        self._turned_at = time.monotonic()

    def start(self) -> None:
        threading.Thread(target=self._beat, name="heartbeats", daemon=True).start()

    def turned(self) -> None:
        """The event loop has turned."""
        self._turned_at = time.monotonic()

    def _beat(self) -> None:
        while True:
            try:
                self._socket.send(_BEAT.pack(time.monotonic() - self._turned_at), socket.MSG_DONTWAIT)
            except BlockingIOError:
                pass  # the server has not read the last ones yet
            except OSError:
                os._exit(0)  # it is gone, and a blocked event loop would never notice
            time.sleep(BEAT_SECONDS)


class Pulse:
    """The server's side: what is known of one worker process."""

    def __init__(self, now: float) -> None:
        self.ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.ours.setblocking(False)
        self._heard_at = now
        self._standstill = 0.0
        self._computed_at = now
        self._computed = -1.0

    def close(self) -> None:
        self.ours.close()
        self.theirs.close()

    def listen(self, now: float, pid: int | None) -> None:
        """Hear what there is to hear; call it every second or so."""
        with suppress(OSError):
            while beat := self.ours.recv(_BEAT.size):
                self._heard_at = now
                (self._standstill,) = _BEAT.unpack(beat)
        computed = None if pid is None else processor_seconds(pid)
        if computed is None or computed > self._computed:  # where nobody can tell, it is believed to compute
            self._computed, self._computed_at = computed or 0.0, now

    def is_still(self, now: float, seconds: float, *, drawing: bool) -> bool:
        """Whether nothing has moved for so long in a worker that should move."""
        if now - self._heard_at > seconds:
            return not drawing or now - self._computed_at > seconds
        return self._standstill > seconds and not drawing


def processor_seconds(pid: int) -> float | None:
    """How long a process has computed; None where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    ticks = os.sysconf("SC_CLK_TCK")
    return (int(fields[11]) + int(fields[12])) / ticks
