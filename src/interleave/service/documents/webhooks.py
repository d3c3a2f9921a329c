"""Webhooks: a signed call when a job ends, following Standard Webhooks, retried until it is acknowledged.

Every service sends all calls that are due, so another service sends those of a process that died.

A service calls only hosts that its operator allows. All addresses of a name must be public, and the
connection uses an address that was checked, so DNS rebinding has no effect. An origin that is allowed with
scheme and port, such as `http://10.0.0.5:9000`, may be private. Redirects are not followed.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import json
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from interleave import ConfigurationError, StorageError
from interleave.service.documents.deliveries import Deliveries, Delivery
from interleave.service.documents.jobs import Job
from interleave.service.documents.refusals import ApiRefusal
from interleave.service.documents.response_json import response_status
from interleave.service.documents.supervision import Supervision

log = logging.getLogger(__name__)
SECRET_VARIABLE = "INTERLEAVE_WEBHOOK_SECRET"
SECRET_PREFIX = "whsec_"
DELAYS = (5.0, 30.0, 120.0, 600.0, 1800.0, 3600.0, 7200.0, 14400.0)
"""Seconds before each retry; after the last one the call is dropped."""
TIMEOUT_SECONDS = 10.0
GRACE_SECONDS = 15.0
"""Time after which a sender that has begun an attempt and not reported its end counts as dead."""
MAX_CONCURRENT_CALLS = 8
STUCK_SECONDS = 120.0
POLL_SECONDS = 2.0
"""Interval for looking for calls that are due."""
PORTS = {"http": 80, "https": 443}
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
Resolve = Callable[[str, int], Awaitable[list[str]]]


@dataclass(frozen=True)
class Target:
    """Target of a webhook call: its URL, and the checked address."""

    url: SplitResult
    address: str

    @property
    def port(self) -> int:
        return self.url.port or PORTS[self.url.scheme]


class AllowedHosts:
    """Allowed hosts: `example.com` for public addresses over HTTPS, or a whole origin."""

    def __init__(self, entries: Iterable[str], resolve: Resolve | None = None) -> None:
        self._hosts: set[str] = set()
        self._origins: set[tuple[str, str, int]] = set()
        self._resolve = resolve or _resolve
        for entry in entries:
            self._add(entry)

    def _add(self, entry: str) -> None:
        if "://" not in entry:
            if not entry or any(mark in entry for mark in "/:@?# *"):
                raise ConfigurationError(f"--webhook-host {entry!r} is neither a host nor scheme://host:port")
            self._hosts.add(entry.lower().rstrip("."))
            return
        url = _parsed(entry)
        if url is None or url.path not in ("", "/") or url.query:
            raise ConfigurationError(f"--webhook-host {entry!r} is neither a host nor scheme://host:port")
        self._origins.add(_origin(url))

    def check(self, text: str) -> None:
        """Refuse a URL that is not allowed, without resolving it or connecting."""
        self._allowed(text)

    def _allowed(self, text: str) -> tuple[SplitResult, bool]:
        """Return the URL and whether its address may be private."""
        url = _parsed(text)
        if url is None:
            raise _refused("is not a valid URL: use https://host/path")
        if _origin(url) in self._origins:
            return url, True
        if url.scheme == "https" and url.hostname in self._hosts and url.port in (None, 443):
            return url, False
        raise _refused("is not on an allowed host")

    async def target(self, text: str) -> Target:
        """Return the address to connect to; refuse a name with any non-public address."""
        url, private = self._allowed(text)
        host = url.hostname or ""
        addresses = await self._resolve(host, url.port or PORTS[url.scheme])
        if not addresses:
            raise _refused("cannot be resolved")
        if not private and not all(map(is_public, addresses)):
            raise _refused("has an address that is not public")
        return Target(url, addresses[0])


def is_public(text: str) -> bool:
    """Return whether an address, and any IPv4 address embedded in it, is public."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        hidden = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
        if address in _NAT64 or int(address) >> 32 == 0:
            hidden.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if any(each is not None and not is_public(str(each)) for each in hidden):
            return False
    return address.is_global and not address.is_multicast


def _parsed(text: str) -> SplitResult | None:
    """Return the URL; `None` if it is invalid or parsers may disagree about it."""
    if not text.isascii() or not text.isprintable() or any(mark in text for mark in " \\<>\"'`{}|^#"):
        return None
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        return None
    if url.scheme not in PORTS or not url.hostname or "@" in url.netloc or port == 0:
        return None
    return url


def _origin(url: SplitResult) -> tuple[str, str, int]:
    return url.scheme, (url.hostname or "").rstrip("."), url.port or PORTS[url.scheme]


def _refused(why: str) -> ApiRefusal:
    return ApiRefusal(f"interleave.webhook {why}", parameter="interleave.webhook", code="invalid_webhook")


async def _resolve(host: str, port: int) -> list[str]:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return [str(info[4][0]) for info in found]


def secret_bytes(secret: str) -> bytes:
    """Return the key of a secret `whsec_BASE64`; other text is used unchanged."""
    if not secret.startswith(SECRET_PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except ValueError:
        raise ConfigurationError(f"{SECRET_VARIABLE} is not base64 after {SECRET_PREFIX}") from None


def signed_headers(secret: bytes, id_: str, timestamp: int, body: str) -> dict[str, str]:
    """Return the headers of Standard Webhooks: id, time, and an HMAC over both and the body."""
    digest = hmac.new(secret, f"{id_}.{timestamp}.{body}".encode(), hashlib.sha256).digest()
    return {
        "webhook-id": id_,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
        "content-type": "application/json",
        "user-agent": "interleave",
    }


def deliveries_of(job: Job) -> list[Delivery]:
    """Return the call for an ended job, to be stored together with its final state."""
    if job.webhook is None:
        return []
    again = f"_{len(job.ends)}" if job.ends else ""
    id_ = f"evt_{job.id.removeprefix('resp_')}{again}"
    event = {
        "id": id_,
        "object": "event",
        "type": f"response.{response_status(job)}",
        "created_at": int(job.finished or job.created),
        "data": {"id": job.id},
    }
    return [Delivery(id=id_, url=job.webhook, body=json.dumps(event, separators=(",", ":")))]


class Webhooks:
    """Webhook sender of a service."""

    def __init__(
        self,
        deliveries: Deliveries,
        allowed: AllowedHosts,
        secret: str,
        *,
        counted: Callable[[str], None] = lambda outcome: None,
        clock: Callable[[], float] = time.time,
        delays: Sequence[float] = DELAYS,
    ) -> None:
        self.deliveries = deliveries
        self.allowed = allowed
        self.clock = clock
        self._delays = delays
        self._secret = secret_bytes(secret)
        self._counted = counted
        self._wake = asyncio.Event()
        self._sending: asyncio.Task[None] | None = None

    def start(self, supervision: Supervision) -> None:
        """Start making the calls that are due."""
        self._sending = asyncio.create_task(self._send_regularly(supervision))

    def wake(self) -> None:
        """Look for calls that are due: a job has ended."""
        self._wake.set()

    async def stop(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)

    async def _send_regularly(self, supervision: Supervision) -> None:
        with supervision.loop("webhooks", max_age=STUCK_SECONDS) as loop:
            while True:
                loop.beat()
                self._wake.clear()
                try:
                    while due := await self.deliveries.due(limit=MAX_CONCURRENT_CALLS):
                        loop.beat()
                        await asyncio.gather(*map(self.send, due))
                except StorageError as error:
                    log.error("cannot look for webhook calls: %s", error)
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        await self._wake.wait()

    async def send(self, delivery: Delivery) -> None:
        """Make one attempt at a call, unless another service makes it."""
        if not await self.deliveries.begin(delivery, next_in=GRACE_SECONDS):
            return
        problem = await self._try(delivery)
        self._counted("failed" if problem else "ok")
        if problem is not None:
            log.warning("webhook %s failed, attempt %d: %s", delivery.id, delivery.attempts + 1, problem)
        if problem is None or delivery.attempts >= len(self._delays):
            await self.deliveries.remove(delivery.id)
        else:
            await self.deliveries.postpone(delivery.id, self._delays[delivery.attempts])

    async def _try(self, delivery: Delivery) -> str | None:
        """Make the call; return the error, if any."""
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                target = await self.allowed.target(delivery.url)
                headers = signed_headers(self._secret, delivery.id, int(self.clock()), delivery.body)
                status = await _post(target, headers, delivery.body.encode())
        except (ApiRefusal, OSError, TimeoutError, ValueError) as error:
            return str(error) or type(error).__name__
        return None if 200 <= status < 300 else f"the receiver returned status {status}"


async def _post(target: Target, headers: dict[str, str], body: bytes) -> int:
    """POST to the checked address and return the status, without reading the rest of the response."""
    import ssl

    url = target.url
    context = ssl.create_default_context() if url.scheme == "https" else None
    options: dict[str, Any] = {"ssl": context, "server_hostname": url.hostname} if context else {}
    reader, writer = await asyncio.open_connection(target.address, target.port, limit=16_384, **options)
    try:
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        lines = {"host": url.netloc, **headers, "content-length": str(len(body)), "connection": "close"}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        writer.write(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode("ascii") + body)
        await writer.drain()
        status = (await reader.readline()).split(b" ", 2)
        if len(status) < 2 or not status[0].startswith(b"HTTP/1.") or not status[1].isdigit():
            raise ValueError("the response is not HTTP")
        return int(status[1])
    finally:
        writer.close()
