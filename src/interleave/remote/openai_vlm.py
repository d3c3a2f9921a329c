"""`openai:MODEL[@BASE_URL]`: chat completions of OpenAI, Azure, vLLM, SGLang, Ollama, OpenRouter and so on.

Servers differ in the name of the token limit, whether they accept a temperature, where they put the
reasoning, and whether they return log-probabilities. These differences are options with sensible defaults. If
a server rejects a request, the error shows its message. Several servers of the same model, joined by commas,
share the calls.
"""

from __future__ import annotations

import asyncio
import codecs
import logging
import math
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

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
from interleave.plugin import Part, Spec, backends
from interleave.remote.endpoints import EndpointPool
from interleave.remote.http_client import as_backend_errors, openai_clients
from interleave.remote.http_errors import (
    CHAT_BYTES,
    bad_reply,
    expect,
    first_item,
    json_of,
    label,
    optional,
    token_count,
    usage_missing,
)
from interleave.remote.image_encoding import data_url
from interleave.remote.keys import OPENAI_URL, key_for, usual_variable
from interleave.remote.options import RemoteOptions, max_tokens_for, without_string_bounds
from interleave.remote.prices import token_price, typical_price

log = logging.getLogger(__name__)

_REASONING_MODEL = re.compile(r"(?:.*/)?(?:o\d|gpt-[5-9])(?!.*chat)")
"""OpenAI's reasoning models: reasoning counts towards their token limit, and they reject a temperature."""
_FINISH_REASONS = {"eos": "stop", "end_turn": "stop", "max_tokens": "length"}
"""Other names for OpenAI's `stop` and `length`."""
PROBE_SECONDS = 5.0
"""Longest interval between probes of a server that is down, if there are several servers."""
MIN_LOGPROB, ROUNDING = -1e6, 1e-6
"""The limits of a log-probability, which rounding may put slightly above 0."""


class OpenAIVlm:
    """A vision-language model behind the chat completions API."""

    class Options(RemoteOptions, backends.SamplingOptions):
        api_version: str | None = None
        """Azure's, e.g. 2025-04-01-preview; the key then goes into Azure's header."""
        tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = None
        max_tokens: int | None = Field(default=None, ge=16, le=1_000_000)
        """Maximum tokens of a reply, including reasoning; the default is 4096."""
        temperature: (
            Annotated[float, Field(ge=0, le=backends.MAX_TEMPERATURE)] | Literal["send", "omit"] | None
        ) = None  # type: ignore[assignment]
        """Temperature of the replies, or whether to send one; reasoning models reject it."""
        reasoning: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
        logprobs: bool = False
        """Whether the server returns token probabilities, from which the critic's confidence is computed."""
        json_schema: bool | None = None
        """Whether to constrain replies to the JSON schema of the answer; unset: only after an unreadable
        reply, if the server supports it."""
        detail: Literal["low", "high", "auto"] | None = None
        """The resolution at which OpenAI's models see images."""
        price_in: float | None = Field(default=None, ge=0)
        price_out: float | None = Field(default=None, ge=0)
        """US dollars per million tokens, instead of the table's."""

    def __init__(self, *, spec: Spec, options: Options) -> None:
        if not spec.model:
            raise ConfigurationError(
                f"{str(spec)!r} names no model: write openai:MODEL, or openai:MODEL@http://host:8000/v1"
            )
        self.model = spec.model
        self.options = options
        urls = [url.rstrip("/") for url in (spec.base_url or OPENAI_URL).split(",")]
        base_url = urls[0]
        if options.top_k is not None and (base_url == OPENAI_URL or options.api_version):
            raise ConfigurationError(f"{str(spec)!r}: OpenAI and Azure have no top_k: use top_p")
        self.where = f"openai:{spec.model} at {', '.join(urls)}"
        header, prefix = ("api-key", "") if options.api_version else ("Authorization", "Bearer ")
        # The table has OpenAI's prices; another provider's model of the same name may cost anything.
        priced_as = self.model if base_url == OPENAI_URL else ""
        self.price = token_price(priced_as, options.price_in, options.price_out)
        first = options.first_concurrency(base_url)
        self.capabilities = VlmCapabilities(
            token_probabilities=options.logprobs,
            knows_its_price=self.price is not None,
            concurrency=options.concurrency,
            first_concurrency=first * len(urls) if first is not None else None,
            timeout=options.seconds(backends.VLM_DEADLINE_SECONDS * (1.0 if len(urls) == 1 else 0.4)),
            deadline=options.deadline(backends.VLM_DEADLINE_SECONDS),
            reply_options=frozenset({"max_tokens"} if options.json_schema else {"max_tokens", "json_schema"}),
            typical_price=typical_price(self.price),
        )
        self._takes_schemas = True
        """False once the server has rejected a schema."""
        # OpenAI and Azure reject a schema with a bound on strings.
        self._bounds_strings = usual_variable(base_url) is None
        # With several servers, one that hangs must leave time to try another.
        self.seconds = options.seconds(backends.VLM_DEADLINE_SECONDS * (1.0 if len(urls) == 1 else 0.4))
        self._clients = {
            url: openai_clients(
                f"openai:{spec.model} at {url}",
                base_url=url,
                key=key_for(url, options.key, header=header, prefix=prefix),
                seconds=self.seconds,
                max_bytes=CHAT_BYTES,
                api_version=options.api_version,
            )
            for url in dict.fromkeys(urls)
        }
        self.pool = EndpointPool(list(self._clients), self._is_healthy, probe_seconds=PROBE_SECONDS)

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        arguments = await asyncio.to_thread(self._arguments, messages, sampling)
        try:
            return await self._ask(arguments)
        except BackendError as error:
            if error.kind is not Failure.REFUSED:
                raise
            return Reply("", "content_filter", cost=None if self.price is None else 0.0)

    async def _ask(self, arguments: dict[str, Any]) -> Reply:
        try:
            return await self._send(arguments)
        except BackendError as error:
            if error.kind is not Failure.INVALID or "response_format" not in arguments:
                raise
            # Servers word the rejection of a schema differently, so a retry without it shows the cause.
            without = {name: value for name, value in arguments.items() if name != "response_format"}
            reply = await self._send(without)
            self._takes_schemas = False
            log.warning("%s; the server supports no JSON schema: sending requests without it", error)
            return reply

    async def _send(self, arguments: dict[str, Any]) -> Reply:
        if len(self._clients) == 1:
            return await self._send_to(next(iter(self._clients)), arguments)
        async with self.pool.acquire(wait_seconds=self.seconds) as endpoint:
            return await self._send_to(endpoint.url, arguments)

    async def _send_to(self, url: str, arguments: dict[str, Any]) -> Reply:
        with as_backend_errors(self.where):
            chats = self._clients[url]().chat.completions.with_raw_response
            return self._reply(json_of((await chats.create(**arguments)).http_response))

    async def _is_healthy(self, url: str) -> bool:
        """Return whether a server lists its models again; a server without that list counts as ready."""
        try:
            with as_backend_errors(url):
                await self._clients[url]().models.with_raw_response.list()
        except BackendError as error:
            return error.kind in (Failure.INVALID, Failure.DENIED)
        return True

    def _arguments(self, messages: Sequence[Message], sampling: Sampling) -> dict[str, Any]:
        options = self.options
        reasons = bool(_REASONING_MODEL.match(self.model)) or options.reasoning is not None
        limit = options.tokens_field or ("max_completion_tokens" if reasons else "max_tokens")
        arguments: dict[str, Any] = {
            "model": self.model,
            "messages": [self._message(message) for message in messages],
            limit: max_tokens_for(sampling, options.max_tokens),
        }
        arguments |= self._decoding(backends.sampling_for(sampling, options), reasons=reasons)
        if options.reasoning is not None:
            arguments["reasoning_effort"] = options.reasoning
        if options.logprobs and sampling.token_probabilities:
            arguments["logprobs"] = True
        wanted = sampling.reask if options.json_schema is None else options.json_schema
        if wanted and self._takes_schemas and sampling.schema is not None:
            bounded = sampling.schema if self._bounds_strings else without_string_bounds(sampling.schema)
            schema = {"name": "answer", "schema": dict(bounded), "strict": True}
            arguments["response_format"] = {"type": "json_schema", "json_schema": schema}
        return arguments

    def _decoding(self, sampling: Sampling, *, reasons: bool) -> dict[str, Any]:
        """Return the sampling fields of a request; the server's defaults apply to those not sent."""
        chosen = self.options.temperature
        omitted = reasons if chosen is None else chosen == "omit"
        said = self.options if omitted else sampling
        fields = {
            "temperature": None if omitted else sampling.temperature,
            "top_p": said.top_p,
            "seed": said.seed,
            "extra_body": None if said.top_k is None else {"top_k": said.top_k},
        }
        return {name: value for name, value in fields.items() if value is not None}

    def _message(self, message: Message) -> dict[str, Any]:
        if all(isinstance(part, Text) for part in message.parts):  # some servers accept only plain text
            return {"role": message.role, "content": message.text}
        return {"role": message.role, "content": [self._part(part) for part in message.merged]}

    def _part(self, part: Part) -> dict[str, Any]:
        if isinstance(part, Text):
            return {"type": "text", "text": part.text}
        detail = {"detail": self.options.detail} if self.options.detail else {}
        return {"type": "image_url", "image_url": {"url": data_url(part.image), **detail}}

    def _reply(self, answer: dict[str, Any]) -> Reply:
        choice = first_item(answer, "choices", self.where)
        message = expect(choice.get("message"), dict, "message", self.where)
        text = _content_text(message, self.where)
        refusal = optional(message.get("refusal"), str, "refusal", self.where)
        reason = label(choice.get("finish_reason"), "finish_reason", self.where) or "stop"
        tokens = tuple(_tokens(choice.get("logprobs")))
        if not text and refusal:
            text, reason = refusal, "content_filter"
        if not text and message.get("tool_calls"):
            raise bad_reply(self.where, "it calls a tool, but none was offered")
        if "".join(token.text for token in tokens) != text:
            tokens = ()  # no confidence is better than the confidence of a different text
        text, tokens = _with_thinking(message, text, tokens)
        usage, cost = self._usage_and_cost(answer.get("usage"))
        return Reply(text, _FINISH_REASONS.get(reason, reason), usage, cost, tokens)

    def _usage_and_cost(self, usage_field: object) -> tuple[dict[str, int], float | None]:
        """Return the token counts and their cost; implausible counts are dropped."""
        counts = usage_field if isinstance(usage_field, dict) else {}
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
            raise usage_missing(self.where)
        cost = self.price.cost(input_tokens=usage["prompt_tokens"], output_tokens=usage["completion_tokens"])
        return usage, cost


def _content_text(message: dict[str, Any], where: str) -> str:
    """Return the text of a message, which some servers send in parts."""
    content = message.get("content")
    if not isinstance(content, list):
        return optional(content, str, "content", where) or ""
    parts = [expect(part, dict, "content's part", where) for part in content]
    texts = [optional(part.get("text"), str, "content's text", where) for part in parts]
    if parts and all(text is None for text in texts):
        raise bad_reply(where, "its content has no text")
    return "".join(text or "" for text in texts)


def _with_thinking(
    message: dict[str, Any], text: str, tokens: tuple[backends.Token, ...]
) -> tuple[str, tuple[backends.Token, ...]]:
    """Prepend the reasoning to the reply, from whichever field the server uses."""
    thinking = message.get("reasoning_content") or message.get("reasoning")
    if not isinstance(thinking, str) or not thinking.strip() or "<think>" in text:
        return text, tokens
    thought = f"<think>{thinking.replace('<', '‹')}</think>"
    return thought + text, (backends.Token(thought, 1.0), *tokens) if tokens else ()


def _tokens(logprobs: object) -> Iterator[backends.Token]:
    """Yield the tokens of the reply; a character split over several tokens belongs to the last of them.

    Stops at the first unreadable token. A reply that the tokens do not spell gets no confidence.
    """
    listed = logprobs.get("content") if isinstance(logprobs, dict) else None
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for token in listed if isinstance(listed, list) else ():
        probability = _probability(token.get("logprob")) if isinstance(token, dict) else None
        spelled = _token_text(token, decoder) if probability is not None else None
        if probability is None or spelled is None:
            return
        yield backends.Token(spelled, probability)


def _token_text(token: dict[str, Any], decoder: codecs.IncrementalDecoder) -> str | None:
    utf8, text = token.get("bytes"), token.get("token")
    if utf8 is None:
        return text if isinstance(text, str) else None
    try:
        return decoder.decode(bytes(utf8)) if isinstance(utf8, list) else None
    except (TypeError, ValueError):
        return None


def _probability(logprob: object) -> float | None:
    """Return the probability of a token; None if the log-probability is out of range."""
    if isinstance(logprob, bool) or not isinstance(logprob, int | float):
        return None
    if not MIN_LOGPROB <= logprob <= ROUNDING:  # NaN is on neither side
        return None
    return min(1.0, math.exp(logprob))
