"""The one door to the network: every request of every remote backend leaves here, every answer comes in here.

Both SDKs and our own clients are given this HTTP client. It adds the key, keeps the deadline from the first
byte to the last, follows no redirect, takes no compressed and no endless answer, and turns whatever went
wrong into the typed errors of `outcomes.py`. SDKs therefore only ever see good answers.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Generic, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import httpx2

from interleave.backends.remote import outcomes
from interleave.backends.remote.keys import Key
from interleave.errors import BackendError

MAX_BODY_BYTES = 64_000_000
"""A base64 PNG of 16 megapixels is at most this large; more is cut off unread."""
CONNECT_SECONDS = 10.0
MOST_CONNECTIONS = 256
KEEP_ALIVE_SECONDS = 4.0
"""Less than the 5 s after which many servers close a silent connection."""
PICTURE = {"expects": "picture"}
"""The `extensions` of a request that is answered with a picture's bytes instead of JSON."""
ANYTHING = {"expects": "anything"}

Client = TypeVar("Client")


class Door(httpx2.AsyncBaseTransport):
    """A transport that lets only whole, good answers through."""

    def __init__(self, where: str, *, seconds: float, key: Key | None, trust_proxies: bool) -> None:
        self.where = where
        self.seconds = seconds
        self.key = key
        self.inner = _transports(trust_proxies)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
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
            raise outcomes.too_slow(self.where, self.seconds) from None
        except httpx2.ConnectTimeout:
            raise outcomes.unreachable(self.where, f"no connection within {connect:g} s") from None
        except httpx2.TimeoutException:
            raise outcomes.too_slow(self.where, self.seconds) from None
        except (httpx2.TransportError, OSError) as error:
            raise self._unreachable(error) from None
        return self._checked(request, response, body)

    async def aclose(self) -> None:
        await self.inner.aclose()

    async def _exchange(self, request: httpx2.Request) -> tuple[httpx2.Response, bytes]:
        response = await self._send(request)
        try:
            return response, await self._read(response)
        finally:
            with suppress(httpx2.TransportError):
                await response.aclose()

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        """The answer's head. A server may close a silent connection just when we use it again: that is no
        failure of anything, and the request is sent once more on a new one."""
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

    async def _read(self, response: httpx2.Response) -> bytes:
        coding = response.headers.get("content-encoding", "identity")
        if coding.lower() != "identity":
            raise outcomes.bad_reply(self.where, f"it is compressed ({coding}), which was not asked for")
        pieces, size = [], 0
        if not isinstance(response.stream, httpx2.AsyncByteStream):
            raise outcomes.bad_reply(self.where, "it cannot be read")
        async for piece in response.stream:
            size += len(piece)
            if size > MAX_BODY_BYTES:
                raise outcomes.bad_reply(self.where, f"it is larger than {MAX_BODY_BYTES:,} bytes")
            pieces.append(piece)
        return b"".join(pieces)

    def _checked(self, request: httpx2.Request, response: httpx2.Response, body: bytes) -> httpx2.Response:
        status, headers = response.status_code, dict(response.headers)
        if not 200 <= status < 300:
            raise outcomes.error_of_status(self.where, status, headers, body, key=self.key)
        expects = request.extensions.get("expects", "json")
        if expects == "json":
            self._refuse_no_json(headers.get("content-type", "no type"), body)
            headers["content-type"] = "application/json"
        kept = {name: value for name, value in headers.items() if name not in ("transfer-encoding",)}
        return httpx2.Response(status, headers=kept, content=body, request=request)

    def _refuse_no_json(self, content_type: str, body: bytes) -> None:
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            problem = f"it is not JSON but {content_type}" if body else "it is empty"
            text = body[:1000].decode("utf-8", "replace")
            raise outcomes.bad_reply(self.where, problem, excerpt=text, key=self.key) from None
        if not isinstance(value, dict):
            raise outcomes.bad_reply(self.where, f"it is a JSON {type(value).__name__}, not an object")

    def _unreachable(self, error: BaseException) -> BackendError:
        causes = list(_causes(error))
        if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
            return outcomes.unreachable(self.where, "its certificate is not trusted", for_good=True)
        if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
            return outcomes.unreachable(self.where, "connection refused: is it running?")
        return outcomes.unreachable(self.where, str(error) or type(error).__name__)


class _Transports:
    """Direct connections, and those through the proxies of the environment where these are trusted."""

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
        max_connections=MOST_CONNECTIONS,
        max_keepalive_connections=MOST_CONNECTIONS,
        keepalive_expiry=KEEP_ALIVE_SECONDS,
    )
    return httpx2.AsyncHTTPTransport(verify=trusted(), limits=limits, proxy=proxy)


@cache
def trusted() -> ssl.SSLContext:
    """Whom we trust: the authorities of the system, or of SSL_CERT_FILE. Made once, for it takes a while."""
    return httpx2.create_ssl_context()


def _transports(trust_proxies: bool) -> _Transports:
    from urllib.request import getproxies

    proxy = getproxies().get("https") if trust_proxies else None
    return _Transports({"https": _transport(proxy)} if proxy else {})


def open_client(
    where: str, *, seconds: float, key: Key | None = None, base_url: str = ""
) -> httpx2.AsyncClient:
    """An HTTP client whose only way out is the door."""
    # Through a proxy an https request is a sealed tunnel; a plain one would hand it the key and the pictures.
    trusted = base_url.lower().startswith("https:") and not _bypassed(base_url)
    door = Door(where, seconds=seconds, key=key, trust_proxies=trusted)
    return httpx2.AsyncClient(transport=door, base_url=base_url, follow_redirects=False, trust_env=False)


def _bypassed(url: str) -> bool:
    from urllib.request import proxy_bypass

    return bool(proxy_bypass(urlsplit(url).hostname or ""))


class PerLoop(Generic[Client]):
    """One client for every event loop that uses it, closed when that loop ends.

    A connection belongs to the loop it was opened in, and a backend may live through several, or end before
    its loop. asyncio closes open async generators when a loop ends, so one of them holds the HTTP client.
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
            _HOLDERS[http] = _held(http, lambda: self._clients.pop(loop, None))
            with suppress(StopIteration):  # it yields without waiting, so that one step reaches the yield
                _HOLDERS[http].__anext__().send(None)
            self._clients[loop] = self._wrap(http)
        return self._clients[loop]


_HOLDERS: dict[httpx2.AsyncClient, AsyncGenerator[None]] = {}
"""What closes each open client, kept alive here: a holder that is forgotten early is not waited for."""


async def _held(http: httpx2.AsyncClient, forget: Callable[[], object]) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        forget()
        _HOLDERS.pop(http, None)
        await http.aclose()


@contextmanager
def typed_outcomes(where: str) -> Iterator[None]:
    """Whatever an SDK raises, as the error the door had found; else as an answer that could not be used."""
    try:
        yield
    except BackendError:
        raise
    except Exception as error:
        for cause in _causes(error):
            if isinstance(cause, BackendError):
                raise cause from None
        raise outcomes.bad_reply(where, f"{type(error).__name__}: {error}") from error


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__
