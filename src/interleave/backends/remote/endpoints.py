"""Several servers of one kind: each call goes to the one that will have it done first.

That is the one with the fewest in flight, each weighed with the time the server has lately taken for one.

A server that cannot be reached, or fails twice in a row, is taken out; its `/health` is asked every few
seconds, and when it says yes the server is back. While all are out, calls wait for the first to come back,
unless none has ever answered: then the addresses are probably wrong, and that is said at once.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

from interleave.backends.remote.http_errors import unreachable
from interleave.errors import BackendError, ConfigurationError, Failure
from interleave.files import read_text, why

log = logging.getLogger(__name__)

_NOT_IN_AN_ADDRESS = re.compile(r"[\s\x00-\x1f\x7f@]")

FAILURES_TO_LEAVE = 2
"""So many failures in a row; one that cannot even be reached leaves at once."""
HEALTH_SECONDS = 10.0
PACE_SECONDS = 30.0
"""How long the pace of a server that gets no calls is believed."""
INNOCENT = {Failure.INVALID, Failure.REFUSED, Failure.DENIED, Failure.NO_PICTURE, Failure.BUSY}
"""Failures that say nothing about the server's health."""


@dataclass(eq=False)
class Endpoint:
    """One server."""

    url: str
    in_flight: int = 0
    failures: int = 0
    """In a row."""
    out: bool = False
    has_answered: bool = False
    last_used: int = 0
    pace: float | None = None
    """Seconds it takes for one call, its queue left out; None where that is not known, or not any more."""
    last_ended: float = 0.0

    def took(self, seconds: float, among: int) -> None:
        """One call among so many took so long; what is new counts for a third."""
        latest = seconds / among
        self.pace = latest if self.pace is None else self.pace + (latest - self.pace) / 3
        self.last_ended = time.monotonic()

    def forget_old_pace(self) -> None:
        """A server that was once slow, and is therefore left alone, must get a chance to show otherwise."""
        if not self.in_flight and time.monotonic() - self.last_ended > PACE_SECONDS:
            self.pace = None


class EndpointPool:
    """The servers, and which of them takes the next call."""

    def __init__(
        self, urls: list[str], is_healthy: Callable[[str], Awaitable[bool]], *, probe_seconds: float
    ) -> None:
        self.endpoints = [Endpoint(url) for url in urls]
        self.probe_seconds = probe_seconds
        self._is_healthy = is_healthy
        self._uses = count(1)
        self._probing: dict[Endpoint, asyncio.Task[None]] = {}
        self._returned: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @asynccontextmanager
    async def turn(self, *, wait_seconds: float) -> AsyncGenerator[Endpoint]:
        """The server for one call; how the call ends decides whether the server stays."""
        try:
            async with asyncio.timeout(wait_seconds):
                endpoint = await self._choose()
        except TimeoutError:
            raise unreachable(self.named, f"none came back within {wait_seconds:g} s") from None
        endpoint.in_flight += 1
        started, among = time.monotonic(), endpoint.in_flight
        try:
            yield endpoint
        except BackendError as error:
            self._failed(endpoint, error)
            raise
        else:
            endpoint.failures, endpoint.has_answered = 0, True
            endpoint.took(time.monotonic() - started, among)
        finally:
            endpoint.in_flight -= 1

    async def _choose(self) -> Endpoint:
        self._belong_to_this_loop()
        while not (ready := [each for each in self.endpoints if not each.out]):
            if not any(each.has_answered for each in self.endpoints):
                # Nothing has ever worked: let this call find out why, rather than wait for what never comes.
                ready = self.endpoints
                break
            await self._wait_for_one_to_return()
        for each in ready:
            each.forget_old_pace()
        # One whose pace is not known yet is believed to be as fast as the fastest: so it is tried.
        fastest = min((each.pace for each in ready if each.pace), default=1.0)
        chosen = min(ready, key=lambda each: ((each.in_flight + 1) * (each.pace or fastest), each.last_used))
        chosen.last_used = next(self._uses)
        return chosen

    async def _wait_for_one_to_return(self) -> None:
        if self._returned is None:
            log.warning("none of %s answers; waiting for one to come back", self.named)
            self._returned = asyncio.Event()
        await self._returned.wait()

    @property
    def named(self) -> str:
        return ", ".join(each.url for each in self.endpoints)

    def _failed(self, endpoint: Endpoint, error: BackendError) -> None:
        if error.kind in INNOCENT:
            endpoint.has_answered = True
            return
        endpoint.failures += 1
        gone = error.kind in (Failure.UNREACHABLE, Failure.TIMEOUT)
        if not endpoint.out and (gone or endpoint.failures >= FAILURES_TO_LEAVE):
            endpoint.out = True
            if len(self.endpoints) > 1:
                log.warning("%s is taken out: %s", endpoint.url, error)
            self._probing[endpoint] = asyncio.create_task(self._probe(endpoint))

    async def _probe(self, endpoint: Endpoint) -> None:
        """Ask until it is healthy again, then let it back in."""
        while True:
            await asyncio.sleep(self.probe_seconds)
            healthy = False
            with suppress(BackendError, TimeoutError):
                async with asyncio.timeout(HEALTH_SECONDS):
                    healthy = await self._is_healthy(endpoint.url)
            if healthy:
                break
        endpoint.out, endpoint.failures = False, 0
        self._probing.pop(endpoint, None)
        if len(self.endpoints) > 1 or self._returned is not None:
            log.warning("%s is back", endpoint.url)
        if self._returned is not None:
            self._returned.set()
            self._returned = None

    def _belong_to_this_loop(self) -> None:
        """Probes and waits of a loop that has ended are gone; what is out is tried again."""
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return
        self._loop, self._returned = loop, None
        self._probing.clear()
        for endpoint in self.endpoints:
            endpoint.out, endpoint.in_flight = False, 0


def read_endpoints(path: Path, port: int) -> list[str]:
    """The servers named in a file: an address, a host or host:port a line; `#` starts a comment."""
    try:
        lines = read_text(path).splitlines()
    except FileNotFoundError:
        raise ConfigurationError(f"the file of endpoints {str(path)!r} does not exist") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"the file of endpoints {str(path)!r} cannot be read ({why(error)})"
        ) from None
    urls = []
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].strip()
        if words:
            urls.append(_address(words, port, f"{path}:{number}"))
    if not urls:
        raise ConfigurationError(f"the file of endpoints {str(path)!r} names none: write one a line")
    return list(dict.fromkeys(urls))


def _address(words: str, port: int, where: str) -> str:
    url = words if "//" in words else f"http://{words}"
    try:
        parts = urlsplit(url)
        named = parts.scheme in ("http", "https") and parts.hostname and not _NOT_IN_AN_ADDRESS.search(url)
        with_port = url if parts.port or "//" in words else f"http://{words}:{port}"
    except ValueError:
        named, with_port = None, ""
    if not named:
        raise ConfigurationError(f"{where}: not an address: write e.g. http://10.0.0.7:8011 or 10.0.0.7")
    return with_port.rstrip("/")
