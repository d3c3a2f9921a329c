"""Progress within a picture, from the websocket of a ComfyUI server.

ComfyUI sends the events of a workflow to the client that queued it: `progress` has the steps that a sampler
has done. It is only for showing: a picture never fails because its progress cannot be followed.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

from interleave.backends import progress
from interleave.backends.remote.http_client import ssl_context
from interleave.backends.remote.keys import Key
from interleave.types import Slot

log = logging.getLogger(__name__)

OPEN_SECONDS = 10.0
CLOSE_SECONDS = 0.1
"""A finished picture does not wait for a server that is slow to say goodbye."""
MAX_MESSAGE_BYTES = 16_000_000
"""Previews of the picture come on the same websocket; they are dropped."""
MAX_STEPS = 100_000


@asynccontextmanager
async def following(url: str, client: str, key: Key | None, slot: Slot) -> AsyncGenerator[None]:
    """Report the progress of the workflows that this client queues, if anybody listens."""
    if not progress.has_listeners():
        yield
        return
    task = asyncio.create_task(_follow(url, client, key, slot))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


_SOCKET_LOG = logging.getLogger(f"{__name__}.socket")
_SOCKET_LOG.setLevel(logging.INFO)  # at DEBUG it writes every header, the key among them


async def _follow(url: str, client: str, key: Key | None, slot: Slot) -> None:
    try:
        from websockets.asyncio.client import connect
        from websockets.exceptions import WebSocketException
    except ImportError:
        log.debug("progress of ComfyUI needs the package 'websockets'")
        return
    address = f"ws{url.removeprefix('http')}/ws?clientId={client}"
    headers = {key.header: key.header_value()} if key else {}
    try:
        async with connect(
            address,
            additional_headers=headers,
            ssl=ssl_context() if address.startswith("wss:") else None,
            open_timeout=OPEN_SECONDS,
            close_timeout=CLOSE_SECONDS,
            max_size=MAX_MESSAGE_BYTES,
            proxy=None,
            logger=_SOCKET_LOG,
        ) as socket:
            async for message in socket:
                if isinstance(message, str) and (steps := _steps_of(message)) is not None:
                    progress.report(slot, *steps)
    except (OSError, TimeoutError, WebSocketException) as error:
        log.debug("progress of ComfyUI cannot be followed: %s", type(error).__name__)


def _steps_of(message: str) -> tuple[int, int] | None:
    """The steps done and their total; None for another event."""
    event: Any = None
    with suppress(ValueError, RecursionError):
        event = json.loads(message)
    if not isinstance(event, dict) or event.get("type") != "progress":
        return None
    data = event.get("data")
    done, total = (data.get("value"), data.get("max")) if isinstance(data, dict) else (None, None)
    if not isinstance(done, int) or not isinstance(total, int) or not 0 <= done <= total <= MAX_STEPS:
        return None
    return done, total
