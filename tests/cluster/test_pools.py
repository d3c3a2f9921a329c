"""Three generator servers behind our own pool and behind nginx: one is killed, others come and go."""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from local_postgres import free_port
from machines import until
from serving import Server

from interleave.backends.protocols import ImageRequest
from interleave.backends.registry import load_generator
from interleave.backends.retries import RetriedGenerator

IMAGES = 24


@contextmanager
def registered(tmp_path: Path, number: int) -> Iterator[list[Server]]:
    file = tmp_path / "endpoints.txt"
    file.write_text("# our generators\n")
    servers: list[Server] = []
    try:
        for each in range(number):
            given = ("--generator", "solid?size=64&delay=0.3", "--register", str(file))
            servers.append(Server(tmp_path / f"server-{each}", *given))
        until(lambda: all(server.url in file.read_text() for server in servers))
        yield servers
    finally:
        for server in servers:
            server.stop()


@contextmanager
def balancer(file: Path) -> Iterator[str]:
    import os

    if shutil.which(os.environ.get("NGINX", "nginx")) is None and not Path("/usr/sbin/nginx").exists():
        pytest.skip("nginx is not installed: apt install nginx")
    command = [sys.executable, "-m", "interleave", "serve", "balancer", str(file), "--port", str(free_port())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            until(lambda: httpx.get(f"{url}/nginx-health").text == "healthy\n")
            yield url
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0


async def draw(spec: str, disturb: object) -> None:
    """Many images; after the first few something happens."""
    generator = RetriedGenerator("the generator", load_generator(spec))
    started = 0

    async def one(number: int) -> None:
        nonlocal started
        image = await generator.generate(ImageRequest(f"cat {number}", number))
        assert image.size == (64, 64)
        started += 1
        if started == 4:
            await asyncio.to_thread(disturb)  # type: ignore[arg-type]

    await asyncio.gather(*(one(number) for number in range(IMAGES)))


def test_J15_a_generator_is_killed_behind_our_own_pool(tmp_path: Path) -> None:
    with registered(tmp_path, 3) as servers:
        asyncio.run(draw(f"http:{tmp_path}/endpoints.txt?concurrency=12", servers[0].process.kill))


def test_J15_a_generator_is_killed_behind_nginx(tmp_path: Path) -> None:
    with registered(tmp_path, 3) as servers, balancer(tmp_path / "endpoints.txt") as url:
        assert httpx.get(f"{url}/health").json()["status"] == "Healthy"
        asyncio.run(draw(f"{url}?concurrency=12", servers[0].process.kill))


def test_servers_come_and_go_in_order(tmp_path: Path) -> None:
    """What is replaced one by one, as for an update, fails no image and repeats none."""
    file = tmp_path / "endpoints.txt"
    with registered(tmp_path, 2) as servers:

        def replace_first() -> None:
            assert servers[0].stop() == 0

        asyncio.run(draw(f"http:{file}?concurrency=12", replace_first))
        assert file.read_text() == f"# our generators\n{servers[1].url}\n"
        said = "".join(server.errors.read_text() for server in servers)
        assert not re.search(r"POST \S+ 503", said), "a request came to a server that was leaving"


def test_nginx_follows_the_file(tmp_path: Path) -> None:
    file = tmp_path / "endpoints.txt"
    with registered(tmp_path, 1) as (server,), balancer(file) as url:
        until(lambda: httpx.get(f"{url}/health").status_code == 200)
        file.write_text("")
        until(lambda: httpx.get(f"{url}/health").text == "no server is registered\n")
        file.write_text(f"{server.url}\n")
        until(lambda: httpx.get(f"{url}/health").status_code == 200)
