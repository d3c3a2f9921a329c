"""`http://HOST:PORT[,http://…]` and `http:FILE`: services with the `/edit` and `/generate` API.

That is the API of the reference's services, of EditThinker and of `interleave serve generator`. `/edit`
takes a prompt, a seed and optionally an image; `/generate` takes text alone. Prompt rewriting by the service
(`enhance_prompt`) is off by default, because the critic must know the prompt of an image.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from interleave import BackendError, ConfigurationError, Failure, GeneratorCapabilities, ImageRequest
from interleave.plugin import Spec, backends
from interleave.remote.endpoints import (
    EndpointFile,
    EndpointPool,
    identifying_server,
    read_endpoints,
)
from interleave.remote.http_client import HEALTH_CHECK, PerLoop, as_backend_errors, open_client
from interleave.remote.http_errors import IMAGE_BYTES, bad_reply, json_of
from interleave.remote.image_encoding import check_sources, image_from_base64, png_base64
from interleave.remote.keys import key_for
from interleave.remote.options import FIRST_CONCURRENCY, RemoteOptions

if TYPE_CHECKING:
    import httpx2
    from PIL.Image import Image

REFERENCE_PORT = 8011
"""The port of the reference's only finished service; the default for hosts in an endpoint file."""
IN_FLIGHT_PER_ENDPOINT = 8
SERVERS_IN_A_FILE = 64
"""The number of servers to which an endpoint file may grow before the concurrency limit holds it back."""
WIRE_NAMES = {
    "steps": "num_inference_steps",
    "guidance": "guidance_scale",
    "negative_prompt": "negative_prompt",
}


class HttpGenerator:
    """An image generator behind one or several services."""

    class Options(RemoteOptions):
        wire: Literal["edit", "generate", "both"] = "edit"
        """`edit`: only /edit. `generate`: only /generate. `both`: /edit for requests with a source."""
        text_to_image: bool = True
        """Whether /edit works without an image; false for services that only edit."""
        max_sources: int = Field(default=1, ge=1, le=64)
        """Maximum sources of /edit; only `interleave serve generator` takes several."""
        seeds: bool = True
        """Whether to send seeds to the service."""
        steps: int | None = Field(default=None, ge=1, le=100)
        guidance: float | None = Field(default=None, ge=0, le=100)
        negative_prompt: str | None = None
        aspect_ratio: str | None = Field(default=None, pattern=r"^\d{1,2}:\d{1,2}$")
        """The aspect ratio sent to /generate."""
        enhance: bool = False
        """Whether the service may rewrite prompts; the critic does not see the rewritten ones."""
        port: int = Field(default=REFERENCE_PORT, ge=1, le=65535)
        """The port of hosts in an endpoint file that name none."""
        probe: float = Field(default=5.0, gt=0, le=3600)
        """Seconds between health checks of a server that is down."""
        price: float | None = Field(default=None, ge=0)
        """US dollars per image."""

    def __init__(self, *, spec: Spec, options: Options) -> None:
        urls = _urls(spec, options)
        file = EndpointFile(Path(spec.model), options.port) if spec.model and not spec.base_url else None
        if options.aspect_ratio and options.wire == "edit":
            raise ConfigurationError(
                f"{str(spec)!r}: /edit takes no aspect ratio; use wire=generate or wire=both"
            )
        self.options = options
        # With several servers, one that hangs must leave time to try another.
        alone = len(urls) == 1 and file is None
        self.seconds = options.seconds(backends.IMAGE_DEADLINE_SECONDS * (1.0 if alone else 0.4))
        most = len(urls) if file is None else max(len(urls), SERVERS_IN_A_FILE)
        self.capabilities = GeneratorCapabilities(
            max_sources=0 if options.wire == "generate" else options.max_sources,
            text_to_image=options.text_to_image or options.wire != "edit",
            seeds=options.seeds,
            price_per_image=options.price,
            concurrency=options.concurrency or IN_FLIGHT_PER_ENDPOINT * most,
            first_concurrency=None if options.concurrency else FIRST_CONCURRENCY * len(urls),
            timeout=self.seconds,
            deadline=options.deadline(backends.IMAGE_DEADLINE_SECONDS),
        )
        self.pool = EndpointPool(urls, self._is_healthy, probe_seconds=options.probe, file=file)
        self._clients: dict[str, PerLoop[httpx2.AsyncClient]] = {}
        for url in urls:  # report a missing key now; servers added to a file are checked later
            self._client_of(url)

    async def generate(self, request: ImageRequest) -> Image:
        check_sources(self.pool.label, request, self.capabilities)
        to_generate = self.options.wire == "generate" or (self.options.wire == "both" and not request.sources)
        path = "/generate" if to_generate else "/edit"
        body = await asyncio.to_thread(self._request_body, request, path)
        async with self.pool.acquire(wait_seconds=self.seconds) as endpoint:
            return await self._post(endpoint.url, path, body)

    async def _post(self, url: str, path: str, body: dict[str, Any]) -> Image:
        http = self._client_of(url)()
        with as_backend_errors(url):
            async with identifying_server(http, url):
                reply = json_of(await http.post(path, json=body))
        where = f"{url}{path}"
        if reply.get("success") is False:
            raise bad_reply(where, f"it reports a failure: {_reason(reply.get('error'))}")
        _refuse_mismatched_response(where, reply, body)
        encoded = reply.get("edited_image") or reply.get("image")
        return await asyncio.to_thread(image_from_base64, encoded, where=where)

    def _request_body(self, request: ImageRequest, path: str) -> dict[str, Any]:
        options = self.options
        body: dict[str, Any] = {"prompt": request.prompt, "enhance_prompt": options.enhance}
        if options.seeds:
            body["seed"] = request.seed
        if path == "/edit":
            images = [png_base64(source) for source in request.sources]
            body["image"] = images if len(images) > 1 else next(iter(images), None)
        elif options.aspect_ratio is not None:
            body["aspect_ratio"] = options.aspect_ratio
        for name, wire in WIRE_NAMES.items():
            if (value := getattr(options, name)) is not None:
                body[wire] = value
        return body

    async def _is_healthy(self, url: str) -> bool:
        """Return whether a server reports that it is ready; a server without /health counts as ready."""
        try:
            with as_backend_errors(url):
                response = await self._client_of(url)().get("/health", extensions=HEALTH_CHECK)
        except BackendError as error:
            return error.kind in (Failure.INVALID, Failure.DENIED)
        health = json_of(response)
        ready = health.get("gpu_manager_ready", True) and health.get("ready", True)
        return bool(ready) and str(health.get("status", "")).lower() not in ("unhealthy", "error", "down")

    def _client_of(self, url: str) -> PerLoop[httpx2.AsyncClient]:
        if url not in self._clients:
            key = key_for(url, self.options.key)
            self._clients[url] = PerLoop(
                lambda: open_client(url, base_url=url, seconds=self.seconds, key=key, max_bytes=IMAGE_BYTES),
                lambda http: http,
            )
        return self._clients[url]


def _reason(error: object) -> str:
    reason = error.get("message") if isinstance(error, dict) else error
    return reason if isinstance(reason, str) and reason else "no reason given"


def _refuse_mismatched_response(where: str, reply: dict[str, Any], body: dict[str, Any]) -> None:
    """Reject a response to another request, which a faulty load balancer may send."""
    for name, ours in (("original_prompt", body["prompt"]), ("seed", body.get("seed"))):
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
