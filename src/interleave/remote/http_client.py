"""The HTTP client of all remote backends; the SDKs of OpenAI and Google use it too.

It connects to one server only, adds the key, applies one deadline from the first byte sent to the last byte
read, follows no redirects, keeps no cookies, rejects compressed and oversized responses, and turns every
failure into an error of `http_errors.py`. An SDK therefore only sees successful responses.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import httpx2

from interleave import BackendError, Failure
from interleave.plugin import backends, errors
from interleave.remote import http_errors
from interleave.remote.http_errors import (
    ERROR_BYTES,
    IMAGE_BYTES,
    PARSED_JSON,
    UnreadableJson,
    parse_json,
)
from interleave.remote.keys import OPENAI_URL, PLACEHOLDER, Key, origin_of

if TYPE_CHECKING:
    import httpx2
    from google import genai
    from openai import AsyncOpenAI


CONNECT_SECONDS = 10.0
MAX_CONNECTIONS = 256
KEEP_ALIVE_SECONDS = 4.0
"""Less than the 5 s after which many servers close an idle connection."""
MAX_CHUNKS = 200_000
"""Limit per response: reading single bytes costs far more than sending them."""
EXPECT_IMAGE = {"expects": "image", "max_bytes": IMAGE_BYTES}
"""The `extensions` of a request whose response is an image instead of JSON."""
EXPECT_ANYTHING = {"expects": "anything", "max_bytes": ERROR_BYTES}
HEALTH_CHECK = {"max_bytes": ERROR_BYTES}

Client = TypeVar("Client")


class CheckedTransport(httpx2.AsyncBaseTransport):
    """A transport that returns only complete, successful responses, and raises `BackendError` otherwise."""

    def __init__(
        self,
        where: str,
        *,
        origin: str,
        seconds: float,
        key: Key | None,
        trust_proxies: bool,
        max_bytes: int,
    ) -> None:
        self.where = where
        self.origin = origin
        self.max_bytes = max_bytes
        self.seconds = seconds
        self.key = key
        self.inner = _transports(trust_proxies)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self._check_origin(request)
        if self.key is not None:
            request.headers[self.key.header] = self.key.header_value()
        request.headers["Accept-Encoding"] = "identity"
        connect = min(CONNECT_SECONDS, self.seconds)
        times = {"connect": connect, "read": self.seconds, "write": self.seconds, "pool": self.seconds}
        request.extensions = {**request.extensions, "timeout": times}
        try:
            async with asyncio.timeout(self.seconds):
                response, body = await self._exchange(request)
        except TimeoutError:
            raise http_errors.timed_out(self.where, self.seconds) from None
        except httpx2.ConnectTimeout:
            raise http_errors.unreachable(self.where, f"no connection within {connect:g} s") from None
        except httpx2.TimeoutException:
            raise http_errors.timed_out(self.where, self.seconds) from None
        except (httpx2.TransportError, OSError) as error:
            raise self._unreachable(error) from None
        finally:
            if self.key is not None:
                del request.headers[self.key.header]  # an SDK may keep the request, and must not keep the key
        return self._checked(request, response, body)

    async def aclose(self) -> None:
        await self.inner.aclose()

    def _check_origin(self, request: httpx2.Request) -> None:
        """Refuse a request to another server, which must not get the key."""
        if (origin := origin_of(str(request.url))) != self.origin:
            raise BackendError(
                f"{self.where}: the request to {origin} was not sent, because that is another server",
                kind=Failure.INVALID,
            )

    async def _exchange(self, request: httpx2.Request) -> tuple[httpx2.Response, bytes]:
        response = await self._send(request)
        try:
            return response, await self._read(request, response)
        finally:
            with suppress(httpx2.TransportError):
                await response.aclose()

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request and return the head of its response.

        A server may close an idle connection while it is reused. The request is then sent once more on a
        new connection.
        """
        transport, opened = self.inner.of(request.url), False

        async def watch(event: str, info: object) -> None:
            nonlocal opened
            opened |= event == "connection.connect_tcp.started"

        request.extensions = {**request.extensions, "trace": watch}
        try:
            return await transport.handle_async_request(request)
        except (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError):
            if opened:
                raise
            return await transport.handle_async_request(request)

    async def _read(self, request: httpx2.Request, response: httpx2.Response) -> bytes:
        coding = response.headers.get("content-encoding", "identity")
        if coding.lower() != "identity":
            raise http_errors.bad_reply(self.where, f"it is compressed ({coding}), which was not requested")
        if not isinstance(response.stream, httpx2.AsyncByteStream):
            raise http_errors.bad_reply(self.where, "it cannot be read")
        good = 200 <= response.status_code < 300
        limit = request.extensions.get("max_bytes", self.max_bytes) if good else ERROR_BYTES
        body, chunks = bytearray(), 0
        async for chunk in response.stream:
            body += chunk
            chunks += 1
            if len(body) <= limit and chunks <= MAX_CHUNKS:
                continue
            if not good:
                break  # only the beginning of an error is shown
            size = f"{limit:,} bytes" if len(body) > limit else f"{MAX_CHUNKS:,} chunks"
            raise http_errors.bad_reply(self.where, f"it is larger than {size}", permanent=True)
        return bytes(body)

    def _checked(self, request: httpx2.Request, response: httpx2.Response, body: bytes) -> httpx2.Response:
        """Return the response with its content type as the only header, so that SDKs keep no cookie."""
        status, content_type = response.status_code, response.headers.get("content-type", "no type")
        if not 200 <= status < 300:
            raise http_errors.status_error(self.where, status, dict(response.headers), body, key=self.key)
        parsed = {}
        if request.extensions.get("expects", "json") == "json":
            parsed = {PARSED_JSON: self._parse_object(body, content_type)}
            content_type = "application/json"
        kept = {"content-type": content_type}
        return httpx2.Response(status, headers=kept, content=body, request=request, extensions=parsed)

    def _parse_object(self, body: bytes, content_type: str) -> dict[str, Any]:
        try:
            value = parse_json(body)
        except UnreadableJson as error:
            if error.permanent:
                raise http_errors.bad_reply(self.where, str(error), permanent=True) from None
            problem = f"it is not JSON but {content_type}" if body else "it is empty"
            text = body[:1000].decode("utf-8", "replace")
            raise http_errors.bad_reply(self.where, problem, excerpt=text) from None
        if not isinstance(value, dict):
            raise http_errors.bad_reply(self.where, f"it is a JSON {type(value).__name__}, not an object")
        return value

    def _unreachable(self, error: BaseException) -> BackendError:
        chain = list(errors.causes(error))
        if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in chain):
            return http_errors.unreachable(self.where, "its certificate is not trusted", permanent=True)
        if any(isinstance(cause, ConnectionRefusedError) for cause in chain):
            return http_errors.unreachable(self.where, "connection refused: is it running?")
        return http_errors.unreachable(self.where, str(error) or type(error).__name__)


class _Transports:
    """Direct connections, and connections through the environment's proxy if it is trusted."""

    def __init__(self, mounts: dict[str, httpx2.AsyncHTTPTransport]) -> None:
        self.direct = _transport(None)
        self.proxied = mounts

    def of(self, url: httpx2.URL) -> httpx2.AsyncHTTPTransport:
        return self.proxied.get(url.scheme, self.direct)

    async def aclose(self) -> None:
        for transport in (self.direct, *self.proxied.values()):
            await transport.aclose()


def _transport(proxy: str | None) -> httpx2.AsyncHTTPTransport:
    limits = httpx2.Limits(
        max_connections=MAX_CONNECTIONS,
        max_keepalive_connections=MAX_CONNECTIONS,
        keepalive_expiry=KEEP_ALIVE_SECONDS,
    )
    return httpx2.AsyncHTTPTransport(verify=ssl_context(), limits=limits, proxy=proxy)


@cache
def ssl_context() -> ssl.SSLContext:
    """Load the certificate authorities of the system or of SSL_CERT_FILE, once, because that is slow."""
    return httpx2.create_ssl_context()


def _transports(trust_proxies: bool) -> _Transports:
    from urllib.request import getproxies

    proxy = getproxies().get("https") if trust_proxies else None
    return _Transports({"https": _transport(proxy)} if proxy else {})


def open_client(
    where: str, *, base_url: str, seconds: float, key: Key | None = None, max_bytes: int = IMAGE_BYTES
) -> httpx2.AsyncClient:
    """Return an HTTP client for one server, with a `CheckedTransport`."""
    # An https request through a proxy is encrypted; a plain one would expose the key and the images.
    trust_proxies = base_url.lower().startswith("https:") and not _bypasses_proxy(base_url)
    transport = CheckedTransport(
        where,
        origin=origin_of(str(httpx2.URL(base_url))),  # normalized as in its requests
        seconds=seconds,
        key=key,
        trust_proxies=trust_proxies,
        max_bytes=max_bytes,
    )
    return httpx2.AsyncClient(transport=transport, base_url=base_url, follow_redirects=False, trust_env=False)


def _bypasses_proxy(url: str) -> bool:
    from urllib.request import proxy_bypass

    return bool(proxy_bypass(urlsplit(url).hostname or ""))


class PerLoop(Generic[Client]):
    """One client per event loop, closed when the loop ends.

    A connection belongs to the loop it was opened in, and a backend may be used in several loops. asyncio
    closes the open async generators of a loop when it ends, so such a generator closes the HTTP client.
    """

    def __init__(
        self, open_http: Callable[[], httpx2.AsyncClient], wrap: Callable[[httpx2.AsyncClient], Client]
    ) -> None:
        self._open_http = open_http
        self._wrap = wrap
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Client] = WeakKeyDictionary()

    def __call__(self) -> Client:
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            http = self._open_http()
            _CLOSERS[http] = _close_with_loop(http, lambda: self._clients.pop(loop, None))
            with suppress(StopIteration):  # runs it to its yield, which it reaches without waiting
                _CLOSERS[http].__anext__().send(None)
            self._clients[loop] = self._wrap(http)
        return self._clients[loop]


_CLOSERS: dict[httpx2.AsyncClient, AsyncGenerator[None]] = {}
"""The generators that close open clients; a generator that is garbage-collected early is not awaited."""


async def _close_with_loop(http: httpx2.AsyncClient, forget: Callable[[], object]) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        forget()
        _CLOSERS.pop(http, None)
        await http.aclose()


@contextmanager
def as_backend_errors(where: str) -> Iterator[None]:
    """Turn an SDK's exception into the `BackendError` that caused it, or into a `bad_reply`."""
    try:
        yield
    except BackendError:
        raise
    except Exception as error:
        for cause in errors.causes(error):
            if isinstance(cause, BackendError):
                raise cause from None
        raise http_errors.bad_reply(where, f"{type(error).__name__}: {error}") from backends.explained_by(
            error
        )


def openai_clients(
    where: str,
    *,
    base_url: str,
    key: Key | None,
    seconds: float,
    max_bytes: int,
    api_version: str | None = None,
) -> PerLoop[AsyncOpenAI]:
    """Return OpenAI's client; `api_version` selects Azure."""

    def wrap(http: httpx2.AsyncClient) -> AsyncOpenAI:
        from openai import AsyncOpenAI, Omit

        # The SDK would send the organization and project from the environment to every server.
        ids = ("OpenAI-Organization", "OpenAI-Project")
        return AsyncOpenAI(
            api_key=PLACEHOLDER,
            base_url=base_url,
            max_retries=0,
            default_query={"api-version": api_version} if api_version else None,
            default_headers=None if base_url == OPENAI_URL else dict.fromkeys(ids, Omit()),  # type: ignore[arg-type]
            http_client=http,
        )

    return PerLoop(
        lambda: open_client(where, base_url=base_url, seconds=seconds, key=key, max_bytes=max_bytes), wrap
    )


def gemini_clients(
    where: str, *, base_url: str, key: Key | None, seconds: float, max_bytes: int, api_version: str
) -> PerLoop[genai.Client]:
    """Return Google's client for the Gemini API."""

    def wrap(http: httpx2.AsyncClient) -> genai.Client:
        import httpx2
        from google import genai
        from google.genai.types import HttpOptions

        # The SDK also requires a synchronous client, which is never used.
        unused = httpx2.Client(verify=ssl_context(), trust_env=False)
        # The version is always sent: the SDK or the environment sets the default, and a proxy with this API
        # may support only one version.
        options = HttpOptions(
            base_url=base_url, api_version=api_version, httpx_async_client=http, httpx_client=unused
        )
        return genai.Client(api_key=PLACEHOLDER, vertexai=False, http_options=options)

    return PerLoop(
        lambda: open_client(where, base_url=base_url, seconds=seconds, key=key, max_bytes=max_bytes), wrap
    )
