"""Abuse of the document service over HTTP, by the fault catalogue: raw bytes where clients are too polite."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import clockwork
import pytest
from abuse import BAD_FORMS, BAD_JSON, FILE_NAMES, PATHS, field, huge_png, multipart
from running import HeldGenerator, Service, service
from serving import coded, png

from interleave.runs.folder import ImageStore
from interleave.service.documents.service import ServiceSettings
from interleave.service.documents.streams import EventStream
from interleave.service.http.memory import MEGABYTE, MemoryBudget, MemoryLease

ASKED = {"input": "A frog, in one picture", "background": True}
TAKES_JSON = ["/v1/responses", "/v1/chat/completions", "/v1beta/models/interleave:generateContent"]
FORM = {"content-type": "multipart/form-data; boundary=xYz"}


@pytest.fixture(autouse=True)
def _left_as_it_was(running: Service) -> Iterator[None]:
    """After every attack the service answers, and holds nothing of it."""
    yield
    running.until(lambda: running.documents.memory.held == 0)
    assert running.http.get("/health").json()["status"] == "ready"


def port_of(running: Service) -> int:
    return int(running.url.rpartition(":")[2])


def line_to(running: Service) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port_of(running)), timeout=60)


def said(running: Service, request: bytes) -> bytes:
    """What the service answers to these bytes until it closes the connection."""
    received = b""
    with line_to(running) as line:
        line.sendall(request)
        while piece := line.recv(65536):
            received += piece
    return received


def final_state(running: Service, id_: str) -> str:
    return running.until(
        lambda: (
            status
            if (status := running.http.get(f"/v1/responses/{id_}").json()["status"])
            not in ("queued", "in_progress")
            else ""
        )
    )


def test_G01_a_gigabyte_is_refused_whether_it_is_announced_or_not(running: Service) -> None:
    head = b"POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with line_to(running) as line:
        line.sendall(head + b"Content-Length: 1000000000\r\n\r\n")
        assert line.recv(12) == b"HTTP/1.1 413"
    piece, sent, most = b"100000\r\n" + b" " * 0x100000 + b"\r\n", 0, 0
    with line_to(running) as line:
        line.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
        try:
            for _ in range(1000):
                line.sendall(piece)
                sent += len(piece)
                most = max(most, running.documents.memory.held)
        except OSError:
            pass
    assert sent < 250_000_000
    assert most <= running.documents.memory.max_for_bodies


def test_G04_a_flood_is_refused_in_part_and_what_was_accepted_is_done(tmp_path: Path) -> None:
    settings = ServiceSettings(concurrency=2, queue=10)
    with service(tmp_path, generator=HeldGenerator(free=0), settings=settings) as small:
        with ThreadPoolExecutor(8) as clients:
            answers = list(clients.map(lambda _: small.http.post("/v1/responses", json=ASKED), range(60)))
        accepted = [answer.json()["id"] for answer in answers if answer.is_success]
        refused = [answer for answer in answers if not answer.is_success]
        assert len(accepted) == 12
        assert {answer.status_code for answer in refused} == {503}
        assert all(int(answer.headers["retry-after"]) > 0 for answer in refused)
        small.generator.free = 1000
        assert [final_state(small, id_) for id_ in accepted] == ["completed"] * 12
        assert len(small.http.get("/v1/documents?limit=100").json()["data"]) == 12


def test_G10_a_job_is_cancelled_in_every_state(tmp_path: Path) -> None:
    """Queued, while it runs, again, by many at once, after a restart, and when it has ended."""
    settings = ServiceSettings(concurrency=1)

    def cancel(running: Service, id_: str) -> tuple[int, str]:
        answer = running.http.post(f"/v1/responses/{id_}/cancel")
        return answer.status_code, answer.json()["status"]

    with service(tmp_path, generator=HeldGenerator(free=0), settings=settings) as held:
        running, queued, left = (held.http.post("/v1/responses", json=ASKED).json()["id"] for _ in range(3))
        held.until(lambda: held.generator.calls)
        assert cancel(held, queued) == cancel(held, queued) == (200, "cancelled")
        with ThreadPoolExecutor(4) as clients:
            assert set(clients.map(lambda _: cancel(held, running), range(8))) == {(200, "cancelled")}
        held.until(lambda: len(held.generator.calls) == 2)  # the place is free for the next
    with service(tmp_path, generator=HeldGenerator(free=0), settings=settings) as again:
        assert cancel(again, left) == (200, "cancelled")
        assert cancel(again, running) == (200, "cancelled")
    with service(tmp_path) as last:
        done = last.http.post("/v1/responses", json={**ASKED, "background": False}).json()["id"]
        assert cancel(last, done) == (200, "completed")
        assert not last.generator.calls[1:]


@pytest.mark.parametrize("after", ["", "-1", "1e9", "99999999999999999999", "x", "٣", "0x1", "%00", "NaN"])
def test_G12_a_place_in_the_stream_that_is_none_is_the_start(running: Service, after: str) -> None:
    id_ = running.http.post("/v1/responses", json={**ASKED, "background": False}).json()["id"]
    whole = running.http.get(f"/v1/responses/{id_}?stream=true").text
    assert running.http.get(f"/v1/responses/{id_}?stream=true&starting_after={after}").text == whole
    if after.isascii():
        headers = {"last-event-id": after}
        assert running.http.get(f"/v1/responses/{id_}?stream=true", headers=headers).text == whole
    numbers = [int(number) for number in re.findall(r"^id: (\d+)$", whole, re.MULTILINE)]
    assert running.http.get(f"/v1/responses/{id_}?stream=true&starting_after={numbers[-1] + 5}").text == ""


def test_G13_who_hardly_reads_a_stream_is_disconnected_and_gives_its_memory_back(tmp_path: Path) -> None:
    hung_up: list[float] = []
    left: list[bool] = []

    class Connection:
        def abort(self) -> None:
            hung_up.append(clockwork.now())

    async def events() -> Any:
        yield {"type": "x", "sequence_number": 0, "text": "a" * 3_000_000}

    async def stream() -> int:
        async def send(message: Any) -> None:
            await asyncio.sleep(50)  # a little each time, so that no single piece is late

        async def receive() -> Any:
            await asyncio.Event().wait()

        memory = MemoryBudget(64 * MEGABYTE)
        lease = MemoryLease(memory)
        answer = EventStream(events(), ImageStore(tmp_path), lease, client_gone=lambda: left.append(True))
        await answer({"interleave.connection": Connection()}, receive, send)
        lease.release()
        return memory.held

    assert clockwork.run(stream()) == 0
    assert (len(hung_up), left) == (1, [True])


@pytest.mark.parametrize("path", TAKES_JSON)
@pytest.mark.parametrize("body", [body for body, _ in BAD_JSON.values()], ids=BAD_JSON)
def test_G15_bad_json_is_refused(running: Service, path: str, body: bytes) -> None:
    reply = running.http.post(path, content=body, headers={"content-type": "application/json"})
    assert reply.status_code in (400, 413), reply.text
    assert reply.json()["error"]["message"]


@pytest.mark.parametrize(("body", "kind"), BAD_FORMS.values(), ids=BAD_FORMS)
def test_G16_bad_forms_are_refused(running: Service, body: bytes, kind: str) -> None:
    reply = running.http.post("/v1/files", content=body, headers={"content-type": kind})
    assert reply.status_code in (400, 413, 415), reply.text
    assert running.http.get("/v1/files").json()["data"] == []


@pytest.mark.parametrize("name", FILE_NAMES)
def test_G16_file_names_mean_nothing(running: Service, name: bytes) -> None:
    parts = field(b"purpose", b"vision"), field(b"file", png(), b'; filename="' + name + b'"')
    reply = running.http.post("/v1/files", content=multipart(*parts), headers=FORM)
    assert reply.status_code == 200, reply.text
    stored = [path.name for path in (running.folder / "files").rglob("*") if path.is_file()]
    assert all(re.fullmatch(r"[0-9a-f]{64}\.png", each) for each in stored)
    assert running.http.delete(f"/v1/files/{reply.json()['id']}").status_code == 200


def test_G17_ranges_are_not_served(running: Service) -> None:
    id_ = running.http.post("/v1/responses", json={**ASKED, "background": False}).json()["id"]
    image = running.http.get(f"/v1/documents/{id_}").json()["steps"][0]["picture"]
    headers = {"range": "bytes=" + ",".join(f"{n}-{n + 1}" for n in range(1000))}
    for path in (image, f"/v1/documents/{id_}/document.zip", f"/v1/documents/{id_}/document.html"):
        reply = running.http.get(path, headers=headers)
        assert reply.status_code == 200
        assert "content-range" not in reply.headers


@pytest.mark.parametrize("method", ["TRACE", "PUT", "OPTIONS", "PATCH", "BREW"])
def test_G18_other_methods_are_not_allowed(running: Service, method: str) -> None:
    for path in ("/v1/responses", "/v1/documents", "/v1/files", "/health", "/v1beta/models"):
        reply = running.http.request(method, path)
        assert reply.status_code == 405, path
        assert "is not allowed on this route" in reply.json()["error"]["message"]
        assert "access-control-allow-origin" not in reply.headers  # G21: a preflight opens nothing


@pytest.mark.parametrize("path", [*PATHS, "/v1/documents/../../etc/passwd", "/v1/files/%2e%2e/content"])
def test_G18_paths_lead_nowhere(running: Service, path: str) -> None:
    answer = said(running, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert int(answer.split()[1]) in (400, 404)
    assert b"root:" not in answer


def test_G18_an_address_of_100_kilobytes_is_refused(running: Service) -> None:
    with line_to(running) as line:
        line.sendall(b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert line.recv(10) == b"HTTP/1.1 4"


def test_G24_many_who_decide_about_one_job_at_once_leave_one_state(running: Service) -> None:
    """Whatever wins, nothing fails, and the journal and the job agree."""
    hold = {"input": "A frog in two pictures", "interleave": {"hold_plan": True}}
    for _ in range(3):
        id_ = running.http.post("/v1/responses", json=hold).json()["id"]
        asked = [
            *[f"/v1/documents/{id_}/plan/release"] * 3,
            *[f"/v1/documents/{id_}/steps/1/redraw"] * 2,
            f"/v1/responses/{id_}/cancel",
            f"/v1/documents/{id_}/undo",
            f"/v1/documents/{id_}/branch",
        ]
        with ThreadPoolExecutor(8) as clients:
            found = list(clients.map(lambda path: running.http.post(path, json={}).status_code, asked))
        assert set(found) <= {200, 400, 409}, found
        state = final_state(running, id_)
        assert state in ("completed", "cancelled", "incomplete")
        assert running.http.get(f"/v1/responses/{id_}").json()["status"] == state
        path = f"/v1/responses/{id_}"
        with ThreadPoolExecutor(4) as clients:
            gone = list(clients.map(lambda path: running.http.delete(path).status_code, [path] * 4))
        assert set(gone) <= {200, 404}
        assert 200 in gone
        assert not running.documents.folders.run(id_).exists()


def test_G25_a_page_of_the_list_does_not_cost_more_with_thousands_of_jobs(tmp_path: Path) -> None:
    """The rows of a page are found by an index, and only they are read."""
    with service(tmp_path) as running:
        for query in (
            "SELECT * FROM jobs WHERE key = '' AND number < 9 ORDER BY number DESC LIMIT 20",
            "SELECT * FROM jobs WHERE number < 9 ORDER BY number DESC LIMIT 20",
        ):
            plan = running.do(
                running.jobs.database.run(
                    lambda db, query=query: [
                        row["detail"] for row in db.execute(f"EXPLAIN QUERY PLAN {query}")
                    ]
                )
            )
            assert len(plan) == 1, plan
            assert plan[0].startswith("SEARCH jobs USING"), plan
        assert running.http.get("/v1/documents?limit=1000000").status_code == 400
        assert running.http.get("/v1/documents?limit=100").json()["data"] == []


@pytest.mark.parametrize("path", ["/v1/responses/{id}", "/v1/documents/{id}", "/v1beta/models/interleave"])
def test_G26_a_failure_shows_nothing_and_can_be_looked_up(
    tmp_path: Path, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    with service(tmp_path) as running:
        id_ = running.http.post("/v1/responses", json={**ASKED, "background": False}).json()["id"]

        def fails(*_: Any) -> Any:
            raise RuntimeError("/secret/path sk-secret")

        running.documents.find = running.documents.response = fails  # type: ignore[assignment, method-assign]
        object.__setattr__(running.documents.settings, "models", None)
        reply = running.http.get(path.replace("{id}", id_))
        assert reply.status_code == 500
        assert "secret" not in reply.text
        assert "Traceback" not in reply.text
        assert reply.headers["x-request-id"] in reply.json()["error"]["message"]
        running.until(lambda: reply.headers["x-request-id"] in caplog.text)


def test_G28_the_log_has_one_clean_line_a_request(running: Service, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "interleave.service")
    running.http.get("/v1/responses/a%0d%0a2026 forged%1b[31m")
    running.http.post("/v1/responses", json={"input": "x\r\nforged\x1b[31m", "model": "a\r\nb"})
    running.until(lambda: len(caplog.records) >= 2)
    for record in caplog.records:
        assert not re.search(r"[\r\n\x1b]", record.getMessage())


def test_H10_addresses_in_texts_are_never_called(running: Service) -> None:
    """Of the request, and so of the plan, the prompts and the captions that repeat it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/x.png"
        text = f'A frog ![x]({url}) <img src="{url}"> {url} file:///etc/passwd in one picture'
        id_ = running.http.post("/v1/responses", json={"input": text}).json()["id"]
        pages = {
            name: running.http.get(f"/v1/documents/{id_}/document.{name}").text
            for name in ("html", "md", "zip")
        }
        with pytest.raises(BlockingIOError):
            listening.accept()
    assert f'src="{url}"' not in pages["html"]
    assert f"![x]({url})" not in pages["md"]


def test_an_image_of_300_megapixels_is_refused_by_its_header(running: Service) -> None:
    part = {"type": "input_image", "image_url": f"data:image/png;base64,{coded(huge_png())}"}
    reply = running.http.post("/v1/responses", json={"input": [{"role": "user", "content": [part]}]})
    assert (reply.status_code, "too large" in reply.text) == (400, True)
