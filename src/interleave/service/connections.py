"""Connections with bounds that uvicorn does not have: on headers that never end, on readers that never read,
and on how many there are."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 10.0
SEND_SECONDS = 60.0
KEEP_ALIVE_SECONDS = 65
"""Longer than a proxy keeps its side open, so that it is never the proxy that finds a closed door."""
MAX_CONNECTIONS = 1000


class BoundedConnection(H11Protocol):
    """A connection that must bring its request in time, and take its answer."""

    max_connections = MAX_CONNECTIONS

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.idle_since: float | None = None
        self._receiving: asyncio.TimerHandle | None = None
        self._sending: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._idle()
        self._expect_headers()
        self._make_room()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._has_request:
            self.idle_since = None
            self._receiving = _off(self._receiving)
        else:
            self._expect_headers()

    def on_response_complete(self) -> None:
        self._idle()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._receiving, self._sending = _off(self._receiving), _off(self._sending)
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._sending = self._sending or self.loop.call_later(SEND_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._sending = _off(self._sending)

    @property
    def _has_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _idle(self) -> None:
        self.idle_since = self.loop.time()

    def _expect_headers(self) -> None:
        if self._receiving is None and not self.transport.is_closing():
            self._receiving = self.loop.call_later(HEADER_SECONDS, self.transport.abort)

    def _make_room(self) -> None:
        """Close the connection that has been idle longest, which may be this one, when there are too many."""
        if len(self.connections) <= self.max_connections:
            return
        # Those that were closed a moment ago are still in the set.
        alive = [each for each in self.connections if not each.transport.is_closing()]
        if len(alive) > self.max_connections:
            idle = [each for each in alive if getattr(each, "idle_since", None) is not None]
            oldest = min(idle, key=lambda each: each.idle_since, default=self)  # type: ignore[union-attr]
            oldest.transport.abort()


def _off(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """No timer; the one there was will not go off."""
    if timer is not None:
        timer.cancel()
    return None
