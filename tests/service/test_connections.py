"""Connections by the thousand, slow ones, and requests that are built to hurt: without sockets or a clock."""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import dataclass
from typing import Any

import clockwork
import h11
import pytest
from uvicorn.server import ServerState

from interleave.backends.protocols import GeneratorCapabilities
from interleave.service.generator.app import build_app
from interleave.service.generator.messages import GeneratorInfo
from interleave.service.generator.metrics import Metrics
from interleave.service.generator.pool import Pool
from interleave.service.generator.request_handling import Service
from interleave.service.generator.server import uvicorn_config
from interleave.service.http import connection_limits as limits
from interleave.service.http import connections
from interleave.service.http.auth import Access
from interleave.service.http.connection_limits import MAX_LEAVING, ConnectionLimiter, ConnectionState
from interleave.service.http.connections import (
    CLOSE_SECONDS,
    HEADER_SECONDS,
    TURNED_AWAY_SECONDS,
    BoundedConnection,
)
from interleave.service.http.memory import MemoryBudget, MemoryLease
from interleave.service.http.refusals import Refusal
from interleave.service.http.request_bodies import BODY_SECONDS, WINDOW_SECONDS, BoundedBody

TOKEN = "a-token-of-these-tests"


@dataclass(eq=False)
class FakeConnection:
    """A connection as the policy sees it."""

    name: str = ""
    state: ConnectionState = ConnectionState.AWAITING_FIRST_REQUEST
    opened_at: float = 0.0
    since: float = 0.0
    unread_since: float | None = None
    bytes_a_second: float = 0.0
    address: str = "127.0.0.1"
    gone: bool = False
    answered: bool = False

    def rate(self, now: float) -> float:
        return self.bytes_a_second

    def abort(self) -> None:
        self.gone = True

    def turn_away(self) -> None:
        self.gone = self.answered = True


def entered(limiter: ConnectionLimiter, *made: FakeConnection, known: bool = True) -> list[FakeConnection]:
    for connection in made:
        limiter.enter(connection, connection.opened_at)
        if known:
            limiter.admit(connection)
    return list(made)


def test_a_thousand_dripping_bodies_do_not_keep_a_newcomer_out() -> None:
    limiter = ConnectionLimiter(1000)
    drips = entered(
        limiter, *(FakeConnection(f"{n}", ConnectionState.RECEIVING, bytes_a_second=n) for n in range(1000))
    )
    for number in range(40):
        newcomer = FakeConnection("good", opened_at=60)
        limiter.enter(newcomer, 60)
        limiter.admit(newcomer)
        newcomer.state = ConnectionState.RESPONDING
        assert not newcomer.gone
        assert [connection.name for connection in drips if connection.gone] == [
            str(n) for n in range(number + 1)
        ]
    assert len(limiter) == 1000


def test_who_is_idle_goes_before_who_sends_and_who_sends_well_before_nobody() -> None:
    limiter = ConnectionLimiter(8)
    old, older = (
        FakeConnection("idle", ConnectionState.IDLE, since=50),
        FakeConnection("idle longer", ConnectionState.IDLE, since=40),
    )
    quick = FakeConnection("quick", ConnectionState.RECEIVING, since=10, bytes_a_second=9000)
    slow = FakeConnection("slow", ConnectionState.RECEIVING, since=20, bytes_a_second=100)
    begun = FakeConnection("just begun", ConnectionState.RECEIVING, since=57, bytes_a_second=0)
    served = [FakeConnection(f"served {n}", ConnectionState.RESPONDING) for n in range(3)]
    everyone = entered(limiter, old, older, quick, slow, begun, *served)
    order = []
    for _ in range(6):
        newcomer = FakeConnection("new", opened_at=60)
        limiter.enter(newcomer, 60)
        order += [
            connection.name
            for connection in [*everyone, newcomer]
            if connection.gone and connection.name not in order
        ]
        limiter.admit(newcomer)
        newcomer.state = ConnectionState.RESPONDING
    assert order == ["idle longer", "idle", "slow", "quick", "just begun", "new"]
    assert not any(connection.gone for connection in served)


def test_G29_who_does_not_read_its_answers_makes_room_for_others() -> None:
    limiter = ConnectionLimiter(4)
    reading = FakeConnection("reading", ConnectionState.RESPONDING)
    longest, long, short = entered(
        limiter,
        *(FakeConnection(f"{n}", ConnectionState.RESPONDING, unread_since=n) for n in (20.0, 30.0, 58.0)),
    )
    entered(limiter, reading)
    order = []
    for _ in range(3):
        newcomer = FakeConnection("new", ConnectionState.RESPONDING, opened_at=60)
        limiter.enter(newcomer, 60)
        limiter.admit(newcomer)
        order.append([each.gone for each in (longest, long, short, reading, newcomer)])
    assert order == [
        [True, False, False, False, False],
        [True, True, False, False, False],
        [True, True, False, False, True],  # all others are answered, or have not stalled for long
    ]


def test_newcomers_do_not_push_each_other_out_while_somebody_drips() -> None:
    limiter = ConnectionLimiter(1000)
    entered(
        limiter,
        *(FakeConnection(f"{n}", ConnectionState.RECEIVING, since=59, bytes_a_second=9) for n in range(1000)),
    )
    newcomers = [FakeConnection(f"good {n}", opened_at=60) for n in range(20)]
    for newcomer in newcomers:
        limiter.enter(newcomer, 60)
    assert not any(connection.gone for connection in newcomers)


def test_those_without_a_token_have_a_share_of_the_places_and_the_oldest_goes() -> None:
    limiter = ConnectionLimiter(1000)
    known = entered(limiter, *(FakeConnection(f"known {n}", ConnectionState.IDLE) for n in range(700)))
    strangers = [FakeConnection(f"stranger {n}", opened_at=n / 1000) for n in range(1100)]
    for stranger in strangers:
        limiter.enter(stranger, stranger.opened_at)
    assert not any(connection.gone for connection in known)
    assert [connection.gone for connection in strangers] == [True] * 800 + [False] * 300


def test_G30_a_burst_of_strangers_takes_all_free_places_and_none_is_sent_away() -> None:
    limiter = ConnectionLimiter(1000)
    burst = [FakeConnection(f"{n}", address="203.0.113.7") for n in range(1000)]
    for connection in burst:
        limiter.enter(connection, 0.0)
    assert not any(connection.gone for connection in burst)
    entered(limiter, FakeConnection("one more"))
    assert [connection.name for connection in burst if connection.gone] == ["0"]
    assert burst[0].answered


def test_G30_only_some_of_those_sent_away_may_linger() -> None:
    limiter = ConnectionLimiter(1000)
    burst = [FakeConnection(f"{n}") for n in range(1000 + MAX_LEAVING + 10)]
    for connection in burst:
        limiter.enter(connection, 0.0)
    assert [connection.answered for connection in burst if connection.gone] == [True] * MAX_LEAVING + [
        False
    ] * 10
    limiter.leave(burst[0])
    limiter.enter(FakeConnection("one more"), 0.0)
    assert burst[MAX_LEAVING + 10].answered  # there is room for one again


def test_who_is_being_looked_at_for_the_first_time_is_not_sent_away() -> None:
    """A request whose headers have come is judged in a moment; until then nobody knows whether it is good."""
    limiter = ConnectionLimiter(1000)
    good = FakeConnection("good")
    limiter.enter(good, 0.0)
    good.state = ConnectionState.RECEIVING
    for number in range(1100):
        limiter.enter(FakeConnection(f"{number}", opened_at=1.0), 1.0)
    limiter.admit(good)
    assert not good.gone


def test_the_address_with_the_most_strangers_loses_its_oldest() -> None:
    limiter = ConnectionLimiter(1000)
    few = [FakeConnection(f"few {n}", address="198.51.100.1") for n in range(100)]
    many = [FakeConnection(f"many {n}", address="203.0.113.7") for n in range(1000)]
    for connection in (*few, *many):
        limiter.enter(connection, 0.0)
    assert not any(connection.gone for connection in few)
    assert [connection.gone for connection in many] == [True] * 100 + [False] * 900


def test_places_are_given_back() -> None:
    limiter = ConnectionLimiter(10)
    for _ in range(3):
        made = entered(limiter, *(FakeConnection() for _ in range(5))) + entered(
            limiter, FakeConnection(), FakeConnection(), known=False
        )
        for connection in made:
            limiter.leave(connection)
            limiter.leave(connection)
    assert len(limiter) == 0
    assert not limiter._unauthenticated_by_address


class Transport(asyncio.Transport):
    """A socket that is none: what is written stays, and nobody reads it unless told."""

    max_size = 0

    def __init__(self, protocol: asyncio.Protocol, *, reads: bool = True) -> None:
        super().__init__({"peername": ("127.0.0.1", 5), "sockname": ("127.0.0.1", 6)})
        self.protocol, self.reads = protocol, reads
        self.written = b""
        self.closing = self.aborted = self.lost = self.ended = False

    def write(self, data: bytes) -> None:  # type: ignore[override]
        self.written += data

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True
        if self.reads:
            self._lose()

    def write_eof(self) -> None:
        self.ended = True

    def abort(self) -> None:
        self.closing = self.aborted = True
        self._lose()

    def _lose(self) -> None:
        if not self.lost:
            self.lost = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    @property
    def statuses(self) -> list[int]:
        return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+)", self.written)]


class FakeServer:
    """The server's application and its connections, without sockets and workers."""

    def __init__(self, token: str | None = None) -> None:
        self.pool, metrics = Pool("solid"), Metrics()
        app = build_app(Service(self.pool, ("solid",), metrics), Access(token))
        self.config = uvicorn_config(app)
        self.config.load()
        self.state = ServerState()

    def connect(self, **options: Any) -> tuple[BoundedConnection, Transport]:
        connection = self.config.http_protocol_class(self.config, self.state, {})  # type: ignore[call-arg, operator]
        transport = Transport(connection, **options)
        connection.connection_made(transport)
        return connection, transport


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def spoken(*pieces: bytes, token: str | None = None, wait: float = 0.0) -> Transport:
    """What a connection has become of these bytes."""

    async def talk() -> Transport:
        connection, transport = FakeServer(token).connect()
        for piece in pieces:
            if not transport.closing:
                connection.data_received(piece)
                await settled()
        await asyncio.sleep(wait)
        return transport

    return clockwork.run(talk())


def head(line: str, *headers: str) -> bytes:
    return "\r\n".join([line, "Host: localhost", *headers, "", ""]).encode()


STATUS = head("GET /status HTTP/1.1")
CHUNKED = head("POST /edit HTTP/1.1", "Content-Type: application/json", "Transfer-Encoding: chunked")


def test_requests_are_answered_here_as_they_are_over_sockets() -> None:
    assert spoken(STATUS, STATUS).statuses == [200, 200]
    assert spoken(STATUS + STATUS).statuses == [200, 200]
    assert spoken(head("GET /status HTTP/1.0")).closing
    assert spoken(STATUS, token=TOKEN).statuses == [401]


SMUGGLED: dict[str, bytes] = {
    "both lengths": head("POST /edit HTTP/1.1", "Content-Length: 5", "Transfer-Encoding: chunked"),
    "both lengths, other order": head(
        "POST /edit HTTP/1.1", "Transfer-Encoding: chunked", "Content-Length: 5"
    ),
    "in pieces, by an old version": head("POST /edit HTTP/1.0", "Transfer-Encoding: chunked"),
    "two lengths": head("POST /edit HTTP/1.1", "Content-Length: 5", "Content-Length: 6"),
    "a list of lengths": head("POST /edit HTTP/1.1", "Content-Length: 5, 6"),
    "a signed length": head("POST /edit HTTP/1.1", "Content-Length: +5"),
    "an odd coding": head("POST /edit HTTP/1.1", "Transfer-Encoding: xchunked"),
    "two codings": head("POST /edit HTTP/1.1", "Transfer-Encoding: gzip, chunked"),
    "a coding in two lines": head(
        "POST /edit HTTP/1.1", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked"
    ),
    "a blank before the colon": head("POST /edit HTTP/1.1", "Transfer-Encoding : chunked"),
    "a folded header": head(
        "POST /edit HTTP/1.1", "X: a\r\n Transfer-Encoding: chunked", "Content-Length : 5"
    ),
}


@pytest.mark.parametrize("request_", SMUGGLED.values(), ids=SMUGGLED)
def test_no_second_request_hides_in_the_body_of_a_first(request_: bytes) -> None:
    """Where a proxy may see the end of a body elsewhere, there is one answer, and the connection ends."""
    request_ = request_.replace(b"Host:", b"Content-Type: application/json\r\nHost:")
    hidden = b"0\r\n\r\n" + STATUS
    for pieces in ((request_ + hidden,), (request_, hidden)):
        transport = spoken(*pieces, wait=400)  # longer than any request may take
        assert [status >= 400 for status in transport.statuses] == [True]
        assert transport.closing


def test_many_tiny_chunks_are_cut_off_after_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sent in one piece they would keep the server from everyone else for seconds."""
    parsed = 0
    next_event = h11.Connection.next_event

    def counted(self: Any) -> Any:
        nonlocal parsed
        parsed += 1
        return next_event(self)

    monkeypatch.setattr(h11.Connection, "next_event", counted)
    for start in (CHUNKED, head("POST /edit HTTP/1.1", "Transfer-Encoding: chunked")):
        parsed = 0
        transport = spoken(start, b"1\r\na\r\n" * 43_000, token=TOKEN if start is not CHUNKED else None)
        assert transport.closing
        assert parsed < 300


def test_chunks_of_a_usual_size_are_read() -> None:
    body = b"".join(b"400\r\n" + b" " * 1024 + b"\r\n" for _ in range(600)) + b"0\r\n\r\n"
    assert spoken(CHUNKED, body, wait=400).statuses == [503]  # read to its end; there is nobody to draw


def test_thousands_of_headers_are_refused_unparsed() -> None:
    flood = head("GET /status HTTP/1.1", *["a:"] * 7000)
    for pieces in ((flood,), (flood[:9000], flood[9000:]), (STATUS, flood), (STATUS + flood,)):
        transport = spoken(*pieces)
        assert transport.statuses[-1] == 400
        assert transport.closing
        assert b"Too many headers" in transport.written
    assert spoken(head("GET /status HTTP/1.1", *(f"X-{n}: a" for n in range(100)))).statuses == [200]
    assert spoken(STATUS * 60, wait=1).statuses == [200] * 60  # many lines, but of many requests


def test_a_body_that_breaks_off_its_framing_while_it_is_refused_leaves_no_trace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        transport = spoken(CHUNKED, b"zzzz\r\n", token=TOKEN)
    assert transport.statuses == [401]
    assert transport.aborted
    assert not caplog.records


UPGRADES = [
    ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: eDg="),
    ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMA"),
]


@pytest.mark.parametrize("headers", UPGRADES, ids=["websocket", "h2c"])
def test_asking_for_another_protocol_changes_nothing(
    headers: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert spoken(head("GET /status HTTP/1.1", *headers), STATUS).statuses == [200, 200]
        assert spoken(head("GET /status HTTP/1.1", *headers), token=TOKEN).statuses == [401]
    assert not caplog.records
    assert spoken(head("CONNECT localhost:22 HTTP/1.1")).statuses[0] >= 400


def test_headers_that_drip_are_cut_off() -> None:
    async def drip() -> float:
        connection, transport = FakeServer().connect()
        began = clockwork.now()
        while not transport.closing:
            connection.data_received(b"a")
            await asyncio.sleep(0.5)
        return clockwork.now() - began

    assert HEADER_SECONDS <= clockwork.run(drip()) <= HEADER_SECONDS + 1


def test_a_connection_that_is_closed_and_never_read_is_torn_down() -> None:
    async def refuse() -> tuple[bool, bool]:
        connection, transport = FakeServer(TOKEN).connect(reads=False)
        connection.data_received(STATUS)
        await settled()
        before = transport.aborted
        await asyncio.sleep(CLOSE_SECONDS + 1)
        return before, transport.aborted

    assert clockwork.run(refuse()) == (False, True)


def test_G30_who_finds_no_place_is_answered_before_its_request_and_its_request_is_not_read() -> None:
    async def turned_away() -> Transport:
        connection, transport = FakeServer().connect()
        connection.turn_away()
        assert transport.ended and not transport.closing  # the answer can be read
        connection.data_received(STATUS)
        await asyncio.sleep(TURNED_AWAY_SECONDS + 1)
        return transport

    transport = clockwork.run(turned_away())
    assert transport.statuses == [503]
    assert b"Retry-After: 1" in transport.written
    assert transport.lost


def test_who_shows_no_token_is_hung_up_on_and_who_does_is_known() -> None:
    bearer = head("GET /status HTTP/1.1", f"Authorization: Bearer {TOKEN}")

    async def visit() -> tuple[list[bool], int, int]:
        server = FakeServer(TOKEN)
        (stranger, first), (friend, second), (probe, third) = (server.connect() for _ in range(3))
        stranger.data_received(STATUS)
        friend.data_received(bearer)
        probe.data_received(head("GET /health HTTP/1.1"))
        await settled()
        limiter = type(friend).limiter
        return (
            [first.closing, second.closing, third.closing],
            len(limiter._authenticated),
            len(limiter._unauthenticated),
        )

    assert clockwork.run(visit()) == ([True, False, False], 1, 1)


def test_strangers_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def crowd() -> None:
        server = FakeServer(TOKEN)
        for _ in range(3):
            for _ in range(50):
                connection, transport = server.connect()
                connection.data_received(STATUS)
                await settled()
                assert transport.statuses == [401]
            await asyncio.sleep(2)

    with caplog.at_level(logging.INFO, "interleave.service"):
        clockwork.run(crowd())
    told = [int(line.split()[0]) for line in caplog.messages if "without a token refused" in line]
    assert told == [1, 50, 50]
    assert len(caplog.messages) == 3


def test_a_server_that_is_ending_says_so_and_when_to_come_again_elsewhere() -> None:
    async def visit() -> bytes:
        server = FakeServer()
        server.pool.draining = True
        connection, transport = server.connect()
        connection.data_received(head("POST /generate HTTP/1.1", "Content-Length: 0"))
        await settled()
        assert transport.closing
        return transport.written.lower()

    answer = clockwork.run(visit())
    assert answer.startswith(b"http/1.1 503 ")
    assert b"\r\nretry-after: 5\r\n" in answer
    assert b"\r\nconnection: close\r\n" in answer


def test_a_connection_tells_what_it_is_at_and_how_fast() -> None:
    body = head("POST /edit HTTP/1.1", "Content-Type: application/json", "Content-Length: 90000")

    async def watch() -> list[tuple[ConnectionState, int]]:
        server, told = FakeServer(), []
        server.pool.info = GeneratorInfo(GeneratorCapabilities())
        connection, _ = server.connect()
        for data, seconds in (
            (b"", 1),
            (STATUS, 1),
            (body[:20], 1),
            (body[20:], 0),
            (bytes(30_000), 2),
            (b"", 20),
        ):
            if data:
                connection.data_received(data)
            await settled()
            await asyncio.sleep(seconds)
            told.append((connection.state, int(connection.rate(clockwork.now()))))
        return told

    told = clockwork.run(watch())
    assert [state for state, _ in told] == [
        *(
            ConnectionState.AWAITING_FIRST_REQUEST,
            ConnectionState.IDLE,
            ConnectionState.IDLE,
            ConnectionState.RECEIVING,
            ConnectionState.RECEIVING,
            ConnectionState.CLOSING,
        )
    ]
    paces = [pace for _, pace in told]
    assert paces[0] == paces[5] == 0
    assert paces[4] > 10 * paces[3] > 0


def reading(pace: float, *, busy: float = 0.0, total: float = 1e9) -> tuple[int, float]:
    """How a body at this many bytes a second ends, and when: 200 when it is read to its end."""

    async def read() -> tuple[int, float]:
        sent, began = 0.0, clockwork.now()

        async def receive() -> Any:
            nonlocal sent
            await asyncio.sleep(1)
            sent += pace
            return {"type": "http.request", "body": bytes(int(pace)), "more_body": sent < total}

        body = BoundedBody(receive, MemoryLease(MemoryBudget(10**9)), declared=None)
        try:
            while not body.complete:
                await body()
                await asyncio.sleep(busy)
        except Refusal as refusal:
            return refusal.status, clockwork.now() - began
        return 200, clockwork.now() - began

    return clockwork.run(read())


def test_G02_a_body_that_drips_is_cut_off_after_a_few_seconds() -> None:
    assert reading(1) == (408, WINDOW_SECONDS)
    assert reading(900) == (408, WINDOW_SECONDS)


def test_G02_a_body_that_comes_steadily_has_its_minute() -> None:
    assert reading(2000) == (408, BODY_SECONDS)
    assert reading(20_000, total=1_000_000) == (200, 50)
    assert reading(1, total=5) == (200, 5)  # small, and there in time


def test_bytes_that_waited_for_a_busy_server_are_not_held_against_the_client() -> None:
    """The server was at something else for longer than a body may be silent: timer and bytes come at once."""

    async def read() -> int:
        arrived, loop = asyncio.Event(), asyncio.get_running_loop()

        async def receive() -> Any:
            await arrived.wait()
            arrived.clear()
            return {"type": "http.request", "body": bytes(20_000), "more_body": True}

        def be_busy() -> None:
            loop.clock.now += 2 * WINDOW_SECONDS  # type: ignore[attr-defined]
            loop.call_soon(arrived.set)  # as bytes are read: in the same turn in which the timer goes off

        body = BoundedBody(receive, MemoryLease(MemoryBudget(10**9)), declared=None)
        for _ in range(2):
            loop.call_soon(be_busy)
            await body()
        return body.lease.memory.bodies

    assert clockwork.run(read()) == 40_000


def test_bodies_that_stand_still_make_room_for_one_that_comes() -> None:
    """Nearly all sent at once and the rest in drips: their bytes would keep others out for a minute."""

    async def read(memory: MemoryBudget, first: int, then: int) -> int:
        sizes = [first]

        async def receive() -> Any:
            await asyncio.sleep(1)
            return {"type": "http.request", "body": bytes(sizes.pop() if sizes else then), "more_body": True}

        body = BoundedBody(receive, MemoryLease(memory), declared=None)
        try:
            async with asyncio.timeout(12):
                while True:
                    await body()
        except Refusal as refusal:
            return refusal.status
        except TimeoutError:
            return 200
        finally:
            body.lease.release()

    async def crowd() -> tuple[int, list[int]]:
        memory = MemoryBudget(4_000_000)
        drips = [asyncio.create_task(read(memory, 235_000, 1300)) for _ in range(4)]
        await asyncio.sleep(8)
        assert 940_000 < memory.bodies < memory.max_for_bodies
        good = await read(memory, 240_000, 20_000)
        statuses = await asyncio.gather(*drips)
        assert (memory.bodies, memory.arriving) == (0, set())
        return good, sorted(statuses)

    assert clockwork.run(crowd()) == (200, [200, 200, 408, 408])


def test_the_limits_fit_each_other() -> None:
    """Whoever is new must be read before as many others have come as strangers may be."""
    from interleave.service.generator.server import ACCEPT_BATCH

    steps = 4  # accepted, made, watched, read: a turn of the loop each
    assert steps * ACCEPT_BATCH < limits.MAX_CONNECTIONS // limits.UNAUTHENTICATED_FRACTION
    assert connections.KEEP_ALIVE_SECONDS > 60
