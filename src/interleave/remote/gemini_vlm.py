"""`gemini:MODEL` as planner, critic or scorer: Google's Gemini API through google-genai."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from interleave import (
    BackendError,
    ConfigurationError,
    Failure,
    Message,
    Reply,
    Sampling,
    Text,
    VlmCapabilities,
)
from interleave.plugin import Part, Spec, backends, images
from interleave.remote.http_client import as_backend_errors, gemini_clients
from interleave.remote.http_errors import (
    CHAT_BYTES,
    bad_reply,
    expect,
    first_item,
    label,
    optional,
    parse_object,
    refused,
    token_count,
    usage_missing,
)
from interleave.remote.keys import GEMINI_URL, GEMINI_VERSION, key_for
from interleave.remote.options import RemoteOptions, max_tokens_for, without_string_bounds
from interleave.remote.prices import token_price, typical_price

if TYPE_CHECKING:
    from google.genai import types as genai

_FINISH_REASONS = {"STOP": "stop", "MAX_TOKENS": "length"}
BLOCKED_REASONS = {
    "SAFETY",
    "RECITATION",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
}
"""The finish reasons of Google's content filters."""


class GeminiVlm:
    """A Gemini model."""

    class Options(RemoteOptions, backends.SamplingOptions):
        api_version: str = GEMINI_VERSION
        """The version in the address; a proxy may need another one."""
        max_tokens: int | None = Field(default=None, ge=16, le=1_000_000)
        """Maximum tokens of a reply, including reasoning; the default is 4096."""
        thinking: Literal["minimal", "low", "medium", "high"] | None = None
        """The thinking level of a Gemini 3 model."""
        thinking_budget: int | None = Field(default=None, ge=-1, le=100_000)
        """Maximum reasoning tokens of a Gemini 2.5 model; 0 for none, -1 for no limit."""
        json_schema: bool | None = None
        """Whether to constrain replies to the JSON schema of the answer; unset: only after an unreadable
        reply."""
        price_in: float | None = Field(default=None, ge=0)
        price_out: float | None = Field(default=None, ge=0)
        """US dollars per million tokens, instead of the table's."""

    def __init__(self, *, spec: Spec, options: Options) -> None:
        if not spec.model:
            raise ConfigurationError(f"{str(spec)!r} names no model: write e.g. gemini:gemini-3.5-flash")
        self.model = spec.model
        self.options = options
        base_url = (spec.base_url or GEMINI_URL).rstrip("/")
        self.where = f"gemini:{spec.model} at {base_url}"
        priced_as = self.model if base_url == GEMINI_URL else ""
        self.price = token_price(priced_as, options.price_in, options.price_out)
        self.capabilities = VlmCapabilities(
            knows_its_price=self.price is not None,
            concurrency=options.concurrency,
            first_concurrency=options.first_concurrency(base_url),
            timeout=options.seconds(backends.VLM_DEADLINE_SECONDS),
            deadline=options.deadline(backends.VLM_DEADLINE_SECONDS),
            reply_options=frozenset({"max_tokens"} if options.json_schema else {"max_tokens", "json_schema"}),
            typical_price=typical_price(self.price),
        )
        self._client = gemini_clients(
            self.where,
            base_url=base_url,
            key=key_for(base_url, options.key, header="x-goog-api-key", prefix=""),
            seconds=options.seconds(backends.VLM_DEADLINE_SECONDS),
            max_bytes=CHAT_BYTES,
            api_version=options.api_version,
        )

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        contents = await asyncio.to_thread(_contents, messages)
        try:
            with as_backend_errors(self.where):
                response = await self._client().aio.models.generate_content(
                    model=self.model, contents=contents, config=self._config(messages, sampling)
                )
                return self._reply(response_json(response, self.where))
        except BackendError as error:
            if error.kind is not Failure.REFUSED:
                raise
            return Reply("", "content_filter", cost=None if self.price is None else 0.0)

    def _config(self, messages: Sequence[Message], sampling: Sampling) -> genai.GenerateContentConfig:
        from google.genai import types as genai

        options = self.options
        decoding = backends.sampling_for(sampling, options)
        config: dict[str, Any] = {
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
            "top_k": decoding.top_k,
            "seed": decoding.seed,
            "max_output_tokens": max_tokens_for(sampling, options.max_tokens),
            "automatic_function_calling": {"disable": True},
            "should_return_http_response": True,
        }
        if system := "\n\n".join(message.text for message in messages if message.role == "system"):
            config["system_instruction"] = system
        if options.thinking is not None:
            config["thinking_config"] = {"thinking_level": options.thinking.upper()}
        elif options.thinking_budget is not None:
            config["thinking_config"] = {"thinking_budget": options.thinking_budget}
        wanted = sampling.reask if options.json_schema is None else options.json_schema
        if wanted and sampling.schema is not None:
            config["response_mime_type"] = "application/json"
            config["response_json_schema"] = without_string_bounds(sampling.schema)
        return genai.GenerateContentConfig(**config)

    def _reply(self, answer: dict[str, Any]) -> Reply:
        candidate = first_candidate(answer, self.where)
        reason = finish_reason_of(candidate, self.where)
        parts = parts_of(candidate, self.where)
        text, thinking = text_of(parts, self.where), text_of(parts, self.where, thought=True)
        if thinking and "<think>" not in text:
            text = f"<think>{thinking.replace('<', '‹')}</think>{text}"
        if reason in BLOCKED_REASONS:
            return Reply(text, "content_filter", *self._usage_and_cost(answer))
        if not text and reason not in _FINISH_REASONS:
            raise bad_reply(self.where, f"it has no text and ended with {reason}")
        return Reply(text, _FINISH_REASONS.get(reason, reason.lower()), *self._usage_and_cost(answer))

    def _usage_and_cost(self, answer: dict[str, Any]) -> tuple[dict[str, int], float | None]:
        """Return the token counts and their cost; implausible counts are dropped."""
        metadata = answer.get("usageMetadata")
        names = ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount")
        counts = (
            [token_count(metadata.get(name, 0)) for name in names] if isinstance(metadata, dict) else [None]
        )
        if None in counts:
            if self.price is not None:
                raise usage_missing(self.where)
            return {}, None
        read, answered, thought = (count or 0 for count in counts)
        usage = {"prompt_tokens": read, "completion_tokens": answered + thought}
        if thought:
            usage["reasoning_tokens"] = thought
        cost = (
            None
            if self.price is None
            else self.price.cost(input_tokens=read, output_tokens=answered + thought)
        )
        return usage, cost


def response_json(response: genai.GenerateContentResponse, where: str) -> dict[str, Any]:
    """Return the response as plain JSON; `should_return_http_response` keeps the SDK from parsing it."""
    raw = response.sdk_http_response
    return parse_object(((raw.body if raw else None) or "").encode(), where)


def first_candidate(answer: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the first candidate; raise `BackendError` if it is missing or the prompt was blocked."""
    feedback = optional(answer.get("promptFeedback"), dict, "promptFeedback", where) or {}
    if blocked := label(feedback.get("blockReason"), "blockReason", where):
        raise refused(where, f"the prompt was blocked ({blocked})")
    return first_item(answer, "candidates", where)


def finish_reason_of(candidate: dict[str, Any], where: str) -> str:
    return label(candidate.get("finishReason"), "finishReason", where) or "STOP"


def parts_of(candidate: dict[str, Any], where: str) -> list[dict[str, Any]]:
    content = optional(candidate.get("content"), dict, "content", where) or {}
    parts = optional(content.get("parts"), list, "parts", where) or []
    return [expect(part, dict, "part", where) for part in parts]


def text_of(parts: Sequence[dict[str, Any]], where: str, *, thought: bool = False) -> str:
    """Return the text of the parts, or the reasoning if `thought`."""
    texts = [part.get("text") for part in parts if bool(part.get("thought")) is thought]
    return "".join(optional(text, str, "text", where) or "" for text in texts)


def _contents(messages: Sequence[Message]) -> list[genai.ContentUnion]:
    from google.genai import types as genai

    return [
        genai.Content(
            role="model" if message.role == "assistant" else "user",
            parts=[gemini_part(part) for part in message.merged],
        )
        for message in messages
        if message.role != "system"
    ]


def gemini_part(part: Part) -> genai.Part:
    from google.genai import types as genai

    if isinstance(part, Text):
        return genai.Part(text=part.text)
    return genai.Part.from_bytes(data=images.encode_png(part.image), mime_type="image/png")
