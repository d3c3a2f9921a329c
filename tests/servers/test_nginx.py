"""nginx with the configuration of docs/how-to/serving.md: what one server refuses, another one draws."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from programs import Program, Start, free_port

from interleave.backends.protocols import ImageRequest
from interleave.backends.registry import load_generator
from loopback import SIDE, Loopback, reset, status

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def two() -> Iterator[list[Loopback]]:
    servers = [Loopback(), Loopback()]
    yield servers
    for server in servers:
        server.stop()


@pytest.fixture(scope="module")
def nginx(
    start: Start, nginx_program: str, two: list[Loopback], tmp_path_factory: pytest.TempPathFactory
) -> Program:
    folder, port = tmp_path_factory.mktemp("nginx"), free_port()
    page = (ROOT / "docs/how-to/serving.md").read_text("utf-8")
    documented = re.search(r"```\n(upstream generators \{.*?)```", page, re.DOTALL)
    assert documented is not None
    site = documented[1].replace("listen 8080", f"listen 127.0.0.1:{port}")
    for number, server in enumerate(two, 1):
        site = site.replace(f"10.0.0.{number}:8011", f"127.0.0.1:{server.port}")
    paths = "".join(
        f"{name}_temp_path {folder}/{name};\n"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config = folder / "nginx.conf"
    config.write_text(
        f"daemon off;\npid {folder}/pid;\nerror_log {folder}/error;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{paths}{site}}}\n"
    )
    return start([nginx_program, "-p", str(folder), "-c", str(config)], port, health="/health")


@pytest.mark.parametrize("fault", [status(503), reset], ids=["busy", "broken"])
def test_what_one_server_does_not_do_another_does(nginx: Program, two: list[Loopback], fault: object) -> None:
    for server in two:
        server.reset()
    two[0].fault = lambda number, asked: fault if asked.path == "/edit" else None  # type: ignore[assignment,return-value]

    async def drawing() -> None:
        generator = load_generator(nginx.url)
        for number in range(4):
            assert (await generator.generate(ImageRequest("a cat", number))).size == (SIDE, SIDE)

    asyncio.run(drawing())
    assert len(two[1].of("/edit")) == 4
