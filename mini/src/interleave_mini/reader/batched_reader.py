"""A reader shared by concurrent callers: it batches their images and caches what it has read.

Callers get futures. One thread reads: everything submitted while it read the last batch is the next batch, so
no call waits for a batch to fill, and batches grow with the load.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING

from interleave.plugin import images
from interleave_mini.reader.scene_reader import Reader, Reading, shared_reader

if TYPE_CHECKING:
    from PIL.Image import Image

CACHE_SIZE = 32_768
MAX_BATCH = 256


class BatchedReader:
    """A batching, caching reader for threads and coroutines."""

    def __init__(self, reader: Reader | None = None, *, cache_size: int = CACHE_SIZE) -> None:
        self._reader = reader
        self._cache_size = cache_size
        self._cache: OrderedDict[str, Reading] = OrderedDict()
        self._pending: dict[str, Future[Reading]] = {}
        self._queue: dict[str, Image] = {}
        self._lock = Lock()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="interleave-reader")

    def read(self, image: Image) -> Reading:
        """Read one image, blocking."""
        return self.submit(image).result()

    async def read_all(self, images: Sequence[Image]) -> list[Reading]:
        """Read some images without blocking the event loop."""
        return list(await asyncio.gather(*(asyncio.wrap_future(self.submit(each)) for each in images)))

    def submit(self, image: Image) -> Future[Reading]:
        """A future of the reading of an image."""
        key = images.pixel_digest(image)
        with self._lock:
            if (known := self._cache.get(key)) is not None:
                self._cache.move_to_end(key)
                answer: Future[Reading] = Future()
                answer.set_result(known)
                return answer
            if key not in self._pending:
                self._pending[key] = Future()
                self._queue[key] = image
                self._executor.submit(self._read_batch)
            return _copied_future(self._pending[key])

    def _read_batch(self) -> None:
        """Read the queued images. Every submit schedules a call, so many calls find the queue empty."""
        with self._lock:
            batch = {key: self._queue.pop(key) for key in list(self._queue)[:MAX_BATCH]}
        if not batch:
            return
        try:
            found: dict[str, Reading | BaseException] = dict(
                zip(batch, self._read(list(batch.values())), strict=True)
            )
        except Exception:
            found = {key: self._read_single(image) for key, image in batch.items()}
        self._resolve(found)

    def _read(self, images: list[Image]) -> list[Reading]:
        if self._reader is None:
            self._reader = _default_reader()
        return self._reader.read_many(images)

    def _read_single(self, image: Image) -> Reading | BaseException:
        """One image by itself, after a batch with it has failed: only the bad image gets the error."""
        try:
            return self._read([image])[0]
        except Exception as error:
            return error

    def _resolve(self, found: dict[str, Reading | BaseException]) -> None:
        with self._lock:
            futures = {key: self._pending.pop(key) for key in found}
            self._cache.update((key, each) for key, each in found.items() if isinstance(each, Reading))
            while len(self._cache) > self._cache_size:
                self._cache.popitem(last=False)
        for key, each in found.items():
            if isinstance(each, Reading):
                futures[key].set_result(each)
            else:
                futures[key].set_exception(each)


def _copied_future(answer: Future[Reading]) -> Future[Reading]:
    """A future per caller: a caller that cancels must not cancel the result of the others."""
    copy: Future[Reading] = Future()

    def forward(done: Future[Reading]) -> None:
        if not copy.set_running_or_notify_cancel():
            return
        error = done.exception()
        if error is not None:
            copy.set_exception(error)
        else:
            copy.set_result(done.result())

    answer.add_done_callback(forward)
    return copy


def _default_reader() -> Reader:
    """On the GPU if this process uses torch already; else numpy, which needs no torch."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return Reader("cuda")
    return shared_reader()


@cache
def shared_batched_reader() -> BatchedReader:
    """The batched reader of this process."""
    return BatchedReader()


if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(
        after_in_child=shared_batched_reader.cache_clear
    )  # a forked child has no reader thread
