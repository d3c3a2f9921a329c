"""The nginx configuration of deploy/, with a real nginx and a certificate, in front of a document service."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest
from programs import Program, Start, free_port, skip
from running import DocumentServer

ROOT = Path(__file__).parent.parent.parent
CONFIG = ROOT / "deploy" / "nginx" / "nginx.conf"


class Site:
    """A service behind nginx, and its key."""

    def __init__(self, url: str, certificate: Path, key: str, plain: Program, port: int) -> None:
        self.url, self.certificate, self.plain, self.port = url, certificate, plain, port
        trusted = ssl.create_default_context(cafile=str(certificate))
        headers = {"Authorization": f"Bearer {key}"}
        self.key = key
        self.client = httpx.Client(base_url=url, verify=trusted, headers=headers, timeout=60, trust_env=False)


@pytest.fixture(scope="module")
def site(start: Start, nginx_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    openssl = shutil.which("openssl")
    if openssl is None:
        skip("openssl", "apt install openssl")
    folder, runs = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("runs")
    command = [
        str(openssl),
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "1",
        "-subj",
        "/CN=localhost",
    ]
    files = ["-keyout", str(folder / "tls.key"), "-out", str(folder / "tls.crt")]
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([*command, *files, *names], check=True, capture_output=True)
    added = [sys.executable, "-m", "interleave", "serve", "keys", "add", "me", "--runs", str(runs)]
    key = subprocess.run(added, check=True, capture_output=True, text=True).stdout.strip()
    port, plain_port = free_port(), free_port()
    url = f"https://localhost:{port}"
    server = DocumentServer(folder / "server", "--dry-run", "--runs", str(runs), "--public-url", url)
    config = (
        CONFIG.read_text("utf-8")
        .replace("documents:8020", f"127.0.0.1:{server.port}")
        .replace("listen 8443", f"listen 127.0.0.1:{port}")
        .replace("listen 8080", f"listen 127.0.0.1:{plain_port}")
        .replace(" /tmp/", f" {folder}/")
        .replace(" /tls/", f" {folder}/")
    )
    user = "user root;\n" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(f"daemon off;\n{user}{config}")
    run = [nginx_program, "-p", str(folder), "-c", str(folder / "nginx.conf")]
    try:
        nginx = start(run, plain_port, health="/nginx-health")
        found = Site(url, folder / "tls.crt", key, nginx, port)
        yield found
        found.client.close()
    finally:
        server.stop()


def test_a_document_is_made_and_streamed_over_tls(site: Site) -> None:
    with httpx.Client(verify=ssl.create_default_context(cafile=str(site.certificate))) as trusting:
        client = openai.OpenAI(base_url=f"{site.url}/v1", api_key=site.key, http_client=trusting)
        kinds = [event.type for event in client.responses.create(input="two images", stream=True)]
    assert kinds[0] == "response.created" and kinds[-1] == "response.completed"
    assert site.client.get("/health/ready").json()["status"] == "ready"
    assert "max-age" in site.client.get("/health").headers["strict-transport-security"]


def test_a_stream_arrives_while_its_job_runs(site: Site) -> None:
    """nginx does not hold events back: the first comes although the stream has not ended."""
    body = {"input": "two images", "background": True, "interleave": {"hold_plan": True}}
    id_ = site.client.post("/v1/responses", json=body).json()["id"]
    with site.client.stream("GET", f"/v1/responses/{id_}?stream=true") as stream:
        assert next(stream.iter_lines()) == "event: response.created"


def test_a_browser_signs_in_with_a_secure_cookie(site: Site) -> None:
    cookie = site.client.post("/v1/studio/session").headers["set-cookie"]
    assert "; Secure" in cookie and site.key not in cookie
    origin = {"origin": site.url, "x-interleave-studio": "1"}
    body = {"input": "two images", "background": True}
    assert site.client.post("/v1/responses", json=body, headers=origin).status_code == 200
    foreign = {"origin": "https://elsewhere.example.com", "x-interleave-studio": "1"}
    assert site.client.post("/v1/responses", json=body, headers=foreign).status_code == 403


def test_plain_http_is_sent_to_https_and_metrics_stay_inside(site: Site) -> None:
    answer = httpx.get(f"{site.plain.url}/v1/models", trust_env=False)
    assert answer.status_code == 308 and answer.headers["location"].startswith("https://")
    assert site.client.get("/metrics").status_code == 404


def test_G30_a_burst_over_tls_is_answered(site: Site) -> None:
    """More than one address may have: the rest is told so, and none is reset."""
    context = ssl.create_default_context(cafile=str(site.certificate))
    asked = (
        f"GET /v1/models HTTP/1.1\r\nHost: localhost:{site.port}\r\nAuthorization: Bearer {site.key}\r\n\r\n"
    )
    lines = []
    for _ in range(450):
        line = socket.create_connection(("127.0.0.1", site.port), timeout=60)
        lines.append(context.wrap_socket(line, server_hostname="localhost"))
    for line in lines:
        line.sendall(asked.encode())
    answers = [line.recv(12) for line in lines]
    assert set(answers) <= {b"HTTP/1.1 200", b"HTTP/1.1 429"}
    assert answers.count(b"HTTP/1.1 200") >= 400
    for line in lines:
        line.close()
