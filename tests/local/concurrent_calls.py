"""Calls that are all in their queue before the first is computed, however fast the machine is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from work import HANGS_AFTER


@contextmanager
def kept_busy(executor: ThreadPoolExecutor) -> Iterator[None]:
    """Calls made within it all wait; otherwise milliseconds decide which of them share a batch."""
    free = threading.Event()
    executor.submit(free.wait, HANGS_AFTER)
    try:
        yield
    finally:
        free.set()


async def queued(executor: ThreadPoolExecutor, calls: Sequence[Awaitable[Any]]) -> list[asyncio.Future[Any]]:
    """The calls as futures, all in their queue before the executor takes the first."""
    with kept_busy(executor):
        tasks = [asyncio.ensure_future(call) for call in calls]
        await asyncio.sleep(0)  # each runs until it is in the queue
    return tasks


async def at_once(executor: ThreadPoolExecutor, calls: Sequence[Awaitable[Any]]) -> list[Any]:
    """The results or errors of such calls."""
    return await asyncio.gather(*await queued(executor, calls), return_exceptions=True)


async def all_done(executor: ThreadPoolExecutor, calls: Sequence[Awaitable[Any]]) -> list[Any]:
    """The results of such calls, none of which may fail."""
    return await asyncio.gather(*await queued(executor, calls))
