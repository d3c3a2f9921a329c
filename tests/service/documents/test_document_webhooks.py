"""Webhooks: signed so that the stock SDK can check them, repeated until heard, to allowed hosts only."""

from __future__ import annotations

import asyncio
import base64
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import openai
import pytest
from running import Service, service

from interleave.errors import ConfigurationError
from interleave.service.documents import webhooks as webhooks_module
from interleave.service.documents.deliveries import Deliveries, Delivery
from interleave.service.documents.job_table import JobTable
from interleave.service.documents.refusals import ApiRefusal
from interleave.service.documents.webhooks import DELAYS, AllowedHosts, Webhooks, is_public

SECRET = "whsec_" + base64.b64encode(b"a secret of twenty-four b").decode()


class Receiver(HTTPServer):
    """Keeps what it gets; answers with the statuses it is given, then with 200."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.statuses: list[int] = []
        self.elsewhere = "http://127.0.0.1:1/"
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Receiver)
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
        self.send_response(self.server.statuses.pop(0) if self.server.statuses else 200)
        self.send_header("location", self.server.elsewhere)
        self.end_headers()

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as started:
        thread = threading.Thread(target=started.serve_forever, args=(0.02,))
        thread.start()
        yield started
        started.shutdown()
        thread.join()


AT_ONCE = (0.0,) * 8


def sender(*receivers: Receiver, delays: Sequence[float] = AT_ONCE) -> Callable[[Deliveries], Webhooks]:
    """Webhooks to these receivers, without a pause between attempts."""
    hosts = AllowedHosts([receiver.url for receiver in receivers])
    return lambda deliveries: Webhooks(deliveries, hosts, SECRET, delays=delays)


def counted(running: Service, query: str) -> int:
    return running.do(running.jobs.run(lambda connection: int(connection.execute(query).fetchone()["calls"])))


def pending(running: Service) -> int:
    """Return the number of calls that were not acknowledged."""
    return counted(running, "SELECT count(*) AS calls FROM deliveries")


def test_the_end_of_a_job_is_told_in_a_form_that_the_sdk_trusts(tmp_path: Path, receiver: Receiver) -> None:
    receiver.statuses = [500, 302]
    with service(tmp_path, webhooks=sender(receiver)) as running:
        job = running.sdk().responses.create(
            input="A frog in one picture", extra_body={"interleave": {"webhook": f"{receiver.url}/hook?x=1"}}
        )
        running.until(lambda: len(receiver.got) == 3)
        running.until(lambda: not pending(running))
    assert len({headers["webhook-id"] for headers, _ in receiver.got}) == 1
    headers, body = receiver.got[-1]
    sdk = openai.OpenAI(api_key="any", webhook_secret=SECRET)
    event = sdk.webhooks.unwrap(body.decode(), headers)
    assert event.type == "response.completed"
    assert event.data.id == job.id
    with pytest.raises(openai.InvalidWebhookSignatureError):
        sdk.webhooks.unwrap(body.decode().replace("completed", "failed"), headers)
    sdk.close()


def test_attempts_are_made_after_growing_delays(tmp_path: Path) -> None:
    table = JobTable(tmp_path / "jobs.sqlite")
    deliveries = Deliveries(table.database)
    due_in = "SELECT due - now() AS seconds FROM delivery_times"

    async def delays() -> list[float]:
        hooks = Webhooks(deliveries, AllowedHosts(["nobody.invalid"]), SECRET)
        await table._do("INSERT INTO deliveries VALUES (?, ?, ?, 0)", ("evt_1", "https://nobody.invalid", ""))
        found = []
        while due := await deliveries.due(limit=9):
            await hooks.send(due[0])
            rows = await table.run(lambda connection: [dict(row) for row in connection.execute(due_in)])
            found += [row["seconds"] for row in rows]
            await table._do("UPDATE delivery_times SET due = 0", ())
        return found

    try:
        assert asyncio.run(delays()) == pytest.approx(DELAYS, abs=5)
    finally:
        table.close()


def test_J21_a_call_that_was_not_heard_is_made_by_another_service(tmp_path: Path, receiver: Receiver) -> None:
    receiver.statuses = [503]
    with service(tmp_path, webhooks=sender(receiver, delays=[3600.0] * 8)) as running:
        body = {"input": "A frog in one picture", "interleave": {"webhook": receiver.url}}
        assert running.http.post("/v1/responses", json=body).json()["status"] == "completed"
        postponed = "SELECT count(*) AS calls FROM delivery_times WHERE due > now() + 1000"
        running.until(lambda: counted(running, postponed) == 1)
        running.do(running.jobs._do("UPDATE delivery_times SET due = now()", ()))  # an hour later
    with service(tmp_path, webhooks=sender(receiver)) as running:
        running.until(lambda: not pending(running))
    assert len(receiver.got) == 2


def test_H07_a_webhook_is_not_called_where_its_receiver_points_to(tmp_path: Path, receiver: Receiver) -> None:
    receiver.statuses = [301, 302, 307, 308]
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(0)
        receiver.elsewhere = f"http://127.0.0.1:{other.getsockname()[1]}/"
        with service(tmp_path, webhooks=sender(receiver)) as running:
            body = {"input": "A frog in one picture", "interleave": {"webhook": receiver.url}}
            assert running.http.post("/v1/responses", json=body).json()["status"] == "completed"
            running.until(lambda: not pending(running))
        with pytest.raises(BlockingIOError):
            other.accept()
    assert len(receiver.got) == 5


@pytest.mark.parametrize(
    "reply", [b"", b"x" * 100_000, b"220 smtp ready\r\n", b"HTTP/1.1 abc\r\n", b"\r\n" * 1000, None]
)
def test_H09_a_receiver_that_answers_with_anything_is_tried_again_and_given_up(
    tmp_path: Path, reply: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None: it does not answer at all."""
    monkeypatch.setattr(webhooks_module, "TIMEOUT_SECONDS", 0.05 if reply is None else 60)
    called: list[bytes] = []
    outcomes: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        called.append(await reader.read(65536))
        if reply is None:
            await reader.read()
        else:
            writer.write(reply)
        writer.close()

    async def deliver(deliveries: Deliveries) -> list[Delivery]:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            hooks = Webhooks(deliveries, AllowedHosts([url]), SECRET, counted=outcomes.append, delays=AT_ONCE)
            await jobs._do("INSERT INTO deliveries VALUES (?, ?, ?, 0)", ("evt_1", url, "{}"))
            while due := await deliveries.due(limit=9):
                await hooks.send(due[0])
            return due

    jobs = JobTable(tmp_path / "jobs.sqlite")
    try:
        assert asyncio.run(deliver(Deliveries(jobs.database))) == []
    finally:
        jobs.close()
    assert outcomes == ["failed"] * (len(DELAYS) + 1)
    assert len(called) == len(outcomes)


def test_a_service_without_webhooks_refuses_them(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        body = {"input": "A frog", "interleave": {"webhook": "https://example.com/"}}
        answer = running.http.post("/v1/responses", json=body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "interleave.webhook")


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/",  # only by HTTPS
        "https://example.com:8443/",
        "https://other.example/",
        "https://example.com.evil.net/",
        "https://user:pw@example.com/",
        "https://example.com@evil.net/",
        "https://example.com\\@evil.net/",
        "https://example.com#@evil.net/",
        "https://evil.net#example.com",
        "https://exаmple.com/",  # a Cyrillic letter
        "https://example.com/\r\nX-Evil: 1",
        "https://example.com/ x",
        "https://[::1]/",
        "https://127.0.0.1/",
        "https://2130706433/",
        "https://0x7f000001/",
        "https:///x",
        "https://example.com:0/",
        "https://example.com:99999/",
        "file:///etc/passwd",
        "gopher://example.com/",
        "example.com",
        "",
    ],
)
def test_H08_only_allowed_hosts_are_called(url: str) -> None:
    with pytest.raises(ApiRefusal):
        AllowedHosts(["example.com", "http://10.0.0.5:9000"]).check(url)


def test_allowed_hosts_and_origins_are_called() -> None:
    hosts = AllowedHosts(["example.com", "http://10.0.0.5:9000"])
    for url in ("https://example.com/a?b=c", "https://EXAMPLE.com:443/", "http://10.0.0.5:9000/hook"):
        hosts.check(url)
    for bad in ("", "https://a.example/path", "a b", "x@y", "*.example.com", "ftp://a.example"):
        with pytest.raises(ConfigurationError):
            AllowedHosts([bad])


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "0.0.0.0", "::1", "::", "169.254.169.254", "fd00:ec2::254", "10.1.2.3", "172.16.0.1"),
        *("192.168.1.1", "100.64.0.1", "fe80::1%eth0", "224.0.0.1", "198.18.0.1", "::ffff:127.0.0.1"),
        *("64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::1", "::127.0.0.1", "fc00::1", "ff02::1"),
        *("2001:0:7f00:1::1", "not an address", "240.0.0.1", "255.255.255.255"),
    ],
)
def test_H02_H03_H04_H05_private_addresses_are_not_public(address: str) -> None:
    assert not is_public(address)


def test_public_addresses_are_public() -> None:
    assert all(
        map(is_public, ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "64:ff9b::808:808"])
    )


def test_H06_a_name_with_any_private_address_is_not_called_and_the_checked_address_is() -> None:
    answers = {"example.com": ["93.184.215.14", "127.0.0.1"], "good.example": ["93.184.215.14"]}

    async def resolve(host: str, port: int) -> list[str]:
        return answers.get(host, [])

    hosts = AllowedHosts(["example.com", "good.example", "gone.example"], resolve)
    for name in ("example.com", "gone.example"):
        with pytest.raises(ApiRefusal):
            asyncio.run(hosts.target(f"https://{name}/"))
    assert asyncio.run(hosts.target("https://good.example/")).address == "93.184.215.14"
