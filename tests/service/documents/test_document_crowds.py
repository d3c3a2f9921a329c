"""The document service under many calls and many slow connections: it stays level, and it answers."""

from __future__ import annotations

import os
import resource
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from running import DocumentServer
from serving import meanwhile

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not Path("/proc/self/status").exists(), reason="does not apply: the system does not tell"
    ),
]
CALLS = int(os.environ.get("SOAK_CALLS", "5000"))
"""Of the soak; SOAK_CALLS=50000 for a long one."""
CALLS_A_ROUND = 5
CLIENTS = 8
THREADS = 64
"""More than all pools together may have."""
SLOW = 2000
GOOD = 20
IMAGE = {"input": "A frog in one picture"}


def held_by(pid: int) -> dict[str, int]:
    """Megabytes, open files and threads of a process."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {
        "megabytes": int(status["VmRSS"].split()[0]) // 1024,
        "files": len(os.listdir(f"/proc/{pid}/fd")),
        "threads": int(status["Threads"]),
    }


def one_round(client: httpx.Client) -> None:
    """A job submitted, looked at, streamed, asked for wrongly, and deleted."""
    id_ = client.post("/v1/responses", json=IMAGE).raise_for_status().json()["id"]
    assert client.get(f"/v1/responses/{id_}").json()["status"] == "completed"
    assert "response.completed" in client.get(f"/v1/responses/{id_}?stream=true").text
    assert client.post("/v1/responses", json={"input": 5}).status_code == 400
    assert client.delete(f"/v1/responses/{id_}").status_code == 200


def rounds(server: DocumentServer, number: int) -> None:
    with httpx.Client(base_url=server.url, timeout=300, trust_env=False) as client:
        for _ in range(number):
            one_round(client)


def test_thousands_of_calls_leave_memory_files_and_threads_as_they_were(tmp_path: Path) -> None:
    server = DocumentServer(tmp_path / "server", "--dry-run", "--runs", str(tmp_path / "runs"))
    each = max(1, CALLS // CALLS_A_ROUND // CLIENTS // 5)
    seen = []
    for _ in range(5):
        with ThreadPoolExecutor(CLIENTS) as threads:
            list(threads.map(lambda _: rounds(server, each), range(CLIENTS)))
        server.until(lambda: server.client.get("/health").json()["in_progress"] == 0)
        seen.append(held_by(server.process.pid))
    print(seen)
    first, last = seen[1], seen[-1]  # by the second all pools have their size
    assert last["files"] <= first["files"] + CLIENTS  # connections that are still being closed
    assert last["threads"] <= THREADS
    assert last["megabytes"] <= first["megabytes"] + 10, seen
    left = list((tmp_path / "runs").rglob("journal.jsonl"))
    assert left == []
    assert server.stop() == 0


def connect(server: DocumentServer, first: bytes) -> socket.socket:
    line = socket.create_connection(("127.0.0.1", server.port), timeout=120)
    line.sendall(first)
    return line


def test_two_thousand_slow_connections_do_not_stop_the_service(tmp_path: Path) -> None:
    """Half of them drip a body, half ask for a stream and never read it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    server = DocumentServer(tmp_path / "server", "--dry-run", "--runs", str(tmp_path / "runs"))
    id_ = server.client.post("/v1/responses", json=IMAGE).raise_for_status().json()["id"]
    drip = b"POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    drip += b"Content-Length: 100000\r\n\r\n "
    unread = f"GET /v1/responses/{id_}?stream=true HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    all_there = threading.Barrier(5)

    def slow(enough: threading.Event) -> None:
        lines = [connect(server, unread if number % 2 else drip) for number in range(SLOW // 4)]
        all_there.wait(300)
        while not enough.wait(1):
            for number in range(0, len(lines), 2):
                try:
                    lines[number].sendall(b" ")
                except OSError:  # it was sent away: it comes again
                    lines[number].close()
                    with suppress(OSError):
                        lines[number] = connect(server, drip)
        for line in lines:
            line.close()

    def ask(number: int) -> int | str:
        with httpx.Client(base_url=server.url, timeout=300, trust_env=False) as client:
            try:
                return client.post("/v1/responses", json=IMAGE).status_code
            except httpx.HTTPError as error:
                return repr(error)

    with meanwhile(4, slow):
        all_there.wait(300)
        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(ask, range(GOOD))) == [200] * GOOD
    assert server.client.get(f"/v1/responses/{id_}").json()["status"] == "completed"
    assert server.stop() == 0
