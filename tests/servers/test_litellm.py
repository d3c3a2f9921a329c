"""The LiteLLM proxy before a server of the loopback: chat, images and Google's API through it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest
from programs import Program, Start, free_port, python_with

from interleave.backends.protocols import ImageRequest, Message, Sampling
from interleave.backends.registry import load_generator, load_vlm
from interleave.types import Text
from loopback import SIDE, Loopback

KEY = "sk-of-a-test-0123456789abcdef0123456789abcdef"
HELLO = (Message("user", (Text("hello"),)),)


@pytest.fixture(scope="module")
def upstream() -> Iterator[Loopback]:
    server = Loopback()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def proxy(start: Start, upstream: Loopback, tmp_path_factory: pytest.TempPathFactory) -> Program:
    python = python_with(("litellm", "fastapi", "granian"), "LITELLM_PYTHON", 'pip install "litellm[proxy]"')
    at = {"api_base": f"{upstream.url}/v1", "api_key": "none"}
    models = {"chat": "openai/m", "draws": "openai/gpt-image-1"}
    listed = [
        {"model_name": name, "litellm_params": {"model": model, **at}} for name, model in models.items()
    ]
    config = tmp_path_factory.mktemp("litellm") / "config.yaml"
    # JSON is YAML. Without a key the proxy does not start.
    config.write_text(json.dumps({"model_list": listed, "general_settings": {"master_key": KEY}}))
    port = free_port()
    serve = "from litellm import run_server; run_server()"
    command = [python, "-c", serve, "--config", str(config), "--port", str(port), "--host", "127.0.0.1"]
    return start(command, port, health="/health/liveliness")


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROXY_KEY", KEY)


def test_chat_goes_through(proxy: Program) -> None:
    vlm = load_vlm(f"openai:chat@{proxy.url}/v1?key=PROXY_KEY", "planner")
    assert asyncio.run(vlm.complete(HELLO, Sampling())).text.startswith("I see: hello")


def test_googles_api_goes_through(proxy: Program) -> None:
    vlm = load_vlm(f"gemini:chat@{proxy.url}?key=PROXY_KEY", "planner")
    assert asyncio.run(vlm.complete(HELLO, Sampling())).text.startswith("I see: hello")


def test_images_go_through(proxy: Program) -> None:
    generator = load_generator(f"openai-images:draws@{proxy.url}/v1?key=PROXY_KEY")
    assert asyncio.run(generator.generate(ImageRequest("a cat", 7))).size == (SIDE, SIDE)
