"""LiteLLM as a client of the document service: by its Chat Completions and by Google's API."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from programs import python_with
from running import Service, service

CALL = """
import asyncio, json, sys
import litellm
model, base, more = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
messages = [{"role": "user", "content": "How a frog grows up, in two pictures"}]
options = dict(model=model, api_base=base, api_key="any", messages=messages, num_retries=0, **more)
shown = []
def show(content, images):
    shown.extend([content] if content else [])
    shown.extend(image["image_url"]["url"] for image in images or [])
async def stream():
    async for chunk in await litellm.acompletion(**options):
        delta = chunk.choices[0].delta
        show(delta.content, getattr(delta, "images", None))
if more.get("stream"):
    asyncio.run(stream())
else:
    message = litellm.completion(**options).choices[0].message
    show(message.content, getattr(message, "images", None))
print("SHOWN", json.dumps(shown))
"""


@pytest.fixture(scope="module")
def python() -> str:
    return python_with(("litellm",), "LITELLM_PYTHON", "pip install litellm")


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service(tmp_path_factory.mktemp("documents")) as started:
        yield started


def called(python: str, model: str, base: str, **more: Any) -> list[str]:
    """What LiteLLM shows of an answer: texts and the addresses of images."""
    done = subprocess.run(
        [python, "-c", CALL, model, base, json.dumps(more)],
        env={**os.environ, "PYTHONPATH": "", "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    line = next((each for each in done.stdout.splitlines() if each.startswith("SHOWN ")), None)
    assert line is not None, done.stdout + done.stderr
    shown: list[str] = json.loads(line.removeprefix("SHOWN "))
    return shown


def kind_of(shown: str) -> str:
    return shown[:5] if shown.startswith(("data:", "http:")) else "text"


def test_a_whole_answer_has_its_images(python: str, documents: Service) -> None:
    shown = called(python, "openai/interleave", f"{documents.url}/v1", modalities=["image", "text"])
    assert [kind_of(each) for each in shown] == ["text", "data:", "data:"]


def test_a_stream_has_captions_and_addresses_in_order(python: str, documents: Service) -> None:
    shown = called(python, "openai/interleave", f"{documents.url}/v1", stream=True)
    assert [kind_of(each) for each in shown] == ["text", "http:", "text", "http:"]
    assert documents.http.get(shown[1]).headers["content-type"] == "image/png"


def test_markdown_goes_through(python: str, documents: Service) -> None:
    extra = {"pictures": "markdown"}
    (text,) = called(python, "openai/interleave", f"{documents.url}/v1", extra_body=extra)
    assert text.count("![Picture") == 2


@pytest.mark.parametrize("stream", [False, True])
def test_googles_api_gives_the_same(python: str, documents: Service, stream: bool) -> None:
    shown = called(python, "gemini/interleave", f"{documents.url}/v1beta", stream=stream)
    whole = ["text", "data:", "data:"]
    assert [kind_of(each) for each in shown] == (["text", "data:"] * 2 if stream else whole)
