"""Abuse of the server, from the fault catalogue's section on HTTP: raw bytes where clients are too polite."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from abuse import BAD_FORMS, BAD_JSON, FILE_NAMES, PATHS, PROMPT, field, huge_png, multipart
from serving import CANARY, Server, coded, png

from interleave.service.http.refusals import Refusal
from interleave.service.http.request_bodies import parse_json

JSON = {"Content-Type": "application/json"}
DRAWING = ["/edit", "/generate", "/v1/images/generations"]
FORMS = ["/edit-upload", "/v1/images/edits"]


def open_line(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=30)


def head(path: str, *headers: str, method: str = "POST") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


def answer(line: socket.socket) -> tuple[int, bytes]:
    """The status and the rest of what the server says until it closes."""
    received = b""
    while piece := line.recv(65536):
        received += piece
        length = re.search(rb"content-length: (\d+)", received)
        if length and len(received.partition(b"\r\n\r\n")[2]) >= int(length[1]):
            break
    return int(received.split()[1]), received


def memory(pid: int) -> float:
    """What a process holds, in megabytes."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) / 1000


@pytest.fixture(autouse=True)
def _left_as_it_was(server: Server) -> Iterator[None]:
    """After every attack the server answers, and holds nothing of it."""
    yield
    server.until(lambda: server.status()["queue"]["held_bytes"] == 0)
    assert server.draw("still here").status_code == 200
    assert server.status()["workers"][0]["restarts"] == 0


def test_G01_a_gigabyte_that_is_announced_is_refused_unread(server: Server) -> None:
    with open_line(server) as line:
        line.sendall(head("/edit", "Content-Length: 1000000000"))
        status, text = answer(line)
    assert (status, b"more than the 64,000,000 bytes allowed" in text) == (413, True)


@pytest.mark.parametrize("path", [*DRAWING, *FORMS])
def test_G01_a_gigabyte_in_pieces_is_cut_off_and_memory_stays_flat(server: Server, path: str) -> None:
    before = memory(server.process.pid)
    piece = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    sent = 0
    with open_line(server) as line:
        kind = "multipart/form-data; boundary=x" if path in FORMS else "application/json"
        line.sendall(head(path, "Transfer-Encoding: chunked").replace(b"application/json", kind.encode()))
        try:
            for _ in range(1000):
                line.sendall(piece)
                sent += len(piece)
        except OSError:
            pass
    assert sent < 250_000_000
    server.until(lambda: server.status()["queue"]["held_bytes"] == 0)
    assert memory(server.process.pid) < before + 250


def test_G01_a_client_that_waits_for_a_go_ahead_is_spared_the_sending(server: Server) -> None:
    with open_line(server) as line:
        line.sendall(head("/edit", "Content-Length: 1000000000", "Expect: 100-continue"))
        assert line.recv(12) == b"HTTP/1.1 413"


@pytest.mark.slow
def test_G02_headers_that_never_end_are_cut_off_and_others_are_served(server: Server) -> None:
    lines = [open_line(server) for _ in range(300)]
    for line in lines:
        line.sendall(b"POST /edit HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        line.setblocking(False)
    while lines:
        assert server.draw("a cat").status_code == 200
        for line in [line for line in lines if _closed(line)]:
            lines.remove(line)
            line.close()
        for line in lines:
            with suppress(OSError):
                line.send(b"a")


@pytest.mark.slow
def test_G03_idle_connections_are_bounded_and_the_oldest_goes(server: Server) -> None:
    lines = []
    for _ in range(1100):
        line = open_line(server)
        line.setblocking(False)
        lines.append(line)
    server.until(lambda: _closed(lines[0]))
    assert server.draw("a cat").status_code == 200
    for line in lines:
        line.close()


def _closed(line: socket.socket) -> bool:
    try:
        return line.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


@pytest.mark.parametrize("path", DRAWING)
@pytest.mark.parametrize(("body", "status"), BAD_JSON.values(), ids=BAD_JSON)
def test_G15_bad_json_is_refused(server: Server, path: str, body: bytes, status: int) -> None:
    reply = server.client.post(path, content=body, headers=JSON)
    wanted = 400 if path.startswith("/v1") and status == 422 else status
    assert reply.status_code == wanted, reply.text
    assert "Traceback" not in reply.text


def test_G15_a_million_keys_do_not_hold_the_others_up(server: Server) -> None:
    body, _ = BAD_JSON["10^6 keys"]
    with ThreadPoolExecutor(4) as threads:
        attacks = [threads.submit(server.client.post, "/edit", content=body, headers=JSON) for _ in range(8)]
        assert {server.draw("a cat").status_code for _ in range(10)} == {200}
        assert {attack.result().status_code for attack in attacks} == {413}


@pytest.mark.parametrize("name", ["10^6 keys", "10^6 numbers"])
def test_G15_a_flood_of_pieces_is_counted_and_never_parsed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def parse(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("it is parsed")

    with monkeypatch.context() as patched, pytest.raises(Refusal) as refusal:
        patched.setattr("interleave.service.http.request_bodies.json.loads", parse)
        parse_json(BAD_JSON[name][0])
    assert refusal.value.status == 413


@pytest.mark.parametrize("path", FORMS)
@pytest.mark.parametrize(("body", "kind"), BAD_FORMS.values(), ids=BAD_FORMS)
def test_G16_bad_forms_are_refused(server: Server, path: str, body: bytes, kind: str) -> None:
    reply = server.client.post(path, content=body, headers={"Content-Type": kind})
    assert reply.status_code in (400, 413, 415, 422), reply.text
    assert "Traceback" not in reply.text


@pytest.mark.parametrize("name", FILE_NAMES)
def test_G16_file_names_mean_nothing(server: Server, name: bytes) -> None:
    body = multipart(PROMPT, field(b"image", png(), b'; filename="' + name + b'"'))
    headers = {"Content-Type": "multipart/form-data; boundary=xYz"}
    reply = server.client.post("/v1/images/edits", content=body, headers=headers)
    assert reply.status_code == 200
    assert {file.name for file in server.folder.iterdir()} <= {"stderr.txt", "journal.txt"}


def test_an_image_of_300_megapixels_is_refused_by_its_header(server: Server) -> None:
    reply = server.client.post("/edit", json={"prompt": "x", "image": coded(huge_png())})
    assert (reply.status_code, "too large" in reply.json()["detail"]) == (422, True)
    files = {"image": ("a.png", huge_png(), "image/png")}
    reply = server.client.post("/v1/images/edits", data={"prompt": "x"}, files=files)
    assert (reply.status_code, "too large" in reply.json()["error"]["message"]) == (400, True)


def test_an_image_of_more_than_20_megabytes_is_refused(server: Server) -> None:
    files = {"image": ("a.png", b"\x89PNG\r\n\x1a\n" + bytes(20_000_000), "image/png")}
    assert server.client.post("/v1/images/edits", data={"prompt": "x"}, files=files).status_code == 413
    large = coded(b"\x89PNG\r\n\x1a\n" + bytes(20_000_000))
    reply = server.client.post("/edit", json={"prompt": "x", "image": large})
    assert (reply.status_code, "allowed" in reply.json()["detail"]) == (422, True)


def test_G17_ranges_are_not_served(server: Server) -> None:
    ranges = ",".join(f"{n}-{n + 1}" for n in range(2000))
    reply = server.client.get("/status", headers={"Range": f"bytes={ranges}"})
    assert reply.status_code == 200
    assert "content-range" not in reply.headers


@pytest.mark.parametrize("method", ["TRACE", "PUT", "DELETE", "OPTIONS", "PATCH", "GET", "BREW"])
@pytest.mark.parametrize("path", ["/edit", "/v1/images/edits"])
def test_G18_other_methods_are_not_allowed(server: Server, method: str, path: str) -> None:
    reply = server.client.request(method, path)
    assert reply.status_code == 405
    assert "is not allowed on this route" in reply.text
    assert ("error" in reply.json()) if path.startswith("/v1") else ("detail" in reply.json())


@pytest.mark.parametrize("path", PATHS)
def test_G18_paths_lead_nowhere(server: Server, path: str) -> None:
    with open_line(server) as line:
        line.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        status, text = answer(line)
    assert status in (400, 404)
    assert b"root:" not in text


def test_G18_an_address_of_100_kilobytes_is_refused(server: Server) -> None:
    with open_line(server) as line:
        line.sendall(b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with suppress(ConnectionError):  # refused so early that the rest was not read
            assert line.recv(12) in (b"HTTP/1.1 400", b"HTTP/1.1 414")


GARBAGE = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"\x00" * 100,
    b"GET\r\n\r\n",
    b"SSH-2.0-x\r\n",
    os.urandom(500),
]


@pytest.mark.parametrize("noise", GARBAGE, ids=range(len(GARBAGE)))
def test_what_is_no_http_is_turned_away(server: Server, noise: bytes) -> None:
    with open_line(server) as line:
        line.sendall(noise + b"\r\n\r\n")
        line.shutdown(socket.SHUT_WR)
        assert not line.recv(12).startswith(b"HTTP/1.1 2")


def test_two_lengths_and_smuggling_are_refused(server: Server) -> None:
    for headers in (
        ["Content-Length: 5", "Content-Length: 6"],
        ["Content-Length: 5", "Transfer-Encoding: chunked"],
    ):
        with open_line(server) as line:
            line.sendall(
                head("/edit", *headers) + b"0\r\n\r\nGET /status HTTP/1.1\r\nHost: localhost\r\n\r\n"
            )
            status, text = answer(line)
            assert status >= 400
            assert b"connection: close" in text.lower()
            while piece := line.recv(65536):
                text += piece
            assert text.count(b"HTTP/1.1 ") == 1


FOREIGN: dict[str, dict[str, str]] = {
    "another site": {"Origin": "https://evil.example"},
    "no site": {"Origin": "null"},
    "a name of theirs that means us": {"Host": "evil.example"},
    "a name like ours": {"Host": "localhost.evil.example"},
    "an address of theirs": {"Host": "10.0.0.1:8011"},
    "another port of ours": {"Origin": "http://localhost:3000"},
}


@pytest.mark.parametrize("headers", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("path", ["/status", "/generate", "/v1/images/generations"])
def test_G21_pages_of_other_sites_are_refused(server: Server, headers: dict[str, str], path: str) -> None:
    reply = (
        server.client.get(path, headers=headers)
        if path == "/status"
        else server.client.post(path, json={"prompt": "x"}, headers=headers)
    )
    assert reply.status_code == 403
    assert "access-control-allow-origin" not in reply.headers


def test_G21_a_preflight_opens_nothing(server: Server) -> None:
    headers = {"Origin": server.url, "Access-Control-Request-Method": "POST"}
    reply = server.client.options("/edit", headers=headers)
    assert reply.status_code == 405
    assert not [name for name in reply.headers if name.startswith("access-control")]


def test_G21_a_form_of_another_site_cannot_pass_for_json(server: Server) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        reply = server.client.post("/generate", content=b'{"prompt": "x"}', headers={"Content-Type": kind})
        assert reply.status_code == 415


def test_G23_every_answer_says_what_it_is(server: Server) -> None:
    for reply in (
        server.client.get("/status"),
        server.draw("<script>alert(1)</script>"),
        server.draw("x", sead=1),
    ):
        assert reply.headers["content-type"] == "application/json"
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["cache-control"] == "no-store"
        assert re.fullmatch("[0-9a-f]{32}", reply.headers["x-request-id"])


def test_G26_a_failure_shows_no_trace_path_or_key_and_can_be_looked_up(awkward: Server) -> None:
    reply = awkward.draw("raise")
    assert reply.status_code == 500
    assert "Traceback" not in reply.text
    assert "awkward_generators.py" not in reply.text
    assert CANARY not in reply.text
    awkward.until(lambda: reply.headers["x-request-id"] in awkward.errors.read_text())


def test_G28_the_log_has_one_clean_line_a_request(server: Server) -> None:
    seen = len(server.errors.read_text().splitlines())
    with open_line(server) as line:
        address = b"/%0d%0aFAKE%1b[31m%E2%80%AE?key=secret"
        line.sendall(b"GET " + address + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer(line)
    server.draw("\r\n2026-01-01 FAKE LINE\x1b[31m")
    new = server.until(lambda: (lines := server.errors.read_text().splitlines()[seen:])[1:] and lines)
    assert len([line for line in new if "FAKE" in line]) == 1
    assert "\x1b" not in "".join(new)
    assert "secret" not in "".join(new)
    assert all(re.match(r"\d{4}-\d\d-\d\d ", line) for line in new)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(
        tmp_path_factory.mktemp("guarded"),
        "--generator",
        "awkward",
        "--host",
        "0.0.0.0",
        token=f"token-{CANARY}",
    )
    yield running
    running.stop()


ROUTES = ["/", "/status", "/metrics", "/v1/models", "/nowhere"]


@pytest.mark.parametrize("path", [*ROUTES, *DRAWING, *FORMS])
def test_G19_without_the_token_nothing_is_told(guarded: Server, path: str) -> None:
    url = f"http://127.0.0.1:{guarded.port}{path}"
    token = f"token-{CANARY}"
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Bearer {token[:-1]}"},
        {"Authorization": f"Bearer {token}x"},
        {"Authorization": token},
        {"Authorization": "Basic !!!"},
        {"X-Api-Key": token},
    ):
        with httpx.Client(trust_env=False) as client:
            reply = (
                client.get(f"{url}?token={token}", headers=headers)
                if path in ROUTES
                else client.post(url, headers=headers)
            )
        assert reply.status_code == 401
        assert reply.headers["www-authenticate"] == "Bearer"
        assert CANARY not in reply.text


def test_G19_with_the_token_all_is_served_and_health_needs_none(guarded: Server) -> None:
    base = f"http://127.0.0.1:{guarded.port}"
    with httpx.Client(trust_env=False) as client:
        assert client.get(f"{base}/health").status_code == 200
        bearer = {"Authorization": f"Bearer token-{CANARY}"}
        assert client.post(f"{base}/generate", json={"prompt": "x"}, headers=bearer).status_code == 200
        # as a client that can only be given an address
        address = f"http://trainer:token-{CANARY}@127.0.0.1:{guarded.port}/edit"
        assert client.post(address, json={"prompt": "x", "image": None}).json()["success"]


def test_G19_keys_and_tokens_are_in_no_answer_and_no_log(guarded: Server) -> None:
    bearer = {"Authorization": f"Bearer token-{CANARY}"}
    base = f"http://127.0.0.1:{guarded.port}"
    with httpx.Client(base_url=base, headers=bearer, trust_env=False) as client:
        answers = [
            client.get("/status").text,
            client.get("/metrics").text,
            client.get("/v1/models").text,
            client.get("/").text,
            client.get(f"/nowhere?token=token-{CANARY}").text,
            client.post("/generate", json={"prompt": "raise"}).text,
            client.post("/v1/images/generations", json={"prompt": "raise"}).text,
            client.post("/edit", json={"prompt": "x", "sead": 1}).text,
        ]
    assert not [text for text in answers if CANARY in text]
    log = guarded.errors.read_text()
    assert "ZeroDivisionError: in /secret/path with [key]" in log  # the canary was there to be struck out
    assert CANARY not in log
    command = Path(f"/proc/{guarded.process.pid}/cmdline").read_bytes()
    assert CANARY.encode() not in command


def test_a_worker_is_not_given_the_token(guarded: Server) -> None:
    with httpx.Client(headers={"Authorization": f"Bearer token-{CANARY}"}, trust_env=False) as client:
        (worker,) = client.get(f"http://127.0.0.1:{guarded.port}/status").json()["workers"]
    environment = Path(f"/proc/{worker['pid']}/environ").read_bytes()
    assert b"INTERLEAVE_SERVER_TOKEN" not in environment
    assert b"AWKWARD_API_KEY" in environment  # its own keys it needs


def test_metrics_tell_what_happened(server: Server) -> None:
    server.draw("a cat")
    server.draw("a cat", sead=1)
    text = server.client.get("/metrics").text
    for line in (
        "interleave_generator_queue_depth 0.0",
        "interleave_generator_in_flight 0.0",
        'interleave_generator_worker_ready{worker="0"} 1.0',
        'interleave_generator_requests_total{outcome="ok",route="/generate"}',
        'interleave_generator_requests_total{outcome="refused",route="/generate"}',
        'interleave_generator_draw_seconds_count{worker="0"}',
    ):
        assert line in text
    server.client.get("/nowhere/at-all")
    text = server.client.get("/metrics").text
    assert 'route="other"' in text  # a client cannot make up series
    assert "nowhere" not in text
