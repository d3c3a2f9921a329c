"""Answers of servers that mean harm or make mistakes: bounded work, typed errors, no confidence or price from
numbers that are none, nothing kept between calls."""

from __future__ import annotations

import asyncio
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import httpx2
import pytest
from PIL import Image

import interleave
import loopback as wire
from interleave.agents.critic import VlmCritic, critic_input
from interleave.agents.prompts import load_pack
from interleave.backends.protocols import ImageRequest, Message, Reply, Sampling
from interleave.backends.registry import load_generator, load_vlm
from interleave.cli.main import run
from interleave.errors import BackendError, ConfigurationError, Failure
from interleave.remote.http_client import open_client
from interleave.remote.keys import key_for
from interleave.types import Text
from loopback import Loopback

WHITE = Image.new("RGB", (16, 16), "white")
GENERATORS = {
    "openai-images": "openai-images:gpt-image-2@{url}/v1",
    "gemini images": "gemini:gemini-2.5-flash-image@{url}",
    "http": "{url}",
    "comfyui": "comfyui:./text.json@{url}",
}
VLMS = {"openai": "openai:m@{url}/v1", "gemini": "gemini:m@{url}"}
BACKENDS = {**GENERATORS, **VLMS}


def call(spec: str, *, generator: bool) -> Any:
    if generator:
        return asyncio.run(load_generator(spec).generate(ImageRequest("a cat", 7)))
    question = [Message("user", (Text("a cat"),))]
    return asyncio.run(load_vlm(spec, "critic").complete(question, Sampling(token_probabilities=True)))


def refusal(backend: str, loopback: Loopback, answer: Any, options: str = "") -> BackendError:
    """What an answer is refused with."""
    loopback.fails_with(wire.status(200, answer))
    with pytest.raises(BackendError) as failure:
        call(BACKENDS[backend].format(url=loopback.url) + options, generator=backend in GENERATORS)
    assert failure.value.kind is Failure.BAD_REPLY, str(failure.value)
    assert len(str(failure.value)) < 500 and "\n" not in str(failure.value)
    return failure.value


# Work is bounded


def python_calls(action: Callable[[], object]) -> int:
    """How many functions Python enters meanwhile, in this thread."""
    entered = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal entered
        entered += event == "call"

    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(None)
    return entered


MANY: list[dict[str, Any]] = [{}] * 20_000


@pytest.mark.parametrize(
    ("backend", "answer"),
    [
        ("openai", {"choices": MANY}),
        ("gemini", {"candidates": MANY}),
        ("openai-images", {"data": MANY}),
        ("gemini images", {"candidates": MANY}),
    ],
)
def test_many_choices_cost_no_work_and_are_refused_for_good(
    backend: str, answer: Any, loopback: Loopback
) -> None:
    refusal(backend, loopback, {})  # so that the SDK is imported and warm
    entered = python_calls(lambda: refusals.append(refusal(backend, loopback, answer)))
    assert entered < len(MANY)
    assert not refusals.pop().transient


refusals: list[BackendError] = []


@pytest.mark.parametrize("backend", ["openai", "http"])
def test_too_many_values_are_refused_before_one_is_built(
    backend: str, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[int] = []

    def loads(body: bytes) -> Any:
        built.append(len(body))
        return json.loads(body)

    monkeypatch.setattr("interleave.remote.http_errors.json", SimpleNamespace(loads=loads))
    error = refusal(backend, loopback, {"x": [0] * 1_000_001})
    assert not error.transient
    assert "values" in str(error)
    assert not built


@pytest.mark.parametrize(("backend", "most"), [("openai", 8), ("gemini", 8), ("comfyui", 16)])
def test_an_answer_in_words_may_be_smaller_than_an_image(backend: str, most: int, loopback: Loopback) -> None:
    error = refusal(backend, loopback, {"x": "y" * (most * 1_000_000)})
    assert not error.transient
    assert f"larger than {most},000,000 bytes" in str(error)


def test_an_answer_in_tiny_pieces_is_not_read_to_its_end(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interleave.remote.http_client.MAX_CHUNKS", 100)

    async def in_pieces(exchange: wire.Exchange) -> None:
        exchange.writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        exchange.writer.write(b"1\r\n \r\n" * 1000)
        await exchange.writer.drain()

    loopback.fails_with(in_pieces)
    with pytest.raises(BackendError, match="larger than 100 chunks") as failure:
        call(loopback.url, generator=True)
    assert not failure.value.transient


# Wrong types

GOOD = {"role": "assistant", "content": "yes"}


def completion(message: Any = GOOD, **choice: Any) -> dict[str, Any]:
    return wire._completion(message, **{"finish_reason": "stop", **choice})


def candidate(**more: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": [{"text": "yes"}]}, **more}]}


WRONG: list[tuple[str, Any, str]] = [
    ("openai", completion({"content": 5}), "its content is a number"),
    ("openai", completion({"content": {}}), "its content is an object"),
    ("openai", completion({"content": True}), "its content is true or false"),
    ("openai", completion({"content": [5]}), "its content's part is a number"),
    ("openai", completion({"content": ["yes"]}), "its content's part is text"),
    ("openai", completion({"content": [{"text": 5}]}), "its content's text is a number"),
    ("openai", completion({"content": [{"type": "image_url"}]}), "has no text"),
    ("openai", completion(None), "its message is null"),
    ("openai", completion([]), "its message is a list"),
    ("openai", completion({"content": None, "refusal": 5}), "its refusal is a number"),
    ("openai", completion({"content": None, "tool_calls": [{"id": "x"}]}), "calls a tool"),
    ("openai", completion(finish_reason=5), "its finish_reason is a number"),
    ("openai", completion(finish_reason={}), "its finish_reason is an object"),
    ("openai", completion(finish_reason="x" * 1000), "its finish_reason has 1,000 characters"),
    ("openai", {"choices": {"0": {}}}, "its choices is an object"),
    ("openai", {"choices": [5]}, "its first of choices is a number"),
    ("openai", {"choices": None}, "it has no choices"),
    ("gemini", {"candidates": {"0": {}}}, "its candidates is an object"),
    ("gemini", {"candidates": ["yes"]}, "its first of candidates is text"),
    ("gemini", {"candidates": [{"content": 5}]}, "its content is a number"),
    ("gemini", {"candidates": [{"content": {"parts": {}}}]}, "its parts is an object"),
    ("gemini", {"candidates": [{"content": {"parts": [5]}}]}, "its part is a number"),
    ("gemini", {"candidates": [{"content": {"parts": [{"text": 5}]}}]}, "its text is a number"),
    ("gemini", candidate(finishReason=5), "its finishReason is a number"),
    ("gemini", {"promptFeedback": 5}, "its promptFeedback is a number"),
    ("gemini", {"promptFeedback": {"blockReason": {}}}, "its blockReason is an object"),
    (
        "gemini images",
        {"candidates": [{"content": {"parts": [{"inlineData": 5}]}}]},
        "inlineData is a number",
    ),
    (
        "gemini images",
        {"candidates": [{"content": {"parts": [{"inlineData": {"data": [1, 2]}}]}}]},
        "its data is a list",
    ),
    ("openai-images", {"data": {"0": {}}}, "its data is an object"),
    ("openai-images", {"data": [5]}, "its first of data is a number"),
    ("openai-images", {"data": [{"b64_json": {"a": 1}}]}, "it has no image"),
    ("http", {"success": False, "error": {"a": [1]}}, "no reason given"),
    ("http", {"success": False, "error": {"message": "out of paint"}}, "out of paint"),
    ("http", {"edited_image": {"a": 1}}, "it has no image"),
    ("comfyui", {"prompt_id": {}}, "its prompt_id is an object"),
    ("comfyui", {"prompt_id": "x" * 1000}, "its prompt_id has 1,000 characters"),
]


@pytest.mark.parametrize(("backend", "answer", "says"), WRONG, ids=[says for _, _, says in WRONG])
def test_a_field_of_another_kind_is_a_bad_reply(
    backend: str, answer: Any, says: str, loopback: Loopback
) -> None:
    error = refusal(backend, loopback, answer)
    assert says in str(error)
    assert error.transient


HISTORY: dict[str, Any] = {
    "a history that is none": {"job-1": 5},
    "outputs that are none": {"job-1": {"outputs": []}},
    "an output that is none": {"job-1": {"outputs": {"9": 5}}},
    "images that are none": {"job-1": {"outputs": {"9": {"images": 5}}}},
    "an image that is none": {"job-1": {"outputs": {"9": {"images": [5]}}}},
    "a status that is none": {"job-1": {"outputs": {}, "status": 5}},
    "messages that are none": {"job-1": {"status": {"status_str": "error", "messages": 5}}},
}


@pytest.mark.parametrize("history", HISTORY)
def test_what_comfyui_tells_of_a_job_may_be_anything(history: str, loopback: Loopback) -> None:
    told = wire.status(200, HISTORY[history])
    loopback.fault = lambda number, asked: told if asked.path.startswith("/history") else None
    with pytest.raises(BackendError) as failure:
        call(GENERATORS["comfyui"].format(url=loopback.url), generator=True)
    assert failure.value.kind is Failure.BAD_REPLY


def test_a_comfyui_queue_that_is_none_does_not_swallow_a_cancellation(loopback: Loopback) -> None:
    loopback.mood = "slow job"

    async def give_up() -> None:
        generator = load_generator(GENERATORS["comfyui"].format(url=loopback.url))
        task = asyncio.create_task(generator.generate(ImageRequest("a cat", 7)))
        while not loopback.of("/history"):
            await asyncio.sleep(0.01)
        loopback.fault = lambda number, asked: wire.status(200, {"queue_running": 5})
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries wait for nothing."""
    monkeypatch.setattr("interleave.backends.retries.random.uniform", lambda low, high: 0.0)


@pytest.mark.usefixtures("impatient")
def test_a_wrong_answer_is_journalled_and_the_run_can_be_continued(loopback: Loopback) -> None:
    loopback.fails_with(wire.status(200, completion({"content": 5})))
    planner = f"openai:m@{loopback.url}/v1"
    models = ["--planner", planner, "--generator", "solid?size=64"]
    assert run(["generate", "A boat in 2 pictures", *models, "--out", "run"]) == 3
    entries = [json.loads(line) for line in Path("run/journal.jsonl").read_text().splitlines()]
    failed = [entry for entry in entries if entry["event"] == "call_failed"]
    assert len(failed) == 5 and all("its content is a number" in entry["error"] for entry in failed)
    loopback.fault = lambda number, asked: None
    assert run(["resume", "run"]) == 0


# Confidence


def with_logprobs(*logprobs: float, **more: Any) -> dict[str, Any]:
    """A verdict of which every letter has a log-probability; the last are those given."""
    text = '<answer>{"previous_step_success": true, "refine_prompt": ""}</answer>'
    numbers = [-0.1] * (len(text) - len(logprobs)) + list(logprobs)
    content = [
        {"token": letter, "logprob": number, **more} for letter, number in zip(text, numbers, strict=True)
    ]
    return completion({"content": text}, logprobs={"content": content})


NO_CONFIDENCE: dict[str, Any] = {
    "NaN": with_logprobs(*[math.nan] * 40),
    "infinity": with_logprobs(*[math.inf] * 40),
    "less than infinity": with_logprobs(*[-math.inf] * 40),
    "more than certain": with_logprobs(*[0.5] * 40),
    "text": with_logprobs(*["-0.1"] * 40),  # type: ignore[list-item]
    "true": with_logprobs(*[True] * 40),
    "beyond numbers": with_logprobs(*[-(10**400)] * 40),
    "bytes that are none": with_logprobs(bytes=[999]),
    "bytes that are text": with_logprobs(bytes="yes"),
    "no list": completion(logprobs={"content": 5}),
    "no object": completion(logprobs=5),
    "tokens that are none": completion(logprobs={"content": [5]}),
}


@pytest.mark.parametrize("answer", NO_CONFIDENCE)
def test_what_is_no_probability_gives_no_confidence(answer: str, loopback: Loopback) -> None:
    loopback.fails_with(wire.status(200, NO_CONFIDENCE[answer]))
    reply: Reply = call(f"openai:m@{loopback.url}/v1?logprobs=true", generator=False)
    assert reply.tokens == ()


def test_a_probability_that_rounds_to_certain_still_counts(loopback: Loopback) -> None:
    loopback.fails_with(wire.status(200, with_logprobs(*[1e-8] * 40)))
    vlm = load_vlm(f"openai:m@{loopback.url}/v1?logprobs=true", "critic")
    verdict = asyncio.run(VlmCritic(vlm, load_pack("default")).judge(critic_input("a", "a", (WHITE,), WHITE)))
    assert verdict.confidence == 1.0


# Prices

PRICED = "?price_in=2&price_out=8"
ABSURD = [-1, 10**15, 1.5, "7", True, {}]


@pytest.mark.parametrize("count", ABSURD, ids=repr)
def test_tokens_that_cannot_be_do_not_stand_for_a_price(count: Any, loopback: Loopback) -> None:
    told = {"prompt_tokens": count, "completion_tokens": 7}
    error = refusal("openai", loopback, completion() | {"usage": told}, PRICED)
    assert "no token counts" in str(error)
    assert not error.transient
    told = {"promptTokenCount": count, "candidatesTokenCount": 7}
    error = refusal("gemini", loopback, candidate() | {"usageMetadata": told}, PRICED)
    assert "no token counts" in str(error)


@pytest.mark.parametrize("usage", [5, [], "none", None, {"prompt_tokens": -5, "completion_tokens": {}}])
def test_without_a_price_odd_tokens_are_just_not_counted(usage: Any, loopback: Loopback) -> None:
    loopback.fails_with(wire.status(200, completion() | {"usage": usage}))
    reply: Reply = call(f"openai:m@{loopback.url}/v1", generator=False)
    assert (reply.text, reply.usage, reply.cost) == ("yes", {}, None)
    loopback.fails_with(wire.status(200, candidate() | {"usageMetadata": usage}))
    assert call(f"gemini:m@{loopback.url}", generator=False).text == "yes"


@pytest.mark.usefixtures("impatient")
def test_less_than_no_tokens_do_not_outwit_a_limit(loopback: Loopback) -> None:
    told = {"prompt_tokens": -10_000_000, "completion_tokens": 1}
    loopback.fails_with(wire.status(200, completion() | {"usage": told}))
    planner = f"openai:m@{loopback.url}/v1{PRICED}"
    with pytest.raises(BackendError, match="no token counts"):
        interleave.generate("A boat in 2 pictures", planner=planner, max_cost=1.0, out="run")
    assert len(loopback.asked) == 1


# Keys and addresses


def test_a_client_asks_no_other_server_than_its_own(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "a-key-for-one-server-alone")
    key = key_for("http://127.0.0.1:1", "MY_KEY")

    async def ask() -> None:
        async with open_client("it", base_url="http://127.0.0.1:1", seconds=5, key=key) as http:
            await http.get(f"{loopback.url}/health")

    with pytest.raises(BackendError, match="another server"):
        asyncio.run(ask())
    assert not loopback.asked


def test_a_server_of_another_alphabet_is_its_own(loopback: Loopback) -> None:
    async def ask() -> None:
        async with open_client("it", base_url="http://größe.invalid", seconds=5) as http:
            await http.get("/health")

    with pytest.raises(BackendError) as failure:
        asyncio.run(ask())
    assert failure.value.kind is Failure.UNREACHABLE


def test_a_request_keeps_no_key_when_it_has_been_sent(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "a-key-for-one-server-alone")

    async def ask() -> httpx2.Response:
        key = key_for(loopback.url, "MY_KEY")
        async with open_client("it", base_url=loopback.url, seconds=5, key=key) as http:
            return await http.get("/health")

    response = asyncio.run(ask())
    assert loopback.asked[0].headers["authorization"] == "Bearer a-key-for-one-server-alone"
    assert "a-key" not in str(response.request.headers.multi_items())


def test_no_cookie_is_kept(loopback: Loopback) -> None:
    async def set_a_cookie(exchange: wire.Exchange) -> None:
        answer = await exchange.answer()
        answer.headers["Set-Cookie"] = "tracked=yes; Path=/"
        await exchange.send(answer)

    loopback.fails_with(set_a_cookie)

    async def twice() -> None:
        generator = load_generator(loopback.url)
        await generator.generate(ImageRequest("a cat", 7))
        await generator.generate(ImageRequest("a dog", 8))

    asyncio.run(twice())
    assert len(loopback.asked) == 2
    assert not any("cookie" in asked.headers for asked in loopback.asked)


@pytest.mark.parametrize(
    "url",
    ["https://api.openai.com:8443/v1", "https://evil.example/v1", "https://api.openai.com.evil.example/v1"],
)
def test_the_usual_key_goes_to_the_usual_address_alone(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-for-one-server-alone")
    assert key_for("https://api.openai.com/v1", None) is not None
    assert key_for("https://EU.API.OPENAI.COM:443/v1", None) is not None
    assert key_for(url, None) is None


def test_the_usual_key_is_never_sent_unencrypted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-for-one-server-alone")
    with pytest.raises(ConfigurationError, match="use https://"):
        load_vlm("openai:gpt-4o@http://api.openai.com/v1", "planner")
