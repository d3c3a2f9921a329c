"""Chat Completions on the document service: the stock openai SDK, and the lines that it never shows."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from PIL import Image
from running import HeldGenerator, Service, service
from serving import coded, png

from interleave.backends.protocols import ImageRequest
from interleave.cli.main import run
from interleave.config.run_config import Limits
from interleave.errors import BackendError
from interleave.service.documents import broadcaster
from interleave.service.documents.chat import MAX_LINE_BYTES, ChatWriter
from interleave.service.documents.chat_request import parse_chat
from interleave.service.documents.document_parts import Ending
from interleave.service.documents.keys import FILE_NAME, LOCAL_CALLER, add_key
from interleave.service.documents.service import ServiceSettings

ASKED: list[Any] = [{"role": "user", "content": "How a frog grows up, in two pictures"}]
BODY = {"model": "interleave", "messages": ASKED}
CAPTIONS = "Part 1 of 2"


class NoisyGenerator(HeldGenerator):
    """Images whose PNG files are far larger than a line may be."""

    async def generate(self, request: ImageRequest) -> Any:
        self.calls.append(request)
        return Image.frombytes("RGB", (512, 512), os.urandom(512 * 512 * 3))


def chunks_of(text: str) -> list[dict[str, Any]]:
    """The chunks of a stream, every one in OpenAI's shape."""
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    for line in lines[:-1]:
        ChatCompletionChunk.model_validate_json(line)
    return [json.loads(line) for line in lines[:-1]]


def image_at(url: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(url.partition(";base64,")[2])))


def images_of(message: Any) -> list[dict[str, Any]]:
    return list((message.model_extra or {})["images"])


def test_a_whole_answer_has_the_captions_and_the_images(running: Service) -> None:
    extra = {"modalities": ["image", "text"]}
    answer = running.sdk().chat.completions.create(model="interleave", messages=ASKED, extra_body=extra)
    (choice,) = answer.choices
    assert choice.finish_reason == "stop"
    assert (choice.message.content or "").split("\n\n")[0].startswith(CAPTIONS)
    images = images_of(choice.message)
    assert [(image["type"], image["index"]) for image in images] == [("image_url", 0), ("image_url", 1)]
    assert [image_at(image["image_url"]["url"]).size for image in images] == [(64, 64), (64, 64)]
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    raw = running.http.post("/v1/chat/completions", json=BODY).json()
    ChatCompletion.model_validate(raw)
    assert len(raw["interleave"]["steps"]) == 2


def test_a_stream_shows_each_step_when_it_is_finished(tmp_path: Path) -> None:
    with service(tmp_path, generator=HeldGenerator(free=1)) as held:
        options: Any = {"include_usage": True}
        stream = held.sdk().chat.completions.create(
            model="interleave", messages=ASKED, stream=True, stream_options=options
        )
        seen: list[Any] = []
        for chunk in stream:
            seen.append(chunk)
            if chunk.choices and (chunk.choices[0].delta.model_extra or {}).get("images"):
                break
        assert len(held.generator.calls) <= 2  # the second image is not drawn yet
        held.generator.free = 100
        seen += list(stream)
    kinds = [
        "usage"
        if not chunk.choices
        else "images"
        if "images" in (chunk.choices[0].delta.model_extra or {})
        else chunk.choices[0].finish_reason or "content"
        for chunk in seen
    ]
    assert kinds == ["content", "content", "images", "content", "images", "stop", "usage"]
    assert seen[-1].usage.total_tokens == 0  # the doubles count none


def test_the_async_client_waits_and_streams(running: Service) -> None:
    async def ask() -> tuple[int, str]:
        async with openai.AsyncOpenAI(base_url=f"{running.url}/v1", api_key="any", max_retries=0) as sdk:
            whole = await sdk.chat.completions.create(model="interleave", messages=ASKED)
            stream = await sdk.chat.completions.create(model="interleave", messages=ASKED, stream=True)
            text = [chunk.choices[0].delta.content or "" async for chunk in stream]
            assert "".join(text) == whole.choices[0].message.content
            return len(images_of(whole.choices[0].message)), "".join(text)

    number, text = asyncio.run(ask())
    assert number == 2
    assert text.startswith(CAPTIONS)


@pytest.mark.parametrize("how", ["body", "query", "header"])
def test_markdown_keeps_the_order_in_one_text(running: Service, how: str) -> None:
    given: dict[str, Any] = {
        "body": {"extra_body": {"pictures": "markdown"}},
        "query": {"extra_query": {"pictures": "markdown"}},
        "header": {"extra_headers": {"X-Interleave-Pictures": "markdown"}},
    }[how]
    answer = running.sdk().chat.completions.create(model="interleave", messages=ASKED, **given)
    message = answer.choices[0].message
    paragraphs = (message.content or "").split("\n\n")
    assert [each.startswith("![Picture") for each in paragraphs] == [False, True, False, True]
    assert "images" not in (message.model_extra or {})
    address = paragraphs[1].partition("(")[2].rstrip(")")
    assert address.startswith(running.url)
    assert running.http.get(address).headers["content-type"] == "image/png"
    assert running.http.get(address.replace(".png", "x.png")).status_code == 404


@pytest.mark.parametrize("form", ["url", "data", "markdown", None])
def test_no_line_is_longer_than_clients_read(tmp_path: Path, form: str | None) -> None:
    with service(tmp_path, generator=NoisyGenerator()) as noisy:
        one = [{"role": "user", "content": "A frog in one picture"}]
        body = {**BODY, "stream": True, "pictures": form, "messages": one}
        answer = noisy.http.post("/v1/chat/completions", json=body)
        assert max(map(len, answer.content.split(b"\n"))) <= MAX_LINE_BYTES
        chunks = chunks_of(answer.text)
        images = [image for chunk in chunks for image in chunk["choices"][0]["delta"].get("images", [])]
        if form == "markdown":
            assert not images
            assert any("![Picture 1](" in str(chunk) for chunk in chunks)
            return
        url = images[0]["image_url"]["url"]
        if form == "data":
            assert url.startswith("data:image/jpeg;base64,")
            assert image_at(url).format == "JPEG"
        else:
            assert len(noisy.http.get(url).content) > MAX_LINE_BYTES


def chunks_written(running: Service, *parts: Any, **body: Any) -> list[dict[str, Any]]:
    """The chunks that are made of these parts."""
    running.http.post("/v1/responses", json={"input": "A frog in one picture", "background": True})
    job = running.do(running.documents.newest(LOCAL_CALLER, limit=1))[0]
    asked = parse_chat({**BODY, "stream": True, **body}, ("interleave",))
    writer = ChatWriter(running.documents, job, asked, None, "")

    async def given() -> Any:
        for part in parts:
            yield part

    async def written() -> list[Any]:
        return [chunk async for chunk in writer.chunks(given())]

    return asyncio.run(written())


def test_a_long_caption_comes_in_pieces(running: Service) -> None:
    text = "\U0001f438" * 32_768
    lines = [json.dumps(chunk) for chunk in chunks_written(running, text)]
    assert max(map(len, lines)) < MAX_LINE_BYTES - len("data: ")
    assert "".join(json.loads(line)["choices"][0]["delta"]["content"] for line in lines) == text


def test_the_tokens_of_all_models_are_the_usage(running: Service) -> None:
    usage = {"input_tokens": 7, "output_tokens": 5, "total_tokens": 12}
    ending = Ending({"status": "completed", "usage": usage})
    *_, finish, last = chunks_written(running, ending, stream_options={"include_usage": True})
    assert (finish["choices"][0]["finish_reason"], finish["usage"]) == ("stop", None)
    assert last["usage"] == {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
    assert "usage" not in chunks_written(running, ending)[-1]


def test_a_stream_that_the_service_cuts_off_does_not_look_complete(running: Service) -> None:
    last = chunks_written(running, "Part 1", Ending(None))[-1]
    assert last["error"]["code"] == "interrupted"


def test_images_come_in_as_data_urls_and_nothing_is_fetched(running: Service) -> None:
    def asked(url: str) -> Any:
        part = {"type": "image_url", "image_url": {"url": url, "detail": "low"}}
        content: Any = [{"type": "text", "text": "Go on with this in one picture"}, part]
        return running.sdk().chat.completions.create(
            model="interleave", messages=[{"role": "user", "content": content}]
        )

    assert asked(f"data:image/png;base64,{coded(png())}").choices[0].finish_reason == "stop"
    assert running.generator.calls[-1].sources[0].size == (48, 40)
    for url in ("http://127.0.0.1:1/x.png", "https://example.com/x.png", "file:///etc/passwd", "", "data:x"):
        with pytest.raises(openai.BadRequestError):
            asked(url)


@pytest.mark.parametrize("images", ["url", "data", "markdown"])
def test_a_conversation_goes_on_from_the_images_of_the_answer(running: Service, images: str) -> None:
    sdk = running.sdk()
    first = sdk.chat.completions.create(
        model="interleave", messages=ASKED, extra_body={"pictures": images}, seed=7
    )
    history: list[Any] = [*ASKED, first.choices[0].message.model_dump()]
    sdk.chat.completions.create(
        model="interleave", messages=[*history, {"role": "user", "content": "And now one picture more"}]
    )
    job = running.do(running.documents.newest(LOCAL_CALLER, limit=1))[0]
    kinds = ["picture" if part.image else "text" for part in job.parts]
    answer = ["text", "picture"] * 2 if images == "markdown" else ["text", "picture", "picture"]
    assert kinds == ["text", *answer, "text"]
    wrong = "![x](" + f"{running.url}/v1/pictures/{job.id}/{'0' * 32}/{'0' * 64}.png)"
    with pytest.raises(openai.BadRequestError, match="unknown or was deleted"):
        sdk.chat.completions.create(
            model="interleave", messages=[*ASKED, {"role": "assistant", "content": wrong}, *ASKED]
        )


def test_a_failure_is_an_error_of_the_request_before_and_during_a_stream(tmp_path: Path) -> None:
    class Refusing(HeldGenerator):
        async def generate(self, request: ImageRequest) -> Any:
            if len(self.calls) % 2:
                self.calls.append(request)
                raise BackendError("not this one")
            return await super().generate(request)

    with service(tmp_path, generator=Refusing()) as failing:
        answer = failing.http.post("/v1/chat/completions", json=BODY)
        assert answer.status_code == 500
        assert answer.json()["error"]["type"] == "server_error"
        assert answer.headers["x-should-retry"] == "false"
        failing.generator.calls.clear()
        seen = []
        with pytest.raises(openai.APIError) as caught:
            for chunk in failing.sdk().chat.completions.create(
                model="interleave", messages=ASKED, stream=True
            ):
                seen.append(chunk)
        assert caught.value.code == "server_error"
        assert any((chunk.choices[0].delta.model_extra or {}).get("images") for chunk in seen)


def test_addresses_stand_behind_the_public_url(tmp_path: Path) -> None:
    with service(tmp_path, settings=ServiceSettings(public_url="https://pictures.example.com/d")) as public:
        text = public.http.post("/v1/chat/completions?pictures=markdown", json=BODY).text
        assert "](https://pictures.example.com/d/v1/pictures/resp_" in text


def test_a_public_url_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in ("example.com", "ftp://x", "https://", "https://x)y"):
        assert run(["serve", "documents", "--dry-run", "--public-url", wrong]) != 0
        assert "--public-url" in capsys.readouterr().err


def test_a_job_that_a_limit_ends_has_the_finish_reason_length(tmp_path: Path) -> None:
    with service(tmp_path, settings=ServiceSettings(limits=Limits(max_calls=3))) as limited:
        answer = limited.sdk().chat.completions.create(model="interleave", messages=ASKED)
        assert answer.choices[0].finish_reason == "length"


def test_cancelling_a_job_ends_its_stream_with_an_error(tmp_path: Path) -> None:
    with service(tmp_path, generator=HeldGenerator(free=0)) as held:
        sdk = held.sdk()
        stream = iter(sdk.chat.completions.create(model="interleave", messages=ASKED, stream=True))
        document = (next(stream).model_extra or {})["interleave"]["document"]
        held.until(lambda: held.generator.calls)
        sdk.responses.cancel(document.rpartition("/")[2])
        with pytest.raises(openai.APIError, match="cancelled"):
            list(stream)


@pytest.mark.parametrize("kept", [False, True])
def test_a_client_that_leaves_ends_its_job_unless_it_can_come_back(tmp_path: Path, kept: bool) -> None:
    headers = {"Idempotency-Key": "order-17"} if kept else {}
    with service(tmp_path, generator=HeldGenerator(free=0)) as held:
        sdk = held.sdk()
        stream = sdk.chat.completions.create(
            model="interleave", messages=ASKED, stream=True, extra_headers=headers
        )
        id_ = (next(iter(stream)).model_extra or {})["interleave"]["document"].rpartition("/")[2]
        held.until(lambda: held.generator.calls)
        stream.close()
        held.until(lambda: not len(held.documents.broadcaster))
        if not kept:
            held.until(lambda: sdk.responses.retrieve(id_).status == "cancelled")
            return
        held.generator.free = 100
        again = sdk.chat.completions.create(
            model="interleave", messages=ASKED, stream=True, extra_headers=headers
        )
        assert next(iter(again)).id.endswith(id_.removeprefix("resp_"))
        with pytest.raises(openai.UnprocessableEntityError):
            sdk.chat.completions.create(model="interleave", messages=ASKED, extra_headers=headers)


def test_silence_is_filled_with_comments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcaster, "HEARTBEAT_SECONDS", 0.01)
    with service(tmp_path, generator=HeldGenerator(free=0)) as held:
        lines = []
        with held.http.stream("POST", "/v1/chat/completions", json={**BODY, "stream": True}) as answer:
            for line in answer.iter_lines():
                lines.append(line)
                if line.startswith(":"):
                    held.generator.free = 100
        assert lines[-2] == "data: [DONE]"
        held.generator.free = len(held.generator.calls)
        stream = held.sdk().chat.completions.create(model="interleave", messages=ASKED, stream=True)
        first = next(iter(stream))
        held.until(lambda: len(held.generator.calls) > held.generator.free)
        held.generator.free = 100
        assert first.id == list(stream)[-1].id


def test_keys_and_quotas_hold_and_addresses_of_images_need_no_key(tmp_path: Path) -> None:
    _, secret = add_key(tmp_path / FILE_NAME, "alice", per_hour=1)
    with service(tmp_path) as keyed:
        assert keyed.http.post("/v1/chat/completions", json=BODY).status_code == 401
        sdk = keyed.sdk(secret)
        answer = sdk.chat.completions.create(
            model="interleave", messages=ASKED, extra_body={"pictures": "url"}
        )
        url = images_of(answer.choices[0].message)[0]["image_url"]["url"]
        assert keyed.http.get(url).status_code == 200  # as a browser asks for it
        other = url.rpartition("/")[0] + "/" + "0" * 64 + ".png"
        assert keyed.http.get(other).status_code == 404
        with pytest.raises(openai.RateLimitError):
            sdk.chat.completions.create(model="interleave", messages=ASKED)
        sdk.responses.delete("resp_" + answer.id.removeprefix("chatcmpl-"))
        assert keyed.http.get(url).status_code == 404
        assert oct((tmp_path / "pictures.secret").stat().st_mode)[-3:] == "600"
