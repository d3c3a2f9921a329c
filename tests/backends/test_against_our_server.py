"""Our clients against `interleave serve generator`: both wires, the real server process, the real SDK."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from interleave.backends.protocols import ImageRequest
from interleave.backends.registry import load_generator
from interleave.cli.main import run
from interleave.diagnostics.contract import Known, Result, Status, examine
from interleave.errors import BackendError, Failure

SIDE = 64
TOKEN = "a-token-of-our-own-server"
NEEDED = ("interleave.service", "fastapi", "uvicorn", "python_multipart", "prometheus_client")
SPECS = {
    "reference wire": "{url}?key=SERVER_TOKEN",
    "reference wire, three sources": "{url}?key=SERVER_TOKEN&max_sources=3",
    "both routes": "{url}?key=SERVER_TOKEN&wire=both",
    "OpenAI wire": "openai-images:solid@{url}/v1?key=SERVER_TOKEN&server=interleave",
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in NEEDED), reason="the server is not installed"
    ),
]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    command = [sys.executable, "-m", "interleave", "serve", "generator", "--generator", f"solid?size={SIDE}"]
    process = subprocess.Popen(
        [*command, "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "INTERLEAVE_SERVER_TOKEN": TOKEN},
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        _wait_until_healthy(url)
        yield url
    finally:
        process.terminate()
        process.wait(120)
        if process.stdout:
            process.stdout.close()


def _wait_until_healthy(url: str) -> None:
    for _ in range(3000):
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=120) as answer:
                if json.load(answer)["gpu_manager_ready"]:
                    return
        except urllib.error.HTTPError as error:
            error.close()
        except OSError:
            pass
        time.sleep(0.1)
    raise AssertionError("the server never became healthy")


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_our_clients_keep_their_contract_at_our_server(
    spec: str, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVER_TOKEN", TOKEN)

    async def collect() -> list[Result]:
        generator = load_generator(spec.format(url=server))
        return [result async for result in examine(generator, Known(size=(SIDE, SIDE)))]

    results = asyncio.run(collect())
    assert [f"{each.check}: {each.reason}" for each in results if each.status is Status.FAILED] == []
    assert len([each for each in results if each.status is Status.PASSED]) > 20


@pytest.mark.parametrize("spec", ["{url}", "openai-images:solid@{url}/v1?server=interleave"])
def test_without_the_token_we_are_told_what_is_missing(spec: str, server: str) -> None:
    with pytest.raises(BackendError, match=r"\?key=NAME") as failure:
        asyncio.run(load_generator(spec.format(url=server)).generate(ImageRequest("a cat", 7)))
    assert failure.value.kind is Failure.DENIED


def test_a_run_is_drawn_by_our_server(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_TOKEN", TOKEN)
    drawer = ["--generator", f"{server}?key=SERVER_TOKEN"]
    assert run(["generate", "A boat in 3 pictures", *drawer, "--out", "run"]) == 0
