"""One key cannot take all connections of the service, and a burst of connections is not reset."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import httpx
import pytest
from running import HeldGenerator, Service, service

from interleave.files import allow_open_files
from interleave.service.documents.keys import FILE_NAME, Caller, add_key
from interleave.service.documents.refusals import ApiRefusal
from interleave.service.documents.service import ServiceSettings
from interleave.service.documents.stream_limits import StreamLimits

IMAGE = {"input": "A frog in one picture", "background": True}
CROWD = 1000


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def opened(running: Service, number: int) -> list[socket.socket]:
    """Connections that are all open before any of them sends a byte."""
    allow_open_files(4 * number)
    port = httpx.URL(running.url).port
    assert port is not None
    return [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(number)]


def get(path: str, key: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n".encode()


def test_G29_a_thousand_streams_of_one_key_keep_no_other_key_waiting(tmp_path: Path) -> None:
    greedy, polite = (add_key(tmp_path / FILE_NAME, name)[1] for name in ("greedy", "polite"))
    generator = HeldGenerator(free=0)  # the job does not end, so its streams stay open
    with service(tmp_path, generator=generator) as running:
        id_ = running.http.post("/v1/responses", json=IMAGE, headers=bearer(greedy)).json()["id"]
        lines = opened(running, CROWD)
        for line in lines:
            line.sendall(get(f"/v1/responses/{id_}?stream=true", greedy))
        starts = [line.recv(400) for line in lines]
        assert sum(start.startswith(b"HTTP/1.1 200") for start in starts) == running.settings.streams_per_key
        refused = [start for start in starts if not start.startswith(b"HTTP/1.1 200")]
        assert all(start.startswith(b"HTTP/1.1 429") and b"retry-after: 5" in start for start in refused)

        assert running.http.get("/health").status_code == 200
        assert running.http.get("/v1/responses", headers=bearer(polite)).status_code == 405
        mine = running.http.post("/v1/responses", json=IMAGE, headers=bearer(polite)).json()["id"]
        stream = f"/v1/responses/{mine}?stream=true"
        with running.http.stream("GET", stream, headers=bearer(polite)) as streamed:
            assert streamed.status_code == 200
        # the greedy key itself is refused streams only
        assert running.http.get(f"/v1/responses/{id_}", headers=bearer(greedy)).status_code == 200
        waiting = running.http.post("/v1/responses", json={"input": "A frog"}, headers=bearer(greedy))
        assert (waiting.status_code, waiting.json()["error"]["code"]) == (429, "too_many_streams")

        for line in lines:
            line.close()
        running.until(lambda: len(running.documents.streams) == 0)
        generator.free = CROWD
        assert running.http.get(f"/v1/responses/{id_}?stream=true", headers=bearer(greedy)).status_code == 200


def test_G29_a_refused_call_leaves_no_job(tmp_path: Path) -> None:
    settings = ServiceSettings(streams_per_key=1)
    generator = HeldGenerator(free=0)
    with service(tmp_path, generator=generator, settings=settings) as running:
        id_ = running.http.post("/v1/responses", json=IMAGE).json()["id"]
        with running.http.stream("GET", f"/v1/documents/{id_}/events") as held:
            assert held.status_code == 200
            body = {"model": "interleave", "messages": [{"role": "user", "content": "A frog"}]}
            for path, sent in (
                ("/v1/chat/completions", body),
                ("/v1/responses", {"input": "A frog", "stream": True}),
                (
                    "/v1beta/models/interleave:generateContent",
                    {"contents": [{"parts": [{"text": "A frog"}]}]},
                ),
            ):
                assert running.http.post(path, json=sent).status_code == 429, path
        assert [each["id"] for each in running.http.get("/v1/documents").json()["data"]] == [id_]
        generator.free = 1000


def test_G29_all_keys_together_leave_room_and_guests_leave_room_for_keys() -> None:
    limits = StreamLimits(per_key=4, connections=16)
    guests = [Caller(f"guest-{n}", is_guest=True) for n in range(5)]
    for guest in guests[:4]:
        limits.enter(guest)
    with pytest.raises(ApiRefusal, match="no room") as refused:
        limits.enter(guests[4])
    assert (refused.value.status, refused.value.retry_after) == (503, 5.0)
    for key in "ab":
        for _ in range(4):
            limits.enter(Caller(key))
    with pytest.raises(ApiRefusal, match="this key has 4"):
        limits.enter(Caller("a"))
    with pytest.raises(ApiRefusal, match="no room"):
        limits.enter(Caller("c"))
    limits.leave(Caller("a"))
    limits.enter(Caller("c"))
    assert len(limits) == 12


def test_G30_a_thousand_connections_at_once_are_all_answered(tmp_path: Path) -> None:
    _, key = add_key(tmp_path / FILE_NAME, "batch")
    with service(tmp_path) as running:
        lines = opened(running, CROWD)
        for line in lines:
            line.sendall(get("/v1/models", key))
        assert [line.recv(12) for line in lines] == [b"HTTP/1.1 200"] * CROWD
        for line in lines:
            line.close()


def test_G30_more_connections_than_places_are_answered_too(tmp_path: Path) -> None:
    """With fewer places than connections, those that find none are told so."""
    _, key = add_key(tmp_path / FILE_NAME, "batch")
    with service(tmp_path) as running:
        connection: Any = running._server.config.http
        connection.limiter.limit = 40
        lines = opened(running, 100)
        assert [line.recv(12) for line in lines[:60]] == [b"HTTP/1.1 503"] * 60
        for line in lines[60:]:
            line.sendall(get("/v1/models", key))
        assert [line.recv(12) for line in lines[60:]] == [b"HTTP/1.1 200"] * 40
        for line in lines:
            line.close()
