"""Ordered parallel map over processes; results do not depend on the number of workers."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from itertools import islice
from multiprocessing import connection
from typing import TypeVar

from interleave import RunError

T = TypeVar("T")
R = TypeVar("R")

Progress = Callable[[int, int], None]
"""Callback with the number of items done and the total."""

PREFETCH = 2
"""Tasks in flight per worker, which bounds memory for any size of input."""


def default_workers() -> int:
    """Return the number of processors available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def map_in_order(work: Callable[[T], R], tasks: Iterable[T], workers: int = 1) -> Iterator[R]:
    """Yield the results of `work` in the order of the tasks."""
    call = partial(_call_without_gc, work)
    if workers <= 1:
        yield from map(call, tasks)
        return
    remaining = iter(tasks)
    # Spawned, not forked: a fork of a process with threads may hold their locks forever.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_initialize_worker)
    try:
        pending: deque[Future[R]] = deque(
            pool.submit(call, task) for task in islice(remaining, PREFETCH * workers)
        )
        while pending:
            yield pending.popleft().result()
            pending.extend(pool.submit(call, task) for task in islice(remaining, 1))
    except BrokenProcessPool:
        raise RunError(
            "a worker process died, perhaps out of memory: try again with fewer --workers"
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _initialize_worker() -> None:
    """In a worker: ignore interrupts, which the parent handles, and exit when the parent dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_exit_with_parent, args=(parent.sentinel,), daemon=True).start()


def _exit_with_parent(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)


@contextmanager
def gc_paused() -> Iterator[None]:
    """Disable the cyclic garbage collector, which takes half the time when many small values are created."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _call_without_gc(work: Callable[[T], R], task: T) -> R:
    with gc_paused():
        return work(task)


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the items in lists of this size; the last may be shorter."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk
