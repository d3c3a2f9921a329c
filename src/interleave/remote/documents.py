"""`document:WIRE:MODEL[@BASE_URL]`: native systems that write whole documents of text and images.

`gemini` is Google's API and `openai` OpenAI's Responses API with its image tool. `chat` is any server of chat
completions that answers with text and images: vLLM-Omni, sglang-omni, OpenRouter and so on. The request is
sent as it is, with a system instruction only if the spec has one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

from interleave import ConfigurationError, DocumentEnd, ImagePart, Request, Spec, Text, VlmCapabilities
from interleave.plugin import agents, backends
from interleave.remote.document_wires import (
    ChatWire,
    DocumentOptions,
    EncodedImage,
    GeminiWire,
    OpenAIWire,
    Usage,
)
from interleave.remote.image_encoding import image_from_base64
from interleave.remote.keys import GEMINI_URL, OPENAI_URL
from interleave.remote.options import RemoteOptions
from interleave.remote.prices import TokenPrice, family, image_price, token_price

Wire = GeminiWire | OpenAIWire | ChatWire
WIRES: Mapping[str, type[Wire]] = {"gemini": GeminiWire, "openai": OpenAIWire, "chat": ChatWire}
DEFAULT_URLS = {"gemini": GEMINI_URL, "openai": OPENAI_URL}
DOCUMENT_SECONDS = 600.0
"""Default timeout of one document, which may have many images."""


class DocumentApi:
    """A native system behind an API."""

    class Options(DocumentOptions):
        """The options of all APIs; each refuses those of the others."""

    def __init__(self, *, spec: Spec, options: Options, role: str) -> None:
        if role != "planner":
            raise ConfigurationError(f"{str(spec)!r} writes documents: use it as the planner")
        inner = api_of(spec)
        wire = WIRES[inner.name]
        _refuse_unused(spec, inner.name, wire)
        base_url = (inner.base_url or DEFAULT_URLS[inner.name]).rstrip("/")
        self.model = inner.model or ""
        self.where = f"{inner.name}:{self.model} at {base_url}"
        self.price, self.token_price = _prices(self.model, options, base_url)
        seconds = options.seconds(DOCUMENT_SECONDS)
        self.capabilities = VlmCapabilities(
            knows_its_price=self.price is not None and self.token_price is not None,
            concurrency=options.concurrency,
            first_concurrency=options.first_concurrency(base_url),
            timeout=seconds,
            deadline=options.timeout,
        )
        self._wire = wire(self.where, self.model, base_url, options, seconds)

    async def write(self, request: Request) -> AsyncIterator[backends.DocumentEvent]:
        found, end = await self._wire.ask(agents.request_parts(request))
        for part in found:
            if isinstance(part, str):
                yield Text(part)
            else:
                yield ImagePart(await asyncio.to_thread(image_from_base64, part.data, where=self.where))
        images = sum(isinstance(part, EncodedImage) for part in found)
        yield DocumentEnd(end.finish_reason, end.counts, self._cost(images, end))

    def _cost(self, images: int, end: Usage) -> float | None:
        """Return the cost in US dollars; the tokens of images are part of their price."""
        if self.price is None or self.token_price is None:
            return None
        words = self.token_price.cost(input_tokens=end.tokens_in, output_tokens=end.tokens_out)
        return round(images * self.price + words, 6)


def api_of(spec: Spec) -> Spec:
    """Return the spec with the wire as its name: `gemini:MODEL` of `document:gemini:MODEL`."""
    wire, _, model = (spec.model or "").partition(":")
    if wire not in WIRES or not model:
        raise ConfigurationError(
            f"{str(spec)!r} names no API and model: write document:gemini:MODEL, document:openai:MODEL, or "
            "document:chat:MODEL@http://host:8000/v1"
        )
    if wire not in DEFAULT_URLS and not spec.base_url:
        raise ConfigurationError(f"{str(spec)!r} has no address: write it behind the model, @http://host/v1")
    return replace(spec, name=wire, model=model)


def _refuse_unused(spec: Spec, name: str, wire: type[Wire]) -> None:
    for key in spec.options:
        if key in DocumentOptions.model_fields.keys() - RemoteOptions.model_fields.keys() - wire.options:
            raise ConfigurationError(f"option {key!r} of {str(spec)!r}: {name!r} has no such option")


def _prices(model: str, options: DocumentOptions, base_url: str) -> tuple[float | None, TokenPrice | None]:
    """Return the price of an image and of tokens; the tables hold only for the vendors' own services."""
    is_vendor = base_url in DEFAULT_URLS.values()
    tokens = token_price(
        model.replace("-image", "") if is_vendor else "", options.price_in, options.price_out
    )
    if options.price is not None or not is_vendor:
        return options.price, tokens
    grade = (options.size or "1K") if base_url == GEMINI_URL else (options.quality or "")
    return image_price(options.image_model or family(model), grade), tokens
