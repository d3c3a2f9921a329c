"""Requests of all kinds to every route of the document service: each is answered, none with a fault of ours.

FUZZ_EXAMPLES=20000 for a long run.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from running import Service, service
from serving import coded, png

from interleave.service.documents import chat_request, gemini_request, responses_request

LONG = os.environ.get("FUZZ_EXAMPLES")
TEXTS = st.sampled_from(
    [
        *("", " ", "0", "1", "2", "-1", "999999", "true", "sse", "json", "..", "../../etc/passwd", "%00"),
        *("\ud800", "\x00", "a\r\nb: c", "\u2028", "🐸" * 50, "x" * 5000, "null", "{}", "NaN", "1e999"),
        *("interleave", "A frog in one picture", "A frog in two pictures", "vision", "url", "markdown"),
        *("user", "model", "assistant", "text", "input_text", "input_image", "image_url"),
        *("http://127.0.0.1:9/x.png", f"data:image/png;base64,{coded(png())}", "data:image/png;base64,AAAA"),
    ]
)
NUMBERS = st.sampled_from([0, 1, 2, -1, 1.5, 10**9, 2**63, -(2**64), 10**30, 1e308])
LEAVES = st.none() | st.booleans() | NUMBERS | TEXTS
FIELDS = sorted(
    {
        *responses_request.KNOWN,
        *chat_request.KNOWN,
        *gemini_request.KNOWN,
        *("role", "content", "parts", "type", "text", "image_url", "file_id", "url", "inlineData", "data"),
        *("plan", "steps", "number", "prompt", "caption", "sources", "step", "seed", "attempt", "only_step"),
        *("hold_plan", "webhook", "max_attempts", "name", "id", "key", "profile", "before", "after", "other"),
    }
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=10,
)
STEPS = st.lists(
    st.fixed_dictionaries(
        {"prompt": LEAVES}, optional={"number": VALUES, "caption": LEAVES, "sources": VALUES}
    ),
    max_size=3,
)
USUAL = st.fixed_dictionaries(
    {},
    optional={
        "input": st.just("A frog in one picture"),
        "messages": st.just([{"role": "user", "content": "A frog in one picture"}]),
        "contents": st.just([{"parts": [{"text": "A frog in one picture"}]}]),
        "plan": st.fixed_dictionaries({"steps": STEPS | VALUES}),
        "step": st.sampled_from([1, 2, 3]),
        "attempt": st.sampled_from([1, 2]),
        "stream": st.booleans(),
        "interleave": st.fixed_dictionaries({}, optional={"hold_plan": st.booleans(), "seed": LEAVES}),
    },
)
BODIES = st.builds(
    lambda usual, odd: {**usual, **odd}, USUAL, st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=2)
)
RAW = st.binary(max_size=60) | st.sampled_from([b"", b"[]", b'"x"', b"{", b"[" * 3000, b'{"a":1,"a":2}'])
KINDS = st.sampled_from(
    [
        "application/json",
        "application/json; charset=utf-16",
        "multipart/form-data; boundary=x",
        "text/plain",
        "",
    ]
)
FORM = b'--x\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n'
FORMS = st.lists(
    st.builds(
        lambda name, file, data: FORM % (name, file, data),
        st.sampled_from([b"file", b"purpose", b"other", b""]),
        st.sampled_from([b"", b'; filename="a.png"', b'; filename="../x"']),
        st.sampled_from([b"vision", b"", png(), png()[:40], b"\xff\xfe"]),
    ),
    max_size=3,
).map(lambda parts: b"".join(parts) + b"--x--\r\n")
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        name: TEXTS.map(lambda text: text.encode("utf-8", "replace").replace(b"\r", b"").replace(b"\n", b""))
        for name in ("idempotency-key", "last-event-id", "range", "traceparent", "x-goog-api-key", "accept")
    },
)
NAMES = [
    "stream",
    "starting_after",
    "limit",
    "before",
    "after",
    "order",
    "alt",
    "pictures",
    "include",
    "q",
    "status",
]
QUERIES = st.dictionaries(
    st.sampled_from(NAMES), TEXTS.map(lambda text: text.encode("utf-8", "replace").decode()), max_size=3
)


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, list[str]]]:
    """A service, and the ids of jobs and files that it has."""
    with service(tmp_path_factory.mktemp("fuzzed")) as running:
        asked = {"input": "A frog in two pictures"}
        done = running.http.post("/v1/responses", json=asked).json()["id"]
        held = running.http.post("/v1/responses", json={**asked, "interleave": {"hold_plan": True}})
        upload = running.http.post("/v1/files", files={"file": ("a.png", png())}, data={"purpose": "vision"})
        yield running, [done, held.json()["id"], upload.json()["id"]]


def filled(path: str, draw: Any, ids: list[str]) -> str:
    """A path with something in the place of each parameter, often what is there."""
    some = st.sampled_from([*ids, *ids, "resp_" + "0" * 48, "1", "2", "interleave:generateContent"]) | TEXTS

    def value(_: Any) -> str:
        text = draw(some).encode("utf-8", "replace")
        return "".join(f"%{byte:02x}" if not 48 <= byte <= 122 else chr(byte) for byte in text)

    return re.sub(r"{[^}]*}", value, path)


@given(st.data())
@settings(
    max_examples=int(LONG or 100),
    derandomize=LONG is None,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)
def test_G15_no_request_to_any_route_is_answered_with_a_fault_of_ours(
    fuzzed: tuple[Service, list[str]], data: st.DataObject
) -> None:
    running, ids = fuzzed
    method, path = data.draw(st.sampled_from(running.routes))
    address = filled(path, data.draw, ids)
    sent = BODIES.map(lambda body: json.dumps(body).encode())
    content = data.draw(sent | RAW | FORMS) if method in ("POST", "PUT", "PATCH", "DELETE") else b""
    is_form = content.startswith(b"--x")
    kind = data.draw(
        st.just("multipart/form-data; boundary=x") if is_form else st.just("application/json") | KINDS
    )
    headers = {**data.draw(HEADERS), "content-type": kind.encode()}
    try:
        answer = running.http.request(
            method, address, params=data.draw(QUERIES), content=content, headers=headers
        )
    except (httpx.InvalidURL, httpx.LocalProtocolError):
        return  # no client can send it
    assert answer.status_code < 500, (method, address, content, answer.text)
    if answer.status_code >= 400 and method != "HEAD":
        if path != "/mcp":  # its protocol has errors of its own, not all of them JSON
            assert answer.json()["error"]["message"]
        assert "Traceback" not in answer.text
    running.until(lambda: running.do(running.jobs.load()).waiting < 50)
