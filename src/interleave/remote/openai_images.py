"""`openai-images:MODEL[@BASE_URL]`: OpenAI's Images API, and compatible servers.

Servers differ in their use of that API; `SERVERS` has one row for each. Requests without a source are JSON
for `/images/generations`. Requests with sources are a form for `/images/edits`.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from interleave import BackendError, ConfigurationError, Failure, GeneratorCapabilities, ImageRequest
from interleave.plugin import Spec, backends, images
from interleave.remote.http_client import as_backend_errors, openai_clients
from interleave.remote.http_errors import IMAGE_BYTES, bad_reply, first_item, json_of
from interleave.remote.image_encoding import check_sources, image_from_base64
from interleave.remote.keys import OPENAI_URL, key_for
from interleave.remote.options import RemoteOptions
from interleave.remote.prices import family, image_price

if TYPE_CHECKING:
    from PIL.Image import Image

log = logging.getLogger(__name__)

OPENAI_SIZES = ("1024x1024", "1024x1536", "1536x1024")
PRICED_PIXELS = 1024 * 1024


@dataclass(frozen=True)
class Server:
    """A server's use of the Images API."""

    max_sources: int
    seeds: bool
    """Whether a seed makes images reproducible."""
    sends_response_format: bool
    """Whether to request base64 with `response_format`; OpenAI's models reject it."""
    fields: frozenset[str]
    """The options that the server supports; others are rejected here, because most servers ignore them."""
    size: str = "1024x1024"
    """The default size; always sent, because a server's default may change."""


DIFFUSION_OPTIONS = frozenset({"steps", "guidance", "true_cfg", "negative_prompt"})
SERVERS = {
    "openai": Server(
        16, seeds=False, sends_response_format=False, fields=frozenset({"quality", "input_fidelity"})
    ),
    # Without a response format, it returns a path on its disk.
    "sglang": Server(4, seeds=True, sends_response_format=True, fields=DIFFUSION_OPTIONS),
    # One model per server; errors are {"detail": …}; unknown fields are silently ignored.
    "vllm-omni": Server(4, seeds=True, sends_response_format=True, fields=DIFFUSION_OPTIONS),
    # `interleave serve generator` supports one size and rejects others.
    "interleave": Server(4, seeds=True, sends_response_format=True, fields=DIFFUSION_OPTIONS, size="auto"),
    # Any other server.
    "other": Server(4, seeds=False, sends_response_format=True, fields=frozenset({"quality"})),
}
SIZE_ADVICE = "Set the size in the spec: ?size=WxH or ?size=auto; for `interleave serve`, ?server=interleave"
WIRE_NAMES = {
    "steps": "num_inference_steps",
    "guidance": "guidance_scale",
    "true_cfg": "true_cfg_scale",
    "negative_prompt": "negative_prompt",
    "input_fidelity": "input_fidelity",
}


class OpenAIImagesGenerator:
    """An image generator behind the Images API."""

    class Options(RemoteOptions):
        server: Literal["openai", "sglang", "vllm-omni", "interleave", "other"] | None = None
        """The kind of server; OpenAI's models are recognized by name."""
        size: str | None = Field(default=None, pattern=r"^(auto|\d{2,4}x\d{2,4})$")
        quality: Literal["low", "medium", "high", "auto"] | None = None
        input_fidelity: Literal["low", "high"] | None = None
        steps: int | None = Field(default=None, ge=1, le=1000)
        guidance: float | None = Field(default=None, ge=0, le=100)
        true_cfg: float | None = Field(default=None, ge=0, le=100)
        negative_prompt: str | None = None
        max_sources: int | None = Field(default=None, ge=0, le=64)
        """Maximum sources of an edit, if it differs from the server's row."""
        text_to_image: bool = True
        """Whether the model accepts text alone; false for models that only edit."""
        price: float | None = Field(default=None, ge=0)
        """US dollars per image, instead of the table's."""
        api_version: str | None = None
        """Azure's, e.g. 2025-04-01-preview."""

    def __init__(self, *, spec: Spec, options: Options) -> None:
        if not spec.model:
            raise ConfigurationError(
                f"{str(spec)!r} names no model: write openai-images:MODEL, "
                "or openai-images:MODEL@http://host:8000/v1"
            )
        self.model = spec.model
        self.options = options
        base_url = (spec.base_url or OPENAI_URL).rstrip("/")
        self.where = f"openai-images:{spec.model} at {base_url}"
        self.server = SERVERS[options.server or _default_server(spec.model, base_url)]
        self.size = options.size or self.server.size
        self._asks_for_base64 = self.server.sends_response_format
        _refuse_unknown_options(spec, options, self.server)
        if self.server is SERVERS["openai"]:
            _refuse_wrong_size(spec.model, self.size)
        header, prefix = ("api-key", "") if options.api_version else ("Authorization", "Bearer ")
        most = self.server.max_sources if options.max_sources is None else options.max_sources
        self.capabilities = GeneratorCapabilities(
            max_sources=most,
            text_to_image=options.text_to_image,
            seeds=self.server.seeds,
            price_per_image=_price(spec.model, base_url, options, self.size),
            concurrency=options.concurrency,
            first_concurrency=options.first_concurrency(base_url),
            timeout=options.seconds(backends.IMAGE_DEADLINE_SECONDS),
            deadline=options.deadline(backends.IMAGE_DEADLINE_SECONDS),
        )
        self._client = openai_clients(
            self.where,
            base_url=base_url,
            key=key_for(base_url, options.key, header=header, prefix=prefix),
            seconds=options.seconds(backends.IMAGE_DEADLINE_SECONDS),
            max_bytes=IMAGE_BYTES,
            api_version=options.api_version,
        )

    async def generate(self, request: ImageRequest) -> Image:
        check_sources(self.where, request, self.capabilities)
        sources = [
            (f"source-{number}.png", await asyncio.to_thread(images.encode_png, source), "image/png")
            for number, source in enumerate(request.sources, 1)
        ]
        try:
            encoded = await self._ask(request, sources)
        except BackendError as error:
            if self.options.size is None and _refuses_size(error):
                raise BackendError(f"{error}. {SIZE_ADVICE}", kind=error.kind) from error
            if not self._asks_for_base64 or not _refuses_response_format(error):
                raise
            log.warning("%s; sending requests without response_format from now on", error)
            self._asks_for_base64 = False
            encoded = await self._ask(request, sources)
        return await asyncio.to_thread(image_from_base64, encoded, where=self.where)

    async def _ask(self, request: ImageRequest, sources: list[tuple[str, bytes, str]]) -> object:
        """Send a request and return the image as base64."""
        arguments = self._arguments(request)
        with as_backend_errors(self.where):
            calls = self._client().images.with_raw_response
            if sources:
                # `image[]` for several images, `image` for one: every server accepts both.
                image: Any = sources if len(sources) > 1 else sources[0]
                response = await calls.edit(image=image, **arguments)
            else:
                response = await calls.generate(**arguments)
            return self._image_field(json_of(response.http_response))

    def _arguments(self, request: ImageRequest) -> dict[str, Any]:
        options = self.options
        arguments: dict[str, Any] = {
            "model": self.model,
            "prompt": request.prompt,
            "size": self.size,
            "n": 1,
        }
        if options.quality is not None:
            arguments["quality"] = options.quality
        extra = {
            wire: getattr(options, name)
            for name, wire in WIRE_NAMES.items()
            if getattr(options, name) is not None and not (name == "input_fidelity" and not request.sources)
        }
        if self._asks_for_base64:
            extra["response_format"] = "b64_json"
        if self.server.seeds:
            extra["seed"] = request.seed
        return {**arguments, "extra_body": extra}

    def _image_field(self, answer: dict[str, Any]) -> object:
        first = first_item(answer, "data", self.where)
        if first.get("b64_json") is None and first.get("url"):
            raise bad_reply(
                self.where, "it has an address instead of an image, and addresses are not fetched"
            )
        return first.get("b64_json")


def _refuses_response_format(error: BackendError) -> bool:
    """Return whether a server rejected `response_format`, as proxies like LiteLLM do for some models."""
    return error.kind is Failure.INVALID and "response_format" in str(error)


def _refuses_size(error: BackendError) -> bool:
    return error.kind is Failure.INVALID and "size=" in str(error)


def _default_server(model: str, base_url: str) -> str:
    return "openai" if base_url == OPENAI_URL or "gpt-image" in model else "other"


def _refuse_unknown_options(spec: Spec, options: OpenAIImagesGenerator.Options, server: Server) -> None:
    name = next(name for name, row in SERVERS.items() if row is server)
    for option in ("quality", *WIRE_NAMES):
        if getattr(options, option) is not None and option not in server.fields:
            raise ConfigurationError(
                f"the server {name!r} of {str(spec)!r} does not support {option!r}. "
                f"It supports: {', '.join(sorted(server.fields))}. Name another kind of server with ?server="
            )


def _refuse_wrong_size(model: str, size: str) -> None:
    if size == "auto":
        raise ConfigurationError(f"size {size!r}: a run needs a fixed image size, e.g. {OPENAI_SIZES[0]}")
    width, height = (int(side) for side in size.split("x"))
    if family(model) == "gpt-image-2":
        fits = not width % 16 and not height % 16 and width <= 3 * height and height <= 3 * width
        if not fits or width * height > 3840 * 2160:
            raise ConfigurationError(
                f"size {size!r}: {model} needs sides that are multiples of 16, a ratio of at most 3:1, "
                "and at most 3840×2160 pixels"
            )
    elif "gpt-image" in model and size not in OPENAI_SIZES:
        raise ConfigurationError(f"size {size!r}: {model} supports {', '.join(OPENAI_SIZES)}")


def _price(model: str, base_url: str, options: OpenAIImagesGenerator.Options, size: str) -> float | None:
    if options.price is not None or base_url != OPENAI_URL:
        return options.price
    # If the model chooses the quality, assume the most expensive one.
    grade = options.quality if options.quality in ("low", "medium") else "high"
    usual = image_price(model, grade)
    width, height = (int(side) for side in size.split("x"))
    return None if usual is None else round(usual * max(1.0, width * height / PRICED_PIXELS), 4)
