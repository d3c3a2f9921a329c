"""Native systems over the real SDKs: what is sent, and how the answers of each API become a document."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import interleave
import loopback as wire
from interleave.backends.protocols import DocumentEnd, DocumentEvent, DocumentModel
from interleave.backends.registry import load_agent
from interleave.errors import BackendError, ConfigurationError, Failure
from interleave.images import encode_png
from interleave.types import GivenAsset, Request, Text
from loopback import Exchange, Loopback

RED, BLUE, GREEN = (Image.new("RGB", (16, 16), colour) for colour in ("red", "blue", "green"))
ASKED = Request.of(["How a frog grows up", RED, "in two pictures"])


def b64(image: Image.Image) -> str:
    return base64.b64encode(encode_png(image)).decode()


def url(image: Image.Image) -> str:
    return f"data:image/png;base64,{b64(image)}"


def inline(image: Image.Image) -> dict[str, Any]:
    return {"inlineData": {"mimeType": "image/png", "data": b64(image)}}


def answering(loopback: Loopback, value: Any) -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.send(wire.Answer.of(value))

    loopback.fails_with(answer)


def written(spec: str, request: Request = ASKED) -> list[DocumentEvent]:
    async def collect() -> list[DocumentEvent]:
        model: DocumentModel = load_agent(spec, "planner")
        return [event async for event in model.write(request)]

    return asyncio.run(collect())


def shown(events: list[DocumentEvent]) -> list[str | tuple[int, ...]]:
    """The texts, and the colour of each image."""
    parts = [event for event in events if not isinstance(event, DocumentEnd)]
    return [part.text if isinstance(part, Text) else part.image.getpixel((0, 0)) for part in parts]  # type: ignore[misc]


DOCUMENT = ["First an egg.", (0, 0, 255), "Then a frog.", (0, 128, 0)]
GEMINI = {
    "candidates": [
        {
            "content": {
                "role": "model",
                "parts": [
                    {"text": "I should draw two.", "thought": True},
                    {**inline(RED), "thought": True},
                    {"text": "First an egg."},
                    inline(BLUE),
                    {"text": "Then a frog."},
                    {**inline(GREEN), "thoughtSignature": "c2lnbmF0dXJl"},
                ],
            },
            "finishReason": "STOP",
        }
    ],
    "usageMetadata": {
        "promptTokenCount": 300,
        "candidatesTokenCount": 2610,
        "thoughtsTokenCount": 90,
        "candidatesTokensDetails": [
            {"modality": "TEXT", "tokenCount": 30},
            {"modality": "IMAGE", "tokenCount": 2580},
        ],
    },
}
OPENAI = {
    "id": "resp_1",
    "object": "response",
    "status": "completed",
    "output": [
        {"type": "reasoning", "id": "r", "summary": []},
        {
            "type": "message",
            "id": "m1",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "First an egg.", "annotations": []}],
        },
        {"type": "image_generation_call", "id": "i1", "status": "completed", "result": b64(BLUE)},
        {
            "type": "message",
            "id": "m2",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Then a frog.", "annotations": []}],
        },
        {"type": "image_generation_call", "id": "i2", "status": "completed", "result": b64(GREEN)},
    ],
    "usage": {"input_tokens": 300, "output_tokens": 120, "total_tokens": 420},
}


def chat(*messages: dict[str, Any], reason: str = "stop") -> dict[str, Any]:
    choices = [
        {"index": n, "message": {"role": "assistant", **message}, "finish_reason": reason}
        for n, message in enumerate(messages)
    ]
    usage = {"prompt_tokens": 300, "completion_tokens": 120, "total_tokens": 420}
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": choices,
        "usage": usage,
    }


TEXTS = [{"type": "text", "text": said} for said in ("First an egg.", "Then a frog.")]
IMAGES = [{"type": "image_url", "image_url": {"url": url(image)}} for image in (BLUE, GREEN)]
CHATS = {
    "parts in turn": chat({"content": [TEXTS[0], IMAGES[0], TEXTS[1], IMAGES[1]]}),
    "a choice for each stage": chat(
        {"content": "First an egg."},
        {"content": [IMAGES[0]]},
        {"content": "Then a frog."},
        {"content": [IMAGES[1]]},
    ),
    "images listed for placeholders": chat(
        {
            "content": "First an egg.<image>Then a frog.<image>",
            "images": [{"id": "a", "data": b64(BLUE), "format": "png"}, IMAGES[1]],
        }
    ),
}


def test_gemini_is_sent_the_request_in_order_and_its_parts_are_the_document(loopback: Loopback) -> None:
    answering(loopback, GEMINI)
    events = written(f"document:gemini:gemini-3-pro-image@{loopback.url}?aspect_ratio=16:9&size=2K")
    assert shown(events) == DOCUMENT
    (asked,) = loopback.asked
    assert asked.path == "/v1beta/models/gemini-3-pro-image:generateContent"
    [content] = asked.json["contents"]
    assert [next(iter(part)) for part in content["parts"]] == ["text", "inlineData", "text"]
    config = asked.json["generationConfig"]
    assert config["responseModalities"] == ["TEXT", "IMAGE"]
    assert config["imageConfig"] == {"aspectRatio": "16:9", "imageSize": "2K"}
    assert "systemInstruction" not in asked.json


def test_openai_is_offered_its_image_tool_and_keeps_nothing(loopback: Loopback) -> None:
    answering(loopback, OPENAI)
    events = written(f"document:openai:gpt-5@{loopback.url}/v1?quality=low&system=Draw%20each%20step.")
    assert shown(events) == DOCUMENT
    (asked,) = loopback.asked
    assert asked.path == "/v1/responses"
    [turn] = asked.json["input"]
    assert [part["type"] for part in turn["content"]] == ["input_text", "input_image", "input_text"]
    assert asked.json["tools"] == [{"type": "image_generation", "quality": "low"}]
    assert asked.json["instructions"] == "Draw each step."
    assert asked.json["store"] is False


@pytest.mark.parametrize("shape", CHATS)
def test_chat_servers_answer_in_these_shapes(shape: str, loopback: Loopback) -> None:
    answering(loopback, CHATS[shape])
    assert shown(written(f"document:chat:bagel@{loopback.url}/v1?seed=7")) == DOCUMENT
    (asked,) = loopback.asked
    assert asked.path == "/v1/chat/completions"
    [turn] = asked.json["messages"]
    assert [part["type"] for part in turn["content"]] == ["text", "image_url", "text"]
    assert (asked.json["modalities"], asked.json["seed"]) == (["text", "image"], 7)


def test_listed_images_without_a_place_follow_the_text(loopback: Loopback) -> None:
    answering(loopback, chat({"content": "An egg and a frog.", "images": IMAGES}))
    events = written(f"document:chat:m@{loopback.url}/v1")
    assert shown(events) == ["An egg and a frog.", (0, 0, 255), (0, 128, 0)]


def test_named_assets_are_sent_with_their_images(loopback: Loopback) -> None:
    answering(loopback, GEMINI)
    asset = GivenAsset("Fred", image=BLUE, description="a blue frog")
    written(f"document:gemini:m@{loopback.url}", Request((Text("Fred grows up"),), (asset,)))
    [content] = loopback.asked[0].json["contents"]
    assert "Fred" in content["parts"][1]["text"] and "inlineData" in content["parts"][2]


PRICES = "price=0.1&price_in=1&price_out=10"


@pytest.mark.parametrize(
    ("spec", "answer", "cost"),
    [
        ("document:gemini:m@{url}", GEMINI, 0.2 + (300 + 10 * 120) / 1e6),
        ("document:openai:m@{url}/v1", OPENAI, 0.2 + (300 + 10 * 120) / 1e6),
        ("document:chat:m@{url}/v1", CHATS["parts in turn"], 0.2 + (300 + 10 * 120) / 1e6),
    ],
)
def test_a_document_costs_its_images_and_its_words(
    spec: str, answer: Any, cost: float, loopback: Loopback
) -> None:
    answering(loopback, answer)
    where = spec.format(url=loopback.url)
    [*_, end] = written(f"{where}?{PRICES}")
    assert isinstance(end, DocumentEnd) and end.cost == pytest.approx(cost)
    [*_, end] = written(where)
    assert isinstance(end, DocumentEnd) and end.cost is None  # an unknown price is not zero


@pytest.mark.parametrize(
    ("spec", "answer", "kind", "transient"),
    [
        ("gemini", {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}, Failure.REFUSED, False),
        ("gemini", {"candidates": [{"finishReason": "IMAGE_SAFETY"}]}, Failure.REFUSED, False),
        ("gemini", {"candidates": []}, Failure.BAD_REPLY, True),
        (
            "openai",
            {"output": [{"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}]},
            Failure.REFUSED,
            False,
        ),
        (
            "openai",
            {
                "output": [
                    {
                        "type": "image_generation_call",
                        "status": "failed",
                        "error": {"code": "moderation_blocked", "message": "unsafe"},
                    }
                ]
            },
            Failure.REFUSED,
            False,
        ),
        (
            "openai",
            {"output": [{"type": "image_generation_call", "status": "failed"}]},
            Failure.BAD_REPLY,
            True,
        ),
        ("openai", {"error": {"message": "overloaded"}}, Failure.BAD_REPLY, True),
        ("openai", {"output": "nothing"}, Failure.BAD_REPLY, True),
        ("chat", chat({"content": None, "refusal": "No."}), Failure.REFUSED, False),
        ("chat", {"choices": []}, Failure.BAD_REPLY, True),
        (
            "chat",
            chat({"content": [{"type": "image_url", "image_url": {"url": "http://host/a.png"}}]}),
            Failure.BAD_REPLY,
            False,
        ),
        ("chat", chat({"content": [{"type": "audio"}]}), Failure.BAD_REPLY, True),
        ("chat", chat({"images": [{"data": "%%%"}]}), Failure.BAD_REPLY, True),
    ],
)
def test_unusable_answers_are_typed_errors(
    spec: str, answer: Any, kind: Failure, transient: bool, loopback: Loopback
) -> None:
    answering(loopback, answer)
    with pytest.raises(BackendError) as caught:
        written(f"document:{spec}:m@{loopback.url}{'' if spec == 'gemini' else '/v1'}")
    assert (caught.value.kind, caught.value.transient) == (kind, transient)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("document:gpt-5", "document:openai:MODEL"),
        ("document:chat:bagel", "no address"),
        ("document:openai:gpt-5@http://127.0.0.1:1/v1?aspect_ratio=1:1", "'aspect_ratio'"),
        ("document:chat:m@http://127.0.0.1:1/v1?size=2K", "'size'"),
    ],
)
def test_a_spec_that_would_be_ignored_is_refused(spec: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        load_agent(spec, "planner")


def test_a_document_model_is_no_critic() -> None:
    with pytest.raises(ConfigurationError, match="use it as the planner"):
        load_agent("document:chat:m@http://127.0.0.1:1/v1", "critic")


def test_a_native_document_is_a_run_like_others(loopback: Loopback, tmp_path: Path) -> None:
    answering(loopback, GEMINI)
    spec = f"document:gemini:gemini-3-pro-image@{loopback.url}"
    run = interleave.generate("How a frog grows up", planner=spec, out=tmp_path / "run")
    assert [step.text for step in run.steps] == ["First an egg.", "Then a frog."]
    assert "Then a frog." in run.document.read_text("utf-8")
    assert (run.calls.planner, run.calls.generator, len(loopback.asked)) == (1, 0, 1)


def test_our_critic_has_steps_of_a_native_document_redrawn(loopback: Loopback, tmp_path: Path) -> None:
    answering(loopback, OPENAI)
    run = interleave.generate(
        "How a frog grows up",
        planner=f"document:openai:gpt-5@{loopback.url}/v1",
        critic="scripted",  # rejects the first attempt of every even step
        generator="solid?size=64",
        out=tmp_path / "run",
    )
    first, second = run.record.steps
    assert [len(step.attempts) for step in (first, second)] == [1, 2]
    assert interleave.read_image(run.folder / "images" / first.attempts[0].image).getpixel((0, 0)) == (
        0,
        0,
        255,
    )
    assert interleave.read_image(run.folder / "images" / second.attempts[0].image).getpixel((0, 0)) == (
        0,
        128,
        0,
    )
    assert second.shown == 2 and second.attempts[1].prompt != second.attempts[0].prompt
    assert run.calls.generator == 1


def test_a_truncated_document_says_so(loopback: Loopback, tmp_path: Path) -> None:
    answering(loopback, chat({"content": [TEXTS[0], IMAGES[0], TEXTS[1]]}, reason="length"))
    run = interleave.generate("A frog", planner=f"document:chat:m@{loopback.url}/v1", out=tmp_path / "run")
    assert [step.image is not None for step in run.steps] == [True, False]
    assert any("length limit" in note for note in run.notes)


def test_a_busy_server_is_asked_again_and_an_empty_answer_too(loopback: Loopback, tmp_path: Path) -> None:
    answers: list[Callable[[Exchange], Any]] = [
        wire.status(503),
        lambda exchange: exchange.send(wire.Answer.of(chat({"content": " "}))),
        lambda exchange: exchange.send(wire.Answer.of(CHATS["parts in turn"])),
    ]

    async def answer(exchange: Exchange) -> None:
        await answers.pop(0)(exchange)

    loopback.fails_with(answer)
    run = interleave.generate("A frog", planner=f"document:chat:m@{loopback.url}/v1", out=tmp_path / "run")
    assert (run.status, run.calls.planner, run.calls.repeated) == ("done", 1, 2)
