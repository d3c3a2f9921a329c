"""Requests and answers of the APIs of native systems: parts in, parts out."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field

from interleave import ImagePart, Text
from interleave.plugin import Part
from interleave.remote.gemini_vlm import (
    BLOCKED_REASONS,
    finish_reason_of,
    first_candidate,
    gemini_part,
    parts_of,
    response_json,
)
from interleave.remote.http_client import as_backend_errors, gemini_clients, openai_clients
from interleave.remote.http_errors import (
    MAX_LISTED,
    bad_reply,
    expect,
    json_of,
    label,
    optional,
    refused,
    shorten,
    token_count,
)
from interleave.remote.image_encoding import data_url
from interleave.remote.keys import GEMINI_VERSION, key_for
from interleave.remote.options import RemoteOptions

DOCUMENT_BYTES = 256_000_000
"""Enough for the images of a whole document in base64."""
COMMON = frozenset({"system", "max_tokens", "price", "price_in", "price_out"})
_STANDARD_BASE64 = str.maketrans("-_", "+/")
_PLACEHOLDER = re.compile(r"<\|?(?:image|img)\|?>|\[(?:image|IMAGE|IMG)\]")
"""Marks that models write where their images belong."""


class DocumentOptions(RemoteOptions):
    """Options of native systems. Those that only one API has say which."""

    system: str | None = Field(default=None, max_length=10_000)
    """System instruction, such as the form of the answer. The default is none."""
    max_tokens: int | None = Field(default=None, ge=16, le=1_000_000)
    """Maximum tokens of a document, as the server counts them."""
    api_version: str = GEMINI_VERSION
    """`gemini`: the version in the address."""
    aspect_ratio: str | None = Field(default=None, pattern=r"^\d{1,2}:\d{1,2}$")
    """`gemini`: of the images."""
    size: str | None = Field(default=None, pattern=r"^([124]K|\d{2,4}x\d{2,4})$")
    """`gemini`: 1K, 2K or 4K; `openai`: 1024x1024 and so on."""
    image_model: str | None = None
    """`openai`: the model of the image tool."""
    quality: Literal["low", "medium", "high"] | None = None
    """`openai`: of the images."""
    seed: int | None = Field(default=None, ge=0, lt=2**31)
    """`chat`: seed of the document."""
    price: float | None = Field(default=None, ge=0)
    """US dollars per image, instead of the table's."""
    price_in: float | None = Field(default=None, ge=0)
    price_out: float | None = Field(default=None, ge=0)
    """US dollars per million tokens, instead of the table's."""


@dataclass(frozen=True)
class EncodedImage:
    """One image of an answer, in base64 or as a data URL."""

    data: str


@dataclass(frozen=True)
class Usage:
    """How an answer ended, and its tokens."""

    finish_reason: str = "stop"
    tokens_in: int = 0
    tokens_out: int = 0
    """Without those of images."""
    counts: dict[str, int] = field(default_factory=dict)


Answer = tuple[list["str | EncodedImage"], Usage]


class GeminiWire:
    """Google's models that answer with text and images in turn."""

    options = COMMON | {"api_version", "aspect_ratio", "size"}

    def __init__(
        self, where: str, model: str, base_url: str, options: DocumentOptions, seconds: float
    ) -> None:
        self.where, self.model, self.chosen = where, model, options
        key = key_for(base_url, options.key, header="x-goog-api-key", prefix="")
        self._client = gemini_clients(
            where,
            base_url=base_url,
            key=key,
            seconds=seconds,
            max_bytes=DOCUMENT_BYTES,
            api_version=options.api_version,
        )

    async def ask(self, parts: Sequence[Part]) -> Answer:
        from google.genai import types as genai

        sent = await asyncio.to_thread(lambda: [gemini_part(part) for part in parts])
        image: dict[str, Any] = {"aspect_ratio": self.chosen.aspect_ratio, "image_size": self.chosen.size}
        config = genai.GenerateContentConfig(
            response_modalities=["TEXT", "IMAGE"],
            image_config=genai.ImageConfig(**image) if any(image.values()) else None,
            system_instruction=self.chosen.system,
            max_output_tokens=self.chosen.max_tokens,
            automatic_function_calling=genai.AutomaticFunctionCallingConfig(disable=True),
            should_return_http_response=True,
        )
        with as_backend_errors(self.where):
            response = await self._client().aio.models.generate_content(
                model=self.model, contents=[genai.Content(role="user", parts=sent)], config=config
            )
            return self._read(response_json(response, self.where))

    def _read(self, answer: dict[str, Any]) -> Answer:
        candidate = first_candidate(answer, self.where)
        found: list[str | EncodedImage] = []
        for part in parts_of(candidate, self.where):
            inline = optional(part.get("inlineData"), dict, "inlineData", self.where) or {}
            text = optional(part.get("text"), str, "text", self.where)
            data = optional(inline.get("data"), str, "data", self.where)
            if part.get("thought"):
                continue
            if text:
                found.append(text)
            if data:
                found.append(EncodedImage(data.translate(_STANDARD_BASE64)))
        reason = finish_reason_of(candidate, self.where)
        if reason in BLOCKED_REASONS:
            raise refused(self.where, reason)
        usage = answer.get("usageMetadata")
        known = {"STOP": "stop", "MAX_TOKENS": "length"}
        return found, _gemini_usage(
            known.get(reason, reason.lower()), usage if isinstance(usage, dict) else {}
        )


def _gemini_usage(reason: str, usage: dict[str, Any]) -> Usage:
    counts = {
        "prompt_tokens": token_count(usage.get("promptTokenCount")) or 0,
        "completion_tokens": token_count(usage.get("candidatesTokenCount")) or 0,
        "reasoning_tokens": token_count(usage.get("thoughtsTokenCount")) or 0,
    }
    details = usage.get("candidatesTokensDetails")
    listed = [each for each in details if isinstance(each, dict)] if isinstance(details, list) else []
    words = sum(token_count(each.get("tokenCount")) or 0 for each in listed if each.get("modality") == "TEXT")
    return Usage(reason, counts["prompt_tokens"], words + counts["reasoning_tokens"], counts)


class _OpenAIClient:
    """A model behind OpenAI's SDK."""

    def __init__(
        self, where: str, model: str, base_url: str, options: DocumentOptions, seconds: float
    ) -> None:
        self.where, self.model, self.chosen = where, model, options
        key = key_for(base_url, options.key)
        self._client = openai_clients(
            where, base_url=base_url, key=key, seconds=seconds, max_bytes=DOCUMENT_BYTES
        )


class OpenAIWire(_OpenAIClient):
    """OpenAI's Responses API, whose models call an image tool between their texts."""

    options = COMMON | {"image_model", "quality", "size"}

    async def ask(self, parts: Sequence[Part]) -> Answer:
        content = await asyncio.to_thread(lambda: [_input_part(part) for part in parts])
        tool = {"model": self.chosen.image_model, "quality": self.chosen.quality, "size": self.chosen.size}
        arguments: dict[str, Any] = {
            "model": self.model,
            "input": [{"role": "user", "content": content}],
            "tools": [{"type": "image_generation", **{name: each for name, each in tool.items() if each}}],
            "store": False,
        }
        if self.chosen.system is not None:
            arguments["instructions"] = self.chosen.system
        if self.chosen.max_tokens is not None:
            arguments["max_output_tokens"] = self.chosen.max_tokens
        with as_backend_errors(self.where):
            responses = self._client().responses.with_raw_response
            return self._read(json_of((await responses.create(**arguments)).http_response))

    def _read(self, answer: dict[str, Any]) -> Answer:
        if error := optional(answer.get("error"), dict, "error", self.where):
            raise bad_reply(self.where, str(error.get("message") or error.get("code")))
        found: list[str | EncodedImage] = []
        for item in _objects(answer.get("output"), "output", self.where):
            if item.get("type") == "message":
                found += self._texts(item)
            elif item.get("type") == "image_generation_call":
                found.append(self._image(item))
        details = optional(answer.get("incomplete_details"), dict, "incomplete_details", self.where) or {}
        reason = label(details.get("reason"), "reason", self.where) or "stop"
        if reason == "content_filter":
            raise refused(self.where, reason)
        return found, _openai_usage(
            "length" if reason == "max_output_tokens" else reason, answer.get("usage")
        )

    def _texts(self, message: dict[str, Any]) -> Iterator[str]:
        for part in _objects(message.get("content"), "content", self.where):
            if refusal := optional(part.get("refusal"), str, "refusal", self.where):
                raise refused(self.where, refusal)
            if text := optional(part.get("text"), str, "text", self.where):
                yield text

    def _image(self, call: dict[str, Any]) -> EncodedImage:
        if data := optional(call.get("result"), str, "result", self.where):
            return EncodedImage(data)
        error = optional(call.get("error"), dict, "error", self.where) or {}
        said = shorten(error.get("message") or call.get("status"))
        if error.get("code") == "moderation_blocked":
            raise refused(self.where, said)
        raise bad_reply(self.where, f"one of its images failed: {said}")


def _input_part(part: Part) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text}
    return {"type": "input_image", "image_url": data_url(part.image), "detail": "auto"}


def _openai_usage(reason: str, found: object) -> Usage:
    usage = found if isinstance(found, dict) else {}
    read = token_count(usage.get("input_tokens", usage.get("prompt_tokens"))) or 0
    written = token_count(usage.get("output_tokens", usage.get("completion_tokens"))) or 0
    return Usage(reason, read, written, {"prompt_tokens": read, "completion_tokens": written})


class ChatWire(_OpenAIClient):
    """Chat completions with text and images in their answers.

    Images are parts of the content, or listed in `images` beside it. Listed images belong where the text
    has a placeholder for each, else behind the text. A server may answer with several choices, in order.
    """

    options = COMMON | {"seed"}

    async def ask(self, parts: Sequence[Part]) -> Answer:
        content = await asyncio.to_thread(lambda: [_chat_part(part) for part in parts])
        system = [{"role": "system", "content": self.chosen.system}] if self.chosen.system else []
        arguments: dict[str, Any] = {
            "model": self.model,
            "messages": [*system, {"role": "user", "content": content}],
            "extra_body": {"modalities": ["text", "image"]},
        }
        if self.chosen.max_tokens is not None:
            arguments["max_tokens"] = self.chosen.max_tokens
        if self.chosen.seed is not None:
            arguments["seed"] = self.chosen.seed
        with as_backend_errors(self.where):
            chats = self._client().chat.completions.with_raw_response
            response = await chats.create(**arguments)
            return self._read(json_of(response.http_response))

    def _read(self, answer: dict[str, Any]) -> Answer:
        choices = _objects(answer.get("choices"), "choices", self.where)
        if not choices:
            raise bad_reply(self.where, "it has no choices")
        found: list[str | EncodedImage] = []
        reason = "stop"
        for choice in choices:
            message = expect(choice.get("message"), dict, "message", self.where)
            reason = label(choice.get("finish_reason"), "finish_reason", self.where) or reason
            found += self._parts(message)
        if not found and (
            refusal := optional(choices[0]["message"].get("refusal"), str, "refusal", self.where)
        ):
            raise refused(self.where, refusal)
        if reason == "content_filter":
            raise refused(self.where, reason)
        return found, _openai_usage("length" if reason == "max_tokens" else reason, answer.get("usage"))

    def _parts(self, message: dict[str, Any]) -> list[str | EncodedImage]:
        content = message.get("content")
        listed = [self._image(each) for each in _objects(message.get("images"), "images", self.where)]
        if isinstance(content, list):
            return [*(self._part(each) for each in _objects(content, "content", self.where)), *listed]
        text = optional(content, str, "content", self.where) or ""
        return _with_images(text, listed)

    def _part(self, part: dict[str, Any]) -> str | EncodedImage:
        text = part.get("text")
        return text if isinstance(text, str) else self._image(part)

    def _image(self, part: dict[str, Any]) -> EncodedImage:
        """Return the image of a part, from whichever field the server uses."""
        nested = part.get("image_url")
        url = nested.get("url") if isinstance(nested, dict) else nested
        data = next((each for each in (url, part.get("b64_json"), part.get("data")) if each), None)
        if not isinstance(data, str):
            raise bad_reply(self.where, "a part of its content is neither text nor an image")
        if data.startswith(("http:", "https:", "/")):
            raise bad_reply(self.where, "it names the address of an image, not the image", permanent=True)
        return EncodedImage(data)


def _with_images(text: str, images: list[EncodedImage]) -> list[str | EncodedImage]:
    """Return a text with its images at their placeholders, or behind it if their numbers differ."""
    pieces = _PLACEHOLDER.split(text)
    if len(pieces) != len(images) + 1:
        return [*([text] if text else []), *images]
    found: list[str | EncodedImage] = [pieces[0]]
    for image, piece in zip(images, pieces[1:], strict=True):
        found += [image, piece]
    return [part for part in found if part]


def _chat_part(part: Part) -> dict[str, Any]:
    if isinstance(part, ImagePart):
        return {"type": "image_url", "image_url": {"url": data_url(part.image)}}
    return {"type": "text", "text": part.text}


def _objects(value: object, what: str, where: str) -> list[dict[str, Any]]:
    listed = optional(value, list, what, where) or []
    if len(listed) > 10 * MAX_LISTED:
        raise bad_reply(where, f"its {what} has {len(listed):,} parts", permanent=True)
    return [expect(each, dict, f"part of {what}", where) for each in listed]
