"""HTTP connections with limits that uvicorn lacks: on the time and number of headers, tiny body chunks,
clients that do not read, and the number of connections."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from interleave.service.http.connection_limits import ConnectionLimiter, ConnectionState, ThroughputMeter

CONNECTION = "interleave.connection"
"""The scope key of the request's connection."""
HEADER_SECONDS = 10.0
SEND_SECONDS = 60.0
CLOSE_SECONDS = 10.0
"""Time for a client to read the last bytes of a closing connection."""
KEEP_ALIVE_SECONDS = 65
"""Longer than proxies keep an idle connection, so that the proxy closes it first."""
MAX_HEADERS = 128
FREE_CHUNKS = 256
LEAST_CHUNK_BYTES = 256
"""Minimum average chunk size of a body, after the first few: parsing a chunk costs as much as 1 kB."""
READ_BYTES = 65_536
TURNED_AWAY_SECONDS = 2.0
"""Time for an evicted connection to send its request and read the answer."""
BUSY = (
    b'{"error": {"message": "too many connections: try again", "type": "overloaded", "code": "overloaded"}}'
)
TURNED_AWAY = b"\r\n".join(
    [
        b"HTTP/1.1 503 Service Unavailable",
        b"Content-Type: application/json",
        b"Content-Length: %d" % len(BUSY),
        b"Retry-After: 1",
        b"Connection: close",
        b"",
        BUSY,
    ]
)


class BoundedConnection(H11Protocol):
    """A connection with time limits for sending its request and reading its response."""

    limiter = ConnectionLimiter()

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.conn = _BoundedParser(h11.SERVER, self.config.h11_max_incomplete_event_size or READ_BYTES)
        self.opened_at = self.since = self.loop.time()
        self._meter = ThroughputMeter(self.opened_at)
        self._awaiting: asyncio.TimerHandle | None = None
        self._sending: asyncio.TimerHandle | None = None
        self._closing: asyncio.TimerHandle | None = None
        self._is_turned_away = False

    @property
    def address(self) -> str:
        return self.client[0] if self.client else ""

    @property
    def state(self) -> ConnectionState:
        if self.transport.is_closing():
            return ConnectionState.CLOSING
        if self.cycle is None:
            return ConnectionState.AWAITING_FIRST_REQUEST
        if self.cycle.response_complete:
            return ConnectionState.IDLE
        if self.cycle.more_body:
            return ConnectionState.CLOSING if self.cycle.response_started else ConnectionState.RECEIVING
        return ConnectionState.RESPONDING

    def rate(self, now: float) -> float:
        """Return the bytes per second over the last few seconds."""
        return self._meter.rate(now)

    def abort(self) -> None:
        self.transport.abort()

    def turn_away(self) -> None:
        """Answer 503 if no request has arrived yet, and close."""
        if self.state is not ConnectionState.AWAITING_FIRST_REQUEST:
            self.abort()
            return
        # Closing before the request arrives would reset the connection before the client reads the answer.
        self._is_turned_away = True
        self._awaiting = _cancelled(self._awaiting)
        self._unset_keepalive_if_required()
        self.transport.write(TURNED_AWAY)
        self.transport.write_eof()
        self._closing = self.loop.call_later(TURNED_AWAY_SECONDS, self.transport.abort)

    def admit(self) -> None:
        """Mark it as authenticated."""
        self.limiter.admit(self)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.max_size = READ_BYTES  # type: ignore[attr-defined]  # asyncio would read four times as much
        self._expect_headers()
        self.limiter.enter(self, self.loop.time())

    def data_received(self, data: bytes) -> None:
        if self._is_turned_away:
            return
        self._meter.count(len(data), self.loop.time())
        super().data_received(data)
        if self._has_request:
            self._awaiting = _cancelled(self._awaiting)
        else:
            self._expect_headers()

    def handle_events(self) -> None:
        if self.conn.their_state is h11.IDLE and _has_too_many_lines(self.conn.trailing_data[0]):
            self.send_400_response("Too many headers.")
            return
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self.since = self.loop.time()
            cast(dict[str, Any], self.scope)[CONNECTION] = self

    def send_400_response(self, msg: str) -> None:
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self.abort()  # part of a response has been sent
            return
        super().send_400_response(msg)
        self._close_soon()

    def on_response_complete(self) -> None:
        self.since = self.loop.time()
        super().on_response_complete()
        if self.transport.is_closing():
            self._close_soon()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._close_soon()

    def shutdown(self) -> None:
        super().shutdown()
        if self.transport.is_closing():
            self._close_soon()

    def connection_lost(self, exc: Exception | None) -> None:
        self.limiter.leave(self)
        timers = self._awaiting, self._sending, self._closing
        self._awaiting, self._sending, self._closing = map(_cancelled, timers)
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._sending = self._sending or self.loop.call_later(SEND_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._sending = _cancelled(self._sending)

    def _unsupported_upgrade_warning(self) -> None:
        """Suppress the warning: a request for another protocol is answered over HTTP/1.1."""

    @property
    def _has_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _expect_headers(self) -> None:
        if self._awaiting is None and not self.transport.is_closing():
            self._awaiting = self.loop.call_later(HEADER_SECONDS, self.transport.abort)

    def _close_soon(self) -> None:
        """Abort after a timeout: a closing transport would wait forever for a client that does not read."""
        self._closing = self._closing or self.loop.call_later(CLOSE_SECONDS, self.transport.abort)


class _BoundedParser(h11.Connection):
    """h11 that refuses bodies of many tiny chunks: parsing a chunk costs far more than sending it."""

    _chunks = 0
    _chunk_bytes = 0

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._chunks = self._chunk_bytes = 0
        elif isinstance(event, h11.Data):
            self._chunks += event.chunk_end
            self._chunk_bytes += len(event.data)
            if self._chunks > FREE_CHUNKS and self._chunk_bytes < LEAST_CHUNK_BYTES * self._chunks:
                raise h11.RemoteProtocolError("the chunks of the body are too small")
        return event


def _has_too_many_lines(head: bytes) -> bool:
    """Return whether an unparsed request has too many headers."""
    lines = head.split(b"\n", MAX_HEADERS + 2)
    return len(lines) > MAX_HEADERS + 2 and not any(line in (b"", b"\r") for line in lines[1:-1])


def _cancelled(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Cancel a timer, if any, and return `None` to assign in its place."""
    if timer is not None:
        timer.cancel()
    return None
