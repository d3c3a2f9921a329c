"""`openai:MODEL[@BASE_URL]`: chat completions of OpenAI, Azure, vLLM, SGLang, Ollama, OpenRouter and so on.

Servers differ in small ways: what a limit on tokens is called, whether a temperature may be given, where
they put their reasoning, whether they give log-probabilities. The differences are options with sensible
defaults; what a server then refuses is said as it said it.
"""

from __future__ import annotations

import asyncio
import codecs
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from pydantic import Field

from interleave.backends.protocols import Message, Reply, Sampling, Token, VlmCapabilities
from interleave.backends.remote.answers import (
    answer_of,
    expect,
    first_of,
    optional,
    token_count,
    uncounted,
    word,
)
from interleave.backends.remote.bounds import CHAT_BYTES
from interleave.backends.remote.http_client import typed_outcomes
from interleave.backends.remote.http_errors import bad_reply
from interleave.backends.remote.image_encoding import data_url
from interleave.backends.remote.keys import OPENAI_URL, key_for
from interleave.backends.remote.options import RemoteOptions, room_for
from interleave.backends.remote.prices import token_price, typical_price
from interleave.backends.remote.sdks import openai_clients
from interleave.backends.retries import VLM_DEADLINE_SECONDS
from interleave.config.specs import Spec
from interleave.errors import BackendError, ConfigurationError, Failure
from interleave.types import Part, Text

_REASONING_MODEL = re.compile(r"(?:.*/)?(?:o\d|gpt-[5-9])(?!.*chat)")
"""Models of OpenAI that think before they answer: they count it, and take no temperature."""
_FINISH_REASONS = {"eos": "stop", "end_turn": "stop", "max_tokens": "length"}
"""Other words for what OpenAI calls `stop` and `length`."""
LEAST_LOGPROB, ROUNDING = -1e6, 1e-6
"""Between these a number is a log-probability: by rounding it may be a little above 0."""


class OpenAIVlm:
    """A vision-language model behind the chat completions wire."""

    class Options(RemoteOptions):
        api_version: str | None = None
        """Azure's, e.g. 2025-04-01-preview; the key then goes into Azure's header."""
        tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = None
        max_tokens: int | None = Field(default=None, ge=16, le=1_000_000)
        """Room for an answer in place of the usual 4096 tokens: reasoning counts."""
        temperature: Literal["send", "omit"] | None = None
        """Whether the temperature is sent; reasoning models refuse any."""
        reasoning: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
        logprobs: bool = False
        """Whether the server gives token probabilities, from which the critic's confidence comes."""
        json_schema: bool = False
        """Whether the server holds the model to the JSON schema of its answer."""
        detail: Literal["low", "high", "auto"] | None = None
        """How closely OpenAI looks at pictures."""
        price_in: float | None = Field(default=None, ge=0)
        price_out: float | None = Field(default=None, ge=0)
        """US dollars for a million tokens, where they are not those of the table."""

    def __init__(self, *, spec: Spec, options: Options, role: str) -> None:
        if not spec.model:
            raise ConfigurationError(
                f"{str(spec)!r} names no model: write openai:MODEL, or openai:MODEL@http://host:8000/v1"
            )
        self.model = spec.model
        self.options = options
        base_url = (spec.base_url or OPENAI_URL).rstrip("/")
        self.where = f"openai:{spec.model} at {base_url}"
        header, prefix = ("api-key", "") if options.api_version else ("Authorization", "Bearer ")
        # The same name behind another address may cost anything: the table's prices are OpenAI's own.
        priced_as = self.model if base_url == OPENAI_URL else ""
        self.price = token_price(priced_as, options.price_in, options.price_out)
        self.capabilities = VlmCapabilities(
            token_probabilities=options.logprobs,
            knows_its_price=self.price is not None,
            concurrency=options.concurrency,
            deadline=options.deadline(VLM_DEADLINE_SECONDS),
            typical_price=typical_price(self.price),
        )
        self._client = openai_clients(
            self.where,
            base_url=base_url,
            key=key_for(base_url, options.key, header=header, prefix=prefix),
            seconds=options.seconds(VLM_DEADLINE_SECONDS),
            most_bytes=CHAT_BYTES,
            api_version=options.api_version,
        )

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        question = await asyncio.to_thread(self._question, messages, sampling)
        try:
            with typed_outcomes(self.where):
                chats = self._client().chat.completions.with_raw_response
                return self._reply(answer_of((await chats.create(**question)).http_response))
        except BackendError as error:
            if error.kind is not Failure.REFUSED:
                raise
            return Reply("", "content_filter", cost=None if self.price is None else 0.0)

    def _question(self, messages: Sequence[Message], sampling: Sampling) -> dict[str, Any]:
        options = self.options
        thinks = bool(_REASONING_MODEL.match(self.model)) or options.reasoning is not None
        limit = options.tokens_field or ("max_completion_tokens" if thinks else "max_tokens")
        question: dict[str, Any] = {
            "model": self.model,
            "messages": [self._message(message) for message in messages],
            limit: room_for(sampling, options.max_tokens),
        }
        if (options.temperature or ("omit" if thinks else "send")) == "send":
            question["temperature"] = sampling.temperature
        if options.reasoning is not None:
            question["reasoning_effort"] = options.reasoning
        if options.logprobs and sampling.token_probabilities:
            question["logprobs"] = True
        if options.json_schema and sampling.schema is not None:
            schema = {"name": "answer", "schema": dict(sampling.schema), "strict": True}
            question["response_format"] = {"type": "json_schema", "json_schema": schema}
        return question

    def _message(self, message: Message) -> dict[str, Any]:
        if all(isinstance(part, Text) for part in message.parts):  # some servers take only plain text here
            return {"role": message.role, "content": message.text}
        return {"role": message.role, "content": [self._part(part) for part in message.parts]}

    def _part(self, part: Part) -> dict[str, Any]:
        if isinstance(part, Text):
            return {"type": "text", "text": part.text}
        detail = {"detail": self.options.detail} if self.options.detail else {}
        return {"type": "image_url", "image_url": {"url": data_url(part.image), **detail}}

    def _reply(self, answer: dict[str, Any]) -> Reply:
        choice = first_of(answer, "choices", self.where)
        message = expect(choice.get("message"), dict, "message", self.where)
        text = _said(message, self.where)
        refusal = optional(message.get("refusal"), str, "refusal", self.where)
        reason = word(choice.get("finish_reason"), "finish_reason", self.where) or "stop"
        tokens = tuple(_tokens(choice.get("logprobs")))
        if not text and refusal:
            text, reason = refusal, "content_filter"
        if not text and message.get("tool_calls"):
            raise bad_reply(self.where, "it calls a tool, and none was offered")
        if "".join(token.text for token in tokens) != text:
            tokens = ()  # no confidence is better than one of other words
        text, tokens = _with_thinking(message, text, tokens)
        usage, cost = self._counted(answer.get("usage"))
        return Reply(text, _FINISH_REASONS.get(reason, reason), usage, cost, tokens)

    def _counted(self, told: object) -> tuple[dict[str, int], float | None]:
        """The tokens and what they cost; tokens that cannot be are none."""
        counts = told if isinstance(told, dict) else {}
        details = counts.get("completion_tokens_details")
        thought = token_count(details.get("reasoning_tokens")) if isinstance(details, dict) else None
        found = {
            "prompt_tokens": token_count(counts.get("prompt_tokens")),
            "completion_tokens": token_count(counts.get("completion_tokens")),
            "reasoning_tokens": thought or None,
        }
        usage = {name: number for name, number in found.items() if number is not None}
        if self.price is None:
            return usage, None
        if not {"prompt_tokens", "completion_tokens"} <= usage.keys():
            raise uncounted(self.where)
        cost = self.price.cost(read=usage["prompt_tokens"], written=usage["completion_tokens"])
        return usage, cost


def _said(message: dict[str, Any], where: str) -> str:
    """The words of a message, which some servers give in parts."""
    content = message.get("content")
    if not isinstance(content, list):
        return optional(content, str, "content", where) or ""
    parts = [expect(part, dict, "content's part", where) for part in content]
    texts = [optional(part.get("text"), str, "content's text", where) for part in parts]
    if parts and all(text is None for text in texts):
        raise bad_reply(where, "its content holds no text")
    return "".join(text or "" for text in texts)


def _with_thinking(
    message: dict[str, Any], text: str, tokens: tuple[Token, ...]
) -> tuple[str, tuple[Token, ...]]:
    """The answer with its thinking before it, wherever the server has put that."""
    thinking = message.get("reasoning_content") or message.get("reasoning")
    if not isinstance(thinking, str) or not thinking.strip() or "<think>" in text:
        return text, tokens
    thought = f"<think>{thinking.replace('<', '‹')}</think>"
    return thought + text, (Token(thought, 1.0), *tokens) if tokens else ()


def _tokens(logprobs: object) -> Iterator[Token]:
    """Pieces of the reply; a letter that is split over tokens belongs to the one that completes it.

    They end at the first that is none, and a reply whose tokens do not spell it has no confidence.
    """
    listed = logprobs.get("content") if isinstance(logprobs, dict) else None
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for token in listed if isinstance(listed, list) else ():
        probability = _probability(token.get("logprob")) if isinstance(token, dict) else None
        spelled = _spelled(token, decoder) if probability is not None else None
        if probability is None or spelled is None:
            return
        yield Token(spelled, probability)


def _spelled(token: dict[str, Any], decoder: codecs.IncrementalDecoder) -> str | None:
    letters, text = token.get("bytes"), token.get("token")
    if letters is None:
        return text if isinstance(text, str) else None
    try:
        return decoder.decode(bytes(letters)) if isinstance(letters, list) else None
    except (TypeError, ValueError):
        return None


def _probability(logprob: object) -> float | None:
    """The probability of a token; None for what is the logarithm of none."""
    if isinstance(logprob, bool) or not isinstance(logprob, int | float):
        return None
    if not LEAST_LOGPROB <= logprob <= ROUNDING:  # NaN is on neither side
        return None
    return min(1.0, math.exp(logprob))
