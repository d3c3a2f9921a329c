"""`gemini:MODEL` as planner, critic or scorer: Google's Gemini API through google-genai."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from interleave.backends.protocols import Message, Reply, Sampling, VlmCapabilities
from interleave.backends.remote.door import typed_outcomes
from interleave.backends.remote.keys import key_for
from interleave.backends.remote.options import RemoteOptions, room_for
from interleave.backends.remote.outcomes import bad_reply, refused
from interleave.backends.remote.prices import token_price, typical_price
from interleave.backends.remote.sdks import GEMINI_URL, gemini_clients
from interleave.backends.retries import VLM_DEADLINE_SECONDS
from interleave.backends.specs import Spec
from interleave.errors import BackendError, ConfigurationError, Failure
from interleave.pictures import encode_png
from interleave.types import Part, Text

if TYPE_CHECKING:
    from google.genai import types as genai

_FINISH_REASONS = {"STOP": "stop", "MAX_TOKENS": "length"}
BLOCKING = {
    "SAFETY",
    "RECITATION",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
}
"""Finish reasons with which Google's filters end an answer."""


class GeminiVlm:
    """A Gemini model that reads text and pictures."""

    class Options(RemoteOptions):
        max_tokens: int | None = Field(default=None, ge=16, le=1_000_000)
        """Room for an answer in place of the usual 4096 tokens: thinking counts."""
        thinking: Literal["minimal", "low", "medium", "high"] | None = None
        """How much a Gemini 3 model thinks."""
        thinking_budget: int | None = Field(default=None, ge=-1, le=100_000)
        """How many tokens a Gemini 2.5 model may think; 0 for none, -1 as it likes."""
        json_schema: bool = False
        """Whether the model is held to the JSON schema of its answer."""
        price_in: float | None = Field(default=None, ge=0)
        price_out: float | None = Field(default=None, ge=0)
        """US dollars for a million tokens, where they are not those of the table."""

    def __init__(self, *, spec: Spec, options: Options, role: str) -> None:
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
            deadline=options.deadline(VLM_DEADLINE_SECONDS),
            typical_price=typical_price(self.price),
        )
        self._client = gemini_clients(
            self.where,
            base_url=base_url,
            key=key_for(base_url, options.key, header="x-goog-api-key", prefix=""),
            seconds=options.seconds(VLM_DEADLINE_SECONDS),
        )

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        contents = await asyncio.to_thread(_contents, messages)
        try:
            with typed_outcomes(self.where):
                response = await self._client().aio.models.generate_content(
                    model=self.model, contents=contents, config=self._config(messages, sampling)
                )
                return self._reply(response)
        except BackendError as error:
            if error.kind is not Failure.REFUSED:
                raise
            return Reply("", "content_filter", cost=None if self.price is None else 0.0)

    def _config(self, messages: Sequence[Message], sampling: Sampling) -> genai.GenerateContentConfig:
        from google.genai import types as genai

        options = self.options
        config: dict[str, Any] = {
            "temperature": sampling.temperature,
            "max_output_tokens": room_for(sampling, options.max_tokens),
            "automatic_function_calling": {"disable": True},
        }
        if system := "\n\n".join(message.text for message in messages if message.role == "system"):
            config["system_instruction"] = system
        if options.thinking is not None:
            config["thinking_config"] = {"thinking_level": options.thinking.upper()}
        elif options.thinking_budget is not None:
            config["thinking_config"] = {"thinking_budget": options.thinking_budget}
        if options.json_schema and sampling.schema is not None:
            config["response_mime_type"] = "application/json"
            config["response_json_schema"] = dict(sampling.schema)
        return genai.GenerateContentConfig(**config)

    def _reply(self, response: genai.GenerateContentResponse) -> Reply:
        candidate = the_candidate(response, self.where)
        reason = reason_of(candidate)
        parts = (candidate.content.parts if candidate.content else None) or []
        text = "".join(part.text for part in parts if part.text and not part.thought)
        thinking = "".join(part.text for part in parts if part.text and part.thought)
        if thinking and "<think>" not in text:
            text = f"<think>{thinking.replace('<', '‹')}</think>{text}"
        if reason in BLOCKING:
            return Reply(text, "content_filter", *self._counted(response))
        if not text and reason not in _FINISH_REASONS:
            raise bad_reply(self.where, f"it holds no text and ended with {reason}")
        return Reply(text, _FINISH_REASONS.get(reason, reason.lower()), *self._counted(response))

    def _counted(self, response: genai.GenerateContentResponse) -> tuple[dict[str, int], float | None]:
        counts = response.usage_metadata
        read = (counts.prompt_token_count if counts else None) or 0
        thought = (counts.thoughts_token_count if counts else None) or 0
        written = ((counts.candidates_token_count if counts else None) or 0) + thought
        usage = {"prompt_tokens": read, "completion_tokens": written}
        if thought:
            usage["reasoning_tokens"] = thought
        if self.price is None:
            return usage if counts else {}, None
        if counts is None:
            raise bad_reply(self.where, "it does not say how many tokens it used, so its cost is unknown")
        return usage, self.price.cost(read=read, written=written)


def the_candidate(response: genai.GenerateContentResponse, where: str) -> genai.Candidate:
    """The one answer; raises a typed error when the question was blocked or nothing came."""
    blocked = response.prompt_feedback.block_reason if response.prompt_feedback else None
    if blocked:
        raise refused(where, f"the prompt was blocked ({_word(blocked)})")
    if not response.candidates:
        raise bad_reply(where, "it holds no candidates")
    return response.candidates[0]


def reason_of(candidate: genai.Candidate) -> str:
    return _word(candidate.finish_reason) if candidate.finish_reason else "STOP"


def _word(value: Any) -> str:
    return str(getattr(value, "value", value))


def _contents(messages: Sequence[Message]) -> list[genai.ContentUnion]:
    from google.genai import types as genai

    return [
        genai.Content(
            role="model" if message.role == "assistant" else "user",
            parts=[gemini_part(part) for part in message.parts],
        )
        for message in messages
        if message.role != "system"
    ]


def gemini_part(part: Part) -> genai.Part:
    from google.genai import types as genai

    if isinstance(part, Text):
        return genai.Part(text=part.text)
    return genai.Part.from_bytes(data=encode_png(part.image), mime_type="image/png")
