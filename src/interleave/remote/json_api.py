"""`json:FILE.toml[@URL]` and `json:NAME[@URL]`: plain image APIs, described in a file instead of in code.

A description lists the fields of a request and the field of the response that holds the image. `apis/` has
the descriptions that ship with the product. An example:

    url = "http://127.0.0.1:9000"        the server; the spec may name another
    size = "512x512"                     for {width}, {height} and {size}

    [text]                               image from text alone; omitted if the API only edits
    path = "/draw"
    body = {prompt = "{prompt}", seed = "{seed}"}
    image = "result.image"               keys and list indexes, joined by dots

    [edit]                               image from images; omitted if the API takes only text
    path = "/redraw"
    body = {prompt = "{prompt}", seed = "{seed}", image = "{source}"}
    image = "result.image"

    [key]                                API key, from an environment variable into a header
    variable = "MY_TOKEN"

Names in braces are placeholders: {prompt}, {seed}, {width}, {height}, {size}, {source} (one image) and
{sources} (a list of images). A field that is only a placeholder keeps the type of its value.
"""

from __future__ import annotations

import asyncio
import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urljoin

from pydantic import AliasChoices, Field, ValidationError, field_validator, model_validator

from interleave import BackendError, ConfigurationError, Failure, GeneratorCapabilities, ImageRequest
from interleave.plugin import Spec, Value, backends, did_you_mean, files, first_problem, images, read_text
from interleave.remote.endpoints import EndpointPool, identifying_server
from interleave.remote.http_client import (
    EXPECT_ANYTHING,
    EXPECT_IMAGE,
    PerLoop,
    as_backend_errors,
    open_client,
)
from interleave.remote.http_errors import IMAGE_BYTES, bad_reply, json_of, shorten
from interleave.remote.image_encoding import (
    check_sources,
    data_url,
    image_from_base64,
    image_from_bytes,
    png_base64,
)
from interleave.remote.keys import Key, key_for
from interleave.remote.options import RemoteOptions

if TYPE_CHECKING:
    import httpx2
    from PIL.Image import Image


SHIPPED = Path(__file__).parent / "apis"
NAMES = ("prompt", "seed", "width", "height", "size", "source", "sources")
SIZE = r"^\d{2,4}x\d{2,4}$"
MAX_SOURCES = 64
MAX_KEYS_SHOWN = 12
_PLACEHOLDER = re.compile(r"\{([A-Za-z_]+)\}")
_KEPT_HEADERS = re.compile(
    r"authorization|cookie|key|token|secret|password|^host$|^content-|^connection$|^transfer-", re.IGNORECASE
)
"""Headers that a file may not set: those with secrets, which come from the environment, and the client's."""
_HEADER_NAME, _HEADER_VALUE = re.compile(r"[A-Za-z0-9-]{1,100}"), re.compile(r"[\x20-\x7e]{0,1000}")


class KeyDescription(Value):
    """An API key and its header."""

    variable: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")
    """The environment variable that holds the key; never the key itself."""
    header: str = Field(default="Authorization", pattern=r"^[A-Za-z0-9-]{1,100}$")
    prefix: str = Field(default="Bearer ", pattern=r"^[\x20-\x7e]{0,100}$")


class CallDescription(Value):
    """One kind of call: its request, and the image in its response."""

    path: str = Field(pattern=r"^/([^/\s#][^\s#]*)?$")
    body: dict[str, Any]
    """The fields of the request, with placeholders in braces."""
    send: Literal["json", "form"] = "json"
    """The encoding of the request; in a form, images are files."""
    images: Literal["base64", "data_url"] = Field(
        "base64", validation_alias=AliasChoices("images", "pictures")
    )
    """The encoding of images in JSON."""
    max_sources: int = Field(default=1, ge=1, le=MAX_SOURCES)
    """Maximum images in {sources}."""
    answer: Literal["json", "image", "picture"] = "json"
    """Whether the response is JSON that contains an image, or the image itself."""
    image: str | tuple[str, ...] = Field(default=(), validation_alias=AliasChoices("image", "picture"))
    """The path of the image in a JSON response, e.g. images.0; of several paths, the first with a value."""
    fetch: bool = False
    """Whether that field holds the image's address on the same server instead."""
    error: str = "error"
    """The path of the reason in a response without an image."""

    @field_validator("body")
    @classmethod
    def body_is_json(cls, body: dict[str, Any]) -> dict[str, Any]:
        try:
            json.dumps(body, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            raise ValueError("it has a value that JSON cannot represent, such as a date or inf") from None
        for name in _names_in(body):
            if name not in NAMES:
                raise ValueError(f"unknown placeholder {{{name}}}. {did_you_mean(name, NAMES)}")
        if "prompt" not in _names_in(body):
            raise ValueError('no field takes the prompt: set one to "{prompt}"')
        return body

    @model_validator(mode="after")
    def answer_has_a_place(self) -> CallDescription:
        if self.answer == "json" and not self.image:
            raise ValueError('the path of the image is missing: set image = "images.0", or answer = "image"')
        if self.send == "form" and any(isinstance(each, dict | list) for each in self.body.values()):
            raise ValueError("a form cannot hold lists or tables, only strings and numbers")
        return self

    @property
    def places(self) -> tuple[str, ...]:
        return (self.image,) if isinstance(self.image, str) else self.image

    @property
    def names(self) -> set[str]:
        return set(_names_in(self.body))

    def filled(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the body of a request with these values."""
        body: dict[str, Any] = _filled(self.body, values)
        return body


class ApiDescription(Value):
    """A plain image API."""

    url: str | None = Field(default=None, pattern=r"^https?://[^\s@?#,]+$")
    size: str | None = Field(default=None, pattern=SIZE)
    text: CallDescription | None = None
    edit: CallDescription | None = None
    key: KeyDescription | None = None
    headers: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def calls_fit(self) -> ApiDescription:
        if self.text is None and self.edit is None:
            raise ValueError("it has neither [text] nor [edit]")
        if self.text is not None and self.text.names & {"source", "sources"}:
            raise ValueError("[text] takes no images: move {source} and {sources} to [edit]")
        if self.edit is not None and len(self.edit.names & {"source", "sources"}) != 1:
            raise ValueError("[edit] needs exactly one of {source} and {sources}")
        for name, value in self.headers.items():
            if _KEPT_HEADERS.search(name):
                raise ValueError(
                    f"the header {name!r} cannot be set here; keys come from [key] variable = NAME"
                )
            if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
                raise ValueError(f"the header {name!r} has an invalid name or value")
        return self

    @property
    def calls(self) -> list[CallDescription]:
        return [call for call in (self.text, self.edit) if call is not None]

    @property
    def max_sources(self) -> int:
        if self.edit is None:
            return 0
        return self.edit.max_sources if "sources" in self.edit.names else 1


def shipped_names() -> list[str]:
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def is_shipped(name: str) -> bool:
    """Return whether `name` is a description that ships with the product, rather than a file."""
    return name in shipped_names()


def read_description(name: str) -> ApiDescription:
    """Read the description with this name or in this file; raise `ConfigurationError` if it is invalid."""
    path = SHIPPED / f"{name}.toml" if is_shipped(name) else Path(name)
    try:
        return ApiDescription.model_validate(files.parse_toml(read_text(path)))
    except FileNotFoundError:
        raise ConfigurationError(
            f"the API description {name!r} does not exist: write one, or use a shipped one: "
            f"{', '.join(shipped_names())}"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{name!r} cannot be read ({files.why(error)})") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{name!r} is not TOML: {error}") from None
    except ValidationError as error:
        raise ConfigurationError(f"{name!r}: {first_problem(error)}") from None


def look_up(place: str, answer: Any) -> Any:
    """Return the value at a path of a response; None if the path does not exist."""
    value = answer
    for piece in place.split("."):
        if isinstance(value, dict):
            value = value.get(piece)
        elif isinstance(value, list) and piece.isdecimal() and int(piece) < len(value):
            value = value[int(piece)]
        else:
            return None
    return value


def contents(answer: dict[str, Any]) -> str:
    """List the fields of a response, including those of nested objects."""
    names = [
        f"{name}.{inner}" if isinstance(value, dict) and value else name
        for name, value in answer.items()
        for inner in (value if isinstance(value, dict) and value else [""])
    ]
    return f"it has the fields {', '.join(names[:MAX_KEYS_SHOWN]) or 'none'}"


def _names_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from _PLACEHOLDER.findall(value)
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _names_in(each)


def _filled(value: Any, values: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        return {name: _filled(each, values) for name, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, values) for each in value]
    if not isinstance(value, str):
        return value
    whole = _PLACEHOLDER.fullmatch(value)
    # In one pass, so that braces in a prompt stay unchanged.
    return values[whole[1]] if whole else _PLACEHOLDER.sub(lambda found: str(values[found[1]]), value)


def size_values(size: str | None) -> dict[str, Any]:
    """Return the values of {width}, {height} and {size}."""
    if size is None:
        return {}
    width, height = (int(side) for side in size.split("x"))
    return {"width": width, "height": height, "size": size}


def needs_size(calls: Sequence[CallDescription]) -> bool:
    return any(call.names & {"width", "height", "size"} for call in calls)


PROBE_SECONDS = 5.0
"""Longest interval between probes of a server that is down."""


class JsonApiGenerator:
    """An image API described by a file."""

    class Options(RemoteOptions):
        size: str | None = Field(default=None, pattern=SIZE)
        """The values of {width}, {height} and {size}, instead of the file's."""
        price: float | None = Field(default=None, ge=0)
        """US dollars per image."""

    def __init__(self, *, spec: Spec, options: Options) -> None:
        if not spec.model:
            raise ConfigurationError(
                f"{str(spec)!r} names no API description: write json:./FILE.toml@http://host:9000"
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
        self.seconds = options.seconds(backends.IMAGE_DEADLINE_SECONDS)
        self.capabilities = GeneratorCapabilities(
            max_sources=self.api.max_sources,
            text_to_image=self.api.text is not None,
            seeds=all("seed" in call.names for call in self.api.calls),
            price_per_image=options.price,
            concurrency=options.concurrency,
            first_concurrency=options.first_concurrency(url),
            timeout=self.seconds,
            deadline=options.deadline(backends.IMAGE_DEADLINE_SECONDS),
        )
        key = _key(url, self.api, options.key)
        self._client: PerLoop[httpx2.AsyncClient] = PerLoop(
            lambda: open_client(
                self.where, base_url=url, seconds=self.seconds, key=key, max_bytes=IMAGE_BYTES
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
                async with identifying_server(self._client(), self.url):
                    return await self._draw(call, sent)

    async def _draw(self, call: CallDescription, sent: dict[str, Any]) -> Image:
        http = self._client()
        raw = call.answer != "json"
        response = await http.post(
            call.path, headers=self.api.headers, extensions=EXPECT_IMAGE if raw else {}, **sent
        )
        if raw:
            return await asyncio.to_thread(image_from_bytes, response.content, where=self.where)
        found = self._image_in(call, json_of(response))
        if not call.fetch:
            return await asyncio.to_thread(image_from_base64, found, where=self.where)
        address = urljoin(f"{self.url}{call.path}", found)
        data = (await http.get(address, headers=self.api.headers, extensions=EXPECT_IMAGE)).content
        return await asyncio.to_thread(image_from_bytes, data, where=self.where)

    def _image_in(self, call: CallDescription, answer: dict[str, Any]) -> str:
        """Return the value at the image's path; raise `BackendError` with the server's reason, if any."""
        found = next((each for place in call.places if isinstance(each := look_up(place, answer), str)), None)
        if found is None:
            if reason := look_up(call.error, answer):
                raise bad_reply(self.where, f"it reports a failure: {shorten(reason)}")
            raise bad_reply(self.where, f"it has no image at {' or '.join(call.places)}; {contents(answer)}")
        if not call.fetch and found.startswith(("http://", "https://")):
            raise bad_reply(
                self.where,
                f"it has an address instead of an image: if the address is on the same server, "
                f"add fetch = true to {self.file}",
                permanent=True,
            )
        return found

    def _request(self, call: CallDescription, request: ImageRequest) -> dict[str, Any]:
        """Return the body of a request as arguments of the HTTP client."""
        values = {"prompt": request.prompt, "seed": request.seed, **size_values(self.size)}
        if call.send == "form":
            return _form(call, values, [images.encode_png(source) for source in request.sources])
        write = data_url if call.images == "data_url" else png_base64
        encoded = [write(source) for source in request.sources]
        return {"json": call.filled({**values, "sources": encoded, "source": next(iter(encoded), None)})}

    async def _is_up(self, url: str) -> bool:
        """Return whether a server that was down responds again, with any status."""
        try:
            with as_backend_errors(self.where):
                await self._client().get("/", extensions=EXPECT_ANYTHING)
        except BackendError as error:
            return error.kind in (Failure.INVALID, Failure.DENIED, Failure.BAD_REPLY)
        return True


def _form(call: CallDescription, values: dict[str, Any], images: list[bytes]) -> dict[str, Any]:
    """Return a form with images as files; several images share one field name."""
    placed = {name: value for name, value in call.body.items() if value in ("{source}", "{sources}")}
    uploads = [
        (name, (f"source-{number}.png", image, "image/png"))
        for name in placed
        for number, image in enumerate(images, 1)
    ]
    filled = call.filled({**values, "source": "", "sources": ""})
    fields = {name: _as_field(value) for name, value in filled.items() if name not in placed}
    return {"data": fields, **({"files": uploads} if uploads else {})}


def _as_field(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _key(url: str, api: ApiDescription, chosen: str | None) -> Key | None:
    if api.key is None:
        return key_for(url, chosen)
    return key_for(url, chosen or api.key.variable, header=api.key.header, prefix=api.key.prefix)
