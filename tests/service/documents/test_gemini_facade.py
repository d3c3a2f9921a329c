"""Google's generateContent on the document service: the stock google-genai SDK, and what it never shows."""

from __future__ import annotations

import asyncio
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google import genai
from google.genai import errors, types
from PIL import Image
from running import HeldGenerator, Service, service
from serving import coded, png

from interleave.backends.protocols import ImageRequest
from interleave.errors import BackendError
from interleave.service.documents import broadcaster, gemini
from interleave.service.documents.keys import FILE_NAME, LOCAL_CALLER, add_key

ASKED = "How a frog grows up, in two pictures"
BODY = {"contents": [{"role": "user", "parts": [{"text": ASKED}]}]}
BOTH = types.GenerateContentConfig(response_modalities=["TEXT", "IMAGE"])
opened: list[genai.Client] = []
"""A client that nobody holds closes itself, even while it is in use."""
PATH = "/v1beta/models/interleave:generateContent"


def client(running: Service, key: str = "any", version: str | None = None) -> genai.Client:
    options = types.HttpOptions(base_url=running.url, api_version=version)
    opened.append(genai.Client(api_key=key, http_options=options))
    return opened[-1]


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while opened:
        opened.pop().close()


def kinds_of(parts: list[types.Part] | None) -> list[str]:
    return ["text" if part.text is not None else "picture" for part in parts or []]


def parts_of(answer: types.GenerateContentResponse) -> list[types.Part]:
    assert answer.candidates
    assert answer.candidates[0].content
    return answer.candidates[0].content.parts or []


@pytest.mark.parametrize("version", [None, "v1", "v1beta"])
def test_texts_and_images_are_parts_in_order(running: Service, version: str | None) -> None:
    answer = client(running, version=version).models.generate_content(
        model="interleave", contents=ASKED, config=BOTH
    )
    parts = parts_of(answer)
    assert kinds_of(parts) == ["text", "picture", "text", "picture"]
    assert str(parts[0].text).startswith("Part 1 of 2")
    data = parts[1].inline_data
    assert data is not None
    assert data.mime_type == "image/png"
    assert Image.open(io.BytesIO(data.data or b"")).size == (64, 64)
    assert answer.candidates[0].finish_reason == types.FinishReason.STOP  # type: ignore[index]
    assert answer.usage_metadata is not None
    assert answer.model_version == "interleave"


def test_a_stream_shows_each_step_when_it_is_finished(tmp_path: Path) -> None:
    with service(tmp_path, generator=HeldGenerator(free=1)) as held:
        stream = client(held).models.generate_content_stream(model="interleave", contents=ASKED)
        seen = [next(stream), next(stream)]
        assert len(held.generator.calls) <= 2
        held.generator.free = 100
        seen += list(stream)
    kinds = [kind for chunk in seen for kind in kinds_of(parts_of(chunk))]
    assert kinds == ["text", "picture", "text", "picture", "text"]
    assert seen[-1].candidates[0].finish_reason == types.FinishReason.STOP  # type: ignore[index]
    assert seen[-1].usage_metadata is not None


def test_a_stream_is_a_json_array_unless_events_are_asked_for(tmp_path: Path) -> None:
    path = PATH.replace("generate", "streamGenerate")
    with service(tmp_path, generator=HeldGenerator(free=1)) as held:
        with held.http.stream("POST", path, json=BODY) as answer:
            assert answer.headers["content-type"] == "application/json"
            pieces = answer.iter_text()
            text = next(pieces)
            while text.count("responseId") < 2:  # the first step, while the second is still to be drawn
                text += next(pieces)
            assert len(held.generator.calls) <= 2
            held.generator.free = 100
            chunks = json.loads(text + "".join(pieces))
        read = [types.GenerateContentResponse.model_validate(chunk) for chunk in chunks]
        kinds = [kind for chunk in read for kind in kinds_of(parts_of(chunk))]
        assert kinds == ["text", "picture", "text", "picture", "text"]
        assert chunks[-1]["candidates"][0]["finishReason"] == "STOP"


def test_the_async_client_waits_and_streams(running: Service) -> None:
    async def ask() -> tuple[list[str], list[str]]:
        aio = client(running).aio
        whole = await aio.models.generate_content(model="interleave", contents=ASKED)
        stream = await aio.models.generate_content_stream(model="interleave", contents=ASKED)
        kinds = [kind async for chunk in stream for kind in kinds_of(parts_of(chunk))]
        await aio.aclose()
        return kinds_of(parts_of(whole)), kinds

    whole, streamed = asyncio.run(ask())
    assert [*whole, "text"] == streamed


def test_a_chat_of_the_sdk_sends_its_images_back(running: Service) -> None:
    chat = client(running).chats.create(model="interleave")
    for _ in chat.send_message_stream([ASKED, types.Part.from_bytes(data=png(), mime_type="image/png")]):
        pass
    chat.send_message("And now one picture more")
    job = running.do(running.documents.newest(LOCAL_CALLER, limit=1))[0]
    kinds = ["picture" if part.image else "text" for part in job.parts]
    assert kinds == ["text", "picture", "text", "picture", "text", "picture", "text"]


def test_both_spellings_are_read_and_nothing_is_fetched(running: Service) -> None:
    data = {"mime_type": "image/png", "data": coded(png())}
    body = {
        "system_instruction": {"parts": [{"text": "Draw simply."}]},
        "contents": [{"parts": [{"text": "Go on with this in one picture"}, {"inline_data": data}]}],
        "generation_config": {"response_modalities": ["IMAGE", "TEXT"], "seed": 7, "candidate_count": 1},
    }
    answer = running.http.post(PATH, json=body)
    assert answer.status_code == 200, answer.text
    assert running.generator.calls[-1].sources[0].size == (48, 40)
    assert answer.json()["interleave"]["seed"] == 7
    file = {"fileData": {"fileUri": "https://example.com/x.png", "mimeType": "image/png"}}
    refused = running.http.post(PATH, json={"contents": [{"parts": [file]}]})
    assert refused.status_code == 400
    assert "fetches nothing" in refused.json()["error"]["message"]


def test_errors_are_in_googles_shape(running: Service) -> None:
    def error(path: str, body: Any, **more: Any) -> dict[str, Any]:
        answer = running.http.post(path, json=body, **more)
        found: dict[str, Any] = answer.json()["error"]
        assert found["code"] == answer.status_code
        return found

    assert error(PATH, {})["status"] == "INVALID_ARGUMENT"
    assert error(PATH, {**BODY, "generationConfig": {"temperature": 0.2}})["status"] == "INVALID_ARGUMENT"
    assert error(PATH, {**BODY, "generationConfig": {"responseModalities": ["TEXT"]}})["details"]
    assert error("/v1beta/models/other:generateContent", BODY)["status"] == "NOT_FOUND"
    assert error("/v1beta/models/interleave:embedContent", BODY)["status"] == "NOT_FOUND"
    assert error("/v1beta/nothing", BODY)["status"] == "NOT_FOUND"
    assert error("/v1/models/other:generateContent", BODY)["status"] == "NOT_FOUND"
    assert "sse" in error("/v1beta/models/interleave:streamGenerateContent?alt=media", BODY)["message"]
    with pytest.raises(errors.ClientError, match="INVALID_ARGUMENT"):
        client(running).models.generate_content(
            model="interleave", contents=ASKED, config=types.GenerateContentConfig(temperature=0.1)
        )


def test_a_failure_comes_as_an_error_before_and_during_a_stream(tmp_path: Path) -> None:
    class Refusing(HeldGenerator):
        async def generate(self, request: ImageRequest) -> Any:
            if len(self.calls) % 2:
                self.calls.append(request)
                raise BackendError("not this one")
            return await super().generate(request)

    with service(tmp_path, generator=Refusing()) as failing:
        with pytest.raises(errors.ServerError, match="INTERNAL"):
            client(failing).models.generate_content(model="interleave", contents=ASKED)
        failing.generator.calls.clear()
        stream = client(failing).models.generate_content_stream(model="interleave", contents=ASKED)
        assert kinds_of(parts_of(next(stream))) == ["text"]
        assert kinds_of(parts_of(next(stream))) == ["picture"]
        with pytest.raises(errors.ServerError, match="INTERNAL"):
            list(stream)


def test_silence_is_filled_so_that_the_sdk_does_not_stumble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broadcaster, "HEARTBEAT_SECONDS", 0.01)
    with service(tmp_path, generator=HeldGenerator(free=0)) as held:
        stream = client(held).models.generate_content_stream(model="interleave", contents=ASKED)
        first = next(stream)
        path = "/v1beta/models/interleave:streamGenerateContent?alt=sse"
        with held.http.stream("POST", path, json=BODY) as raw:
            before = "a line"
            for line in raw.iter_lines():
                if not line and not before:  # the end of an event, and then what fills the silence
                    held.generator.free = 100
                before = line
        assert [first, *stream][-1].usage_metadata is not None


def test_a_streamed_image_is_no_longer_than_a_line_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Noisy(HeldGenerator):
        async def generate(self, request: ImageRequest) -> Any:
            return Image.frombytes("RGB", (128, 128), os.urandom(128 * 128 * 3))

    monkeypatch.setattr(gemini, "STREAMED_IMAGE_BYTES", 10_000)
    with service(tmp_path, generator=Noisy()) as noisy:
        path = "/v1beta/models/interleave:streamGenerateContent?alt=sse"
        text = noisy.http.post(path, json=BODY).text
        chunks = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
        inline = chunks[1]["candidates"][0]["content"]["parts"][0]["inlineData"]
        assert inline["mimeType"] == "image/jpeg"
        assert len(inline["data"]) < 14_000
        whole = noisy.http.post(PATH, json=BODY).json()["candidates"][0]["content"]["parts"]
        assert whole[1]["inlineData"]["mimeType"] == "image/png"


def test_googles_header_carries_the_api_key(tmp_path: Path) -> None:
    _, secret = add_key(tmp_path / FILE_NAME, "alice", per_hour=1)
    with service(tmp_path) as keyed:
        with pytest.raises(errors.ClientError, match="UNAUTHENTICATED"):
            client(keyed, "wrong").models.generate_content(model="interleave", contents=ASKED)
        answer = client(keyed, secret).models.generate_content(model="interleave", contents=ASKED)
        assert len(parts_of(answer)) == 4
        with pytest.raises(errors.ClientError, match="RESOURCE_EXHAUSTED"):
            client(keyed, secret).models.generate_content(model="interleave", contents=ASKED)


def test_the_models_are_listed_in_googles_shape(running: Service) -> None:
    for version in ("v1", "v1beta"):
        google = client(running, version=version)
        assert [model.name for model in google.models.list()] == ["models/interleave"]
        assert google.models.get(model="interleave").display_name == "interleave"
    assert running.http.get("/v1/models").json()["data"][0]["id"] == "interleave"
