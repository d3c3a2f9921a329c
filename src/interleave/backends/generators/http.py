"""`http://HOST:PORT[,http://…]` and `http:FILE`: services that speak the `/edit` and `/generate` wire.

That is the wire of the reference's services, of EditThinker's and of `interleave serve generator`. `/edit`
takes a picture or none, a prompt and a seed; `/generate` draws from text alone. Prompts are sent as they
are: the services' own rewriting of prompts (`enhance_prompt`) is switched off unless asked for, because the
critic must know the prompt that made a picture.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from interleave.backends.protocols import GeneratorCapabilities, ImageRequest
from interleave.backends.remote.answers import answer_of
from interleave.backends.remote.bounds import PICTURE_BYTES
from interleave.backends.remote.endpoints import EndpointPool, read_endpoints
from interleave.backends.remote.http_client import HEALTH, PerLoop, open_client, typed_outcomes
from interleave.backends.remote.http_errors import bad_reply
from interleave.backends.remote.image_encoding import picture_from_base64, png_base64
from interleave.backends.remote.keys import key_for
from interleave.backends.remote.options import RemoteOptions
from interleave.backends.remote.source_checks import refuse_wrong_sources
from interleave.backends.retries import IMAGE_DEADLINE_SECONDS
from interleave.config.specs import Spec
from interleave.errors import BackendError, ConfigurationError, Failure

if TYPE_CHECKING:
    import httpx2
    from PIL.Image import Image

REFERENCE_PORT = 8011
"""Where the reference's only finished service listens; for hosts in a file that name no port."""
IN_FLIGHT_PER_ENDPOINT = 8
WIRE_NAMES = {
    "steps": "num_inference_steps",
    "guidance": "guidance_scale",
    "negative_prompt": "negative_prompt",
}


class HttpGenerator:
    """Image services at one or several addresses."""

    class Options(RemoteOptions):
        wire: Literal["edit", "generate", "both"] = "edit"
        """`edit`: everything by /edit. `generate`: only from text, by /generate. `both`: each for its own."""
        text_to_image: bool = True
        """Whether /edit draws without a picture; false for services that only edit."""
        max_sources: int = Field(default=1, ge=1, le=64)
        """How many pictures /edit may start from; only `interleave serve generator` takes several."""
        seeds: bool = True
        """Whether the service takes seeds; false sends none."""
        steps: int | None = Field(default=None, ge=1, le=100)
        guidance: float | None = Field(default=None, ge=0, le=100)
        negative_prompt: str | None = None
        aspect_ratio: str | None = Field(default=None, pattern=r"^\d{1,2}:\d{1,2}$")
        """Of /generate."""
        enhance: bool = False
        """Whether the service may rewrite prompts; the critic is then not told what was drawn."""
        port: int = Field(default=REFERENCE_PORT, ge=1, le=65535)
        """Of hosts in a file that name none."""
        probe: float = Field(default=5.0, gt=0, le=3600)
        """Seconds between health checks of a server that was taken out."""
        price: float | None = Field(default=None, ge=0)
        """US dollars a picture."""

    def __init__(self, *, spec: Spec, options: Options, role: str = "generator") -> None:
        urls = _urls(spec, options)
        if options.aspect_ratio and options.wire == "edit":
            raise ConfigurationError(
                f"{str(spec)!r}: /edit knows no aspect ratio; use wire=generate or wire=both"
            )
        self.options = options
        # With several servers one that hangs must leave time for another.
        self.seconds = options.seconds(IMAGE_DEADLINE_SECONDS * (1.0 if len(urls) == 1 else 0.4))
        self.capabilities = GeneratorCapabilities(
            max_sources=0 if options.wire == "generate" else options.max_sources,
            text_to_image=options.text_to_image or options.wire != "edit",
            seeds=options.seeds,
            price_per_image=options.price,
            concurrency=options.concurrency or IN_FLIGHT_PER_ENDPOINT * len(urls),
            deadline=options.deadline(IMAGE_DEADLINE_SECONDS),
        )
        self.pool = EndpointPool(urls, self._is_healthy, probe_seconds=options.probe)
        self._clients = {url: self._client_of(url) for url in urls}

    async def generate(self, request: ImageRequest) -> Image:
        refuse_wrong_sources(self.pool.named, request, self.capabilities)
        to_generate = self.options.wire == "generate" or (self.options.wire == "both" and not request.sources)
        path = "/generate" if to_generate else "/edit"
        asked = await asyncio.to_thread(self._asked, request, path)
        async with self.pool.turn(wait_seconds=self.seconds) as endpoint:
            return await self._ask(endpoint.url, path, asked)

    async def _ask(self, url: str, path: str, asked: dict[str, Any]) -> Image:
        with typed_outcomes(url):
            reply = answer_of(await self._clients[url]().post(path, json=asked))
        where = f"{url}{path}"
        if reply.get("success") is False:
            raise bad_reply(where, f"it says it failed: {_reason(reply.get('error'))}")
        _refuse_anothers_picture(where, reply, asked)
        encoded = reply.get("edited_image") or reply.get("image")
        return await asyncio.to_thread(picture_from_base64, encoded, where=where)

    def _asked(self, request: ImageRequest, path: str) -> dict[str, Any]:
        options = self.options
        asked: dict[str, Any] = {"prompt": request.prompt, "enhance_prompt": options.enhance}
        if options.seeds:
            asked["seed"] = request.seed
        if path == "/edit":
            pictures = [png_base64(source) for source in request.sources]
            asked["image"] = pictures if len(pictures) > 1 else next(iter(pictures), None)
        elif options.aspect_ratio is not None:
            asked["aspect_ratio"] = options.aspect_ratio
        for name, wire in WIRE_NAMES.items():
            if (value := getattr(options, name)) is not None:
                asked[wire] = value
        return asked

    async def _is_healthy(self, url: str) -> bool:
        """Whether a server says that it can draw; one that knows no /health is believed to."""
        try:
            with typed_outcomes(url):
                response = await self._clients[url]().get("/health", extensions=HEALTH)
        except BackendError as error:
            return error.kind in (Failure.INVALID, Failure.DENIED)
        health = answer_of(response)
        ready = health.get("gpu_manager_ready", True) and health.get("ready", True)
        return bool(ready) and str(health.get("status", "")).lower() not in ("unhealthy", "error", "down")

    def _client_of(self, url: str) -> PerLoop[httpx2.AsyncClient]:
        key = key_for(url, self.options.key)
        return PerLoop(
            lambda: open_client(url, base_url=url, seconds=self.seconds, key=key, most_bytes=PICTURE_BYTES),
            lambda http: http,
        )


def _reason(error: object) -> str:
    told = error.get("message") if isinstance(error, dict) else error
    return told if isinstance(told, str) and told else "no reason given"


def _refuse_anothers_picture(where: str, reply: dict[str, Any], asked: dict[str, Any]) -> None:
    """A balancer that mixes up answers is found out by what the answer repeats of its question."""
    for name, ours in (("original_prompt", asked["prompt"]), ("seed", asked.get("seed"))):
        if ours is not None and reply.get(name) is not None and reply[name] != ours:
            raise bad_reply(where, f"it answers another request (its {name} is not ours)")


def _urls(spec: Spec, options: HttpGenerator.Options) -> list[str]:
    if spec.base_url:
        return list(dict.fromkeys(url.rstrip("/") for url in spec.base_url.split(",")))
    if spec.model:
        return read_endpoints(Path(spec.model), options.port)
    raise ConfigurationError(
        f"{str(spec)!r} names no server: write http://host:8011, several joined by commas, or http:./FILE"
    )
