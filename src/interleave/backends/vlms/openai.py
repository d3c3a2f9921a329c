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
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from interleave.backends.protocols import Message, Reply, Sampling, Token, VlmCapabilities
from interleave.backends.remote.door import typed_outcomes
from interleave.backends.remote.encoding import data_url
from interleave.backends.remote.keys import key_for
from interleave.backends.remote.options import RemoteOptions, room_for
from interleave.backends.remote.outcomes import bad_reply
from interleave.backends.remote.prices import token_price, typical_price
from interleave.backends.remote.sdks import OPENAI_URL, openai_clients
from interleave.backends.retries import VLM_DEADLINE_SECONDS
from interleave.backends.specs import Spec
from interleave.errors import BackendError, ConfigurationError, Failure
from interleave.types import Part, Text

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion
    from openai.types.chat.chat_completion import Choice, ChoiceLogprobs

_REASONING_MODEL = re.compile(r"(?:.*/)?(?:o\d|gpt-[5-9])(?!.*chat)")
"""Models of OpenAI that think before they answer: they count it, and take no temperature."""
_FINISH_REASONS = {"eos": "stop", "end_turn": "stop", "max_tokens": "length"}
"""Other words for what OpenAI calls `stop` and `length`."""


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
            api_version=options.api_version,
        )

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        question = await asyncio.to_thread(self._question, messages, sampling)
        try:
            with typed_outcomes(self.where):
                return self._reply(await self._client().chat.completions.create(**question))
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

    def _reply(self, completion: ChatCompletion) -> Reply:
        choices = completion.choices
        if not choices or choices[0].message is None:
            raise bad_reply(self.where, "it holds no choices")
        text, tokens = _said(choices[0])
        usage = _usage(completion)
        read, written = usage.get("prompt_tokens"), usage.get("completion_tokens")
        cost = None
        if self.price is not None:
            if read is None or written is None:
                raise bad_reply(self.where, "it does not say how many tokens it used, so its cost is unknown")
            cost = self.price.cost(read=read, written=written)
        return Reply(text, _finish_reason(choices[0]), usage, cost, tokens)


def _said(choice: Choice) -> tuple[str, tuple[Token, ...]]:
    """The answer with its thinking before it, wherever the server has put that."""
    message = choice.message
    content = message.content or ""
    if isinstance(content, list):  # some servers answer in parts
        content = "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    extra = message.model_extra or {}
    thinking = extra.get("reasoning_content") or extra.get("reasoning") or ""
    refusal = message.refusal or ""
    if not content and refusal:
        content = refusal
    tokens = tuple(_tokens(choice.logprobs))
    if "".join(token.text for token in tokens) != content:
        tokens = ()  # no confidence is better than one of other words
    if isinstance(thinking, str) and thinking.strip() and "<think>" not in content:
        thought = f"<think>{thinking.replace('<', '‹')}</think>"
        content = thought + content
        tokens = (Token(thought, 1.0), *tokens) if tokens else ()
    return content, tokens


def _tokens(logprobs: ChoiceLogprobs | None) -> Iterable[Token]:
    """Pieces of the reply; a letter that is split over tokens belongs to the one that completes it."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for token in (logprobs.content if logprobs else None) or ():
        text = decoder.decode(bytes(token.bytes)) if token.bytes is not None else token.token
        yield Token(text, min(1.0, math.exp(token.logprob)))


def _finish_reason(choice: Choice) -> str:
    if choice.message.refusal and not choice.message.content:
        return "content_filter"
    reason = choice.finish_reason or "stop"
    return _FINISH_REASONS.get(reason, reason)


def _usage(completion: ChatCompletion) -> dict[str, int]:
    usage = completion.usage
    if usage is None:
        return {}
    counted = {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens}
    details = usage.completion_tokens_details
    if details is not None and details.reasoning_tokens:
        counted["reasoning_tokens"] = details.reasoning_tokens
    return {name: number for name, number in counted.items() if isinstance(number, int)}
