"""Draining a server on SIGTERM and SIGINT."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import uvicorn


@contextmanager
def drain_on_signals(
    server: uvicorn.Server, drain: Callable[[], Coroutine[Any, Any, None]]
) -> Iterator[None]:
    """Start `drain` on the first signal, and end the server immediately on the second."""
    loop = asyncio.get_running_loop()
    draining: list[asyncio.Task[None]] = []

    def end() -> None:
        if draining:
            server.should_exit = server.force_exit = True
        else:
            draining.append(loop.create_task(drain()))

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
        for task in draining:
            task.cancel()
