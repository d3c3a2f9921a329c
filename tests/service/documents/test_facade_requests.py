"""What clients may send to the facades: whatever it is, it is read or refused, and never fails."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from running import Service

from interleave.service.documents import chat_request, gemini_request
from interleave.service.documents.chat_request import parse_chat
from interleave.service.documents.gemini_request import parse_content
from interleave.service.documents.refusals import status_of
from interleave.service.documents.shared_images import origin_of, shared_image, split_at_images
from interleave.service.http.refusals import Refusal

MODELS = ("interleave",)
ODD = ["", "\0", "\ud800", "x" * 300, "\u2028", "-1", "1e400", "constructor"]
WORDS = [*ODD, "text", "user", "A frog", "data:image/png;base64,AAAA", "data:", "markdown", "image"]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False)
LEAVES = SCALARS | st.sampled_from(WORDS)
FIELDS = st.sampled_from(
    ["role", "content", "parts", "text", "type", "image_url", "url", "images", "inlineData", "data"]
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4),
    max_leaves=8,
)
TEXT = {"type": "text", "text": "A frog in one picture"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}


KINDS = st.sampled_from(["text", "image_url", "input_audio"])
ROLES = st.sampled_from(["user", "assistant", "system", "model", "tool"])
CHAT_PART = st.fixed_dictionaries({"type": KINDS, "text": LEAVES, "image_url": VALUES})
CHAT = st.fixed_dictionaries(
    {"role": ROLES, "content": st.just("A frog") | st.lists(CHAT_PART, max_size=3) | VALUES},
    optional={"images": st.lists(CHAT_PART, max_size=2) | VALUES, "tool_calls": VALUES},
)
CONTENT_PART = st.fixed_dictionaries(
    {}, optional={"text": LEAVES, "inline_data": VALUES, "inlineData": VALUES, "thought": LEAVES}
)
CONTENT = st.fixed_dictionaries({"role": ROLES, "parts": st.lists(CONTENT_PART, max_size=3) | VALUES})
ITEMS = {"messages": st.lists(CHAT, max_size=3), "contents": st.lists(CONTENT, max_size=3)}


def bodies(known: tuple[str, ...], needed: str) -> st.SearchStrategy[dict[str, Any]]:
    """Bodies with some fields that are known and some that are not; most have what is needed."""
    fields = st.dictionaries(st.sampled_from(known) | st.sampled_from(ODD), VALUES, max_size=2)
    return st.builds(lambda body, value: {**body, needed: value}, fields, ITEMS[needed] | VALUES)


def refused_or_read(parse: Any, body: dict[str, Any]) -> None:
    try:
        asked = parse(body, MODELS)
    except Refusal as reason:
        assert 400 <= status_of(reason) < 500
        json.dumps(str(reason)).encode()
    else:
        assert asked.model == "interleave"


@given(bodies(chat_request.KNOWN, "messages"))
@settings(max_examples=60, deadline=None)
def test_any_chat_body_is_read_or_refused(body: dict[str, Any]) -> None:
    refused_or_read(parse_chat, body)


@given(bodies(gemini_request.KNOWN, "contents"))
@settings(max_examples=60, deadline=None)
def test_any_content_is_read_or_refused(body: dict[str, Any]) -> None:
    refused_or_read(lambda given, models: parse_content(given, models, model="interleave"), body)


@given(st.sampled_from(["/v1/chat/completions", "/v1beta/models/interleave:generateContent"]), st.data())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_body_makes_the_service_fail(running: Service, path: str, data: st.DataObject) -> None:
    known, needed = (chat_request.KNOWN, "messages") if "chat" in path else (gemini_request.KNOWN, "contents")
    body = data.draw(bodies(known, needed))
    sent = data.draw(st.sampled_from([json.dumps(body).encode(), json.dumps(body).encode()[:-1], b"[]", b""]))
    answer = running.http.post(path, content=sent, headers={"content-type": "application/json"})
    assert answer.status_code < 500, answer.text
    assert answer.status_code == 200 or "message" in answer.json()["error"]


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"modalities": ["text"]}, "modalities"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"temperature": 0.5}, "temperature"),
        ({"n": 2}, "n"),
        ({"tools": "weather"}, "tools"),
        ({"tools": [TOOL], "tool_choice": "required"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "f"}}}, "tool_choice"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"max_tokens": 100}, "max_tokens"),
        ({"pictures": "gif"}, "pictures"),
        ({"picturs": "url"}, "picturs"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0]"),
        ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
        ({"store": False}, "store"),
    ],
)
def test_what_would_have_no_effect_is_refused_by_name(more: dict[str, Any], named: str) -> None:
    body = {"messages": [{"role": "user", "content": [TEXT]}], **more}
    with pytest.raises(Refusal) as refused:
        parse_chat(body, MODELS)
    assert refused.value.parameter == named
    if named not in ("messages", "messages[0]", "messages[0].content"):
        assert parse_chat(body, MODELS, ignored=[named]).parts == (TEXT["text"],)


def test_defaults_that_clients_spell_out_are_taken() -> None:
    body = {
        "messages": [{"role": "user", "content": "A frog"}],
        "modalities": ["image", "text"],
        **{"temperature": 1.0, "top_p": 1, "n": 1, "stop": None, "tools": [TOOL], "tool_choice": "auto"},
        **{"presence_penalty": 0, "logit_bias": {}, "response_format": {"type": "text"}, "user": "u1"},
        **{"stream_options": {"include_usage": True}, "seed": 7, "interleave": {"max_attempts": 2}},
    }
    asked = parse_chat(body, MODELS)
    assert asked.options == {"seed": 7, "max_attempts": 2}
    assert asked.include_usage


def test_only_addresses_of_the_signed_form_are_images_of_ours() -> None:
    path = f"/v1/pictures/resp_{'a' * 48}/{'b' * 32}/{'c' * 64}.png"
    assert shared_image(path) == shared_image(f"https://host:8020{path}")
    for other in (f"ftp://host{path}", f"https://host/x{path}", f"{path}?x", path.replace("c", "C"), ""):
        assert shared_image(other) is None
    text = f"One\n\n![Picture 1](http://h{path})\n\nTwo ![x](http://h/other.png)"
    kinds = [type(part).__name__ for part in split_at_images(text)]
    assert kinds == ["str", "SharedImage", "str"]
    assert list(split_at_images("")) == [""]


def test_a_host_that_is_no_host_is_not_repeated() -> None:
    assert origin_of("https", "example.com:8020") == "https://example.com:8020"
    assert origin_of("http", "[::1]:8020") == "http://[::1]:8020"
    for host in ("a b", "x)\n![y](http://evil", "", "a/b", "h:999999"):
        assert origin_of("http", host) == ""


def test_a_plan_is_held_by_neither_facade() -> None:
    """Their answer is the document: there would be none."""
    held = {"interleave": {"hold_plan": True}}
    with pytest.raises(Refusal, match="use /v1/responses to hold plans"):
        parse_chat({"messages": [{"role": "user", "content": "A frog"}], **held}, MODELS)
    with pytest.raises(Refusal, match="use /v1/responses to hold plans"):
        parse_content({"contents": [{"parts": [{"text": "A frog"}]}], **held}, MODELS, model="interleave")
