"""`json:FILE.toml[@URL]` and `json:NAME[@URL]`: plain image APIs, described in a file instead of in code.

A description says which fields take what, and where the image stands in an answer. `apis/` has those that
ship with the product:

    url = "http://127.0.0.1:9000"        the server; the spec may name another
    size = "512x512"                     for {width}, {height} and {size}

    [text]                               drawing from text alone; left out where the API only edits
    path = "/draw"
    body = {prompt = "{prompt}", seed = "{seed}"}
    image = "result.image"               keys and list indexes, joined by dots

    [edit]                               drawing from images; left out where the API only draws from text
    path = "/redraw"
    body = {prompt = "{prompt}", seed = "{seed}", image = "{source}"}
    image = "result.image"

    [key]                                a key, from an environment variable into a header
    variable = "MY_TOKEN"

Values in braces are filled in: {prompt}, {seed}, {width}, {height}, {size}, {source} (one image) and
{sources} (a list of them). A value that is nothing else keeps its type, so that "{seed}" becomes a number.
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
from interleave.remote.endpoints import EndpointPool, naming_what_is_there
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
"""Headers that carry a secret, which comes from the environment, or belong to the HTTP client."""
_HEADER_NAME, _HEADER_VALUE = re.compile(r"[A-Za-z0-9-]{1,100}"), re.compile(r"[\x20-\x7e]{0,1000}")


class KeyDescription(Value):
    """A key, and the header that it is sent in."""

    variable: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")
    """The environment variable that holds it; never the key itself."""
    header: str = Field(default="Authorization", pattern=r"^[A-Za-z0-9-]{1,100}$")
    prefix: str = Field(default="Bearer ", pattern=r"^[\x20-\x7e]{0,100}$")


class CallDescription(Value):
    """One kind of call: its request, and the image in its answer."""

    path: str = Field(pattern=r"^/([^/\s#][^\s#]*)?$")
    body: dict[str, Any]
    """Its fields, with names in braces for what is filled in."""
    send: Literal["json", "form"] = "json"
    """As JSON, or as a form in which images are files."""
    images: Literal["base64", "data_url"] = Field(
        "base64", validation_alias=AliasChoices("images", "pictures")
    )
    """How images are written in JSON."""
    max_sources: int = Field(default=1, ge=1, le=MAX_SOURCES)
    """The most images in {sources}."""
    answer: Literal["json", "image", "picture"] = "json"
    """Whether the answer is JSON with an image in it, or the image itself."""
    image: str | tuple[str, ...] = Field(default=(), validation_alias=AliasChoices("image", "picture"))
    """Where the image stands in a JSON answer, e.g. images.0; the first of several places that has one."""
    fetch: bool = False
    """Whether an address of the image stands there instead, on the same server."""
    error: str = "error"
    """Where a reason stands in an answer without an image."""

    @field_validator("body")
    @classmethod
    def body_is_json(cls, body: dict[str, Any]) -> dict[str, Any]:
        try:
            json.dumps(body, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            raise ValueError("it has a value that JSON cannot hold, such as a date or inf") from None
        for name in _names_in(body):
            if name not in NAMES:
                raise ValueError(f"no {{{name}}} can be filled in. {did_you_mean(name, NAMES)}")
        if "prompt" not in _names_in(body):
            raise ValueError('no field takes the prompt: write "{prompt}" where it goes')
        return body

    @model_validator(mode="after")
    def answer_has_a_place(self) -> CallDescription:
        if self.answer == "json" and not self.image:
            raise ValueError('say where the image stands: image = "images.0", or answer = "image"')
        if self.send == "form" and any(isinstance(each, dict | list) for each in self.body.values()):
            raise ValueError("a form has no lists or tables: its fields are texts and numbers")
        return self

    @property
    def places(self) -> tuple[str, ...]:
        return (self.image,) if isinstance(self.image, str) else self.image

    @property
    def names(self) -> set[str]:
        return set(_names_in(self.body))

    def filled(self, values: dict[str, Any]) -> dict[str, Any]:
        """The body of a request."""
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
            raise ValueError("[text] has no images: {source} and {sources} belong into [edit]")
        if self.edit is not None and len(self.edit.names & {"source", "sources"}) != 1:
            raise ValueError("[edit] needs one of {source} and {sources}, where its images go")
        for name, value in self.headers.items():
            if _KEPT_HEADERS.search(name):
                raise ValueError(f"the header {name!r} is not set here; keys come from [key] variable = NAME")
            if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
                raise ValueError(f"{name!r} is not a header, or its value is not one")
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
    """Whether a name stands for a description that ships with the product, rather than for a file."""
    return name in shipped_names()


def read_description(name: str) -> ApiDescription:
    """The description of this name or in this file; raises `ConfigurationError` that says what is wrong."""
    path = SHIPPED / f"{name}.toml" if is_shipped(name) else Path(name)
    try:
        return ApiDescription.model_validate(files.parse_toml(read_text(path)))
    except FileNotFoundError:
        raise ConfigurationError(
            f"no file {name!r} describes an API: write one, or name one of those that are known: "
            f"{', '.join(shipped_names())}"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{name!r} cannot be read ({files.why(error)})") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{name!r} is not TOML: {error}") from None
    except ValidationError as error:
        raise ConfigurationError(f"{name!r}: {first_problem(error)}") from None


def look_up(place: str, answer: Any) -> Any:
    """What stands at a place of an answer; None if there is nothing."""
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
    """Which fields an answer has, with those of the objects in it."""
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
    # In one pass, so that braces in a prompt stay as they are.
    return values[whole[1]] if whole else _PLACEHOLDER.sub(lambda found: str(values[found[1]]), value)


def size_values(size: str | None) -> dict[str, Any]:
    """What {width}, {height} and {size} stand for."""
    if size is None:
        return {}
    width, height = (int(side) for side in size.split("x"))
    return {"width": width, "height": height, "size": size}


def needs_size(calls: Sequence[CallDescription]) -> bool:
    return any(call.names & {"width", "height", "size"} for call in calls)


PROBE_SECONDS = 5.0
"""Between two looks at a server that is away."""


class JsonApiGenerator:
    """An image API that a file describes."""

    class Options(RemoteOptions):
        size: str | None = Field(default=None, pattern=SIZE)
        """What {width}, {height} and {size} stand for, instead of the file's."""
        price: float | None = Field(default=None, ge=0)
        """US dollars per image."""

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
                async with naming_what_is_there(self._client(), self.url):
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
        """What stands where the image should stand; raises with the server's reason where it gives one."""
        found = next((each for place in call.places if isinstance(each := look_up(place, answer), str)), None)
        if found is None:
            if reason := look_up(call.error, answer):
                raise bad_reply(self.where, f"it says it failed: {shorten(reason)}")
            raise bad_reply(self.where, f"no image stands at {' or '.join(call.places)}; {contents(answer)}")
        if not call.fetch and found.startswith(("http://", "https://")):
            raise bad_reply(
                self.where,
                f"an address stands there instead of an image: if it is on the same server, "
                f"add fetch = true to {self.file}",
                permanent=True,
            )
        return found

    def _request(self, call: CallDescription, request: ImageRequest) -> dict[str, Any]:
        """The body of a request, as the HTTP client takes it."""
        values = {"prompt": request.prompt, "seed": request.seed, **size_values(self.size)}
        if call.send == "form":
            return _form(call, values, [images.encode_png(source) for source in request.sources])
        write = data_url if call.images == "data_url" else png_base64
        encoded = [write(source) for source in request.sources]
        return {"json": call.filled({**values, "sources": encoded, "source": next(iter(encoded), None)})}

    async def _is_up(self, url: str) -> bool:
        """Whether a server that was away answers again, whatever it says."""
        try:
            with as_backend_errors(self.where):
                await self._client().get("/", extensions=EXPECT_ANYTHING)
        except BackendError as error:
            return error.kind in (Failure.INVALID, Failure.DENIED, Failure.BAD_REPLY)
        return True


def _form(call: CallDescription, values: dict[str, Any], images: list[bytes]) -> dict[str, Any]:
    """A form: images are files, several of them in fields of the same name."""
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
