"""All that can go wrong between us and a server, for every remote backend: the right typed error, in time.

Each row of the tables is a fault of the loopback server and what it must become. No backend retries by
itself, so each call here is one try.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any

import pytest

import loopback as wire
from clocks import SkippingLoop, run_skipping
from interleave.backends.protocols import ImageRequest, Message, Reply, Sampling
from interleave.backends.registry import load_generator, load_vlm
from interleave.errors import BackendError, Failure
from interleave.remote.endpoints import KINDS
from interleave.types import Text
from loopback import Fault, Loopback, free_port
from work import that_does_not_wait

PATIENCE = 120.0
"""The deadline of all calls: for those that hang the clock is put forward."""

GENERATORS = {
    "openai-images": "openai-images:gpt-image-2@{url}/v1?timeout={seconds}",
    "gemini images": "gemini:gemini-2.5-flash-image@{url}?timeout={seconds}",
    "http": "{url}?timeout={seconds}",
    "comfyui": "comfyui:./text.json@{url}?timeout={seconds}",
    "json": "json:automatic1111@{url}?timeout={seconds}",
}
VLMS = {
    "openai": "openai:qwen3-vl@{url}/v1?timeout={seconds}",
    "gemini": "gemini:gemini-2.5-flash@{url}?timeout={seconds}",
}
BACKENDS = {**GENERATORS, **VLMS}
PROBED = {"/", *(path for path, _ in KINDS)}
"""Asked after a 404, to tell what is there."""


async def call(name: str, url: str) -> Any:
    """One call of a backend, as a run would make it."""
    spec = BACKENDS[name].format(url=url, seconds=PATIENCE)
    if name in GENERATORS:
        return await load_generator(spec).generate(ImageRequest("a cat", 7))
    return await load_vlm(spec, "planner").complete([Message("user", (Text("a cat"),))], Sampling())


def outcome_of(name: str, url: str, server: Loopback | None = None) -> BackendError:
    """What a call fails with; `server` is one that hangs, and says so."""
    loop = SkippingLoop()
    if server is not None:
        server.hangs = loop.skip_a_wait
    with pytest.raises(BackendError) as failure:
        run_skipping(loop, call(name, url))
    return failure.value


@dataclass(frozen=True)
class Row:
    fault: Fault
    kind: Failure
    transient: bool
    says: str = ""


WITHIN = f"within {PATIENCE:g} s"
FAULTS = {
    "C10 400": Row(wire.status(400), Failure.INVALID, False, "told 400"),
    "C10 401": Row(wire.status(401), Failure.DENIED, False, "?key="),
    "C10 403": Row(wire.status(403), Failure.DENIED, False, "?key="),
    "C10 404": Row(wire.status(404), Failure.INVALID, False, "answered 404"),
    "C10 408": Row(wire.status(408), Failure.TIMEOUT, True, "408"),
    "C10 409": Row(wire.status(409), Failure.BUSY, True, "409"),
    "C10 413": Row(wire.status(413), Failure.INVALID, False, "fewer or smaller images"),
    "C10 422 of FastAPI": Row(
        wire.status(422, {"detail": [{"loc": ["body", "seed"], "msg": "too large"}]}),
        Failure.INVALID,
        False,
        "too large",
    ),
    "C10 400 of Google for a wrong key": Row(
        wire.status(
            400,
            {"error": {"code": 400, "message": "bad", "details": [{"reason": "API_KEY_INVALID"}]}},
        ),
        Failure.DENIED,
        False,
        "?key=",
    ),
    "C11 429": Row(wire.status(429), Failure.BUSY, True, "told 429"),
    "C11 429 with Retry-After": Row(wire.status(429, Retry_After="7"), Failure.BUSY, True),
    "C11 429 out of money": Row(
        wire.status(429, {"error": {"code": "insufficient_quota", "message": "pay"}}),
        Failure.DENIED,
        False,
        "no credit left",
    ),
    "C09 500": Row(wire.status(500), Failure.FAILED, True, "told 500"),
    "C09 500 of FastAPI": Row(wire.status(500, {"detail": "queue full"}), Failure.FAILED, True, "queue full"),
    "C09 502": Row(wire.status(502), Failure.FAILED, True),
    "C09 502 page of a proxy": Row(
        wire.page(b"<html><h1>502 Bad Gateway</h1></html>", "text/html", 502), Failure.FAILED, True
    ),
    "C09 503": Row(wire.status(503), Failure.BUSY, True),
    "C09 504": Row(wire.status(504), Failure.TIMEOUT, True),
    "C09 501": Row(wire.status(501), Failure.FAILED, False),
    "C01 reset": Row(wire.reset, Failure.UNREACHABLE, True),
    "C02 hang before headers": Row(wire.hang, Failure.TIMEOUT, True, WITHIN),
    "C03 hang mid body": Row(wire.hang_mid_body, Failure.TIMEOUT, True, WITHIN),
    "C03 a byte now and then": Row(wire.drip, Failure.TIMEOUT, True, WITHIN),
    "C03 twice the deadline": Row(wire.late, Failure.TIMEOUT, True, WITHIN),
    "C04 truncated body": Row(wire.truncated, Failure.UNREACHABLE, True),
    "C04 wrong length": Row(wire.wrong_length, Failure.UNREACHABLE, True),
    "C04 bad chunk": Row(wire.bad_chunk, Failure.UNREACHABLE, True),
    "C05 HTML": Row(wire.page(b"<html>hello</html>", "text/html"), Failure.BAD_REPLY, True, "text/html"),
    "C05 wrong content type": Row(
        wire.page(b"\x89PNG\r\n\x1a\n", "image/png"), Failure.BAD_REPLY, True, "image/png"
    ),
    "C05 empty": Row(wire.page(b"", "application/json"), Failure.BAD_REPLY, True, "empty"),
    "C05 null": Row(wire.page(b"null", "application/json"), Failure.BAD_REPLY, True, "NoneType"),
    "C05 a list": Row(wire.page(b"[1, 2]", "application/json"), Failure.BAD_REPLY, True, "list"),
    "C05 an empty object": Row(wire.page(b"{}", "application/json"), Failure.BAD_REPLY, True),
    "C05 other fields": Row(wire.page(b'{"ok": true}', "application/json"), Failure.BAD_REPLY, True),
    "C05 fields of other types": Row(
        wire.page(
            b'{"choices": "no", "data": 7, "candidates": 7, "edited_image": [], "prompt_id": 3}',
            "application/json",
        ),
        Failure.BAD_REPLY,
        True,
    ),
    "C05 deep nesting": Row(wire.page(b"[" * 100_000, "application/json"), Failure.BAD_REPLY, False),
    "C05 many values": Row(
        wire.page(b'{"choices": [' + b"0," * 1_000_001 + b"0]}", "application/json"),
        Failure.BAD_REPLY,
        False,
        "more than 1,000,000",
    ),
    "C21 endless": Row(wire.endless, Failure.BAD_REPLY, False, "larger than"),
    "C21 an endless error": Row(wire.endless_error, Failure.FAILED, True, "answered 500"),
    "C21 interim answers without end": Row(wire.interim, Failure.TIMEOUT, True, WITHIN),
    "C21 gzip bomb": Row(wire.gzip_bomb, Failure.BAD_REPLY, True, "compressed"),
    "C22 no HTTP": Row(wire.no_http, Failure.UNREACHABLE, True),
    "C22 a header of a megabyte": Row(wire.many_headers, Failure.UNREACHABLE, True),
    "C22 headers without end": Row(wire.endless_headers, Failure.UNREACHABLE, True),
    "C23 redirect": Row(
        wire.status(302, {}, Location="http://127.0.0.1:1/elsewhere"), Failure.INVALID, False, "redirect"
    ),
    "C23 redirect to a file": Row(
        wire.status(307, {}, Location="file:///etc/passwd"), Failure.INVALID, False, "redirect"
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_fault_becomes_the_right_error_in_time(backend: str, fault: str, loopback: Loopback) -> None:
    row = FAULTS[fault]
    loopback.fails_with(row.fault)
    error = outcome_of(backend, loopback.url, loopback)
    assert error.kind is row.kind, str(error)
    assert error.transient is row.transient
    assert row.says in str(error)
    sent = [asked for asked in loopback.asked if asked.path not in PROBED]
    assert len(sent) == 1, "a backend retried by itself, or followed a redirect"
    assert len(str(error)) < 500 and "\n" not in str(error)


@pytest.mark.parametrize("backend", BACKENDS)
def test_C01_a_closed_port_is_unreachable(backend: str, loopback: Loopback) -> None:
    error = outcome_of(backend, f"http://127.0.0.1:{free_port()}")
    assert (error.kind, error.transient) == (Failure.UNREACHABLE, True)
    assert "is it running?" in str(error)


@pytest.mark.parametrize("backend", BACKENDS)
def test_C01_a_name_that_does_not_exist_is_unreachable(
    backend: str, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_such_name(*arguments: Any, **more: Any) -> Any:
        import socket

        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr("asyncio.base_events.BaseEventLoop.getaddrinfo", no_such_name)
    error = outcome_of(backend, "http://no-such-host.invalid")
    assert (error.kind, error.transient) == (Failure.UNREACHABLE, True)


RETRY_AFTER: dict[str, tuple[dict[str, str], float | None]] = {
    "seconds": ({"Retry_After": "7"}, 7.0),
    "a fraction": ({"Retry_After": "0.5"}, 0.5),
    "milliseconds": ({"retry_after_ms": "250", "Retry_After": "9"}, 0.25),
    "zero": ({"Retry_After": "0"}, 0.0),
    "a date": ({"Retry_After": formatdate(time.time() + 100_000, usegmt=True)}, 100_000.0),
    "a date in the past": ({"Retry_After": formatdate(0, usegmt=True)}, 0.0),
    "less than nothing": ({"Retry_After": "-5"}, None),
    "for ever": ({"Retry_After": "1e9"}, 1e9),
    "a word": ({"Retry_After": "soon"}, None),
    "no number": ({"Retry_After": "nan"}, None),
    "absent": ({}, None),
}


@pytest.mark.parametrize("headers", RETRY_AFTER)
@pytest.mark.parametrize("backend", ["openai", "http"])
def test_C11_retry_after_is_read_in_all_its_forms(backend: str, headers: str, loopback: Loopback) -> None:
    sent, expected = RETRY_AFTER[headers]
    loopback.fails_with(wire.status(429, **sent))
    told = outcome_of(backend, loopback.url).retry_after
    if expected is None:
        assert told is None
    else:  # the date was written when the tests were collected
        assert told == pytest.approx(expected, abs=3600 if headers == "a date" else 1e-9)


def test_C11_what_google_asks_for_is_waited_for(loopback: Loopback) -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "21.5s"}]
    told = {"error": {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED", "details": details}}
    loopback.fails_with(wire.status(429, told))
    assert outcome_of("gemini", loopback.url).retry_after == 21.5


BAD_IMAGES = {
    "C05 an image that is none": ("no image", "PNG, JPEG or WebP"),
    "C05 a 300-megapixel PNG": ("huge picture", "too large"),
    "C07 an image of one pixel": ("one pixel", "1×1"),
    "C05 base64 garbage": ("garbage", ""),
    "C05 no picture at all": ("empty", ""),
}


@pytest.mark.parametrize("fault", BAD_IMAGES)
@pytest.mark.parametrize("backend", GENERATORS)
def test_a_bad_image_is_a_bad_reply(backend: str, fault: str, loopback: Loopback) -> None:
    loopback.mood, says = BAD_IMAGES[fault]
    error = outcome_of(backend, loopback.url)
    assert (error.kind, error.transient) == (Failure.BAD_REPLY, True)
    assert says in str(error)


@pytest.mark.parametrize("backend", GENERATORS)
def test_a_content_filter_is_a_refusal_for_good(backend: str, loopback: Loopback) -> None:
    loopback.mood = "filtered"
    error = outcome_of(backend, loopback.url)
    assert (error.kind, error.transient) == (Failure.REFUSED, False)


@pytest.mark.parametrize("backend", VLMS)
def test_a_refusal_of_a_model_is_said_in_its_reply(backend: str, loopback: Loopback) -> None:
    loopback.mood = "filtered"
    reply: Reply = asyncio.run(call(backend, loopback.url))
    assert reply.finish_reason == "content_filter"


@pytest.mark.parametrize("backend", VLMS)
def test_C05_empty_choices_are_a_bad_reply(backend: str, loopback: Loopback) -> None:
    loopback.mood = "empty"
    error = outcome_of(backend, loopback.url)
    assert (error.kind, error.transient) == (Failure.BAD_REPLY, True)


def test_words_instead_of_an_image_are_an_outcome_of_their_own(loopback: Loopback) -> None:
    loopback.mood = "words only"
    error = outcome_of("gemini images", loopback.url)
    assert (error.kind, error.transient) == (Failure.NO_IMAGE, True)
    assert "a description of a cat" in str(error)


def test_C06_the_image_of_another_request_is_found_out(loopback: Loopback) -> None:
    loopback.mood = "mixed up"
    error = outcome_of("http", loopback.url)
    assert (error.kind, error.transient) == (Failure.BAD_REPLY, True)
    assert "another request" in str(error)


def test_C16_a_server_that_forgot_a_workflow_is_not_waited_for(loopback: Loopback) -> None:
    loopback.mood = "lost"
    error = outcome_of("comfyui", loopback.url)
    assert (error.kind, error.transient) == (Failure.UNREACHABLE, True)


def test_a_workflow_that_failed_says_why(loopback: Loopback) -> None:
    loopback.mood = "failed job"
    error = outcome_of("comfyui", loopback.url)
    assert "CUDA out of memory" in str(error)
    assert error.transient


def test_C19_a_workflow_nobody_waits_for_any_more_is_taken_back(loopback: Loopback) -> None:
    loopback.mood = "slow job"
    assert outcome_of("comfyui", loopback.url, loopback).kind is Failure.TIMEOUT
    assert loopback.cancelled == ["job-1", "interrupted job-1"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_C25_a_plain_address_is_never_asked_through_a_proxy(
    backend: str, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    asyncio.run(call(backend, loopback.url))
    assert loopback.asked


@pytest.mark.parametrize("backend", ["openai", "gemini", "http"])
def test_C25_through_a_proxy_goes_only_a_sealed_tunnel(
    backend: str, loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "the-key-that-no-proxy-may-see")
    monkeypatch.setenv("HTTPS_PROXY", loopback.url)
    monkeypatch.setenv("NO_PROXY", "")
    loopback.fails_with(wire.status(503))
    spec = BACKENDS[backend].format(url="https://far.invalid", seconds=PATIENCE) + "&key=MY_KEY"
    with pytest.raises(BackendError):
        if backend == "http":
            asyncio.run(load_generator(spec).generate(ImageRequest("a secret prompt", 7)))
        else:
            vlm = load_vlm(spec, "planner")
            asyncio.run(vlm.complete([Message("user", (Text("a secret prompt"),))], Sampling()))
    (asked,) = loopback.asked
    assert asked.method == "CONNECT"
    assert "the-key" not in str(asked.headers) and not asked.body


@pytest.mark.parametrize("backend", BACKENDS)
def test_connections_are_closed_with_their_loop_though_the_backend_is_long_forgotten(
    backend: str, loopback: Loopback
) -> None:
    before = loopback.connections  # tests of servers that hang have left some
    asyncio.run(call(backend, loopback.url))
    with that_does_not_wait():
        while loopback.connections > before:
            time.sleep(0.01)


@pytest.mark.parametrize("backend", BACKENDS)
def test_C26_a_connection_the_server_closed_while_idle_costs_nothing(
    backend: str, loopback: Loopback
) -> None:
    async def close_when_used_again(exchange: wire.Exchange) -> None:
        await exchange.send(await exchange.answer())
        await exchange.reader.read(1)

    async def twice() -> None:
        spec = BACKENDS[backend].format(url=loopback.url, seconds=PATIENCE)
        make: Callable[[], Any]
        if backend in GENERATORS:
            generator = load_generator(spec)
            make = lambda: generator.generate(ImageRequest("a cat", 7))  # noqa: E731
        else:
            vlm = load_vlm(spec, "planner")
            make = lambda: vlm.complete([Message("user", (Text("a cat"),))], Sampling())  # noqa: E731
        await make()
        await make()

    loopback.fails_with(close_when_used_again)
    asyncio.run(twice())


def test_a_server_that_refuses_for_another_reason_than_a_key_is_quoted(loopback: Loopback) -> None:
    told = {"detail": "this server has no token and accepts only the host name localhost"}
    loopback.fails_with(wire.status(403, told))
    error = outcome_of("http", loopback.url)
    assert error.kind is Failure.DENIED
    assert "accepts only the host name localhost (if it requires a key" in str(error)


def test_a_server_that_wants_a_key_is_said_to(loopback: Loopback) -> None:
    loopback.fails_with(wire.status(401, {"detail": "Not authenticated"}))
    assert "it requires a key: name the environment variable" in str(outcome_of("http", loopback.url))


def test_a_size_that_a_server_refuses_is_answered_with_what_the_spec_can_say(loopback: Loopback) -> None:
    told = {"error": {"message": "size=1024x1024: this server draws 64x64", "param": "size"}}
    loopback.fails_with(wire.status(400, told))
    generator = load_generator(f"openai-images:m@{loopback.url}/v1")
    with pytest.raises(BackendError, match=r"draws 64x64.*\?server=interleave"):
        asyncio.run(generator.generate(ImageRequest("a cat", 7)))
