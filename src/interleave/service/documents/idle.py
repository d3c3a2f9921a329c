"""Idle shutdown: a service started by an MCP host exits once it has had no clients for a while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from interleave.service.documents.service import Documents
from interleave.service.http.middleware import Application, Scope, Send
from interleave.service.http.request_bodies import Receive

CHECKS = 10
"""Checks per idle period."""


class LastUse:
    """ASGI application that remembers when it was last called."""

    def __init__(self, app: Application, clock: Callable[[], float] = time.monotonic) -> None:
        self.app = app
        self.clock = clock
        self._last = clock()
        self._open = 0

    @property
    def idle_seconds(self) -> float:
        """Time since the last request ended; 0 while one is open."""
        return 0.0 if self._open else self.clock() - self._last

    def touch(self) -> None:
        """Count this moment as a use."""
        self._last = self.clock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._open += 1
        try:
            await self.app(scope, receive, send)
        finally:
            self._open -= 1
            self.touch()


async def until_idle(used: LastUse, documents: Documents, seconds: float) -> None:
    """Return when there was no request for `seconds` and no job is open."""
    while True:
        await asyncio.sleep(seconds / CHECKS)
        load = await documents.load()
        if load.waiting or load.running:
            used.touch()
        elif used.idle_seconds >= seconds:
            return
