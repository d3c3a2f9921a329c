"""Load balancing over several servers: each call goes to the server expected to finish it first.

That is the server with the least work: its calls in flight times its recent seconds per call.

A server that cannot be reached, or fails twice in a row, is taken out of rotation. Its `/health` is polled,
quickly at first and then every few seconds, and it returns when that succeeds. While all servers are down,
calls wait for the first to recover. If none has ever responded, the addresses are probably wrong, and calls
fail immediately. A server that is busy, or far slower than the others, is paused for a while.

The addresses may come from a file, which is read again when it changes. A server removed from it finishes
its calls in flight and gets no more.
"""

from __future__ import annotations

import asyncio
import html
import logging
import os
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from interleave import BackendError, ConfigurationError, Failure
from interleave.plugin import files, one_line, read_text
from interleave.remote.http_client import EXPECT_ANYTHING
from interleave.remote.http_errors import UnreadableJson, parse_json, shorten, unreachable

if TYPE_CHECKING:
    import httpx2


log = logging.getLogger(__name__)

_NOT_IN_AN_ADDRESS = re.compile(r"[\s\x00-\x1f\x7f@]")

MAX_FAILURES = 2
"""Consecutive failures before a server is taken out; an unreachable one is taken out immediately."""
FIRST_PROBE_SECONDS = 0.2
"""Delay before the first probe of a server that was taken out: usually only a connection was lost. It
doubles with every probe, and with every time the server is taken out before a call has succeeded."""
HEALTH_SECONDS = 10.0
LOOK_SECONDS = 1.0
"""Minimum time between two checks of an address file, made only when there are calls."""
BUSY_SECONDS = 1.0
"""Pause of a busy server that sends no retry delay."""
SLOW_TIMES = 5.0
"""A server slower than the median of the others by this factor is paused, if at least two are measured."""
LONGEST_REST_SECONDS = 600.0
ESTIMATE_SECONDS = 30.0
"""Lifetime of `seconds_per_call` for a server that gets no calls."""
NOT_SERVER_FAILURES = {Failure.INVALID, Failure.REFUSED, Failure.DENIED, Failure.NO_IMAGE, Failure.BUSY}
"""Failures of a healthy server."""


@dataclass(eq=False)
class Endpoint:
    """One server."""

    url: str
    in_flight: int = 0
    failures: int = 0
    """Consecutive failures."""
    down: bool = False
    times_down: int = 0
    """Times taken out since the last call that succeeded."""
    has_answered: bool = False
    last_used: int = 0
    seconds_per_call: float | None = None
    """Moving average without queue time; None if unknown or out of date."""
    last_ended: float = 0.0
    rests_until: float = 0.0
    """Until then it gets calls only if all others are paused too."""
    slow_times: int = 0
    """Consecutive pauses for being slow."""

    def record(self, seconds: float, among: int) -> None:
        """Update the moving average with one call; `among` is the number of calls in flight."""
        latest = seconds / among
        self.seconds_per_call = (
            latest
            if self.seconds_per_call is None
            else self.seconds_per_call + (latest - self.seconds_per_call) / 3
        )
        self.last_ended = time.monotonic()

    def expire_estimate(self) -> None:
        """Forget the average of an idle server: a slow one gets no calls, and may be fast again."""
        if not self.in_flight and time.monotonic() - self.last_ended > ESTIMATE_SECONDS:
            self.seconds_per_call = None


class EndpointPool:
    """A pool of servers that chooses one for every call."""

    def __init__(
        self,
        urls: list[str],
        is_healthy: Callable[[str], Awaitable[bool]],
        *,
        probe_seconds: float,
        file: EndpointFile | None = None,
    ) -> None:
        self.endpoints = [Endpoint(url) for url in urls]
        self.file = file
        self.probe_seconds = probe_seconds
        self._is_healthy = is_healthy
        self._uses = count(1)
        self._probing: dict[Endpoint, asyncio.Task[None]] = {}
        self._recovered: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @asynccontextmanager
    async def acquire(self, *, wait_seconds: float) -> AsyncGenerator[Endpoint]:
        """Choose the server for one call; a failure of the call may take the server out of rotation."""
        try:
            async with asyncio.timeout(wait_seconds):
                endpoint = await self._choose()
        except TimeoutError:
            raise unreachable(self.label, f"none recovered within {wait_seconds:g} s") from None
        endpoint.in_flight += 1
        started, among = time.monotonic(), endpoint.in_flight
        try:
            yield endpoint
        except BackendError as error:
            self._record_failure(endpoint, error)
            raise
        else:
            endpoint.failures, endpoint.times_down, endpoint.has_answered = 0, 0, True
            endpoint.record(time.monotonic() - started, among)
            self._rest_if_slow(endpoint)
        finally:
            endpoint.in_flight -= 1

    async def _choose(self) -> Endpoint:
        self._reset_for_new_loop()
        self._follow_file()
        while not self.endpoints:  # all have left the file
            await asyncio.sleep(LOOK_SECONDS)
            self._follow_file()
        while not (ready := [each for each in self.endpoints if not each.down]):
            if not any(each.has_answered for each in self.endpoints):
                # No server has ever answered: try one instead of waiting, so that the error says why.
                ready = self.endpoints
                break
            await self._wait_for_recovery()
        now = time.monotonic()
        ready = [each for each in ready if each.rests_until <= now] or ready
        for each in ready:
            each.expire_estimate()
        # A server without an estimate counts as fast as the fastest, so that it is tried.
        fastest = min((each.seconds_per_call for each in ready if each.seconds_per_call), default=1.0)
        chosen = min(
            ready,
            key=lambda each: ((each.in_flight + 1) * (each.seconds_per_call or fastest), each.last_used),
        )
        chosen.last_used = next(self._uses)
        return chosen

    def _follow_file(self) -> None:
        """Replace the servers by those now in the file; servers that remain keep their state."""
        urls = self.file.changed() if self.file is not None else None
        if urls is None:
            return
        known = {each.url: each for each in self.endpoints}
        added, gone = [url for url in urls if url not in known], known.keys() - set(urls)
        log.warning("the servers changed: %d added, %d removed, now %d", len(added), len(gone), len(urls))
        self.endpoints = [known.get(url) or Endpoint(url) for url in urls]
        for url in gone:
            if (probe := self._probing.pop(known[url], None)) is not None:
                probe.cancel()
        if added and self._recovered is not None:
            self._recovered.set()
            self._recovered = None

    def _rest_if_slow(self, endpoint: Endpoint) -> None:
        others = [each.seconds_per_call for each in self.endpoints if each is not endpoint and not each.down]
        known = [seconds for seconds in others if seconds is not None]
        taken = endpoint.seconds_per_call
        if taken is None or len(known) < 2:
            return
        if taken <= SLOW_TIMES * median(known):
            endpoint.slow_times = 0
            return
        rest = min(LONGEST_REST_SECONDS, ESTIMATE_SECONDS * 2**endpoint.slow_times)
        endpoint.slow_times += 1
        endpoint.rests_until, endpoint.seconds_per_call = time.monotonic() + rest, None
        log.warning(
            "%s takes %.1f s per call, the others %.1f s: paused for %.0f s",
            endpoint.url,
            taken,
            median(known),
            rest,
        )

    async def _wait_for_recovery(self) -> None:
        if self._recovered is None:
            log.warning("none of %s responds; waiting for one to recover", self.label)
            self._recovered = asyncio.Event()
        await self._recovered.wait()

    @property
    def label(self) -> str:
        return ", ".join(each.url for each in self.endpoints) or f"the servers in {self.file}"

    def _record_failure(self, endpoint: Endpoint, error: BackendError) -> None:
        if error.kind in NOT_SERVER_FAILURES:
            endpoint.has_answered = True
            if error.kind == Failure.BUSY:  # full or stopping: another server may have capacity
                endpoint.rests_until = time.monotonic() + min(
                    error.retry_after or BUSY_SECONDS, LONGEST_REST_SECONDS
                )
            return
        endpoint.failures += 1
        gone = error.kind in (Failure.UNREACHABLE, Failure.TIMEOUT)
        if not endpoint.down and (gone or endpoint.failures >= MAX_FAILURES):
            endpoint.down = True
            endpoint.times_down += 1
            if len(self.endpoints) > 1:
                log.warning("%s is taken out of rotation: %s", endpoint.url, error)
            self._probing[endpoint] = asyncio.create_task(self._probe(endpoint))

    async def _probe(self, endpoint: Endpoint) -> None:
        """Poll the server until it is healthy, then return it to rotation."""
        for pause in count(endpoint.times_down - 1):
            await asyncio.sleep(min(FIRST_PROBE_SECONDS * 2.0 ** min(pause, 30), self.probe_seconds))
            healthy = False
            with suppress(BackendError, TimeoutError):
                async with asyncio.timeout(HEALTH_SECONDS):
                    healthy = await self._is_healthy(endpoint.url)
            if healthy:
                break
        endpoint.down, endpoint.failures = False, 0
        self._probing.pop(endpoint, None)
        if len(self.endpoints) > 1 or self._recovered is not None:
            log.warning("%s is back in rotation", endpoint.url)
        if self._recovered is not None:
            self._recovered.set()
            self._recovered = None

    def _reset_for_new_loop(self) -> None:
        """In a new event loop, drop the probes of the old one and return all servers to rotation."""
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return
        self._loop, self._recovered = loop, None
        self._probing.clear()
        for endpoint in self.endpoints:
            endpoint.down, endpoint.in_flight = False, 0


class EndpointFile:
    """An address file that is read again when it changes."""

    def __init__(self, path: Path, port: int) -> None:
        self.path = path
        self.port = port
        self._stamp = self._look()
        self._looked = time.monotonic()
        self._problem = ""

    def __str__(self) -> str:
        return str(self.path)

    def changed(self) -> list[str] | None:
        """Return the addresses if the file has changed; None if it has not, or cannot be read."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return None
        self._looked = time.monotonic()
        if (stamp := self._look()) == self._stamp:
            return None
        try:
            urls = read_endpoints(self.path, self.port, may_be_empty=True)
        except ConfigurationError as error:
            if str(error) != self._problem:
                log.warning("%s; the servers stay unchanged", error)
            self._problem = str(error)
            return None
        self._stamp, self._problem = stamp, ""
        return urls

    def _look(self) -> tuple[int, ...]:
        try:
            found = os.stat(self.path)
        except OSError:
            return ()
        return found.st_ino, found.st_size, found.st_mtime_ns


def read_endpoints(path: Path, port: int, *, may_be_empty: bool = False) -> list[str]:
    """Read servers from a file: one address, host or host:port per line; `#` starts a comment."""
    try:
        lines = read_text(path).splitlines()
    except FileNotFoundError:
        raise ConfigurationError(f"the endpoint file {str(path)!r} does not exist") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"the endpoint file {str(path)!r} cannot be read ({files.why(error)})"
        ) from None
    urls = []
    for number, line in enumerate(lines, 1):
        address = line.partition("#")[0].strip()
        if address:
            urls.append(_url(address, port, f"{path}:{number}"))
    if not urls and not may_be_empty:
        raise ConfigurationError(f"the endpoint file {str(path)!r} names no server: write one per line")
    return list(dict.fromkeys(urls))


def _url(address: str, port: int, where: str) -> str:
    url = address if "//" in address else f"http://{address}"
    try:
        parts = urlsplit(url)
        named = parts.scheme in ("http", "https") and parts.hostname and not _NOT_IN_AN_ADDRESS.search(url)
        with_port = url if parts.port or "//" in address else f"http://{address}:{port}"
    except ValueError:
        named, with_port = None, ""
    if not named:
        raise ConfigurationError(f"{where}: not an address: write e.g. http://10.0.0.7:8011 or 10.0.0.7")
    return with_port.rstrip("/")


PROBE_SECONDS = 5.0
MAX_VALUES = 200_000
MAX_PATHS = 8
DESCRIBE = "describe its fields in a file and use json:./FILE.toml@{url}"
_TITLE = re.compile(rb"<title[^>]{0,200}>([^<]{1,200})", re.IGNORECASE)

Recognize = Callable[[Any], str | None]


def _from_openapi(found: Any) -> str | None:
    """Recognize a server by its OpenAPI description, as FastAPI serves it."""
    paths = found.get("paths") if isinstance(found, dict) else None
    if not isinstance(paths, dict):
        return None
    if "/sdapi/v1/txt2img" in paths:
        return "Stable Diffusion web UI: use json:automatic1111@{url}"
    if "/predictions" in paths:
        return "a Cog container: use json:cog@{url}"
    if any(path.endswith("/images/generations") for path in paths):
        return "a server with OpenAI's Images API: use openai-images:MODEL@{url}/v1"
    posts = [path for path, calls in paths.items() if isinstance(calls, dict) and "post" in calls]
    if not posts:
        return None
    listed = ", ".join(one_line(str(path), 60) for path in posts[:MAX_PATHS])
    return f"an API with {shorten(listed)}: {DESCRIBE}"


def _comfyui(found: Any) -> str | None:
    known = isinstance(found, dict) and "devices" in found and "system" in found
    return "ComfyUI: use comfyui:WORKFLOW.json@{url}" if known else None


def _openai(found: Any) -> str | None:
    listed = found.get("data") if isinstance(found, dict) else None
    if not isinstance(listed, list):
        return None
    named = next((each["id"] for each in listed if isinstance(each, dict) and each.get("id")), "MODEL")
    model = shorten(one_line(str(named), 60))
    return f"a server with OpenAI's API: use openai-images:{model}@{{url}}/v1 if its model generates images"


def _gradio(found: Any) -> str | None:
    known = isinstance(found, dict) and "components" in found and "dependencies" in found
    return "a Gradio page, whose API needs a small plugin (interleave.generators)" if known else None


KINDS: tuple[tuple[str, Recognize], ...] = (
    ("/openapi.json", _from_openapi),
    ("/system_stats", _comfyui),
    ("/v1/models", _openai),
    ("/config", _gradio),
)


@asynccontextmanager
async def identifying_server(http: httpx2.AsyncClient, url: str) -> AsyncGenerator[None]:
    """Add to a 404 or 405 what kind of server responds, and which spec to use instead.

    The kind is found with a few harmless GET requests.
    """
    try:
        yield
    except BackendError as error:
        if error.status not in (404, 405):
            raise
        found = await kind_of_server(http)
        kind = (found or f"of an unknown kind: {DESCRIBE}").replace("{url}", url)
        raise BackendError(
            f"{url} answered {error.status}: it does not accept this request. The server is {kind}",
            kind=error.kind,
            status=error.status,
        ) from None


async def kind_of_server(http: httpx2.AsyncClient) -> str | None:
    """Return the kind of server and the spec to use, with `{url}` for its address; None if unknown."""
    for path, recognize in KINDS:
        body = await _body_of(http, path)
        try:
            said = recognize(parse_json(body, max_values=MAX_VALUES)) if body else None
        except UnreadableJson:
            continue
        if said is not None:
            return said
    title = _TITLE.search(await _body_of(http, "/"))
    if title is None:
        return None
    name = shorten(html.unescape(title[1].decode("utf-8", "replace")))
    return f"a web page, {name!r}: if it has an API, {DESCRIBE}"


async def _body_of(http: httpx2.AsyncClient, path: str) -> bytes:
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            return bytes((await http.get(path, extensions=EXPECT_ANYTHING)).content)
    except (BackendError, TimeoutError):
        return b""
