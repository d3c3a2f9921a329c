"""The one door to the network: every request of every remote backend leaves here, every answer comes in here.

Both SDKs and our own clients are given this HTTP client. It asks no other address than its own, adds the key,
keeps the deadline from the first byte to the last, follows no redirect, keeps no cookies, takes no compressed
and no endless answer, and turns whatever went wrong into the typed errors of `outcomes.py`. SDKs therefore
only ever see good answers.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import httpx2

from interleave.backends.remote import http_errors as outcomes
from interleave.backends.remote.answers import ANSWER
from interleave.backends.remote.bounds import ERROR_BYTES, PICTURE_BYTES, UnreadableAnswer, value_in
from interleave.backends.remote.keys import Key, origin_of
from interleave.backends.result_checks import explained_by
from interleave.errors import BackendError, Failure

CONNECT_SECONDS = 10.0
MOST_CONNECTIONS = 256
KEEP_ALIVE_SECONDS = 4.0
"""Less than the 5 s after which many servers close a silent connection."""
MOST_PIECES = 200_000
"""In which an answer may come: a server that sends a byte at a time costs us far more than itself."""
PICTURE = {"expects": "picture", "most_bytes": PICTURE_BYTES}
"""The `extensions` of a request that is answered with a picture's bytes instead of JSON."""
ANYTHING = {"expects": "anything", "most_bytes": ERROR_BYTES}
HEALTH = {"most_bytes": ERROR_BYTES}

Client = TypeVar("Client")


class Door(httpx2.AsyncBaseTransport):
    """A transport that lets only whole, good answers through."""

    def __init__(
        self,
        where: str,
        *,
        origin: str,
        seconds: float,
        key: Key | None,
        trust_proxies: bool,
        most_bytes: int,
    ) -> None:
        self.where = where
        self.origin = origin
        self.most_bytes = most_bytes
        self.seconds = seconds
        self.key = key
        self.inner = _transports(trust_proxies)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self._refuse_other_address(request)
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
        finally:
            if self.key is not None:
                del request.headers[self.key.header]  # whoever keeps the request must not keep the key
        return self._checked(request, response, body)

    async def aclose(self) -> None:
        await self.inner.aclose()

    def _refuse_other_address(self, request: httpx2.Request) -> None:
        """An SDK that would ask another server must not take the key there."""
        if (origin := origin_of(str(request.url))) != self.origin:
            raise BackendError(
                f"{self.where}: a request to {origin} is not sent, for it is another server",
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

    async def _read(self, request: httpx2.Request, response: httpx2.Response) -> bytes:
        coding = response.headers.get("content-encoding", "identity")
        if coding.lower() != "identity":
            raise outcomes.bad_reply(self.where, f"it is compressed ({coding}), which was not asked for")
        if not isinstance(response.stream, httpx2.AsyncByteStream):
            raise outcomes.bad_reply(self.where, "it cannot be read")
        good = 200 <= response.status_code < 300
        most = request.extensions.get("most_bytes", self.most_bytes) if good else ERROR_BYTES
        body, pieces = bytearray(), 0
        async for piece in response.stream:
            body += piece
            pieces += 1
            if len(body) <= most and pieces <= MOST_PIECES:
                continue
            if not good:
                break  # of an error only the beginning is shown
            size = f"{most:,} bytes" if len(body) > most else f"{MOST_PIECES:,} pieces"
            raise outcomes.bad_reply(self.where, f"it is larger than {size}", for_good=True)
        return bytes(body)

    def _checked(self, request: httpx2.Request, response: httpx2.Response, body: bytes) -> httpx2.Response:
        """The answer as SDKs see it: of its headers nothing but its type, so that no cookie is kept."""
        status, content_type = response.status_code, response.headers.get("content-type", "no type")
        if not 200 <= status < 300:
            raise outcomes.error_of_status(self.where, status, dict(response.headers), body, key=self.key)
        found = {}
        if request.extensions.get("expects", "json") == "json":
            found = {ANSWER: self._object_in(body, content_type)}
            content_type = "application/json"
        kept = {"content-type": content_type}
        return httpx2.Response(status, headers=kept, content=body, request=request, extensions=found)

    def _object_in(self, body: bytes, content_type: str) -> dict[str, Any]:
        try:
            value = value_in(body)
        except UnreadableAnswer as error:
            if error.for_good:
                raise outcomes.bad_reply(self.where, str(error), for_good=True) from None
            problem = f"it is not JSON but {content_type}" if body else "it is empty"
            text = body[:1000].decode("utf-8", "replace")
            raise outcomes.bad_reply(self.where, problem, excerpt=text) from None
        if not isinstance(value, dict):
            raise outcomes.bad_reply(self.where, f"it is a JSON {type(value).__name__}, not an object")
        return value

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
    where: str, *, base_url: str, seconds: float, key: Key | None = None, most_bytes: int = PICTURE_BYTES
) -> httpx2.AsyncClient:
    """An HTTP client whose only way out is the door, to this address alone."""
    # Through a proxy an https request is a sealed tunnel; a plain one would hand it the key and the pictures.
    trusted = base_url.lower().startswith("https:") and not _bypassed(base_url)
    door = Door(
        where,
        origin=origin_of(str(httpx2.URL(base_url))),  # spelled as in its requests
        seconds=seconds,
        key=key,
        trust_proxies=trusted,
        most_bytes=most_bytes,
    )
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
        raise outcomes.bad_reply(where, f"{type(error).__name__}: {error}") from explained_by(error)


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__
