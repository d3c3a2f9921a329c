"""Crowds at the door of a real server: whatever a thousand bad connections do, good requests are answered."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx
import pytest
from serving import Server, StartServer, meanwhile

from interleave.files import allow_open_files
from interleave.service.http.connection_limits import MAX_CONNECTIONS

pytestmark = pytest.mark.slow
TOKEN = "a-token-of-these-tests"
GOOD = 40


def ask(server: Server, number: int) -> int | str:
    """What a good client is answered on a connection of its own."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=server.url, timeout=300, headers=headers, trust_env=False) as client:
        try:
            return client.post("/generate", json={"prompt": f"cat {number}"}).status_code
        except httpx.HTTPError as error:
            return repr(error)


def new_connections(server: Server) -> list[int | str]:
    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(lambda number: ask(server, number), range(GOOD)))


def connect(server: Server, first: bytes) -> socket.socket:
    line = socket.create_connection(("127.0.0.1", server.port), timeout=120)
    line.sendall(first)
    return line


DRIP = (
    b"POST /edit HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\n"
    b"Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n "
)


def test_a_thousand_dripping_bodies_do_not_lock_good_clients_out(start: StartServer) -> None:
    """With a token, so that nothing but their pace tells them apart."""
    server = start("--generator", "solid?size=64", token=TOKEN)
    all_there = threading.Barrier(5)

    def drip(enough: threading.Event) -> None:
        lines = [connect(server, DRIP) for _ in range(250)]
        all_there.wait(120)
        while not enough.wait(1):
            for number, line in enumerate(lines):
                try:
                    line.sendall(b" ")
                except OSError:  # it was sent away: it comes again
                    line.close()
                    with suppress(OSError):
                        lines[number] = connect(server, DRIP)
        for line in lines:
            line.close()

    with meanwhile(4, drip):
        all_there.wait(120)
        assert new_connections(server) == [200] * GOOD
    assert server.status()["workers"][0]["restarts"] == 0


LOOPS = """
import asyncio, sys
from contextlib import suppress

async def come_again(port, request):
    while True:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request)
            print((await reader.read(100))[:12], flush=True)
            writer.close()

async def crowd(port, request):
    await asyncio.gather(*(come_again(port, request) for _ in range(1100)))

asyncio.run(crowd(int(sys.argv[1]), sys.argv[2].encode()))
"""


def test_loops_without_a_token_fail_no_request_that_has_one(start: StartServer) -> None:
    """1,100 connections that come, are refused, and come again."""
    server = start("--generator", "solid?size=64", token=TOKEN)
    server.client.timeout = 300  # type: ignore[assignment]
    request = DRIP.replace(TOKEN.encode(), b"none").decode()
    with (server.folder / "loops.txt").open("w") as answers:
        crowd = subprocess.Popen([sys.executable, "-c", LOOPS, str(server.port), request], stdout=answers)
    try:
        refused = lambda: (server.folder / "loops.txt").read_text().count(" 401")  # noqa: E731
        server.until(lambda: refused() > 1100)
        assert [server.draw("on a connection that is kept").status_code for _ in range(GOOD)] == [200] * GOOD
        assert new_connections(server) == [200] * GOOD
        assert crowd.poll() is None
    finally:
        crowd.kill()
        crowd.wait()


def test_idle_strangers_do_not_send_those_away_who_are_known(start: StartServer) -> None:
    server = start("--generator", "solid?size=64", token=TOKEN)
    assert server.draw("known from now on").status_code == 200
    kept = list(server.client._transport._pool.connections)  # type: ignore[attr-defined]
    allow_open_files(MAX_CONNECTIONS + 500)
    lines = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(MAX_CONNECTIONS + 100)]
    lines[0].settimeout(120)
    assert lines[0].recv(12) == b"HTTP/1.1 503"  # by now somebody had to go
    assert server.draw("still known").status_code == 200
    assert server.client._transport._pool.connections == kept  # type: ignore[attr-defined]
    for line in lines:
        line.close()
