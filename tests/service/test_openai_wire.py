"""OpenAI's Images wire, spoken by OpenAI's own client."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from PIL import Image
from serving import Server, png


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def awkward_client(awkward: Server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{awkward.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def images(reply: Any) -> list[Image.Image]:
    return [Image.open(io.BytesIO(base64.b64decode(item.b64_json))) for item in reply.data]


def test_the_openai_client_draws(client: openai.OpenAI) -> None:
    reply = client.images.generate(model="solid", prompt="a cat", size="auto", response_format="b64_json")
    (drawn,) = images(reply)
    assert (drawn.format, drawn.size) == ("PNG", (64, 64))
    assert (reply.output_format, reply.background, reply.size) == ("png", "opaque", "64x64")


def test_the_openai_client_edits_one_image_and_several(client: openai.OpenAI) -> None:
    def edited(image: Any) -> bytes:
        reply = client.images.edit(model="solid", image=image, prompt="x", extra_body={"seed": 4})
        return images(reply)[0].tobytes()

    one, two = ("a.png", png("navy"), "image/png"), ("b.png", png("red"), "image/png")
    assert edited(one) == edited([one])
    assert len({edited(one), edited(two), edited([one, two]), edited([two, one])}) == 4


def test_several_images_differ_and_follow_from_the_seed(client: openai.OpenAI) -> None:
    reply = client.images.generate(model="solid", prompt="a cat", n=3, extra_body={"seed": 10})
    assert len({drawn.tobytes() for drawn in images(reply)}) == 3
    third = client.images.generate(model="solid", prompt="a cat", extra_body={"seed": 12})
    assert images(reply)[2].tobytes() == images(third)[0].tobytes()


@pytest.mark.parametrize(("name", "format"), [("png", "PNG"), ("jpeg", "JPEG"), ("webp", "WEBP")])
def test_images_come_in_the_format_asked_for(client: openai.OpenAI, name: Any, format: str) -> None:
    reply = client.images.generate(model="solid", prompt="a cat", output_format=name)
    assert (images(reply)[0].format, reply.output_format) == (format, name)


def test_compression_makes_smaller_files(client: openai.OpenAI) -> None:
    sizes = [
        len(
            client.images.generate(
                model="solid",
                prompt="a cat",
                output_format="jpeg",
                output_compression=quality,
                extra_body={"seed": 1},
            )
            .data[0]
            .b64_json  # type: ignore[index, arg-type, union-attr]
        )
        for quality in (10, 95)
    ]
    assert sizes[0] < sizes[1] / 1.5


def test_the_models_are_listed(client: openai.OpenAI, awkward_client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["solid"]
    assert client.models.retrieve("solid").owned_by == "interleave"
    assert [model.id for model in awkward_client.models.list()] == ["awkward", "klein"]
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("dall-e-3")


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "size": ({"size": "1024x1024"}, "size", "uses 64x64"),
    "size of words": ({"size": "large"}, "size", "must be auto, or"),
    "quality": ({"quality": "high"}, "quality", "generator decides"),
    "transparency": ({"background": "transparent"}, "background", "no transparency"),
    "urls": ({"response_format": "url"}, "response_format", "as b64_json"),
    "no stream": ({"extra_body": {"stream": "maybe"}}, "stream", "must be true or false"),
    "partial pictures": ({"extra_body": {"partial_images": 9}}, "partial_images", "from 0 to 3"),
    "style": ({"style": "vivid"}, "style", "does not support it"),
    "too many": ({"n": 11}, "n", "from 1 to 10"),
    "none": ({"n": 0}, "n", "from 1 to 10"),
    "format": ({"output_format": "gif"}, "output_format", "must be one of png, jpeg, webp"),
    "compressed PNG": ({"output_compression": 50}, "output_compression", "lossless"),
    "steps": ({"extra_body": {"num_inference_steps": 8}}, "num_inference_steps", "no such setting"),
    "guidance": ({"extra_body": {"true_cfg_scale": 4.0}}, "true_cfg_scale", "no such setting"),
    "misspelt": ({"extra_body": {"sede": 8}}, "sede", "Did you mean 'seed'?"),
    "long user": ({"user": "u" * 300}, "user", "more than the 256"),
}


@pytest.mark.parametrize(("change", "param", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_honoured_is_refused(
    client: openai.OpenAI, change: dict[str, Any], param: str, words: str
) -> None:
    with pytest.raises(openai.BadRequestError) as refusal:
        client.images.generate(**{"model": "solid", "prompt": "a cat", **change})  # type: ignore[call-overload]
    assert refusal.value.param == param
    assert refusal.value.type == "invalid_request_error"
    assert words in str(refusal.value)


ACCEPTED: dict[str, dict[str, Any]] = {
    "the true size": {"size": "64x64"},
    "all by itself": {"quality": "auto", "background": "auto", "size": "auto", "moderation": "low"},
    "opaque": {"background": "opaque"},
    "a user": {"user": "somebody"},
    "a user by the newer name": {"extra_body": {"safety_identifier": "somebody"}},
    "not streamed": {"extra_body": {"stream": False, "partial_images": 0}},
    "what SDKs and proxies add": {
        "extra_body": {
            "metadata": {"trace": "1"},
            "prompt_cache_key": "k",
            "service_tier": "auto",
            "safety_identifier": "somebody",
        }
    },
    "nulls": {"extra_body": {"seed": None, "negative_prompt": ""}},
}


@pytest.mark.parametrize("change", ACCEPTED.values(), ids=ACCEPTED)
def test_what_says_the_truth_is_taken(client: openai.OpenAI, change: dict[str, Any]) -> None:
    assert client.images.generate(**{"model": "solid", "prompt": "a cat", **change})  # type: ignore[call-overload]


def test_the_openai_client_reads_a_stream(client: openai.OpenAI) -> None:
    request: dict[str, Any] = {"model": "solid", "prompt": "a cat", "n": 2, "extra_body": {"seed": 5}}
    plain = client.images.generate(**request)
    events = list(client.images.generate(**request, stream=True))
    assert [event.type for event in events] == ["image_generation.completed"] * 2
    assert [event.b64_json for event in events] == [item.b64_json for item in plain.data or []]
    assert (events[0].size, events[0].output_format, events[0].usage.total_tokens) == ("64x64", "png", 0)


def test_an_edit_is_streamed_and_partial_images_are_said_to_be_missing(client: openai.OpenAI) -> None:
    with client.images.with_streaming_response.edit(
        model="solid",
        prompt="x",
        image=("a.png", png(), "image/png"),
        stream=True,
        partial_images=2,
    ) as response:
        assert response.headers["x-ignored-parameters"] == "partial_images"
        assert response.headers["content-type"].startswith("text/event-stream")
        (event,) = response.parse()
    assert event.type == "image_edit.completed"


def test_what_fails_before_a_stream_is_an_error_and_not_a_stream(awkward_client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="does not draw that"):
        awkward_client.images.generate(model="klein", prompt="refuse", stream=True)


def test_numbers_of_a_form_may_be_written_as_floats(server: Server) -> None:
    """1.0 and 1e3 are what JavaScript and shell scripts make of whole numbers."""
    fields = {"prompt": "x", "n": "1.0", "seed": "1e3"}
    reply = server.client.post(
        "/v1/images/edits", data=fields, files={"image": ("a.png", png(), "image/png")}
    )
    assert (reply.status_code, reply.json()["data"][0]["seed"]) == (200, 1000)


def test_another_model_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as refusal:
        client.images.generate(model="gpt-image-2", prompt="a cat")
    assert (refusal.value.code, refusal.value.param) == ("model_not_found", "model")
    assert "this server has solid" in str(refusal.value)


EDITS_REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a mask": ({"mask": ("m.png", png(), "image/png")}, "does not take masks"),
    "fidelity": ({"input_fidelity": "high"}, "does not support it"),
    "an image that is none": ({"image": ("a.png", b"hello", "image/png")}, "not a PNG"),
    "too many": ({"image": [("a.png", png(), "image/png")] * 17}, "takes at most 16"),
    "far too many": ({"image": [("a.png", png(), "image/png")] * 18}, "Too many files"),
    "an address": ({"extra_body": {"url": "http://127.0.0.1/x.png"}}, "unknown parameter 'url'"),
}


@pytest.mark.parametrize(("change", "words"), EDITS_REFUSED.values(), ids=EDITS_REFUSED)
def test_edits_that_cannot_be_made_are_refused(
    client: openai.OpenAI, change: dict[str, Any], words: str
) -> None:
    request = {"model": "solid", "prompt": "x", "image": ("a.png", png(), "image/png"), **change}
    with pytest.raises(openai.BadRequestError, match=words):
        client.images.edit(**request)  # type: ignore[call-overload]


def test_an_edit_without_an_image_is_refused(server: Server) -> None:
    reply = server.client.post("/v1/images/edits", files={"prompt": (None, "x")})
    assert reply.status_code == 400
    assert "no image to edit" in reply.json()["error"]["message"]
    as_text = server.client.post("/v1/images/edits", files={"prompt": (None, "x"), "image": (None, "data:")})
    assert as_text.status_code == 400


def test_failures_of_the_generator_are_the_clients_own_exceptions(awkward_client: openai.OpenAI) -> None:
    def draw(prompt: str) -> Any:
        return awkward_client.images.generate(model="klein", prompt=prompt)

    with pytest.raises(openai.BadRequestError, match="does not draw that"):
        draw("refuse")
    with pytest.raises(openai.InternalServerError) as busy:
        draw("overloaded")
    assert (busy.value.status_code, busy.value.response.headers["retry-after"]) == (503, "7")


@pytest.mark.slow
def test_the_clients_own_retries_wait_for_an_overloaded_server(start: Any) -> None:
    """One that draws, a queue of one: those refused with 429 come again and are drawn."""
    from concurrent.futures import ThreadPoolExecutor

    server = start("--generator", "awkward", "--batch", "1", "--queue", "1")
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=50)
    with client, ThreadPoolExecutor(4) as threads:
        replies = [threads.submit(client.images.generate, prompt=f"gate go {n}") for n in range(4)]
        server.until(lambda: " 429 " in server.errors.read_text())
        server.open_gate("go")
        assert [len(images(reply.result())) for reply in replies] == [1] * 4
