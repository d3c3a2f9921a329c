"""The stock openai SDK against the document service: what it submits, and what it makes of the answers."""

from __future__ import annotations

import asyncio
import base64
import io
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types.responses import Response, ResponseStreamEvent
from PIL import Image
from pydantic import TypeAdapter
from running import HANGS_AFTER, HeldGenerator, Service, service
from serving import coded, png

ASKED = "How a frog grows up, in two pictures"
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
SMALL = f"data:image/png;base64,{coded(png())}"


def images_of(response: Response) -> list[Image.Image]:
    calls = [item for item in response.output if item.type == "image_generation_call"]
    return [Image.open(io.BytesIO(base64.b64decode(call.result or ""))) for call in calls]


def finished(sdk: openai.OpenAI, id_: str, running: Service) -> Response:
    def ended() -> Response | None:
        now = sdk.responses.retrieve(id_)
        return now if now.status not in ("queued", "in_progress") else None

    return running.until(ended)


def test_a_response_that_is_waited_for_has_text_and_images_in_order(running: Service) -> None:
    answer = running.sdk().responses.create(model="interleave", input=ASKED, metadata={"order": "17"})
    assert answer.status == "completed"
    kinds = [item.type for item in answer.output]
    assert kinds == ["message", "image_generation_call", "message", "image_generation_call"]
    assert answer.output_text.startswith("Part 1 of 2")
    assert [image.size for image in images_of(answer)] == [(64, 64), (64, 64)]
    assert answer.metadata == {"order": "17"}
    own = answer.model_extra["interleave"] if answer.model_extra else {}
    assert own["calls"]["generator"] == 3  # the double refuses the first attempt of every second step
    assert [len(step["attempts"]) for step in own["steps"]] == [1, 2]
    assert own["plan"]["steps"][0]["prompt"]


def test_the_shapes_are_those_of_the_api_not_only_what_the_sdk_forgives(running: Service) -> None:
    raw = running.http.post("/v1/responses", json={"input": ASKED}).json()
    Response.model_validate(raw, strict=False)
    streamed = running.sdk().responses.with_raw_response.create(input=ASKED, stream=True)
    for line in streamed.http_response.read().decode().splitlines():
        if line.startswith("data: "):
            EVENT.validate_json(line.removeprefix("data: "))


def test_a_background_response_is_a_job(tmp_path: Path) -> None:
    with service(tmp_path, generator=HeldGenerator(free=1)) as held:
        sdk = held.sdk()
        job = sdk.responses.create(model="interleave", input=ASKED, background=True)
        assert job.status == "queued"
        assert job.output == []

        def half_done() -> Response | None:
            now = sdk.responses.retrieve(job.id)
            return now if len(now.output) == 4 else None

        half = held.until(half_done)
        assert half.status == "in_progress"
        assert [item.status for item in half.output] == ["completed", "completed", "completed", "in_progress"]
        held.generator.free = 100
        assert finished(sdk, job.id, held).status == "completed"


def test_G12_a_stream_is_numbered_and_can_be_gone_on_with_anywhere(running: Service) -> None:
    sdk = running.sdk()
    events = list(sdk.responses.create(model="interleave", input=ASKED, stream=True, background=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[0].type == "response.created"
    assert events[-1].type == "response.completed"
    id_ = events[0].response.id
    for after in range(len(events)):
        rest = list(sdk.responses.retrieve(id_, stream=True, starting_after=after))
        assert [event.to_json() for event in rest] == [event.to_json() for event in events[after + 1 :]]


def test_attempts_are_streamed_as_partial_images_when_asked_for(running: Service) -> None:
    tools: Any = [{"type": "image_generation", "partial_images": 1}]
    events = list(running.sdk().responses.create(input=ASKED, stream=True, tools=tools))
    partial = [e for e in events if e.type == "response.image_generation_call.partial_image"]
    assert [each.partial_image_index for each in partial] == [0, 0]
    assert [each.output_index for each in partial] == [1, 3]


def test_the_async_client_streams_and_waits(running: Service) -> None:
    async def ask() -> tuple[str | None, list[str]]:
        async with openai.AsyncOpenAI(base_url=f"{running.url}/v1", api_key="any", max_retries=0) as sdk:
            whole = await sdk.responses.create(model="interleave", input=ASKED)
            stream = await sdk.responses.create(model="interleave", input=ASKED, stream=True)
            return whole.status, [event.type async for event in stream]

    status, kinds = asyncio.run(ask())
    assert status == "completed"
    assert kinds[-1] == "response.completed"


def test_the_stream_helper_of_the_sdk_gathers_the_response(running: Service) -> None:
    with running.sdk().responses.stream(model="interleave", input=ASKED) as stream:
        for _ in stream:
            pass
        final = stream.get_final_response()
    assert final.status == "completed"
    assert len(final.output) == 4


def test_images_come_in_as_data_urls(running: Service) -> None:
    content: Any = [
        {"type": "input_text", "text": "Go on with this in one picture"},
        {"type": "input_image", "image_url": SMALL, "detail": "auto"},
    ]
    answer = running.sdk().responses.create(input=[{"role": "user", "content": content}])
    assert answer.status == "completed"
    assert running.generator.calls[-1].sources[0].size == (48, 40)


def test_a_document_is_continued_by_the_id_of_the_one_before(running: Service) -> None:
    sdk = running.sdk()
    first = sdk.responses.create(input=ASKED)
    second = sdk.responses.create(input="Now two more pictures", previous_response_id=first.id)
    assert second.previous_response_id == first.id
    assert second.status == "completed"
    drawn_from = running.generator.calls[-3].sources[-1]
    assert drawn_from.tobytes() == images_of(first)[-1].convert("RGB").tobytes()
    sdk.responses.delete(first.id)
    third = sdk.responses.create(input="And one more picture", previous_response_id=second.id)
    assert third.status == "completed"


def test_G10_cancelling_is_final_and_may_be_repeated(tmp_path: Path) -> None:
    with service(tmp_path, generator=HeldGenerator(free=0)) as held:
        sdk = held.sdk()
        job = sdk.responses.create(input=ASKED, background=True)
        held.until(lambda: held.generator.calls)
        cancelled = sdk.responses.cancel(job.id)
        assert cancelled.status == "cancelled"
        assert sdk.responses.cancel(job.id).status == "cancelled"
        held.generator.free = 100
        events = list(sdk.responses.retrieve(job.id, stream=True))
        assert events[-1].response.status == "cancelled"
        assert len(held.generator.calls) == 1


def test_G09_a_deleted_job_is_unknown_like_any_that_never_was(running: Service) -> None:
    sdk = running.sdk()
    job = sdk.responses.create(input=ASKED)
    folder = running.documents.folders.run(job.id)
    assert folder.exists()
    sdk.responses.delete(job.id)
    assert not folder.exists()
    errors = []
    for id_ in (job.id, "resp_" + "0" * 48):
        with pytest.raises(openai.NotFoundError) as caught:
            sdk.responses.retrieve(id_)
        errors.append(str(caught.value).replace(id_, "ID"))
    assert errors[0] == errors[1]


def test_H01_no_url_is_fetched(running: Service) -> None:
    for url in ("http://127.0.0.1:1/x.png", "https://example.com/x.png", "file:///etc/passwd", "HTTPS://a"):
        content: Any = [{"type": "input_image", "image_url": url}]
        with pytest.raises(openai.BadRequestError, match="fetches nothing"):
            running.sdk().responses.create(input=[{"role": "user", "content": content}])


def test_a_client_that_leaves_and_cannot_come_back_leaves_no_work(tmp_path: Path) -> None:
    with service(tmp_path, generator=HeldGenerator(free=0)) as held:
        stream = held.sdk().responses.create(input=ASKED, stream=True)
        id_ = next(iter(stream)).response.id
        held.until(lambda: held.generator.calls)
        stream.close()
        assert finished(held.sdk(), id_, held).status == "cancelled"


def test_a_job_in_the_background_goes_on_without_its_client(tmp_path: Path) -> None:
    with service(tmp_path, generator=HeldGenerator(free=0)) as held:
        stream = held.sdk().responses.create(input=ASKED, stream=True, background=True)
        seen = next(iter(stream))
        held.until(lambda: held.generator.calls)
        stream.close()
        held.until(lambda: not len(held.documents.broadcaster))
        held.generator.free = 100
        rest = list(
            held.sdk(timeout=HANGS_AFTER).responses.retrieve(
                seen.response.id, stream=True, starting_after=seen.sequence_number
            )
        )
        assert [event.sequence_number for event in rest] == list(range(1, len(rest) + 1))
        assert rest[-1].type == "response.completed"
