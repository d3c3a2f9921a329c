"""Limits of requests that stay open: event streams, and calls that wait for the end of their job.

Each holds a connection for minutes. Without limits one key could take all connections of the service. The
limits leave room for short requests of every key and for health checks.
"""

from __future__ import annotations

from collections import Counter

from interleave.service.documents.keys import Caller
from interleave.service.documents.refusals import ApiRefusal
from interleave.service.http.connection_limits import max_connections
from interleave.service.http.middleware import CALLER, Application, Scope, Send
from interleave.service.http.request_bodies import Receive

STREAMS_PER_KEY = 256
RETRY_SECONDS = 5.0
PLACE = "interleave.stream_place"
"""The scope key of the request's `StreamPlace`."""
ALL, GUESTS = "all", "guests"


class StreamLimits:
    """Open streams, counted by key. All keys together have three quarters of the connections, guests one."""

    def __init__(self, per_key: int = STREAMS_PER_KEY, connections: int | None = None) -> None:
        """`connections` is the number that the server may hold; by default, what the system allows."""
        self.per_key = per_key
        self.quarter = (max_connections() if connections is None else connections) // 4
        self._open: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._open[ALL]

    def enter(self, caller: Caller) -> None:
        """Count a stream; raise a `Refusal` if there are too many."""
        if self._open[_name(caller)] >= self.per_key:
            raise ApiRefusal(
                f"this key has {self.per_key} open streams and waiting calls, the most that it may have: "
                "end some, or submit with background and poll",
                status=429,
                code="too_many_streams",
                retry_after=RETRY_SECONDS,
            )
        if self._open[ALL] >= 3 * self.quarter or (caller.is_guest and self._open[GUESTS] >= self.quarter):
            raise ApiRefusal(
                "the service has no room for another stream: try again, or submit with background and poll",
                status=503,
                code="too_many_streams",
                retry_after=RETRY_SECONDS,
            )
        self._open.update(_counted_in(caller))

    def leave(self, caller: Caller) -> None:
        self._open.subtract(_counted_in(caller))
        if not self._open[_name(caller)]:
            del self._open[_name(caller)]


def _name(caller: Caller) -> str:
    return f"key {caller.key}"


def _counted_in(caller: Caller) -> list[str]:
    return [ALL, _name(caller), *([GUESTS] if caller.is_guest else [])]


class StreamPlace:
    """The place of one request among the open streams, taken once it stays open."""

    def __init__(self, limits: StreamLimits, caller: object) -> None:
        self._limits = limits
        self._caller = caller
        self._taken = False

    def take(self) -> None:
        """Count this request, once; raise a `Refusal` if there are too many."""
        if isinstance(self._caller, Caller) and not self._taken:
            self._limits.enter(self._caller)
            self._taken = True

    def give_back(self) -> None:
        if isinstance(self._caller, Caller) and self._taken:
            self._limits.leave(self._caller)
            self._taken = False


def take_place(scope: Scope) -> None:
    """Count a request among the open streams; raise a `Refusal` if there are too many."""
    if PLACE in scope:
        scope[PLACE].take()


class StreamPlaces:
    """ASGI application that gives every request its `StreamPlace`, and frees it at the end."""

    def __init__(self, app: Application, limits: StreamLimits) -> None:
        self.app = app
        self.limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        place = StreamPlace(self.limits, scope.get(CALLER))
        try:
            await self.app({**scope, PLACE: place}, receive, send)
        finally:
            place.give_back()
