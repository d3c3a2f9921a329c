"""What goes over the wire, as the servers document it, and what is made of their answers."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import subprocess
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import loopback as wire
from interleave.agents.critic import VlmCritic, critic_input
from interleave.agents.planner import VlmPlanner
from interleave.agents.prompts import load_pack
from interleave.backends.protocols import ImageRequest, Message, Reply, Sampling
from interleave.backends.registry import load_generator, load_vlm
from interleave.errors import BackendError, ConfigurationError, Failure
from interleave.images import decode_image
from interleave.remote.prices import TOKENS, image_price, token_price
from interleave.types import ImagePart, Request, Text
from loopback import Asked, Exchange, Loopback

RED, BLUE = (Image.new("RGB", (20, 10), colour) for colour in ("red", "blue"))
QUESTION = (
    Message("system", (Text("Be brief."),)),
    Message("user", (Text("Compare"), ImagePart(RED), Text("with"), ImagePart(BLUE))),
    Message("assistant", (Text("No."),)),
    Message("user", (Text("Again."),)),
)


def ask(spec: str, sampling: Sampling | None = None, messages: tuple[Message, ...] = QUESTION) -> Reply:
    return asyncio.run(load_vlm(spec, "critic").complete(messages, sampling or Sampling()))


def draw(spec: str, *sources: Image.Image, prompt: str = "a cat", seed: int = 7) -> Image.Image:
    return asyncio.run(load_generator(spec).generate(ImageRequest(prompt, seed, sources)))


def answering(loopback: Loopback, value: Any) -> None:
    """Every request gets this answer."""

    async def answer(exchange: Exchange) -> None:
        await exchange.send(wire.Answer.of(value))

    loopback.fails_with(answer)


def only(loopback: Loopback) -> Asked:
    (asked,) = loopback.asked
    return asked


def chat(loopback: Loopback, message: dict[str, Any], **choice: Any) -> Reply:
    answering(loopback, wire._completion({"role": "assistant", **message}, "stop") | choice.pop("top", {}))
    return ask(f"openai:m@{loopback.url}/v1", **choice)


# openai: questions


def test_openai_sends_images_as_data_urls_in_their_place(loopback: Loopback) -> None:
    ask(f"openai:qwen3-vl@{loopback.url}/v1")
    asked = only(loopback)
    assert asked.path == "/v1/chat/completions"
    question = asked.json
    assert question["model"] == "qwen3-vl"
    assert [message["role"] for message in question["messages"]] == ["system", "user", "assistant", "user"]
    assert question["messages"][0]["content"] == "Be brief."
    parts = question["messages"][1]["content"]
    assert [part["type"] for part in parts] == ["text", "image_url", "text", "image_url"]
    prefix, _, data = parts[1]["image_url"]["url"].partition(",")
    assert prefix == "data:image/png;base64"
    assert decode_image(base64.b64decode(data)).getpixel((0, 0)) == (255, 0, 0)
    assert (question["max_tokens"], question["temperature"]) == (4096, 0.0)
    assert not {"max_completion_tokens", "logprobs", "response_format", "reasoning_effort"} & set(question)


@pytest.mark.parametrize("model", ["gpt-5", "gpt-5.4-mini", "o3", "o4-mini", "openai/gpt-5.2", "gpt-6"])
def test_openai_reasoning_models_get_the_other_limit_and_no_temperature(
    model: str, loopback: Loopback
) -> None:
    ask(f"openai:{model}@{loopback.url}/v1?max_tokens=16000&reasoning=low")
    question = only(loopback).json
    assert question["max_completion_tokens"] == 16000
    assert question["reasoning_effort"] == "low"
    assert not {"max_tokens", "temperature"} & set(question)


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4.1", "qwen3-vl", "gpt-oss", "olmo", "gpt-5-chat-latest"])
def test_openai_other_models_get_the_usual_fields(model: str, loopback: Loopback) -> None:
    ask(f"openai:{model}@{loopback.url}/v1")
    assert {"max_tokens", "temperature"} <= set(only(loopback).json)


def test_another_limit_than_the_usual_is_kept_whatever_the_spec_says(loopback: Loopback) -> None:
    ask(f"openai:m@{loopback.url}/v1?max_tokens=16000", Sampling(max_tokens=64))
    ask(f"gemini:m@{loopback.url}?max_tokens=16000", Sampling(max_tokens=64))
    first, second = loopback.asked
    assert first.json["max_tokens"] == second.json["generationConfig"]["maxOutputTokens"] == 64


def test_openai_quirks_can_be_said(loopback: Loopback) -> None:
    ask(f"openai:m@{loopback.url}/v1?tokens_field=max_completion_tokens&temperature=omit&detail=low")
    question = only(loopback).json
    assert "max_completion_tokens" in question and "temperature" not in question
    assert question["messages"][1]["content"][1]["image_url"]["detail"] == "low"


def test_openai_azure_gets_its_version_and_its_header(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_KEY", "secret-of-azure")
    path = "openai/deployments/mine"
    ask(f"openai:gpt-4o@{loopback.url}/{path}?api_version=2025-04-01-preview&key=AZURE_KEY")
    asked = only(loopback)
    assert asked.path == f"/{path}/chat/completions"
    assert asked.query == {"api-version": "2025-04-01-preview"}
    assert asked.headers["api-key"] == "secret-of-azure"
    assert "secret" not in asked.headers.get("authorization", "")


def test_openai_holds_planner_and_critic_to_their_schemas(loopback: Loopback) -> None:
    vlm = load_vlm(f"openai:m@{loopback.url}/v1?json_schema=true", "planner")
    pack = load_pack("default")
    asyncio.run(VlmPlanner(vlm, pack).plan(Request.of("A boat in 2 pictures")))
    asyncio.run(VlmCritic(vlm, pack).judge(critic_input("a", "a", (RED,), BLUE)))
    planned, judged = (asked.json["response_format"]["json_schema"] for asked in loopback.asked)
    assert planned["strict"] is judged["strict"] is True
    assert planned["schema"]["required"] == ["execution_plan"]
    assert judged["schema"]["properties"]["previous_step_success"] == {"type": "boolean"}


def test_openai_without_the_option_sends_no_schema(loopback: Loopback) -> None:
    ask(f"openai:m@{loopback.url}/v1", Sampling(schema={"type": "object"}))
    assert "response_format" not in only(loopback).json


# openai: answers


def test_openai_confidence_comes_from_log_probabilities(loopback: Loopback) -> None:
    vlm = load_vlm(f"openai:m@{loopback.url}/v1?logprobs=true", "critic")
    verdict = asyncio.run(VlmCritic(vlm, load_pack("default")).judge(critic_input("a", "a", (RED,), BLUE)))
    assert only(loopback).json["logprobs"] is True
    assert verdict.confidence == pytest.approx(0.9048, abs=0.001)


def test_openai_a_letter_split_over_tokens_is_spelled_whole(loopback: Loopback) -> None:
    owl = "🦉".encode()
    pieces = [list(b"an "), list(owl[:2]), list(owl[2:])]
    content = [{"token": "?", "logprob": 0.0, "bytes": piece, "top_logprobs": []} for piece in pieces]
    message = {"role": "assistant", "content": "an 🦉"}
    answering(loopback, wire._completion(message, "stop", logprobs={"content": content}))
    reply = ask(f"openai:m@{loopback.url}/v1?logprobs=true", Sampling(token_probabilities=True))
    assert [token.text for token in reply.tokens] == ["an ", "", "🦉"]


def test_openai_tokens_of_other_words_are_dropped(loopback: Loopback) -> None:
    content = [{"token": "x", "logprob": 0.0, "bytes": None, "top_logprobs": []}]
    message = {"role": "assistant", "content": "yes"}
    answering(loopback, wire._completion(message, "stop", logprobs={"content": content}))
    assert ask(f"openai:m@{loopback.url}/v1?logprobs=true", Sampling(token_probabilities=True)).tokens == ()


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_openai_reasoning_in_a_field_of_its_own_comes_first(field: str, loopback: Loopback) -> None:
    reply = chat(loopback, {"content": "yes", field: "is it <answer>?"})
    assert reply.text == "<think>is it ‹answer>?</think>yes"


def test_openai_reasoning_in_the_text_is_left_alone(loopback: Loopback) -> None:
    text = "<think>hm</think>yes"
    assert chat(loopback, {"content": text, "reasoning_content": "hm"}).text == text


def test_openai_a_refusal_is_no_answer(loopback: Loopback) -> None:
    reply = chat(loopback, {"content": None, "refusal": "I cannot."})
    assert (reply.text, reply.finish_reason) == ("I cannot.", "content_filter")


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("max_tokens", "length"),
        ("content_filter", "content_filter"),
        ("eos", "stop"),
        ("abort", "abort"),
        (None, "stop"),
    ],
)
def test_openai_finish_reasons_have_one_name(theirs: str, ours: str, loopback: Loopback) -> None:
    answering(loopback, wire._completion({"role": "assistant", "content": "yes"}, theirs))
    assert ask(f"openai:m@{loopback.url}/v1").finish_reason == ours


def test_openai_usage_and_price_are_counted(loopback: Loopback) -> None:
    reply = ask(f"openai:m@{loopback.url}/v1?price_in=2&price_out=8")
    assert reply.usage == {"prompt_tokens": 1000, "completion_tokens": 50}
    assert reply.cost == pytest.approx(0.0024)
    assert ask(f"openai:m@{loopback.url}/v1").cost is None


def test_openai_a_price_without_a_count_is_a_bad_reply(loopback: Loopback) -> None:
    answered = wire._completion({"role": "assistant", "content": "yes"}, "stop")
    del answered["usage"]
    answering(loopback, answered)
    assert ask(f"openai:m@{loopback.url}/v1").text == "yes"
    with pytest.raises(BackendError, match="no token counts"):
        ask(f"openai:m@{loopback.url}/v1?price_in=2&price_out=8")


# openai-images


def test_gpt_image_is_sent_what_it_takes_and_nothing_else(loopback: Loopback) -> None:
    draw(f"openai-images:gpt-image-2@{loopback.url}/v1?quality=low")
    asked = only(loopback)
    assert asked.path == "/v1/images/generations"
    expected = {"model": "gpt-image-2", "prompt": "a cat", "size": "1024x1024", "n": 1, "quality": "low"}
    assert asked.json == expected


def test_one_source_is_image_and_several_are_a_list(loopback: Loopback) -> None:
    spec = f"openai-images:gpt-image-1@{loopback.url}/v1?input_fidelity=high"
    draw(spec, RED)
    draw(spec, RED, BLUE)
    one, two = loopback.asked
    assert one.path == two.path == "/v1/images/edits"
    assert [name for name, _ in one.files] == ["image"]
    assert [name for name, _ in two.files] == ["image[]", "image[]"]
    assert [decode_image(data).getpixel((0, 0)) for _, data in two.files] == [(255, 0, 0), (0, 0, 255)]
    assert two.fields["input_fidelity"] == "high"
    assert not {"seed", "response_format"} & set(two.fields)


@pytest.mark.parametrize("server", ["sglang", "vllm-omni"])
def test_diffusion_servers_are_sent_seeds_steps_and_the_wish_for_base64(
    server: str, loopback: Loopback
) -> None:
    spec = f"openai-images:klein@{loopback.url}/v1?server={server}&steps=4&guidance=1.5&size=512x768"
    draw(spec, seed=11)
    draw(spec, RED, seed=12)
    drawn, edited = loopback.asked[0].json, loopback.asked[1].fields
    assert (drawn["seed"], drawn["num_inference_steps"], drawn["guidance_scale"]) == (11, 4, 1.5)
    assert drawn["response_format"] == edited["response_format"] == "b64_json"
    assert (edited["seed"], edited["num_inference_steps"], edited["size"]) == ("12", "4", "512x768")


def test_an_address_instead_of_an_image_is_never_fetched(loopback: Loopback) -> None:
    answering(loopback, {"created": 1, "data": [{"url": f"{loopback.url}/secret"}]})
    with pytest.raises(BackendError, match="are not fetched") as failure:
        draw(f"openai-images:m@{loopback.url}/v1")
    assert failure.value.kind is Failure.BAD_REPLY
    assert len(loopback.asked) == 1


# gemini


def test_gemini_is_asked_as_google_documents_it(loopback: Loopback) -> None:
    ask(f"gemini:gemini-2.5-flash@{loopback.url}?thinking_budget=0")
    asked = only(loopback)
    assert asked.path.endswith("/models/gemini-2.5-flash:generateContent")
    question = asked.json
    assert question["systemInstruction"]["parts"] == [{"text": "Be brief."}]
    assert [content["role"] for content in question["contents"]] == ["user", "model", "user"]
    parts = question["contents"][0]["parts"]
    assert [next(iter(part)) for part in parts] == ["text", "inlineData", "text", "inlineData"]
    config = question["generationConfig"]
    assert (config["temperature"], config["maxOutputTokens"]) == (0.0, 4096)
    assert config["thinkingConfig"] == {"thinking_budget": 0}  # the SDK spells it so; Google reads both


def test_gemini_holds_to_a_schema_and_counts_its_thinking(loopback: Loopback) -> None:
    answered = wire._candidate([{"text": "hm", "thought": True}, {"text": "yes"}], "MAX_TOKENS")
    answered["usageMetadata"]["thoughtsTokenCount"] = 30
    answering(loopback, answered)
    spec = f"gemini:gemini-3-pro-preview@{loopback.url}?json_schema=true&thinking=low&price_in=1&price_out=10"
    reply = ask(spec, Sampling(schema={"type": "object"}))
    config = only(loopback).json["generationConfig"]
    assert config["responseMimeType"] == "application/json"
    assert config["responseJsonSchema"] == {"type": "object"}
    assert config["thinkingConfig"] == {"thinking_level": "LOW"}
    assert (reply.text, reply.finish_reason) == ("<think>hm</think>yes", "length")
    assert reply.usage == {"prompt_tokens": 1000, "completion_tokens": 80, "reasoning_tokens": 30}
    assert reply.cost == pytest.approx(0.0018)


def test_nano_banana_gets_its_sources_before_the_words(loopback: Loopback) -> None:
    spec = f"gemini:gemini-3-pro-image-preview@{loopback.url}?aspect_ratio=16:9&size=2K"
    draw(spec, RED, BLUE)
    question = only(loopback).json
    parts = question["contents"][0]["parts"]
    colours = [
        decode_image(base64.urlsafe_b64decode(part["inlineData"]["data"])).getpixel((0, 0))
        for part in parts[:2]
    ]
    assert colours == [(255, 0, 0), (0, 0, 255)]
    assert parts[2] == {"text": "a cat"}
    config = question["generationConfig"]
    assert config["responseModalities"] == ["TEXT", "IMAGE"]
    assert config["imageConfig"] == {"aspectRatio": "16:9", "imageSize": "2K"}


def test_the_first_nano_banana_is_not_told_a_size(loopback: Loopback) -> None:
    draw(f"gemini:gemini-2.5-flash-image@{loopback.url}")
    assert only(loopback).json["generationConfig"]["imageConfig"] == {"aspectRatio": "1:1"}


@pytest.mark.parametrize("reason", ["SAFETY", "IMAGE_SAFETY", "PROHIBITED_CONTENT", "RECITATION"])
def test_an_image_that_google_withholds_is_a_refusal(reason: str, loopback: Loopback) -> None:
    answering(loopback, wire._candidate([], reason))
    with pytest.raises(BackendError) as failure:
        draw(f"gemini:gemini-2.5-flash-image@{loopback.url}")
    assert (failure.value.kind, failure.value.transient) == (Failure.REFUSED, False)
    assert ask(f"gemini:gemini-2.5-flash@{loopback.url}").finish_reason == "content_filter"


def test_a_sketch_of_its_thinking_is_not_the_image(loopback: Loopback) -> None:
    def drawn(colour: str, **more: Any) -> dict[str, Any]:
        from interleave.remote.image_encoding import png_base64

        data = png_base64(Image.new("RGB", (8, 8), colour))
        return {"inlineData": {"mimeType": "image/png", "data": data}, **more}

    answering(loopback, wire._candidate([drawn("red", thought=True), drawn("blue")]))
    image = draw(f"gemini:gemini-3-pro-image@{loopback.url}")
    assert image.getpixel((0, 0)) == (0, 0, 255)


# http


def test_the_edit_wire_is_sent_what_the_reference_documents(loopback: Loopback) -> None:
    draw(f"{loopback.url}?steps=4&guidance=1&negative_prompt=blur", RED, seed=11)
    asked = only(loopback)
    assert asked.path == "/edit"
    body = asked.json
    assert decode_image(base64.b64decode(body.pop("image"))).getpixel((0, 0)) == (255, 0, 0)
    assert body == {
        "prompt": "a cat",
        "seed": 11,
        "enhance_prompt": False,
        "num_inference_steps": 4,
        "guidance_scale": 1.0,
        "negative_prompt": "blur",
    }


def test_text_to_image_goes_to_edit_with_null_or_to_generate(loopback: Loopback) -> None:
    draw(loopback.url)
    draw(f"{loopback.url}?wire=both&aspect_ratio=16:9")
    draw(f"{loopback.url}?wire=both", RED)
    draw(f"{loopback.url}?wire=generate&seeds=false")
    first, second, third, fourth = loopback.asked
    assert (first.path, first.json["image"]) == ("/edit", None)
    assert (second.path, second.json["aspect_ratio"]) == ("/generate", "16:9")
    assert (third.path, fourth.path) == ("/edit", "/generate")
    assert "seed" not in fourth.json


def test_the_reply_of_a_service_may_be_a_data_url_and_may_say_it_failed(loopback: Loopback) -> None:
    from interleave.remote.image_encoding import data_url

    answering(loopback, {"success": True, "edited_image": data_url(BLUE)})
    assert draw(loopback.url).getpixel((0, 0)) == (0, 0, 255)
    answering(loopback, {"success": False, "error": "the GPU fell off"})
    with pytest.raises(BackendError, match="the GPU fell off"):
        draw(loopback.url)


# comfyui


def test_comfyui_gets_a_patched_copy_of_the_workflow(loopback: Loopback) -> None:
    draw(f"comfyui:./edit.json@{loopback.url}", RED, BLUE, seed=11, prompt="a dog")
    graph = loopback.of("/prompt")[0].json["prompt"]
    assert graph["6"]["inputs"]["text"] == "a dog"
    assert graph["7"]["inputs"]["text"] == "ugly"
    assert graph["3"]["inputs"]["seed"] == 11
    red, blue, again = (graph[node]["inputs"]["image"] for node in ("10", "12", "15"))
    assert decode_image(loopback.uploads[red]).getpixel((0, 0)) == (255, 0, 0)
    assert decode_image(loopback.uploads[blue]).getpixel((0, 0)) == (0, 0, 255)
    assert again == blue
    assert json.loads(Path("edit.json").read_text())["6"]["inputs"]["text"] == "a cat"


def test_comfyui_places_can_be_said(loopback: Loopback) -> None:
    spec = f"comfyui:./edit.json@{loopback.url}?prompt=7.text&seed=3.seed&images=12&output=9"
    generator = load_generator(spec)
    assert (generator.capabilities.max_sources, generator.capabilities.text_to_image) == (1, False)
    Path("slots.json").write_text(
        json.dumps({**wire.WORKFLOW, "6": {"class_type": "X", "inputs": {"text": "photo of {{prompt}}, 4k"}}})
    )
    draw(f"comfyui:./slots.json@{loopback.url}", prompt="a {{prompt}} cat")
    assert loopback.of("/prompt")[0].json["prompt"]["6"]["inputs"]["text"] == "photo of a {{prompt}} cat, 4k"


def test_comfyui_a_prompt_behind_several_nodes_is_found(loopback: Loopback) -> None:
    graph = {
        **wire.WORKFLOW,
        "3": {"class_type": "BasicGuider", "inputs": {"positive": ["20", 0], "seed": 1}},
        "20": {"class_type": "FluxGuidance", "inputs": {"conditioning": ["6", 0], "guidance": 3.5}},
    }
    Path("deep.json").write_text(json.dumps(graph))
    draw(f"comfyui:./deep.json@{loopback.url}", prompt="a fox")
    assert loopback.of("/prompt")[0].json["prompt"]["6"]["inputs"]["text"] == "a fox"


def test_comfyui_an_invalid_workflow_is_said_as_it_says_it(loopback: Loopback) -> None:
    told = {"error": {"type": "prompt_no_outputs", "message": "Prompt has no outputs"}, "node_errors": {}}
    loopback.fails_with(wire.status(400, told))
    with pytest.raises(BackendError, match="Prompt has no outputs") as failure:
        draw(f"comfyui:./text.json@{loopback.url}")
    assert not failure.value.transient


def test_comfyui_a_cancelled_call_is_taken_back(loopback: Loopback) -> None:
    loopback.mood = "slow job"

    async def give_up() -> None:
        generator = load_generator(f"comfyui:./text.json@{loopback.url}")
        task = asyncio.create_task(generator.generate(ImageRequest("a cat", 7)))
        while not loopback.of("/history"):
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())
    assert "job-1" in loopback.cancelled


# proxies


def test_gemini_says_the_version_of_its_api_whatever_the_environment_says(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_GENAI_API_VERSION", "v1")
    draw(f"gemini:gemini-3-pro-image@{loopback.url}")
    draw(f"gemini:gemini-3-pro-image@{loopback.url}?api_version=v1alpha")
    paths = [asked.path for asked in loopback.asked]
    assert [path.split("/")[1] for path in paths] == ["v1beta", "v1alpha"]


def test_a_proxy_that_refuses_response_format_is_asked_without_it(loopback: Loopback) -> None:
    told = {"error": {"message": "litellm.UnsupportedParamsError: m does not support ['response_format']"}}
    loopback.fault = lambda number, asked: (
        wire.status(400, told) if b"response_format" in asked.body else None
    )

    async def twice() -> None:
        generator = load_generator(f"openai-images:m@{loopback.url}/v1")
        for number in range(2):
            assert (await generator.generate(ImageRequest("a cat", number))).size == (wire.SIDE, wire.SIDE)

    asyncio.run(twice())
    assert ["response_format" in asked.json for asked in loopback.asked] == [True, False, False]


# what cannot work is said before anything is sent

BAD_SPECS = {
    "openai": "names no model",
    "openai-images": "names no model",
    "gemini": "names no model",
    "http": "names no server",
    "comfyui:./text.json": "write comfyui:WORKFLOW.json@http",
    "comfyui:./no.json@http://127.0.0.1:1": "does not exist",
    "comfyui:./editor.json@http://127.0.0.1:1": "Export (API)",
    "comfyui:./bare.json@http://127.0.0.1:1": "no prompt input",
    "comfyui:./text.json@http://127.0.0.1:1?prompt=99.text": "no input '99.text'",
    "comfyui:./text.json@http://127.0.0.1:1?images=99": "no node '99'",
    "comfyui:./text.json@http://127.0.0.1:1?text=./text.json": "drop text=",
    "openai-images:gpt-image-2@http://127.0.0.1:1?steps=4": "not support 'steps'",
    "openai-images:m@http://127.0.0.1:1?server=sglang&quality=low": "not support 'quality'",
    "openai-images:gpt-image-1@http://127.0.0.1:1?size=512x512": "supports 1024x1024",
    "openai-images:gpt-image-2@http://127.0.0.1:1?size=1000x1000": "multiples of 16",
    "openai-images:gpt-image-2@http://127.0.0.1:1?size=auto": "needs a fixed image size",
    "gemini:gemini-2.5-flash-image@http://127.0.0.1:1?size=4K": "supports only 1K",
    "http://127.0.0.1:1?aspect_ratio=1:1": "wire=generate",
    "http://127.0.0.1:1?key=sk-not-a-name": "key",
    "http://127.0.0.1:1?key=UNSET_VARIABLE": "UNSET_VARIABLE is not set",
}


@pytest.mark.parametrize("spec", BAD_SPECS)
def test_what_cannot_work_is_said_before_anything_is_sent(spec: str, loopback: Loopback) -> None:
    Path("editor.json").write_text('{"nodes": [], "links": []}')
    Path("bare.json").write_text('{"1": {"class_type": "SaveImage", "inputs": {}}}')
    load: Callable[[str], object] = load_generator
    if spec == "openai":
        load = lambda text: load_vlm(text, "planner")  # noqa: E731
    with pytest.raises(ConfigurationError) as refusal:
        load(spec)
    assert BAD_SPECS[spec] in str(refusal.value)


@pytest.mark.parametrize("value", ["two words", "line\nbreak", "schlüssel"])
def test_what_cannot_be_a_key_is_refused_without_being_shown(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", value)
    with pytest.raises(ConfigurationError, match="holds no valid key") as refusal:
        load_vlm("openai:gpt-4o", "planner")
    assert value not in str(refusal.value)


def test_more_sources_than_a_model_takes_are_never_sent(loopback: Loopback) -> None:
    with pytest.raises(BackendError, match="at most 3 sources, not 4"):
        draw(f"gemini:gemini-2.5-flash-image@{loopback.url}", RED, BLUE, RED, BLUE)
    with pytest.raises(BackendError, match="only edits"):
        draw(f"openai-images:edit@{loopback.url}/v1?server=vllm-omni&text_to_image=false")
    assert not loopback.asked


# prices


def test_prices_go_by_the_family_of_a_model() -> None:
    assert token_price("gpt-4o-2024-11-20") == TOKENS["gpt-4o"]
    assert token_price("gemini-2.5-flash-preview-09-2025") == TOKENS["gemini-2.5-flash"]
    assert token_price("gpt-4o-audio") is None
    assert image_price("gemini-3-pro-image-preview", "4K") == pytest.approx(0.2411)
    assert image_price("gpt-image-2-2026-04-21", "low") == pytest.approx(0.016)
    assert image_price("dall-e-3", "low") is None


def test_prices_are_known_for_the_makers_own_addresses_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "x")
    known = load_generator("gemini:gemini-2.5-flash-image").capabilities
    assert known.price_per_image == pytest.approx(0.0394)
    assert load_generator("openai-images:gpt-image-2?quality=medium").capabilities.price_per_image == 0.063
    assert load_generator("openai-images:gpt-image-2?size=2048x2048").capabilities.price_per_image == 0.884
    assert load_vlm("openai:gpt-4o", "critic").capabilities.knows_its_price
    assert not load_vlm("openai:gpt-4o@http://127.0.0.1:1", "critic").capabilities.knows_its_price
    elsewhere = load_generator("gemini:gemini-2.5-flash-image@http://127.0.0.1:1").capabilities
    assert elsewhere.price_per_image is None
    assert load_generator("http://127.0.0.1:1?price=0").capabilities.price_per_image == 0


# TLS


@pytest.fixture(scope="module")
def untrusted(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A server with a certificate that nobody has signed."""
    folder = tmp_path_factory.mktemp("tls")
    names = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    subprocess.run([*made, *names], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")

    class Quiet(HTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            pass

    server = Quiet(("127.0.0.1", 0), BaseHTTPRequestHandler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"https://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_C24_a_certificate_that_is_not_trusted_is_refused_for_good(untrusted: str) -> None:
    with pytest.raises(BackendError, match="certificate is not trusted") as failure:
        draw(f"{untrusted}?timeout=120")
    assert (failure.value.kind, failure.value.transient) == (Failure.UNREACHABLE, False)
    with pytest.raises(BackendError, match="certificate is not trusted"):
        ask(f"openai:m@{untrusted}/v1?timeout=120")
