"""The generator server process: binds its port, starts the workers, serves, and drains on shutdown."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from interleave import ConfigurationError
from interleave.plugin import count, redaction
from interleave.service.generator.app import build_app
from interleave.service.generator.config import ServerConfig
from interleave.service.generator.metrics import Metrics
from interleave.service.generator.pool import Pool
from interleave.service.generator.registration import Registration, own_address
from interleave.service.generator.request_handling import Service
from interleave.service.http.auth import TOKEN_VARIABLE, Access, check_public
from interleave.service.http.connection_limits import ConnectionLimiter, max_connections
from interleave.service.http.connections import KEEP_ALIVE_SECONDS, BoundedConnection
from interleave.service.http.memory import trim_freed_memory
from interleave.service.http.refusals import Refusal
from interleave.service.http.signals import drain_on_signals

log = logging.getLogger("interleave.service")
HEADER_BYTES = 32_768
GRACE_SECONDS = 5.0
ACCEPT_BATCH = 8
"""Connections accepted per loop iteration, so that each is read before many others arrive."""
BACKLOG = 2048
"""Connections the kernel queues before they are accepted."""
DRAIN_POLL_SECONDS = 0.05
UNREAD_SECONDS = 2.0
"""Time for clients to read the file of addresses again."""


def serve(config: ServerConfig, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C. `announce` receives the address once the port is open."""
    check_public(config.host, config.token)
    listening = listen(config.host, config.port)
    trim_freed_memory()
    log.setLevel(logging.INFO)
    redaction.keep_environment_secret()
    if config.token:
        redaction.keep_secret(config.token, TOKEN_VARIABLE)
    with listening, redaction.redacted_logging("%(asctime)s %(message)s"):
        asyncio.run(_serve(config, listening, announce))


async def _serve(config: ServerConfig, listening: socket.socket, announce: Callable[[str], None]) -> None:
    metrics = Metrics()
    pool = Pool(
        config.generator,
        config.devices,
        limits=config.limits,
        observer=metrics,
        ignored=config.ignored,
        fixed=config.fixed,
    )
    metrics.watch(pool)
    app = build_app(Service(pool, config.models, metrics), Access(config.token))
    server = Server(uvicorn_config(app))
    pool.start()
    registration = None
    if config.register is not None:
        url = own_address(address_of(listening), config.host, config.address)
        registration = Registration(config.register, url, lambda: pool.state in ("ready", "degraded"))
        registration.start()
    try:
        with drain_on_signals(server, lambda: _drain(server, pool, registration)):
            serving = asyncio.create_task(server.serve(sockets=[listening]))
            announce(address_of(listening))
            await asyncio.wait({serving, pool.fatal}, return_when=asyncio.FIRST_COMPLETED)
            server.should_exit = True
            await serving
        if pool.fatal.done():
            pool.fatal.result()
    finally:
        if registration is not None:
            await registration.stop()
        await pool.stop()


class Server(uvicorn.Server):
    """uvicorn without its signal handlers, which would exit by the signal instead of with code 0."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for each in sockets or []:
            each.listen(BACKLOG)  # asyncio set it to the accept batch


async def _drain(server: uvicorn.Server, pool: Pool, registration: Registration | None = None) -> None:
    """Finish tasks in flight, within a time limit. The port stays open, and new requests get a 503.

    A registered server first removes its address, and serves clients that have not read the file again.
    """
    if registration is not None:
        await registration.stop()
        await asyncio.sleep(min(UNREAD_SECONDS, pool.limits.drain_seconds))
    log.info("shutting down: %s to finish", count(pool.in_flight + len(pool.waiting), "image"))
    pool.draining = True
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + pool.limits.drain_seconds
    while pool.busy and loop.time() < ends_at:
        await asyncio.sleep(DRAIN_POLL_SECONDS)
    pool.fail_all(Refusal("the server is shutting down", status=503, retry_after=5))
    # The remaining time is for responses that are still being sent.
    server.config.timeout_graceful_shutdown = int(max(0.0, ends_at - loop.time()) + GRACE_SECONDS)
    server.should_exit = True


def uvicorn_config(app: Any) -> uvicorn.Config:
    limiter = ConnectionLimiter(max_connections())
    return uvicorn.Config(
        app,
        http=type("Connection", (BoundedConnection,), {"limiter": limiter}),
        backlog=ACCEPT_BATCH,
        ws="none",
        lifespan="off",
        proxy_headers=False,  # forwarded headers are not trusted, and not needed
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=int(GRACE_SECONDS),
        h11_max_incomplete_event_size=HEADER_BYTES,
    )


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket. Connections are queued until the server runs."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigurationError(f"--host {host}: {error.strerror or error}") from None
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise ConfigurationError(
            f"cannot listen on {host}:{port} ({error.strerror}): choose another --port, or free this one"
        ) from None
    return listening


def address_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
