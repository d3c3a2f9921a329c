"""Which connections may stay when there are too many.

Whoever has shown a token (on a server without one: has sent a request at all) goes before those who have not,
and those have a smaller share of the places. Newcomers are never turned away while somebody else can go:
first the oldest of those who have shown nothing, then the connection that has been idle longest, then the
body that arrives slowest. Connections whose request is being answered always stay.
"""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Protocol

MAX_CONNECTIONS = 1000
UNKNOWN_SHARE = 4
"""Those who have shown no token have a fourth of the places."""
UNKNOWN_AN_ADDRESS = 64
"""How many of them one address may have. This machine may have more: a proxy here speaks for everybody."""
NEW_SECONDS = 1.0
GRACE_SECONDS = 5.0
"""How long a body may have been arriving before its pace is judged."""


class Doing(Enum):
    """What a connection is at."""

    ARRIVING = "its first request is awaited"
    RECEIVING = "its body arrives"
    ANSWERING = "its request is being answered"
    IDLE = "its next request is awaited"
    LEAVING = "it has been refused, or is being closed"


class Seat(Protocol):
    """What has to be known of a connection."""

    opened_at: float
    since: float
    """When it began what it is doing."""

    @property
    def address(self) -> str: ...
    @property
    def doing(self) -> Doing: ...
    def pace(self, now: float) -> float:
        """Bytes a second, lately."""
        ...

    def abort(self) -> None: ...


class Slots:
    """All connections of a server."""

    def __init__(self, limit: int = MAX_CONNECTIONS) -> None:
        self.limit = limit
        self._known: set[Seat] = set()
        # dictionaries remember who came first
        self._unknown: dict[Seat, None] = {}
        self._unknown_by_address: defaultdict[str, dict[Seat, None]] = defaultdict(dict)

    def __len__(self) -> int:
        return len(self._known) + len(self._unknown)

    def enter(self, seat: Seat, now: float) -> None:
        """A new connection; somebody has to go when it is one too many."""
        self._unknown[seat] = None
        self._unknown_by_address[seat.address][seat] = None
        neighbours = self._unknown_by_address[seat.address]
        if len(neighbours) > UNKNOWN_AN_ADDRESS and not _is_this_machine(seat.address):
            self._send_away(_first(neighbours, _may_go))
        if len(self._unknown) > self.limit // UNKNOWN_SHARE:
            self._send_away(_first(self._unknown, _may_go))
        if len(self) > self.limit:
            self._send_away(self._one_too_many(seat, now))

    def admit(self, seat: Seat) -> None:
        """It has shown that it may be here."""
        if seat in self._unknown:
            self._forget(seat)
            self._known.add(seat)

    def leave(self, seat: Seat) -> None:
        self._known.discard(seat)
        if seat in self._unknown:
            self._forget(seat)

    def _forget(self, seat: Seat) -> None:
        del self._unknown[seat]
        neighbours = self._unknown_by_address[seat.address]
        del neighbours[seat]
        if not neighbours:
            del self._unknown_by_address[seat.address]

    def _send_away(self, seat: Seat | None) -> None:
        if seat is not None:
            self.leave(seat)  # at once: its place is free although its socket closes in a moment
            seat.abort()

    def _one_too_many(self, newcomer: Seat, now: float) -> Seat:
        """Who goes when all places are taken; the newcomer only when everybody else is being served."""
        unknown = [seat for seat in self._unknown if seat is not newcomer and _may_go(seat)]
        old = (seat for seat in unknown if now - seat.opened_at > NEW_SECONDS)
        idle = [seat for seat in self._known if seat.doing is Doing.IDLE]
        slow = [seat for seat in self._known if seat.doing is Doing.RECEIVING]
        judged = [seat for seat in slow if now - seat.since > GRACE_SECONDS]
        return (
            next(old, None)
            or min(idle, key=lambda seat: seat.since, default=None)
            or min(judged or slow, key=lambda seat: seat.pace(now), default=None)
            or next(iter(unknown), newcomer)
        )


def _first(seats: Iterable[Seat], wanted: Callable[[Seat], bool]) -> Seat | None:
    return next((seat for seat in seats if wanted(seat)), None)


def _may_go(seat: Seat) -> bool:
    """Not while its request is read for the first time: in a moment we know who it is."""
    return seat.doing is not Doing.ANSWERING and seat.doing is not Doing.RECEIVING


def _is_this_machine(address: str) -> bool:
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return not address  # a socket that is a file has none
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (mapped or found).is_loopback
