"""Calls that wait together, however fast the machine is that makes them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from work import HANGS_AFTER


@contextmanager
def kept_busy(lane: ThreadPoolExecutor) -> Iterator[None]:
    """Calls that are made within it wait together; else milliseconds decide which of them share a batch."""
    free = threading.Event()
    lane.submit(free.wait, HANGS_AFTER)
    try:
        yield
    finally:
        free.set()


async def queued(lane: ThreadPoolExecutor, calls: Sequence[Awaitable[Any]]) -> list[asyncio.Future[Any]]:
    """The calls under way, all in their queue before the lane took the first."""
    with kept_busy(lane):
        tasks = [asyncio.ensure_future(call) for call in calls]
        await asyncio.sleep(0)  # each runs up to its place in the queue
    return tasks


async def at_once(lane: ThreadPoolExecutor, calls: Sequence[Awaitable[Any]]) -> list[Any]:
    """What such calls bring, or fail with."""
    return await asyncio.gather(*await queued(lane, calls), return_exceptions=True)


async def all_done(lane: ThreadPoolExecutor, calls: Sequence[Awaitable[Any]]) -> list[Any]:
    """What such calls bring, where none may fail."""
    return await asyncio.gather(*await queued(lane, calls))
