"""`json:FILE.toml[@URL]` and `json:NAME[@URL]`: plain image APIs, described in a file instead of in code.

`json_mapping.py` has the form of a description, and `apis/` those that ship with the product.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from pydantic import Field

from interleave.backends.generators.json_mapping import (
    SIZE,
    ApiDescription,
    CallDescription,
    contents,
    look_up,
    needs_size,
    read_description,
    size_values,
)
from interleave.backends.protocols import GeneratorCapabilities, ImageRequest
from interleave.backends.remote.endpoints import EndpointPool
from interleave.backends.remote.http_client import (
    EXPECT_ANYTHING,
    EXPECT_PICTURE,
    PerLoop,
    as_backend_errors,
    open_client,
)
from interleave.backends.remote.http_errors import bad_reply, shorten
from interleave.backends.remote.image_encoding import (
    check_sources,
    data_url,
    picture_from_base64,
    picture_from_bytes,
    png_base64,
)
from interleave.backends.remote.keys import Key, key_for
from interleave.backends.remote.limits import PICTURE_BYTES
from interleave.backends.remote.options import RemoteOptions
from interleave.backends.remote.responses import json_of
from interleave.backends.remote.server_kinds import naming_what_is_there
from interleave.backends.retries import IMAGE_DEADLINE_SECONDS
from interleave.config.specs import Spec
from interleave.errors import BackendError, ConfigurationError, Failure
from interleave.images import encode_png

if TYPE_CHECKING:
    import httpx2
    from PIL.Image import Image

PROBE_SECONDS = 5.0
"""Between two looks at a server that is away."""


class JsonApiGenerator:
    """An image API that a file describes."""

    class Options(RemoteOptions):
        size: str | None = Field(default=None, pattern=SIZE)
        """What {width}, {height} and {size} stand for, instead of the file's."""
        price: float | None = Field(default=None, ge=0)
        """US dollars per picture."""

    def __init__(self, *, spec: Spec, options: Options) -> None:
        if not spec.model:
            raise ConfigurationError(
                f"{str(spec)!r} names no description: write json:./FILE.toml@http://host:9000"
            )
        self.api = read_description(spec.model)
        url = (spec.base_url or self.api.url or "").rstrip("/")
        if not url or "," in url:
            raise ConfigurationError(
                f"{str(spec)!r} needs one address: write json:{spec.model}@http://host:9000"
            )
        self.file, self.url = spec.model, url
        self.where = f"json:{spec.model} at {url}"
        self.size = options.size or self.api.size
        if needs_size(self.api.calls) and self.size is None:
            raise ConfigurationError(
                f'{spec.model!r} uses a size: add size = "512x512" to it, or ?size=512x512'
            )
        self.seconds = options.seconds(IMAGE_DEADLINE_SECONDS)
        self.capabilities = GeneratorCapabilities(
            max_sources=self.api.max_sources,
            text_to_image=self.api.text is not None,
            seeds=all("seed" in call.names for call in self.api.calls),
            price_per_image=options.price,
            concurrency=options.concurrency,
            first_concurrency=options.first_concurrency(url),
            timeout=self.seconds,
            deadline=options.deadline(IMAGE_DEADLINE_SECONDS),
        )
        key = _key(url, self.api, options.key)
        self._client: PerLoop[httpx2.AsyncClient] = PerLoop(
            lambda: open_client(
                self.where, base_url=url, seconds=self.seconds, key=key, max_bytes=PICTURE_BYTES
            ),
            lambda http: http,
        )
        self.pool = EndpointPool([url], self._is_up, probe_seconds=PROBE_SECONDS)

    async def generate(self, request: ImageRequest) -> Image:
        check_sources(self.where, request, self.capabilities)
        call = self.api.edit if request.sources else self.api.text
        if call is None:
            raise BackendError(f"{self.where}: no call fits this request", kind=Failure.INVALID)
        sent = await asyncio.to_thread(self._request, call, request)
        async with self.pool.acquire(wait_seconds=self.seconds):
            with as_backend_errors(self.where):
                async with naming_what_is_there(self._client(), self.url):
                    return await self._draw(call, sent)

    async def _draw(self, call: CallDescription, sent: dict[str, Any]) -> Image:
        http = self._client()
        raw = call.answer == "picture"
        response = await http.post(
            call.path, headers=self.api.headers, extensions=EXPECT_PICTURE if raw else {}, **sent
        )
        if raw:
            return await asyncio.to_thread(picture_from_bytes, response.content, where=self.where)
        found = self._picture_in(call, json_of(response))
        if not call.fetch:
            return await asyncio.to_thread(picture_from_base64, found, where=self.where)
        address = urljoin(f"{self.url}{call.path}", found)
        data = (await http.get(address, headers=self.api.headers, extensions=EXPECT_PICTURE)).content
        return await asyncio.to_thread(picture_from_bytes, data, where=self.where)

    def _picture_in(self, call: CallDescription, answer: dict[str, Any]) -> str:
        """What stands where the picture should stand; raises with the server's reason where it gives one."""
        found = next((each for place in call.places if isinstance(each := look_up(place, answer), str)), None)
        if found is None:
            if reason := look_up(call.error, answer):
                raise bad_reply(self.where, f"it says it failed: {shorten(reason)}")
            raise bad_reply(
                self.where, f"no picture stands at {' or '.join(call.places)}; {contents(answer)}"
            )
        if not call.fetch and found.startswith(("http://", "https://")):
            raise bad_reply(
                self.where,
                f"an address stands there instead of a picture: if it is on the same server, "
                f"add fetch = true to {self.file}",
                permanent=True,
            )
        return found

    def _request(self, call: CallDescription, request: ImageRequest) -> dict[str, Any]:
        """The body of a request, as the HTTP client takes it."""
        values = {"prompt": request.prompt, "seed": request.seed, **size_values(self.size)}
        if call.send == "form":
            return _form(call, values, [encode_png(source) for source in request.sources])
        write = data_url if call.pictures == "data_url" else png_base64
        pictures = [write(source) for source in request.sources]
        return {"json": call.filled({**values, "sources": pictures, "source": next(iter(pictures), None)})}

    async def _is_up(self, url: str) -> bool:
        """Whether a server that was away answers again, whatever it says."""
        try:
            with as_backend_errors(self.where):
                await self._client().get("/", extensions=EXPECT_ANYTHING)
        except BackendError as error:
            return error.kind in (Failure.INVALID, Failure.DENIED, Failure.BAD_REPLY)
        return True


def _form(call: CallDescription, values: dict[str, Any], pictures: list[bytes]) -> dict[str, Any]:
    """A form: pictures are files, several of them in fields of the same name."""
    placed = {name: value for name, value in call.body.items() if value in ("{source}", "{sources}")}
    files = [
        (name, (f"source-{number}.png", picture, "image/png"))
        for name in placed
        for number, picture in enumerate(pictures, 1)
    ]
    filled = call.filled({**values, "source": "", "sources": ""})
    fields = {name: _as_field(value) for name, value in filled.items() if name not in placed}
    return {"data": fields, **({"files": files} if files else {})}


def _as_field(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _key(url: str, api: ApiDescription, chosen: str | None) -> Key | None:
    if api.key is None:
        return key_for(url, chosen)
    return key_for(url, chosen or api.key.variable, header=api.key.header, prefix=api.key.prefix)
