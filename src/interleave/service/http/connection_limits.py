"""Connection limits: the choice of which connection to evict when there are too many.

Nothing is evicted while slots are free. Then authenticated connections take precedence; on a server without
a token, those that have sent a request. All others keep only a fraction of the slots, and the address with
the most of them loses its oldest. A new connection is accepted as long as another can be evicted. The order
is: the oldest unauthenticated one, the longest idle one, the one with the slowest body. A connection whose
request is being answered is never evicted. One that has sent no request yet is answered with 503.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Protocol

from interleave.plugin import files

MAX_CONNECTIONS = 2048
WANTED_FILES = 4096
SPARE_FILES = 64
MAX_LEAVING = 128
"""Evicted connections that may still read their answer at the same time."""
UNAUTHENTICATED_FRACTION = 4
"""When all slots are taken, unauthenticated connections keep at most a fourth of them."""
NEW_SECONDS = 1.0
GRACE_SECONDS = 5.0
"""Time before the rate of an arriving body counts."""
WINDOW_SECONDS = 5.0
SHORTEST_SECONDS = 0.1


class ConnectionState(Enum):
    """State of a connection."""

    AWAITING_FIRST_REQUEST = "waiting for the first request"
    RECEIVING = "receiving a body"
    RESPONDING = "answering a request"
    IDLE = "waiting for the next request"
    CLOSING = "refused, or closing"


class LimitedConnection(Protocol):
    """Connection interface of the limiter."""

    opened_at: float
    since: float
    """Time of the last state change."""

    @property
    def address(self) -> str: ...
    @property
    def state(self) -> ConnectionState: ...
    def rate(self, now: float) -> float:
        """Return the bytes per second over the last few seconds."""
        ...

    def abort(self) -> None: ...
    def turn_away(self) -> None:
        """Answer 503 if no request has arrived yet, and close."""
        ...


def max_connections() -> int:
    """Return how many connections a server may hold, by the limit of open files, which it raises."""
    return min(MAX_CONNECTIONS, files.allow_open_files(WANTED_FILES) - SPARE_FILES - MAX_LEAVING)


class ConnectionLimiter:
    """Open connections of a server, at most `limit`."""

    def __init__(self, limit: int = MAX_CONNECTIONS) -> None:
        self.limit = limit
        self._authenticated: set[LimitedConnection] = set()
        # dictionaries preserve the order of arrival
        self._unauthenticated: dict[LimitedConnection, None] = {}
        self._unauthenticated_by_address: defaultdict[str, dict[LimitedConnection, None]] = defaultdict(dict)
        self._leaving: set[LimitedConnection] = set()

    def __len__(self) -> int:
        return len(self._authenticated) + len(self._unauthenticated)

    def enter(self, connection: LimitedConnection, now: float) -> None:
        """Add a new connection, evicting another if there are too many."""
        self._unauthenticated[connection] = None
        self._unauthenticated_by_address[connection.address][connection] = None
        if len(self) > self.limit and len(self._unauthenticated) > self.limit // UNAUTHENTICATED_FRACTION:
            self._evict(_first(self._most_of_one_address(), _is_evictable))
        if len(self) > self.limit:
            self._evict(self._to_evict(connection, now))

    def admit(self, connection: LimitedConnection) -> None:
        """Mark a connection as authenticated."""
        if connection in self._unauthenticated:
            self._forget(connection)
            self._authenticated.add(connection)

    def leave(self, connection: LimitedConnection) -> None:
        self._leaving.discard(connection)
        self._authenticated.discard(connection)
        if connection in self._unauthenticated:
            self._forget(connection)

    def _forget(self, connection: LimitedConnection) -> None:
        del self._unauthenticated[connection]
        same_address = self._unauthenticated_by_address[connection.address]
        del same_address[connection]
        if not same_address:
            del self._unauthenticated_by_address[connection.address]

    def _evict(self, connection: LimitedConnection | None) -> None:
        if connection is None:
            return
        self.leave(connection)  # free the slot before the socket is closed
        if len(self._leaving) < MAX_LEAVING:
            self._leaving.add(connection)
            connection.turn_away()
        else:
            connection.abort()

    def _most_of_one_address(self) -> Iterable[LimitedConnection]:
        return max(self._unauthenticated_by_address.values(), key=len)

    def _to_evict(self, new: LimitedConnection, now: float) -> LimitedConnection:
        """Return the connection to evict: the new one only if all others are being answered."""
        unauthenticated = [
            connection
            for connection in self._unauthenticated
            if connection is not new and _is_evictable(connection)
        ]
        old = (connection for connection in unauthenticated if now - connection.opened_at > NEW_SECONDS)
        idle = [connection for connection in self._authenticated if connection.state is ConnectionState.IDLE]
        slow = [
            connection for connection in self._authenticated if connection.state is ConnectionState.RECEIVING
        ]
        past_grace = [connection for connection in slow if now - connection.since > GRACE_SECONDS]
        return (
            next(old, None)
            or min(idle, key=lambda connection: connection.since, default=None)
            or min(past_grace or slow, key=lambda connection: connection.rate(now), default=None)
            or next(iter(unauthenticated), new)
        )


def _first(
    connections: Iterable[LimitedConnection], wanted: Callable[[LimitedConnection], bool]
) -> LimitedConnection | None:
    return next((connection for connection in connections if wanted(connection)), None)


def _is_evictable(connection: LimitedConnection) -> bool:
    """Return False while a request arrives: its headers may still authenticate the connection."""
    return (
        connection.state is not ConnectionState.RESPONDING
        and connection.state is not ConnectionState.RECEIVING
    )


class ThroughputMeter:
    """Throughput in bytes per second, over the current time window and the previous one."""

    def __init__(self, now: float) -> None:
        self.began_at = now
        self._window_began_at = now
        self._windows = (0, 0)
        """Bytes in the last window and in this one."""

    def count(self, size: int, now: float) -> None:
        self._advance_window(now)
        self._windows = self._windows[0], self._windows[1] + size

    def rate(self, now: float) -> float:
        self._advance_window(now)
        since = max(self._window_began_at - WINDOW_SECONDS, self.began_at)
        return sum(self._windows) / max(now - since, SHORTEST_SECONDS)

    def _advance_window(self, now: float) -> None:
        passed = now - self._window_began_at
        if passed >= WINDOW_SECONDS:
            self._windows = (self._windows[1] if passed < 2 * WINDOW_SECONDS else 0), 0
            self._window_began_at = now
