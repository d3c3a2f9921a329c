"""`gemini:MODEL` as generator: Nano Banana and Nano Banana Pro, through google-genai.

These models generate images as part of a chat reply. A reply without an image is a separate, retried error.
There are no seeds, so the same request gives a different image every time.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from interleave import ConfigurationError, GeneratorCapabilities, ImagePart, ImageRequest, Text
from interleave.plugin import Spec, backends
from interleave.remote.gemini_vlm import (
    BLOCKED_REASONS,
    finish_reason_of,
    first_candidate,
    gemini_part,
    parts_of,
    response_json,
    text_of,
)
from interleave.remote.http_client import as_backend_errors, gemini_clients
from interleave.remote.http_errors import IMAGE_BYTES, no_image, optional, refused
from interleave.remote.image_encoding import check_sources, image_from_base64
from interleave.remote.keys import GEMINI_URL, GEMINI_VERSION, key_for
from interleave.remote.options import RemoteOptions
from interleave.remote.prices import family, image_price

if TYPE_CHECKING:
    from google.genai import types as genai
    from PIL.Image import Image


@dataclass(frozen=True)
class ImageModel:
    """The limits of one of Google's image models."""

    max_sources: int
    sizes: tuple[str, ...]


IMAGE_MODELS = {
    "gemini-2.5-flash-image": ImageModel(max_sources=3, sizes=("1K",)),  # Nano Banana
    "gemini-3-pro-image": ImageModel(max_sources=14, sizes=("1K", "2K", "4K")),  # Nano Banana Pro
    "gemini-3.1-flash-image": ImageModel(max_sources=14, sizes=("1K", "2K", "4K")),  # Nano Banana 2
}
_STANDARD_BASE64 = str.maketrans("-_", "+/")
"""Google may send URL-safe base64."""
UNKNOWN_MODEL = ImageModel(max_sources=3, sizes=("1K", "2K", "4K"))


class GeminiGenerator:
    """One of Google's image models."""

    class Options(RemoteOptions):
        api_version: str = GEMINI_VERSION
        """The version in the address; a proxy may need another one."""
        aspect_ratio: str = Field(default="1:1", pattern=r"^\d{1,2}:\d{1,2}$")
        size: Literal["1K", "2K", "4K"] = "1K"
        price: float | None = Field(default=None, ge=0)
        """US dollars per image, instead of the table's."""

    def __init__(self, *, spec: Spec, options: Options) -> None:
        if not spec.model:
            raise ConfigurationError(
                f"{str(spec)!r} names no model: write e.g. gemini:gemini-3.1-flash-image"
            )
        self.model = spec.model
        self.options = options
        known = IMAGE_MODELS.get(family(spec.model), UNKNOWN_MODEL)
        if options.size not in known.sizes:
            raise ConfigurationError(
                f"size {options.size!r}: {spec.model} supports only {', '.join(known.sizes)}"
            )
        self.sends_size = len(known.sizes) > 1
        base_url = (spec.base_url or GEMINI_URL).rstrip("/")
        self.where = f"gemini:{spec.model} at {base_url}"
        price = options.price
        if price is None and base_url == GEMINI_URL:
            price = image_price(spec.model, options.size)
        self.capabilities = GeneratorCapabilities(
            max_sources=known.max_sources,
            seeds=False,
            price_per_image=price,
            concurrency=options.concurrency,
            first_concurrency=options.first_concurrency(base_url),
            timeout=options.seconds(backends.IMAGE_DEADLINE_SECONDS),
            deadline=options.deadline(backends.IMAGE_DEADLINE_SECONDS),
        )
        self._client = gemini_clients(
            self.where,
            base_url=base_url,
            key=key_for(base_url, options.key, header="x-goog-api-key", prefix=""),
            seconds=options.seconds(backends.IMAGE_DEADLINE_SECONDS),
            max_bytes=IMAGE_BYTES,
            api_version=options.api_version,
        )

    async def generate(self, request: ImageRequest) -> Image:
        check_sources(self.where, request, self.capabilities)
        contents = await asyncio.to_thread(_contents, request)
        with as_backend_errors(self.where):
            response = await self._client().aio.models.generate_content(
                model=self.model, contents=contents, config=self._config()
            )
            encoded = self._image(response_json(response, self.where))
        return await asyncio.to_thread(image_from_base64, encoded, where=self.where)

    def _config(self) -> genai.GenerateContentConfig:
        from google.genai import types as genai

        image: dict[str, Any] = {"aspect_ratio": self.options.aspect_ratio}
        if self.sends_size:
            image["image_size"] = self.options.size
        return genai.GenerateContentConfig(
            response_modalities=["TEXT", "IMAGE"],
            image_config=genai.ImageConfig(**image),
            automatic_function_calling=genai.AutomaticFunctionCallingConfig(disable=True),
            should_return_http_response=True,
        )

    def _image(self, answer: dict[str, Any]) -> str:
        """Return the last image outside the reasoning; raise `BackendError` if the reply has none."""
        candidate = first_candidate(answer, self.where)
        parts = [part for part in parts_of(candidate, self.where) if not part.get("thought")]
        inline = (optional(part.get("inlineData"), dict, "inlineData", self.where) for part in parts)
        encoded = [optional(each.get("data"), str, "data", self.where) for each in inline if each]
        if found := [data for data in encoded if data]:
            return found[-1].translate(_STANDARD_BASE64)
        reason, said = finish_reason_of(candidate, self.where), text_of(parts, self.where)
        if reason in BLOCKED_REASONS:
            raise refused(self.where, said or reason)
        raise no_image(self.where, said or reason)


def _contents(request: ImageRequest) -> list[genai.ContentUnion]:
    from google.genai import types as genai

    parts = [gemini_part(ImagePart(source)) for source in request.sources]
    return [genai.Content(role="user", parts=[*parts, gemini_part(Text(request.prompt))])]
