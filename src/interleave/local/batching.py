"""Batching: calls of many trajectories, computed in few batches by one thread per device.

A model in this process blocks, and a GPU does one thing at a time. So every device has one thread, the
executor shared by all its models, and every model has a queue of calls. When the thread serves a queue, it
takes the oldest call and all others that fit into the same batch. The deadline of a call does not run while
it is queued. A call cancelled in the queue is never computed. A call cancelled during computation is marked,
so that the model can stop early.

Decoding many replies takes hardly longer than decoding one, while every image takes as long as the first.
So a queue of prompts can have low priority: it defers to the other queues of its device until its batch is
full or its oldest call has waited long enough.

Batching changes the speed of calls, never their success. If a batch fails, its calls are computed one by one,
and only calls that fail alone are failures. A batch that runs out of memory is halved, and so are later ones,
so a batch size chosen for a large device also works on a small one.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from interleave.local.library_errors import clear_frames
from interleave.plugin import backends, errors

log = logging.getLogger(__name__)

Input = TypeVar("Input")
Result = TypeVar("Result")

BATCH_WAIT_SECONDS = 0.01
"""Wait of an incomplete batch for another call: callers that just got a result call again within it."""
MAX_BATCH_WAIT_SECONDS = 0.6
MAX_DEFER_SECONDS = 60.0
"""Maximum wait of a low-priority call for the other queues: longer than 32 large images take."""

_QUEUES: WeakKeyDictionary[ThreadPoolExecutor, WeakSet[BatchQueue[Any, Any]]] = WeakKeyDictionary()
"""The queues of every executor."""
_QUEUES_LOCK = threading.Lock()


@dataclass(eq=False)
class QueuedCall(Generic[Input, Result]):
    """One call in a queue, or in a batch."""

    input: Input
    future: Future[Result] = field(default_factory=Future)
    started: Future[None] = field(default_factory=Future)
    """Done when the call is taken out of the queue."""
    queued_at: float = field(default_factory=lambda: time.monotonic())
    _cancelled: threading.Event = field(default_factory=threading.Event)

    @property
    def cancelled(self) -> bool:
        """Whether the caller no longer waits for the result."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        self._cancelled.set()


class BatchQueue(Generic[Input, Result]):
    """The queued calls of one model."""

    def __init__(
        self,
        run: Callable[[Sequence[QueuedCall[Input, Result]]], Sequence[Result | Exception]],
        *,
        executor: ThreadPoolExecutor,
        max_batch: int = 1,
        batch_key: Callable[[Input], Hashable] = lambda _: None,
        free_memory: Callable[[], None] = lambda: None,
        low_priority: bool = False,
        wait_share: float = 0.0,
    ) -> None:
        """`run` computes a batch and returns results in order; inputs with equal `batch_key` share a batch.

        `free_memory` is called in the executor after `run` has failed. A `low_priority` queue defers to the
        others while its batch is incomplete. After a batch of several calls, the next one waits longer for
        more calls, for the fraction `wait_share` of the last batch's time: the previous callers may still be
        saving an image, and an extra batch would take as long again.
        """
        self._run = run
        self._executor = executor
        self.max_batch = max_batch
        self._memory_limit = sys.maxsize
        """The largest batch size that has not run out of memory."""
        self._batch_key = batch_key
        self._free_model_memory = free_memory
        self._waiting: list[QueuedCall[Input, Result]] = []
        self._wait_share = wait_share
        self._batch_wait = BATCH_WAIT_SECONDS
        self._low_priority = low_priority
        self._deferred = False
        self._lock = threading.Lock()
        with _QUEUES_LOCK:
            _QUEUES.setdefault(executor, WeakSet()).add(self)

    @property
    def batch_limit(self) -> int:
        """Maximum calls per batch."""
        return min(self.max_batch, self._memory_limit)

    async def submit(self, value: Input) -> Result:
        """Return the result of a call, or raise the model's exception."""
        call: QueuedCall[Input, Result] = QueuedCall(value)
        with self._lock:
            self._waiting.append(call)
        self._executor.submit(self._run_next_batch)
        try:
            with backends.waiting():  # for any number of earlier calls
                await asyncio.wrap_future(call.started)
            return await asyncio.wrap_future(call.future)
        except asyncio.CancelledError:
            call.cancel()
            call.future.cancel()
            with self._lock:
                if call in self._waiting:
                    self._waiting.remove(call)
            raise

    def _run_next_batch(self) -> None:
        """Compute one batch; do nothing if an earlier batch took the call this was scheduled for."""
        if not self._should_defer():
            self._wait_for_full_batch()
        if self._should_defer():
            self._defer()
            return
        batch = [call for call in self._take_batch() if call.future.set_running_or_notify_cancel()]
        if not batch:
            return
        for call in batch:
            if call.started.set_running_or_notify_cancel():
                call.started.set_result(None)
        started = time.monotonic()
        self._compute(batch)
        concurrent = len(batch) > 1 or bool(self._waiting)
        wait = self._wait_share * (time.monotonic() - started) if concurrent else 0.0
        self._batch_wait = min(max(BATCH_WAIT_SECONDS, wait), MAX_BATCH_WAIT_SECONDS)
        if self._waiting and self._low_priority:  # their runs may have been merged into this one
            self._defer()

    def _wait_for_full_batch(self) -> None:
        """Wait until the batch is full, no call has come for a while, or other queues go first."""
        seen, last = 0, time.monotonic()
        while self.batch_limit > 1 and 0 < len(self._waiting) < self.batch_limit and not self._should_defer():
            now = time.monotonic()
            if len(self._waiting) > seen:
                seen, last = len(self._waiting), now
            elif now - last >= self._batch_wait:
                return
            time.sleep(BATCH_WAIT_SECONDS)

    def _should_defer(self) -> bool:
        with self._lock:
            oldest = min((call.queued_at for call in self._waiting), default=None)
            full = len(self._waiting) >= self.batch_limit
        if not self._low_priority or oldest is None or full or time.monotonic() - oldest > MAX_DEFER_SECONDS:
            return False
        return any(other._waiting for other in _queues_of(self._executor) if not other._low_priority)

    def _defer(self) -> None:
        """Schedule one batch after the executor's current work."""
        if not self._deferred:
            self._deferred = True
            self._executor.submit(self._run_deferred_batch)

    def _run_deferred_batch(self) -> None:
        self._deferred = False
        self._run_next_batch()

    def _take_batch(self) -> list[QueuedCall[Input, Result]]:
        with self._lock:
            if not self._waiting:
                return []
            key = self._batch_key(self._waiting[0].input)
            batch = [call for call in self._waiting if self._batch_key(call.input) == key][: self.batch_limit]
            self._waiting = [call for call in self._waiting if call not in batch]
            return batch

    def _compute(self, batch: Sequence[QueuedCall[Input, Result]], *, freed: bool = False) -> None:
        """Run a batch and split it if it fails; `freed`: the device's models have freed memory for it."""
        batch = [call for call in batch if not call.cancelled]
        error = self._try(batch) if batch else None
        if error is None:
            return
        out_of_memory = isinstance(error, errors.OutOfMemory)
        for queue in _queues_of(self._executor) if out_of_memory else [self]:
            queue._free_memory()
        if len(batch) == 1 and (freed or not out_of_memory):
            batch[0].future.set_exception(error)
            return
        size = self._halve(len(batch)) if out_of_memory else 1
        while batch:
            part, batch = batch[:size], batch[size:]
            self._compute(part, freed=out_of_memory)
            size = min(size, self.batch_limit)

    def _try(self, batch: Sequence[QueuedCall[Input, Result]]) -> BaseException | None:
        """Run a batch; return its error, cleared of the tensors that its frames refer to."""
        try:
            self._set_results(batch, self._run(batch))
        except BaseException as error:
            clear_frames(error)
            return error
        return None

    def _halve(self, calls: int) -> int:
        """Return the batch size to use after a batch of `calls` has run out of memory."""
        half = (calls + 1) // 2
        if calls > 1 and half < self.batch_limit:
            log.warning("a batch of %d calls ran out of memory: using batches of %d from now on", calls, half)
            self._memory_limit = half
        return min(half, self.batch_limit)

    def _free_memory(self) -> None:
        """Free the memory that the model uses only for speed."""
        try:
            self._free_model_memory()
        except Exception as error:  # a broken device: its calls must get the error of their batch
            log.warning("memory could not be freed: %s", str(error)[:300])

    @staticmethod
    def _set_results(
        batch: Sequence[QueuedCall[Input, Result]], results: Sequence[Result | Exception]
    ) -> None:
        if len(results) != len(batch):
            raise RuntimeError(f"a batch of {len(batch)} returned {len(results)} results")
        for call, result in zip(batch, results, strict=True):
            if isinstance(result, Exception):  # only this call of the batch has failed
                call.future.set_exception(result)
            else:
                call.future.set_result(result)


def _queues_of(executor: ThreadPoolExecutor) -> list[BatchQueue[Any, Any]]:
    with _QUEUES_LOCK:
        return list(_QUEUES.get(executor, ()))


@cache
def device_executor(device: str) -> ThreadPoolExecutor:
    """Return the single thread that computes everything on this device.

    With one thread, the models of a device do not compete for it, and CUDA graphs, which belong to the thread
    that captured them, stay usable.
    """
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"interleave-{device}")
